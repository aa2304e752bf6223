"""Load pretrained weights into a module of the same layers: by names, or by order.

Names are compared without their common prefix, such as "module." or "backbone.". If they do not match and the
module is one of timm's, timm's target conversion of older names is tried. Otherwise tensors of the same
shapes in the same order are matched; the result states which rule applied. Further layers of the file, such
as a classifier, are ignored.

Only tensors are loaded: nothing is unpickled.
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

from isojepa.io import check_stored, plain_file
from isojepa.validation import validate_types

_INSIDE = (
    "state_dict",
    "model",
    "model_state_dict",
    "teacher",
    "backbone",
    "encoder",
)  # keys of nested state dicts
_COUNTERS = "num_batches_tracked"  # buffers of batch norms, which some files lack and nothing depends on


@dataclass(frozen=True)
class Matched:
    """The result of `load_weights`.

    Attributes:
        by: "names", "timm's names" or "order".
        left_out: names in the file without a counterpart in the module.
    """

    by: str
    left_out: tuple[str, ...]


@validate_types
def load_weights(module: nn.Module, path: str | Path) -> Matched:
    """Load the weights of a file into a module.

    Args:
        module: all of its weights are replaced.
        path: a safetensors file, or one that torch.save wrote with tensors by name.

    Raises:
        ValueError: the file cannot be read without unpickling, or does not have the module's layers.
    """
    target = _without_counters(module.state_dict())
    source = _without_counters(_read(plain_file(Path(path))))
    for by, match in (
        ("names", _by_names(target, source)),
        ("timm's names", _by_names(target, _converted(module, source))),
        ("order", _by_order(target, source)),
    ):
        if match is not None:
            module.load_state_dict({name: value for name, (_, value) in match.items()}, strict=False)
            used = {name for name, _ in match.values()}
            return Matched(by, tuple(name for name in source if name not in used))
    raise ValueError(_difference(Path(path), target, source))


def _without_counters(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in weights.items() if not name.endswith(_COUNTERS)}


def _read(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        if zipfile.is_zipfile(path):
            check_stored(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} must hold tensors by name, got objects that would have to be unpickled, which can run "
            "code: save model.state_dict() alone"
        ) from error
    except (SafetensorError, RuntimeError, EOFError, OSError, KeyError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as safetensors or a file of torch: {error}") from error
    for name in _INSIDE:
        if isinstance(content, dict) and isinstance(content.get(name), dict):
            content = content[name]
            break
    tensors = content.items() if isinstance(content, dict) else ()
    weights = {str(name): value for name, value in tensors if isinstance(value, Tensor)}
    if not weights:
        raise ValueError(f"{path} must hold tensors by name, got a {type(content).__name__} without any")
    return weights


def _by_names(
    target: Mapping[str, Tensor], source: Mapping[str, Tensor] | None
) -> dict[str, tuple[str, Tensor]] | None:
    """Tensors of the file by the names of the module, up to a common prefix; None if one is missing."""
    if source is None or not target:
        return None
    first = next(iter(target))
    prefixes = {name.removesuffix(first) for name in source if name.endswith(first)}
    for prefix in sorted(prefixes, key=len):
        if all(
            prefix + name in source and source[prefix + name].shape == target[name].shape for name in target
        ):
            return {name: (prefix + name, source[prefix + name]) for name in target}
    return None


def _converted(module: nn.Module, source: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """The tensors under current names of timm, if the module is one of timm's."""
    for part in module.modules():
        home = type(part).__module__
        convert: Any = (
            vars(sys.modules[home]).get("checkpoint_filter_fn") if home.startswith("timm.") else None
        )
        if convert is not None:
            try:
                return dict(convert(dict(source), part))
            except Exception:  # the weights may be of another model than timm's conversion expects
                return None
    return None


def _by_order(
    target: Mapping[str, Tensor], source: Mapping[str, Tensor]
) -> dict[str, tuple[str, Tensor]] | None:
    """The first tensors of the file, if their shapes are those of the module in order."""
    pairs = list(zip(target.items(), source.items(), strict=False))
    if len(source) < len(target) or any(ours.shape != theirs.shape for (_, ours), (_, theirs) in pairs):
        return None
    return {name: other for (name, _), other in pairs}


def _difference(path: Path, target: Mapping[str, Tensor], source: Mapping[str, Tensor]) -> str:
    expected, received = next(
        (
            (f"{name} {tuple(value.shape)}", f"{other} {tuple(tensor.shape)}")
            for (name, value), (other, tensor) in zip(target.items(), source.items(), strict=False)
            if value.shape != tensor.shape
        ),
        (f"{len(target)} tensors", f"{len(source)}"),
    )
    return (
        f"{path} must have the weights of the module, {len(target)} tensors: expected {expected}, got "
        f"{received}"
    )
