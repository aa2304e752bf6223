"""Pictures in numpy's files: npy, which is memory-mapped, and npz.

    images.npy, labels.npy    uint8 (pictures, height, width[, channels]); labels beside it, if there are any
    DATA.npz                  images, labels and classes by these names, or x and y; of several splits
                              train_images or x_train and so on

Labels are whole numbers, (pictures,) or (pictures, 1), or text, which then names the classes. Names may also
stand in a file classes.txt beside an npy file, one in a line, in the order of the numbers.
"""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.opening import check_expanded, npy_header, plain_file, read_bytes
from isojepa.worlds.images.origins import numbered
from isojepa.worlds.images.pictures import Stack

_IMAGES, _LABELS = ("images", "image", "x", "X", "data"), ("labels", "label", "y", "Y", "targets")


def npy_pictures(images: Path) -> Stack:
    """The pictures of an npy file, which stays on the disk; labels from "labels" beside "images" in its name.

    Raises:
        ValueError: a file is damaged or holds something else.
    """
    beside = images.with_name(images.name.replace("images", "labels"))
    labels = _load(beside) if beside != images and beside.is_file() else None
    return _stacked(images, _load(images), labels, class_names(images.parent))


def npz_pictures(path: Path, split: str | None = None) -> Stack:
    """The pictures of an npz file.

    Args:
        path: the file.
        split: which of the splits that it holds.

    Raises:
        ValueError: it is damaged, or holds no images by a name that is known.
    """
    plain_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            declared = sum(member.file_size for member in members)
            check_expanded(declared, path.stat().st_size, "its arrays", "write them as npy files")
        with np.load(path, allow_pickle=False) as file:
            images = _name(file.files, _IMAGES, split)
            if images is None:
                raise ValueError(
                    f"it must hold images, or {_ways(split)}, got {', '.join(file.files[:10]) or 'nothing'}"
                )
            labels, classes = _name(file.files, _LABELS, split), _name(file.files, ("classes",), split)
            for member in members:
                if member.filename.removesuffix(".npy") in (images, labels, classes):
                    with file.zip.open(member) as inner:
                        npy_header(member.filename, inner, member.file_size)
            return _stacked(
                path,
                file[images],
                None if labels is None else file[labels],
                None if classes is None else file[classes],
            )
    except MemoryError:
        raise
    except Exception as error:  # the readers of zip files and of arrays raise many kinds for damaged ones
        raise ValueError(f"{path} cannot be read as pictures: {error}") from error


def npz_splits(path: Path) -> tuple[str, ...]:
    """Which of train, val and test an npz file holds; none if it holds one set."""
    plain_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
    except Exception as error:  # zipfile raises many kinds for damaged ones
        raise ValueError(f"{path} cannot be read as pictures: {error}") from error
    return tuple(split for split in ("train", "val", "test") if _name(names, _IMAGES, split, alone=False))


def class_names(folder: Path) -> tuple[str, ...] | None:
    """The lines of classes.txt in a folder; None if there is none.

    Raises:
        ValueError: it cannot be read, or is no text.
    """
    path = folder / "classes.txt"
    return tuple(read_bytes(path).decode().splitlines()) if path.exists() else None


def _stacked(
    path: Path, images: np.ndarray, labels: np.ndarray | None, classes: np.ndarray | Sequence[str] | None
) -> Stack:
    names = None if classes is None else tuple(map(str, np.asarray(classes).ravel()))
    if labels is not None and labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    try:
        if labels is not None and labels.dtype.kind in "US":
            text = [value.decode() if isinstance(value, bytes) else str(value) for value in labels.ravel()]
            labels, names, _ = numbered(text, names)
        return Stack(images, None if labels is None else np.array(labels), names)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _load(path: Path) -> np.ndarray:
    plain_file(path)
    try:
        found: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged header makes it raise many kinds
        raise ValueError(f"{path} is no whole npy file of numbers: {error}") from error
    return np.asarray(found) if not isinstance(found, np.memmap) else found


def _name(names: list[str], wanted: tuple[str, ...], split: str | None, alone: bool = True) -> str | None:
    """The name that an array of one of the wanted kinds has in a file."""
    ways = (
        []
        if split is None
        else [f"{split}_{name}" for name in wanted] + [f"{name}_{split}" for name in wanted]
    )
    return next((name for name in (*ways, *(wanted if alone else ())) if name in names), None)


def _ways(split: str | None) -> str:
    return "x" if split is None else f"{split}_images or x_{split}"
