"""Which parameters weight decay applies to.

Decay pulls weights towards zero. That makes sense for matrices, whose scale a later norm often undoes, and
none for biases and for the scales of norms, which most published recipes leave out. Left out here are

- parameters of at most one dimension, and those named as a bias;
- all parameters of the norms of torch;
- what a module names itself: `no_weight_decay()` returns names of its parameters, as the models of timm do.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

_NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)  # _NormBase: batch and instance norms


@runtime_checkable
class NamesUndecayed(Protocol):
    """A module that says which of its parameters weight decay should spare."""

    def no_weight_decay(self) -> Iterable[str]:
        """Names as in `named_parameters`; those of no parameter are ignored."""
        ...


def decayed_groups(modules: nn.Module | Iterable[nn.Module], weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups for an optimiser: first those with weight decay, then those without.

    A parameter that is tied to another comes once, and is spared if one of its names is. Both groups keep
    the order of `parameters()`; frozen parameters and empty groups are left out. Without weight decay there
    is one group with all parameters, frozen ones too, so that the numbers by which an optimiser's state knows
    them do not depend on what is frozen.

    Args:
        modules: one module, or several that are trained together.
        weight_decay: of the first group.

    Example:
        >>> [len(group["params"]) for group in decayed_groups(nn.Linear(2, 3), 0.1)]
        [1, 1]
        >>> [len(group["params"]) for group in decayed_groups(nn.Linear(2, 3), 0.0)]
        [2]
    """
    if not weight_decay >= 0:
        raise ValueError(f"weight_decay must not be negative, got {weight_decay}")
    trained = [modules] if isinstance(modules, nn.Module) else list(modules)
    parameters = list(dict.fromkeys(p for module in trained for p in module.parameters()))
    if weight_decay == 0:
        return [{"params": parameters, "weight_decay": 0.0}]
    spared = {parameter for module in trained for parameter in _spared(module)}
    learned = [parameter for parameter in parameters if parameter.requires_grad]
    groups = [
        {"params": [p for p in learned if p not in spared], "weight_decay": float(weight_decay)},
        {"params": [p for p in learned if p in spared], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _spared(module: nn.Module) -> Iterator[nn.Parameter]:
    """Parameters of a module tree without weight decay; some more than once."""
    for part in module.modules():
        if isinstance(part, NamesUndecayed):
            named = dict(part.named_parameters(remove_duplicate=False))
            yield from (named[name] for name in part.no_weight_decay() if name in named)
        for name, parameter in part.named_parameters(recurse=False, remove_duplicate=False):
            if parameter.ndim <= 1 or _is_bias(name) or isinstance(part, _NORMS):
                yield parameter


def _is_bias(name: str) -> bool:
    """Whether a parameter's own name says so: bias, in_proj_bias, bias_k."""
    return "bias" in (name.split("_")[0], name.split("_")[-1])
