"""Files and folders of images: arrays, IDX, Parquet, tar shards, data sets of torchvision, folders.

Images in numpy's files: npy, which is memory-mapped, and npz.

    images.npy, labels.npy    uint8 (images, height, width[, channels]); labels beside it, if there are any
    DATA.npz                  images, labels and classes by these names, or x and y; of several splits
                              train_images or x_train and so on

Labels are whole numbers, (images,) or (images, 1), or text, which then names the classes. Names may also
stand in a file classes.txt beside an npy file, one in a line, in the order of the numbers.

IDX files, the format of MNIST and of those who followed it: images and labels, gzipped or not.

    0, 0, type, dimensions, sizes (4 bytes each, most significant first), values

A folder of them holds train-images-idx3-ubyte, train-labels-idx1-ubyte and the same with t10k for the
test split, each with .gz or without; Debian's dataset-fashion-mnist and MNIST itself are such folders.
Plain files are memory-mapped, gzipped ones expanded into memory: MNIST's 60,000 images take 47 MB. Names
of the classes, which the format does not have, may stand in a file classes.txt beside them, one in a
line.

Parquet files with a column of images, as the hubs write them.

    image    struct {bytes, path}, or binary: the content of an image's file
    label    whole numbers, or text; names of the numbers from the hub's notes in the file, if there are any

The column of images is the first of that type, one called image or img before others; that of labels
the first of the names in `LABELS`. Files are read one group of rows after the other. A group that is
damaged is counted as lost and the next one is read; an image that is only named by a path is lost too:
nothing outside of the files is opened.

WebDataset shards: tar files in which the files of one sample follow each other and share a name.

    0001.jpg, 0001.cls, 0002.jpg, 0002.cls, ...     or .json with "label", "cls" or "class" in it

What stands before the first dot of a file's name is the sample's key, what stands behind the last its
kind. Shards are read front to back with Python's own `tarfile`; the library called webdataset is made for
streams over networks, and is not needed for files. Only plain members are looked at, and only in memory:
links, devices and paths are never followed or made.

Of a shard that was cut, all samples that are whole are used; the rest is counted as one that is lost,
since their number is unknown.

Data sets of others, torchvision's among them: whatever has a length and gives (image, label) by number.

Items are an image alone, (image, label, ...) or a dict with "image" (or "img") and "label"; an image
is one of Pillow's, an array or tensor of uint8, or a tensor of numbers in [0, 1], as torchvision's
`ToTensor` makes. All items are decoded once. What such an object holds cannot be told from outside, so
what is decoded is kept only under a `key` that the caller vouches for; without one it lies in a temporary
folder for as long as it is used.

Give the data set without random transforms: views are cut later, from the whole image.

A folder of images: one folder for each class, or all beside each other without labels.

    DATA/cat/1.jpg, DATA/dog/...     classes are the names of the folders in natural order, 2 before 10
    DATA/1.jpg, DATA/2.png, ...      no labels

A class's folder may have folders of its own, to any depth. Files with other endings than those of
images, and names that begin with a dot, are passed over. Links are followed to plain files wherever
they are, and from DATA to the folder of a class, but not further, so that there are no circles; links to
pipes and devices are passed over. Links that lead nowhere, or to themselves, are counted and named as files
that could not be read.
"""

import gzip
import io
import itertools
import json
import math
import os
import re
import stat
import tarfile
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from isojepa.data.images.cache import (
    MOST_BYTES,
    SUFFIXES,
    BadImage,
    Cached,
    Item,
    Label,
    Origin,
    cached,
    decode,
    identity_of,
    lost,
    natural,
    numbered,
    pillow,
    pixels,
)
from isojepa.data.images.image_sets import Stack
from isojepa.importing import install_hint
from isojepa.io import check_expanded, npy_header, open_plain, parse_json, plain_file, read_bytes

_IMAGES, _LABELS = ("images", "image", "x", "X", "data"), ("labels", "label", "y", "Y", "targets")


def npy_images(images: Path) -> Stack:
    """The images of an npy file, which stays on the disk; labels from "labels" beside "images" in its name.

    Raises:
        ValueError: a file is damaged or holds something else.
    """
    beside = images.with_name(images.name.replace("images", "labels"))
    labels = _load(beside) if beside != images and beside.is_file() else None
    return _stacked(images, _load(images), labels, _class_names(images.parent))


def npz_images(path: Path, split: str | None = None) -> Stack:
    """The images of an npz file.

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


def _class_names(folder: Path) -> tuple[str, ...] | None:
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


NAME = re.compile(r"(?P<split>.*?)[-_.]?(?P<what>images|labels)[-_.]idx[1-4][-_.]ubyte(\.gz)?", re.IGNORECASE)
_UBYTE = 8  # the type of the values


def idx_images(images: Path, labels: Path | None = None) -> Stack:
    """The images of an IDX file, with the labels of another.

    Raises:
        ValueError: a file is damaged, or of another kind.
    """
    array = _read_idx(images)
    if array.ndim not in (3, 4):
        raise ValueError(f"{images} must hold images, (images, height, width), got shape {array.shape}")
    try:
        return Stack(
            array, None if labels is None else np.array(_read_idx(labels)), _class_names(images.parent)
        )
    except ValueError as error:
        raise ValueError(f"{images}: {error}") from error


def _read_idx(path: Path) -> np.ndarray:
    """The array of an IDX file of bytes.

    Raises:
        ValueError: the file is damaged, or of another kind.
    """
    zipped = path.suffix.lower() == ".gz"
    with open_plain(path) as file:
        stored = path.stat().st_size
        stream = gzip.GzipFile(fileobj=file) if zipped else file
        try:
            head = _exactly(stream, 4)
            if head[:3] != bytes((0, 0, _UBYTE)) or not 1 <= head[3] <= 4:
                raise ValueError(f"it must begin with 0, 0, {_UBYTE} and its dimensions, got {list(head)}")
            sizes = np.frombuffer(_exactly(stream, 4 * head[3]), dtype=">u4")
            shape = tuple(int(size) for size in sizes)
            count = math.prod(shape)
            start = 4 + 4 * head[3]
            if zipped:
                check_expanded(count, stored, "it", "expand it with gunzip")
                values = np.frombuffer(_exactly(stream, count), dtype=np.uint8)
                if stream.read(1):
                    raise ValueError(f"it has more bytes than its shape {shape} needs")
                return values.reshape(shape)
        except (EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
            raise ValueError(f"{path} is no whole IDX file: {error}") from error
    if stored - start != count:
        raise ValueError(
            f"{path} is no whole IDX file: it says it has shape {shape}, but has {stored - start} bytes"
        )
    return np.memmap(path, np.uint8, "r", start, shape) if count else np.empty(shape, np.uint8)


def _exactly(stream: object, count: int) -> bytes:
    content: bytes = stream.read(count)  # type: ignore[attr-defined]
    if len(content) < count:
        raise ValueError(f"it is cut short: {count} bytes must follow, got {len(content)}")
    return content


IMAGES = ("image", "img", "jpg", "png", "picture")
LABELS = ("label", "labels", "fine_label", "class", "cls", "target", "category")
_ROWS = 64  # that are in memory at once


def parquet_origin(paths: Sequence[Path], root: Path) -> Origin:
    """The images of Parquet files, in the order given.

    Args:
        paths: the files.
        root: a folder above all of them.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: a file is damaged, or has no column of images.
    """
    opened = [_opened(path) for path in paths]
    columns = [_columns(path, file.schema_arrow) for path, file in zip(paths, opened, strict=True)]
    strange = next((path for path, found in zip(paths, columns, strict=True) if found != columns[0]), None)
    if strange is not None:
        raise ValueError(f"{strange} must have the columns of {paths[0].name}, {columns[0]}, got others")
    image, label = columns[0]

    def items() -> Iterator[Item]:
        for path in paths:
            yield from _items(path, image, label)

    return Origin(
        data=str(root if len(paths) > 1 else paths[0]),
        identity=["parquet", image, label, *identity_of(paths, root)],
        items=items,
        total=sum(file.metadata.num_rows for file in opened),
        classes=None if label is None else _classes(opened[0].schema_arrow, label),
    )


def _opened(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"reading {path} needs pyarrow: {install_hint('data')}") from error
    try:
        file = pyarrow.parquet.ParquetFile(plain_file(path))
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} is no whole Parquet file: {error}") from error
    groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
    declared = sum(group.total_byte_size for group in groups)
    check_expanded(declared, path.stat().st_size, str(path), "write it without compression")
    return file


def _columns(path: Path, schema: Any) -> tuple[str, str | None]:
    """The names of the columns of images and of labels."""
    import pyarrow

    def holds_pictures(kind: Any) -> bool:
        if pyarrow.types.is_struct(kind):
            return any(kind.field(at).name == "bytes" for at in range(kind.num_fields))
        return bool(pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind))

    pictures = [field.name for field in schema if holds_pictures(field.type)]
    if not pictures:
        raise ValueError(
            f"{path} must have a column of pictures, binary or a struct with bytes, got columns "
            f"{', '.join(f'{field.name}: {field.type}' for field in schema) or 'none'}"
        )
    image = next((name for name in IMAGES if name in pictures), pictures[0])
    return image, next((name for name in LABELS if name in schema.names and name != image), None)


def _classes(schema: Any, label: str) -> tuple[str, ...] | None:
    """Names of the classes as Hugging Face's `datasets` notes them in the file."""
    try:
        notes = json.loads((schema.metadata or {})[b"huggingface"])
        names = notes["info"]["features"][label]["names"]
        return tuple(map(str, names)) if names else None
    except (KeyError, TypeError, ValueError):
        return None


def _items(path: Path, image: str, label: str | None) -> Iterator[Item]:
    import pyarrow

    file = _opened(path)
    row = 0
    for group in range(file.metadata.num_row_groups):
        end = row + file.metadata.row_group(group).num_rows
        try:
            columns = [image] if label is None else [image, label]
            for batch in file.iter_batches(_ROWS, row_groups=[group], columns=columns):
                contents = batch.column(image).to_pylist()
                labels = [None] * len(contents) if label is None else batch.column(label).to_pylist()
                for content, told in zip(contents, labels, strict=True):
                    yield Item(f"{path.name}:{row}", _Reader(content), _label(told))
                    row += 1
        except (pyarrow.ArrowException, OSError) as error:
            reason = f"its group of rows is damaged: {' '.join(str(error).split())}"
            yield from (lost(f"{path.name}:{number}", reason, 1) for number in range(row, end))
        row = end


class _Reader:
    """Decodes one cell."""

    def __init__(self, cell: Any) -> None:
        self._cell = cell

    def __call__(self, largest: int | None) -> Tensor:
        content = self._cell.get("bytes") if isinstance(self._cell, dict) else self._cell
        if not isinstance(content, bytes):
            raise BadImage("it has no bytes in the file")
        return decode(content, largest)


def _label(value: Any) -> str | int | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return int(value) if isinstance(value, int) or float(value).is_integer() else str(value)


SHARDS = (".tar", ".tar.gz", ".tgz")
_CLASS, _NOTES = "cls", "json"
_NAMES = ("label", "cls", "class", "class_name")  # of the label in a sample's notes
_TEXT = 1 << 20  # bytes of a label or of notes
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)  # no sparse files, which may say that they are endless


def shard_origin(paths: Sequence[Path], root: Path) -> Origin:
    """The images of shards, in the order given.

    Args:
        paths: the shards.
        root: a folder above all of them.
    """

    def items() -> Iterator[Item]:
        for path in paths:
            yield from _shards_items(path)

    return Origin(
        data=str(root if len(paths) > 1 else paths[0]),
        identity=["shards", *identity_of(paths, root)],
        items=items,
        total=sum(path.stat().st_size for path in paths),
    )


class _Bounded(io.RawIOBase):
    """A gzipped file, never read in larger pieces than an image may have: it may expand without end."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MOST_BYTES:
            raise tarfile.ReadError(f"a piece of it must have at most {MOST_BYTES} bytes, got {size}")
        return self._file.read(size)

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(place, whence)

    def tell(self) -> int:
        return self._file.tell()


def _shards_items(path: Path) -> Iterator[Item]:
    """The samples of a shard, and one that is lost if it was cut."""
    before: set[str] = set()
    key, parts, end = "", dict[str, Any](), 0
    reason = ""
    members = _members(path)
    while True:
        try:
            entry = next(members, None)
        except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
            entry, reason = None, " ".join(str(error).split())
        if entry is None:
            break
        member, content = entry
        stem, _, kinds = Path(member.name).name.partition(".")
        name = str(Path(member.name).parent / stem)
        if name != key or not kinds:
            yield from _sample(path, key, parts, end)
            before = set(parts) or before
            key, parts, end = name, {}, 0
        parts[kinds.rpartition(".")[2].lower()] = content
        end += 512 + member.size
    if not reason or set(parts) >= before:  # else the sample's label may be in the part that is lost
        yield from _sample(path, key, parts, end)
    if reason:
        yield lost(
            path.name, f"the shard is cut or damaged, and what follows {key or 'its start'} is lost: {reason}"
        )


def _members(path: Path) -> Iterator[tuple[tarfile.TarInfo, bytes | BadImage]]:
    """The regular members of a shard that belong to images, with their content.

    Raises:
        tarfile.TarError, OSError, EOFError, zlib.error, ValueError: the shard ends before its end.
    """
    with open_plain(path) as plain:
        file: Any = plain if path.suffix.lower() == ".tar" else _Bounded(gzip.GzipFile(fileobj=plain))
        with tarfile.open(fileobj=file, mode="r:") as archive:
            while (member := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined]  # it would keep all that it has seen
                kind = "." + member.name.rpartition(".")[2].lower()
                if member.type not in _PLAIN or kind not in (*SUFFIXES, f".{_CLASS}", f".{_NOTES}"):
                    continue
                most = MOST_BYTES if kind in SUFFIXES else _TEXT
                if member.size > most:
                    yield member, BadImage(f"it must have at most {most} bytes, got {member.size}")
                    continue
                content = archive.extractfile(member)
                read = b"" if content is None else content.read()
                if len(read) < member.size:
                    raise tarfile.ReadError("unexpected end of data")
                yield member, read
            file.seek(archive.offset)  # tarfile takes a cut header, or none, for the end
            if file.read(512) != bytes(512):
                raise tarfile.ReadError("it has no mark of its end")


def _sample(path: Path, key: str, parts: dict[str, Any], size: int) -> Iterator[Item]:
    picture = next((kind for kind in parts if f".{kind}" in SUFFIXES), None)
    if picture is not None:
        yield Item(f"{path.name}:{key}", _ShardsReader(parts[picture]), _shards_label(parts), size)


class _ShardsReader:
    """Decodes one member."""

    def __init__(self, content: bytes | BadImage) -> None:
        self._content = content

    def __call__(self, largest: int | None) -> Tensor:
        if isinstance(self._content, BadImage):
            raise self._content
        return decode(self._content, largest)


def _shards_label(parts: dict[str, Any]) -> Label:
    """The class of a sample from its own file, or from its notes."""
    if isinstance(parts.get(_CLASS), bytes):
        text = parts[_CLASS].decode("utf-8", "backslashreplace").strip()
        return int(text) if text.isdecimal() and len(text) < 10 else text or None
    if isinstance(parts.get(_NOTES), bytes):
        try:
            notes = parse_json(parts[_NOTES])
        except ValueError:
            return None
        value = (
            next((notes[name] for name in _NAMES if name in notes), None) if isinstance(notes, dict) else None
        )
        return (
            value
            if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
            else None
        )
    return None


_PICTURES, _DATASETS_LABELS = ("image", "img", "pixel_values"), ("label", "labels", "fine_label", "target")


def is_dataset(value: Any) -> bool:
    """Whether something has items by number and a length, as torchvision's data sets have."""
    kind = type(value)
    return (
        hasattr(kind, "__len__")
        and hasattr(kind, "__getitem__")
        and not isinstance(value, str | bytes | dict)
    )


def dataset_images(
    dataset: Any,
    *,
    key: str | None = None,
    cache: Path | None = None,
    largest: int | None = None,
    compressed: bool = False,
) -> Cached:
    """The images of a data set.

    Args:
        dataset: has a length and items by number.
        key: names the data, so that they are decoded once for all runs; another one when they change.
        cache: the folder of caches, for data with a key; None for the user's own.
        largest: pixels of the shorter side to which larger images are reduced.
        compressed: whether they are kept as JPEG files.

    Raises:
        ValueError: it is no such thing, or none of its images can be read.

    Example:
        >>> pictures = dataset_images([(torch.zeros(3, 8, 8), 0), (torch.ones(3, 8, 8), 1)])
        >>> len(pictures), pictures.shape, pictures.classes, pictures.mean
        (2, (3, 8, 8), ('0', '1'), (0.5, 0.5, 0.5))
    """
    if not is_dataset(dataset):
        raise ValueError(f"dataset must have a length and items by number, got a {type(dataset).__name__}")
    name = type(dataset).__name__
    names = getattr(dataset, "classes", None)  # torchvision's name them so
    listed = isinstance(names, list | tuple) and all(isinstance(entry, str) for entry in names)
    origin = Origin(
        data=f"data set {name}",
        identity=["dataset", key, name, len(dataset)],
        items=lambda: _datasets_items(dataset),
        total=len(dataset),
        classes=tuple(names) if listed and names else None,
    )
    if key is not None:
        return cached(origin, cache, largest, compressed)
    folder = tempfile.TemporaryDirectory(prefix="isojepa-pictures-")
    pictures = cached(origin, Path(folder.name), largest, compressed)
    weakref.finalize(pictures, folder.cleanup)
    return pictures


def _datasets_items(dataset: Any) -> Iterator[Item]:
    # fetched in one thread: data sets need not be thread-safe
    for number in range(len(dataset)):
        try:
            picture, label = _parts(dataset[number])
        except Exception as error:  # whatever a user's reader raises for a damaged file
            yield lost(f"item {number}", f"{type(error).__name__}: {error}", 1)
            continue
        yield Item(f"item {number}", _DatasetsReader(picture), label)


def _parts(item: Any) -> tuple[Any, Label]:
    if isinstance(item, dict):
        picture = next((item[name] for name in _PICTURES if name in item), None)
        label = next((item[name] for name in _DATASETS_LABELS if name in item), None)
    elif isinstance(item, list | tuple):
        picture, label = item[0], item[1] if len(item) > 1 else None
    else:
        picture, label = item, None
    if isinstance(label, Tensor | np.ndarray | np.generic):
        value = np.asarray(label)
        label = value.item() if value.size == 1 else None
    return picture, label if isinstance(label, str | int) else None


class _DatasetsReader:
    """Turns one item's image into uint8."""

    def __init__(self, picture: Any) -> None:
        self._picture = picture

    def __call__(self, largest: int | None) -> Tensor:
        picture = self._picture
        if isinstance(picture, np.ndarray | Tensor):
            picture = _image(picture)
        if not isinstance(picture, pillow().Image):
            raise BadImage(
                f"it must be a picture of Pillow, an array or a tensor, got {type(picture).__name__}"
            )
        return pixels(picture, largest)


def _image(values: np.ndarray | Tensor) -> Any:
    """An image of Pillow from an array (height, width[, channels]) or a tensor (channels, height, width)."""
    image = (
        values.detach().cpu()
        if isinstance(values, Tensor)
        else torch.from_numpy(np.ascontiguousarray(values))
    )
    if image.is_floating_point():
        if not bool(((image >= 0) & (image <= 1)).all()):
            raise BadImage(
                "its numbers must lie in [0, 1]: take the normalization out of the data set's transforms"
            )
        image = (image * 255).round().to(torch.uint8)
    if image.dtype != torch.uint8 or image.ndim not in (2, 3):
        raise BadImage(
            f"it must be uint8 of two or three dimensions, got {image.dtype} of {tuple(image.shape)}"
        )
    if image.ndim == 3 and isinstance(values, Tensor):
        image = image.movedim(0, -1)
    if image.ndim == 3 and image.shape[-1] == 1:
        image = image[..., 0]
    if image.ndim == 3 and image.shape[-1] not in (3, 4):
        raise BadImage(f"it must have 1, 3 or 4 channels, got {image.shape[-1]}")
    return pillow().fromarray(np.ascontiguousarray(image.numpy()))


class Listed(NamedTuple):
    """One file: its name from the data's folder on, its size, and when it was changed."""

    name: str
    size: int
    changed: int


def folder_origin(data: Path) -> Origin:
    """The images of a folder.

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
            (Item(file.name, _FileReader(data / file.name), label, file.size) for file, label in labelled),
            broken,
        ),
        total=sum(file.size for file, _ in labelled),
        classes=tuple(classes) or None,
    )


class _FileReader:
    """Reads and decodes one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, largest: int | None) -> Tensor:
        try:
            content = read_bytes(self._path, MOST_BYTES)
        except ValueError as error:  # it was removed meanwhile, or is too large
            raise BadImage(str(error)) from error
        return decode(content, largest)


def _below(data: Path, folder: str, broken: list[Item]) -> list[Listed]:
    """All images within a folder and within those in it that are no links, in natural order."""
    files, folders = _listed(data, folder, broken)
    for name in folders:
        if not os.path.islink(data / name):
            files += _below(data, name, broken)
    return files


def _listed(data: Path, folder: str, broken: list[Item]) -> tuple[list[Listed], list[str]]:
    """The images and the folders in a folder, by name from the data's folder on, in natural order.

    Links that cannot be followed are added to `broken`.

    Raises:
        ValueError: it cannot be looked into, so that its images would be missed silently.
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
