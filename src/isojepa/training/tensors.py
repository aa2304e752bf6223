"""Named tensors and text notes in one safetensors file, written atomically."""

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor

from isojepa.files import write_whole
from isojepa.opening import Missing, read_bytes

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
        path: the file; the library holds its header against its size before it makes tensors.
        owner: id of the record whose file it must be; a file that does not say so is taken for it.

    Raises:
        ValueError: the file is missing, truncated, not a safetensors file, or another record's.
    """
    try:
        content = read_bytes(path, None)  # safe_open would open it twice, and a run may replace it between
        tensors = load(content)
        notes = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__", {})
    except Missing:
        raise
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"{path} is truncated or not a safetensors file ({error})") from error
    if owner and notes.get(OWNER, owner) != owner:
        raise ValueError(
            f"{path} belongs to record {notes[OWNER]}, of another config, and not to record {owner}"
        )
    return tensors, notes
