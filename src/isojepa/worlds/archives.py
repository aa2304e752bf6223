"""Files of several arrays, npz and HDF5: what they declare is held against what they hold before it is read.

A few bytes of a compressed file may stand for gigabytes. Large arrays are not held in memory: those that an
npz file stores as they are stay in it, compressed ones are expanded beside it into a nameless file, and HDF5
reads pieces.
"""

import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from isojepa.importing import install_hint
from isojepa.opening import EXPANDED, check_expanded, npy_header, size_of

_HELD = 256 << 20  # bytes of an npz file's arrays that are read into memory
_LOCAL = 30  # bytes of a zip member's own header, before its name
_CHUNK = 1 << 20


def read_npz(path: Path, in_memory: int | None = None) -> Mapping[str, Any]:
    """Every array of an npz file by its name; memory maps if they take more than `in_memory` bytes together.

    Raises:
        ValueError: the file is damaged, holds something else, or would expand to far more than it is.
    """
    if not zipfile.is_zipfile(path):
        raise ValueError("it is empty, cut short, or of another kind")
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        declared = sum(member.file_size for member in members)
        check_expanded(
            declared, path.stat().st_size, "its arrays", "write them with np.savez, or as npy files"
        )
        arrays: dict[str, Any] = {}
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in arrays:
                raise ValueError(f"it holds {name!r} twice")
            if declared <= (_HELD if in_memory is None else in_memory):
                with archive.open(member) as file:
                    arrays[name] = _expanded(name, file, member.file_size)
            else:
                arrays[name] = _mapped(path, archive, member, name)
    return arrays


def read_hdf5(path: Path) -> Mapping[str, Any]:
    """Every dataset of an HDF5 file by its path in it, left on the disk.

    Raises:
        ImportError: h5py is not installed.
        ValueError: the file is damaged, a dataset lies in another file, or would expand to far more than it
            is.
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"reading {path} needs h5py: {install_hint('hdf5')}") from error
    arrays: dict[str, Any] = {}
    file = h5py.File(path, "r")  # stays open for as long as its datasets are used
    file.visititems(
        lambda name, item: arrays.update({name: item}) if isinstance(item, h5py.Dataset) else None
    )
    for name, item in arrays.items():
        if item.shape is None:
            raise ValueError(f"{name!r} holds no array")
        if item.external or item.is_virtual:
            other = item.external[0][0] if item.external else item.virtual_sources()[0].file_name
            raise ValueError(f"{name!r} lies in another file, {other!r}, which is not followed")
        piece = prod(item.chunks or ()) * item.dtype.itemsize
        if piece > EXPANDED:
            raise ValueError(f"{name!r} must be stored in pieces of at most {size_of(EXPANDED)}")
        check_expanded(item.nbytes, item.id.get_storage_size(), repr(name), "write it without compression")
    return arrays


def _expanded(name: str, file: Any, size: int) -> np.ndarray:
    """An array read into memory, whose header is first held against the bytes there are."""
    shape, order, dtype, start = npy_header(name, file, size)
    count = prod(shape) * dtype.itemsize
    content = bytearray(size - start)
    view = memoryview(content)
    while view and (got := file.readinto(view)):
        view = view[got:]
    file.read(1)  # at the end its checksum is compared
    if view:
        raise ValueError(f"{name!r} is cut short")
    return np.frombuffer(content, dtype, count // dtype.itemsize if dtype.itemsize else 0).reshape(
        shape, order=order
    )


def _mapped(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> np.ndarray:
    """An array as a memory map: of the file itself, or of a nameless one that it is expanded into."""
    with archive.open(member) as file:
        shape, order, dtype, start = npy_header(name, file, member.file_size)
        if member.compress_type == zipfile.ZIP_STORED:
            while file.read(_CHUNK):  # at the end its checksum is compared
                pass
            where: Any = path
            start += _offset(path, member)
        else:
            where = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the map)
            shutil.copyfileobj(file, where, _CHUNK)
            where.flush()
            start = 0
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.memmap(where, dtype, "r", start, shape, order)


def _offset(path: Path, member: zipfile.ZipInfo) -> int:
    """Where the bytes of a stored member begin: after a header of its own with its name and notes."""
    with open(path, "rb") as file:
        file.seek(member.header_offset)
        local = _exactly(file, _LOCAL)
    name, notes = (int.from_bytes(local[at : at + 2], "little") for at in (26, 28))
    return member.header_offset + _LOCAL + name + notes


def _exactly(file: BinaryIO, count: int) -> bytes:
    content = file.read(count)
    if len(content) < count:
        raise ValueError("it is cut short")
    return content
