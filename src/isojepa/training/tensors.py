"""Named tensors and text notes in one safetensors file, with a checksum of all of them.

The file is written here and not by safetensors' own writer, which orders notes by chance, and whose temporary
file has a name that nobody would know for ours if the process were killed. The format is eight bytes with the
length of a JSON header, the header, and the tensors' bytes, little-endian as all machines that torch is built
for.

The checksum is the CRC-32 of the notes and of each tensor's name, type, shape and bytes, in the order of the
names; it is one of the notes itself. It finds damage, not malice. A file without one, of an older version or
of somebody else, is read as it is.
"""

import json
import zlib
from collections.abc import Mapping
from io import RawIOBase
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from isojepa.files import read_bytes, write_whole

OWNER = "record"  # the note that says whose file it is: the id of a record
_CHECKSUM = "checksum"
_TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.complex64: "C64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def save_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None) -> None:
    """Write named tensors and text notes to one safetensors file, atomically.

    Raises:
        ValueError: a tensor has a type that the format does not know.
        OSError: the file could not be written; the old one is unchanged.
    """
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    told = dict(notes or {})
    told[_CHECKSUM] = _checksum(whole, told)
    header: dict[str, Any] = {"__metadata__": dict(sorted(told.items()))}
    end = 0
    names = sorted(
        whole, key=lambda name: (-whole[name].element_size(), name)
    )  # each at a multiple of its size
    for name in names:
        tensor = whole[name]
        if tensor.dtype not in _TYPES:
            raise ValueError(f"{name} must be of a type that safetensors knows, got {tensor.dtype}")
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _TYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)

    def write(temporary: Path) -> None:
        with open(temporary, "wb", buffering=0) as out:
            _write(out, len(text).to_bytes(8, "little") + text)
            for name in names:
                _write(out, _bytes(whole[name]))

    write_whole(path, write)


def load_tensors(path: Path, owner: str = "") -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read named tensors and text notes from a safetensors file.

    Args:
        path: the file.
        owner: id of the record whose file it must be; a file that does not say so is taken for it.

    Raises:
        ValueError: the file is missing, truncated, damaged, not a safetensors file, or another record's.
    """
    try:
        content = read_bytes(path)  # opened once: a run may replace the file while we look at it
        tensors = load(content)  # checks that the header is whole
        notes = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__", {})
    except FileNotFoundError as error:
        raise ValueError(f"{path} does not exist") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"{path} is truncated or not a safetensors file ({error})") from error
    told = notes.pop(_CHECKSUM, None)
    expected = _checksum(tensors, notes) if told is not None or OWNER in notes else None
    if told != expected:
        raise ValueError(f"{path} is damaged: its content does not fit its checksum")
    if owner and notes.get(OWNER, owner) != owner:
        raise ValueError(
            f"{path} belongs to record {notes[OWNER]}, of another config, and not to record {owner}"
        )
    return tensors, notes


def _write(out: RawIOBase, data: bytes | memoryview) -> None:
    """All of the data: the system takes at most two gigabytes at once, and less on a disk that fills up."""
    left = memoryview(data)
    while len(left):
        left = left[out.write(left) or 0 :]


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else memoryview(b"")


def _checksum(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> str:
    shapes = {name: [str(tensor.dtype), *tensor.shape] for name, tensor in tensors.items()}
    found = zlib.crc32(json.dumps([dict(notes), shapes], sort_keys=True).encode())
    for name in sorted(tensors):
        found = zlib.crc32(_bytes(tensors[name]), found)
    return f"{found:08x}"
