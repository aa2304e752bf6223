"""Named tensors and text notes in one safetensors file, written atomically."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from isojepa.files import write_whole
from isojepa.opening import plain_file

OWNER = "record"  # the note that says whose file it is: the id of a record


def save_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None) -> None:
    """Write named tensors and text notes to one safetensors file, atomically.

    Raises:
        ValueError: a tensor has a type that the format does not know.
        OSError: the file could not be written; the old one is unchanged.
    """
    whole: dict[str, Tensor] = {}
    memory: set[int] = set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        if own.untyped_storage().data_ptr() in memory:  # the format refuses tensors that share memory
            own = own.clone()
        memory.add(own.untyped_storage().data_ptr())
        whole[name] = own

    def write(temporary: Path) -> None:
        mode = os.stat(temporary).st_mode
        try:
            save_file(whole, temporary, metadata=dict(notes or {}))
        except SafetensorError as error:
            raise OSError(errno.EIO, str(error)) from error
        except KeyError as error:
            raise ValueError(f"{path} cannot hold {error}, a type that safetensors lacks") from error
        os.chmod(temporary, mode)  # the library makes files that others cannot read

    write_whole(path, write)


def load_tensors(path: Path, owner: str = "") -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read named tensors and text notes from a safetensors file.

    Args:
        path: the file; its header is held against its size before anything is read.
        owner: id of the record whose file it must be; a file that does not say so is taken for it.

    Raises:
        ValueError: the file is missing, truncated, not a safetensors file, or another record's.
    """
    plain_file(path)
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            notes = file.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"{path} is truncated or not a safetensors file ({error})") from error
    if owner and notes.get(OWNER, owner) != owner:
        raise ValueError(
            f"{path} belongs to record {notes[OWNER]}, of another config, and not to record {owner}"
        )
    return tensors, notes
