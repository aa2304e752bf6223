"""IDX files, the format of MNIST and of those who followed it: images and labels, gzipped or not.

    0, 0, type, dimensions, sizes (4 bytes each, most significant first), values

A folder of them holds train-images-idx3-ubyte, train-labels-idx1-ubyte and the same with t10k for the
test split, each with .gz or without; Debian's dataset-fashion-mnist and MNIST itself are such folders.
Plain files are memory-mapped, gzipped ones expanded into memory: MNIST's 60,000 images take 47 MB. Names
of the classes, which the format does not have, may stand in a file classes.txt beside them, one in a
line.
"""

import gzip
import math
import re
import zlib
from pathlib import Path

import numpy as np

from isojepa.opening import check_expanded, open_plain
from isojepa.worlds.images.arrays import class_names
from isojepa.worlds.images.pictures import Stack

NAME = re.compile(r"(?P<split>.*?)[-_.]?(?P<what>images|labels)[-_.]idx[1-4][-_.]ubyte(\.gz)?", re.IGNORECASE)
_UBYTE = 8  # the type of the values


def idx_pictures(images: Path, labels: Path | None = None) -> Stack:
    """The pictures of an IDX file, with the labels of another.

    Raises:
        ValueError: a file is damaged, or of another kind.
    """
    found = read_idx(images)
    if found.ndim not in (3, 4):
        raise ValueError(f"{images} must hold images, (images, height, width), got shape {found.shape}")
    try:
        return Stack(
            found, None if labels is None else np.array(read_idx(labels)), class_names(images.parent)
        )
    except ValueError as error:
        raise ValueError(f"{images}: {error}") from error


def read_idx(path: Path) -> np.ndarray:
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
                    raise ValueError(f"it says it has shape {shape}, but goes on")
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
