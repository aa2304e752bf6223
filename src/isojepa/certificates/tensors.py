"""Files of torch: one tensor, or a dict of tensors by name, and nothing that has to be unpickled.

Reading a pickle can run code that somebody put there, so only what `torch.load(..., weights_only=True)`
allows is read, and of that only tensors. They stay on the disk, memory-mapped, until they are used.
"""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isojepa.certificates.left_out import Refused, leave_out
from isojepa.io import check_expanded, check_stored

_PLAIN = (int, float, str, bool, type(None))


def read_torch(path: Path) -> dict[str, Tensor]:
    """The tensors of a file that `torch.save` wrote: of a single one the name is h.

    Numbers and words beside the tensors of a dict, such as an epoch, are left out, which is said.

    Raises:
        Refused: it holds other objects, or is of the format before torch 1.6.
        ValueError: it is damaged, or a tensor declares far more numbers than the file holds.
    """
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            if file.read(2) not in (b"\x80\x02", b"\x80\x03", b"\x80\x04"):  # how a pickle begins
                raise ValueError("it is empty, cut short, or of another kind")
        raise Refused(
            f"{path} must be in torch's format since 1.6, got an older one or a plain pickle: load it where "
            "you trust it, and save the tensor with torch.save(h, path)"
        )
    check_stored(path)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        raise Refused(
            f"{path} must hold a tensor or a dict of tensors, got objects that would have to be unpickled, "
            "which can run code: save the tensors alone, torch.save({'h': h, 'h_next': h_next}, path)"
        ) from error
    tensors = {"h": found} if isinstance(found, Tensor) else _named(path, found)
    for name, value in tensors.items():  # one number may be expanded to any shape
        declared = value.numel() * value.element_size()
        check_expanded(declared, path.stat().st_size, repr(name), "save what contiguous() gives")
    return tensors


def _named(path: Path, found: Any) -> dict[str, Tensor]:
    if not isinstance(found, dict):
        raise Refused(f"{path} must hold a tensor or a dict of tensors, got a {type(found).__name__}")
    other = {name: value for name, value in found.items() if not isinstance(value, Tensor)}
    for name, value in other.items():
        if not isinstance(value, _PLAIN):
            raise Refused(
                f"{path} must hold a tensor or a dict of tensors, got a {type(value).__name__} under {name!r}"
            )
    tensors = {str(name): value for name, value in found.items() if isinstance(value, Tensor)}
    if not tensors:
        raise Refused(f"{path} must hold a tensor or a dict of tensors, got a dict without one")
    if other:
        leave_out(f"{path}: {', '.join(map(str, other))} left out: no tensors")
    return tensors
