"""A folder of pictures: one folder for each class, or all beside each other without labels.

    DATA/cat/1.jpg, DATA/dog/...     classes are the names of the folders in natural order, 2 before 10
    DATA/1.jpg, DATA/2.png, ...      no labels

A class's folder may have folders of its own, to any depth. Files with other endings than those of
pictures, and names that begin with a dot, are passed over. Links are followed to plain files wherever
they are, and from DATA to the folder of a class, but not further, so that there are no circles; links to
pipes and devices are passed over.
"""

import os
from pathlib import Path

from torch import Tensor

from isojepa.opening import read_bytes
from isojepa.worlds.images.decoding import MOST_BYTES, SUFFIXES, BadPicture, decode
from isojepa.worlds.images.origins import Item, Origin, identity_of, natural


def folder_origin(data: Path) -> Origin:
    """The pictures of a folder.

    Raises:
        ValueError: it holds none, or some beside folders with others.
    """
    classes = {
        entry.name: _pictures(entry)
        for entry in sorted(data.iterdir(), key=lambda path: natural(path.name))
        if entry.is_dir() and not entry.name.startswith(".")
    }
    classes = {name: paths for name, paths in classes.items() if paths}
    beside = sorted(filter(_is_picture, data.iterdir()), key=lambda path: natural(path.name))
    if beside and classes:
        raise ValueError(
            f"{data} must hold pictures or folders of pictures, one for each class, got both: "
            f"{beside[0].name} beside the folder {next(iter(classes))}; move one of them elsewhere"
        )
    if not beside and not classes:
        raise ValueError(
            f"{data} must hold pictures ({', '.join(suffix[1:] for suffix in SUFFIXES)}), or folders of them"
            f", got {sum(1 for _ in data.iterdir())} other entries"
        )
    listed: list[tuple[Path, str | None]] = [(path, None) for path in beside]
    listed += [(path, name) for name, paths in classes.items() for path in paths]
    sizes = [path.stat().st_size for path, _ in listed]
    return Origin(
        data=str(data),
        identity=["folder", *identity_of([path for path, _ in listed], data)],
        items=lambda: (
            Item(str(path.relative_to(data)), _Reader(path), label, size)
            for (path, label), size in zip(listed, sizes, strict=True)
        ),
        total=sum(sizes),
        classes=tuple(classes) or None,
    )


class _Reader:
    """Reads and decodes one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, largest: int | None) -> Tensor:
        try:
            content = read_bytes(self._path, MOST_BYTES)
        except ValueError as error:  # it was removed meanwhile, or is too large
            raise BadPicture(str(error)) from error
        return decode(content, largest)


def _pictures(folder: Path) -> list[Path]:
    """All pictures below a folder, in natural order."""
    found = []
    for place, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [path for name in files if _is_picture(path := Path(place, name))]
    return sorted(found, key=lambda path: natural(str(path.relative_to(folder))))


def _refuse(error: OSError) -> None:
    """A class that cannot be looked into must not be missed silently."""
    raise ValueError(f"{error.filename} cannot be looked into: {error.strerror}") from error


def _is_picture(path: Path) -> bool:
    named = not path.name.startswith(".") and path.suffix.lower() in SUFFIXES
    return named and path.is_file()  # of a link, what it leads to
