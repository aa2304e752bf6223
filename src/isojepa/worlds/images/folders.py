"""A folder of pictures: one folder for each class, or all beside each other without labels.

    DATA/cat/1.jpg, DATA/dog/...     classes are the names of the folders in natural order, 2 before 10
    DATA/1.jpg, DATA/2.png, ...      no labels

A class's folder may have folders of its own, to any depth. Files with other endings than those of
pictures, and names that begin with a dot, are passed over. Links are followed to plain files wherever
they are, and from DATA to the folder of a class, but not further, so that there are no circles; links to
pipes and devices are passed over. Links that lead nowhere, or to themselves, are counted and named as files
that could not be read.
"""

import itertools
import os
import stat
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from isojepa.opening import read_bytes
from isojepa.worlds.images.decoding import MOST_BYTES, SUFFIXES, BadPicture, decode
from isojepa.worlds.images.origins import Item, Origin, lost, natural


class Listed(NamedTuple):
    """One file: its name from the data's folder on, its size, and when it was changed."""

    name: str
    size: int
    changed: int


def folder_origin(data: Path) -> Origin:
    """The pictures of a folder.

    Raises:
        ValueError: it holds none, or some beside folders with others.
    """
    broken: list[Item] = []
    beside, folders = _listed(data, "", broken)
    classes = {name: files for name in folders if (files := _below(data, name, broken))}
    if beside and classes:
        raise ValueError(
            f"{data} must hold pictures or folders of pictures, one for each class, got both: "
            f"{beside[0].name} beside the folder {next(iter(classes))}; move one of them elsewhere"
        )
    if not beside and not classes:
        raise ValueError(
            f"{data} must hold pictures ({', '.join(suffix[1:] for suffix in SUFFIXES)}), or folders of them"
            f", got {len(os.listdir(data))} other entries"
        )
    labelled: list[tuple[Listed, str | None]] = [(file, None) for file in beside]
    labelled += [(file, name) for name, files in classes.items() for file in files]
    names = [item.name for item in broken]
    return Origin(
        data=str(data),
        identity=["folder", str(data.resolve()), *(file for file, _ in labelled), *names],
        items=lambda: itertools.chain(
            (Item(file.name, _Reader(data / file.name), label, file.size) for file, label in labelled), broken
        ),
        total=sum(file.size for file, _ in labelled),
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


def _below(data: Path, folder: str, broken: list[Item]) -> list[Listed]:
    """All pictures within a folder and within those in it that are no links, in natural order."""
    files, folders = _listed(data, folder, broken)
    for name in folders:
        if not os.path.islink(data / name):
            files += _below(data, name, broken)
    return files


def _listed(data: Path, folder: str, broken: list[Item]) -> tuple[list[Listed], list[str]]:
    """The pictures and the folders in a folder, by name from the data's folder on, in natural order.

    Links that cannot be followed are added to `broken`.

    Raises:
        ValueError: it cannot be looked into, so that its pictures would be missed silently.
    """
    files, folders = [], []
    try:
        with os.scandir(data / folder) as entries:
            for entry in sorted(entries, key=lambda entry: natural(entry.name)):
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.name.startswith("."):
                    continue
                try:
                    status = entry.stat()
                except OSError as error:
                    broken.append(lost(name, str(error.strerror)))
                    continue
                if stat.S_ISDIR(status.st_mode):
                    folders.append(name)
                elif entry.name.lower().endswith(SUFFIXES) and stat.S_ISREG(status.st_mode):
                    files.append(Listed(name, status.st_size, status.st_mtime_ns))
    except OSError as error:
        raise ValueError(f"{data / folder} cannot be looked into: {error.strerror}") from error
    return files, folders
