"""Weights that somebody else trained, put into a module of the same layers: by names, or by order.

Names are compared after what stands before them all, such as "module." or "backbone.", is taken off. Where
they do not fit and the module is one of timm's, its own conversion of older names is tried. Where that does
not help either, the same shapes in the same order are taken for the same layers, as two people who wrote the
same architecture would have it; which it was is told. Layers of the file behind those of the module, such as
a classifier, are left out.

Only tensors are read: nothing is unpickled.
"""

import pickle
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from isojepa.arguments import checked
from isojepa.opening import check_stored, plain_file

_INSIDE = (
    "state_dict",
    "model",
    "model_state_dict",
    "teacher",
    "backbone",
    "encoder",
)  # where files keep them
_COUNTERS = "num_batches_tracked"  # of batch norms: some files have them, nothing depends on them


@dataclass(frozen=True)
class Matched:
    """How weights of a file were put into a module.

    Attributes:
        by: "names", "timm's names" or "order".
        left_out: names in the file that the module has no place for.
    """

    by: str
    left_out: tuple[str, ...]


@checked
def load_weights(module: nn.Module, path: str | Path) -> Matched:
    """Put the weights of a file into a module.

    Args:
        module: whose weights are replaced, all of them.
        path: a safetensors file, or one that torch.save wrote with tensors by name.

    Raises:
        ValueError: the file cannot be read without unpickling, or does not have the module's layers.
    """
    given = _read(plain_file(Path(path)))
    own = {name: value for name, value in module.state_dict().items() if not name.endswith(_COUNTERS)}
    given = {name: value for name, value in given.items() if not name.endswith(_COUNTERS)}
    for by, found in (
        ("names", _by_names(own, given)),
        ("timm's names", _by_names(own, _converted(module, given))),
        ("order", _by_order(own, given)),
    ):
        if found is not None:
            module.load_state_dict({name: value for name, (_, value) in found.items()}, strict=False)
            used = {name for name, _ in found.values()}
            return Matched(by, tuple(name for name in given if name not in used))
    raise ValueError(_difference(Path(path), own, given))


def _read(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        if zipfile.is_zipfile(path):
            check_stored(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} must hold tensors by name, got objects that would have to be unpickled, which can run "
            "code: save model.state_dict() alone"
        ) from error
    except (SafetensorError, RuntimeError, EOFError, OSError, KeyError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as safetensors or a file of torch: {error}") from error
    for name in _INSIDE:
        if isinstance(found, dict) and isinstance(found.get(name), dict):
            found = found[name]
            break
    tensors = found.items() if isinstance(found, dict) else ()
    weights = {str(name): value for name, value in tensors if isinstance(value, Tensor)}
    if not weights:
        raise ValueError(f"{path} must hold tensors by name, got a {type(found).__name__} without any")
    return weights


def _by_names(
    own: Mapping[str, Tensor], given: Mapping[str, Tensor] | None
) -> dict[str, tuple[str, Tensor]] | None:
    """For each of the module's names what the file has behind some prefix; None if one is missing."""
    if given is None or not own:
        return None
    first = next(iter(own))
    prefixes = {name.removesuffix(first) for name in given if name.endswith(first)}
    for prefix in sorted(prefixes, key=len):
        if all(prefix + name in given and given[prefix + name].shape == own[name].shape for name in own):
            return {name: (prefix + name, given[prefix + name]) for name in own}
    return None


def _converted(module: nn.Module, given: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """The same under the names that timm uses today, where the module is one of timm's."""
    for part in module.modules():
        home = type(part).__module__
        convert: Any = (
            vars(sys.modules[home]).get("checkpoint_filter_fn") if home.startswith("timm.") else None
        )
        if convert is not None:
            try:
                return dict(convert(dict(given), part))
            except Exception:  # it expects weights of that model, and these may be of any other
                return None
    return None


def _by_order(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> dict[str, tuple[str, Tensor]] | None:
    """The first of the file's, if they have the shapes of the module's one by one."""
    pairs = list(zip(own.items(), given.items(), strict=False))
    if len(given) < len(own) or any(mine.shape != other.shape for (_, mine), (_, other) in pairs):
        return None
    return {name: other for (name, _), other in pairs}


def _difference(path: Path, own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> str:
    mine, theirs = next(
        (
            (f"{name} {tuple(value.shape)}", f"{other} {tuple(found.shape)}")
            for (name, value), (other, found) in zip(own.items(), given.items(), strict=False)
            if value.shape != found.shape
        ),
        (f"{len(own)} tensors", f"{len(given)}"),
    )
    return f"{path} must have the weights of the module, {len(own)} tensors: wanted {mine}, got {theirs}"
