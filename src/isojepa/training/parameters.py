"""Which parameters weight decay applies to, and which learn at a rate of their own.

Decay pulls weights towards zero. That makes sense for matrices, whose scale a later norm often undoes, and
none for biases and for the scales of norms, which most published recipes leave out. Left out here are

- parameters of at most one dimension, and those named as a bias;
- all parameters of the norms of torch;
- what a module names itself: `no_weight_decay()` returns names of its parameters, as the models of timm do.

A module may also say that some of its parameters learn slower than others, as in fine-tuning:
`learning_rates()` returns factors on the learning rate by their names.
"""

from collections.abc import Iterable, Iterator, Mapping
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


@runtime_checkable
class NamesRates(Protocol):
    """A module that says which of its parameters learn at another rate."""

    def learning_rates(self) -> Mapping[str, float]:
        """Factors on the learning rate by names as in `named_parameters`; 1 for those that are not there."""
        ...


def decayed_groups(modules: nn.Module | Iterable[nn.Module], weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups for an optimiser: first those with weight decay, then those without; fast before slow.

    A parameter that is tied to another comes once, and is spared if one of its names is. Both groups keep
    the order of `parameters()`; frozen parameters and empty groups are left out. Without weight decay there
    is one group with all parameters, frozen ones too, so that the numbers by which an optimiser's state knows
    them do not depend on what is frozen. Modules with rates of their own have such groups for each rate; its
    factor is the group's "rate".

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
        return _by_rate([{"params": parameters, "weight_decay": 0.0}], trained)
    spared = {parameter for module in trained for parameter in _spared(module)}
    learned = [parameter for parameter in parameters if parameter.requires_grad]
    groups = [
        {"params": [p for p in learned if p not in spared], "weight_decay": float(weight_decay)},
        {"params": [p for p in learned if p in spared], "weight_decay": 0.0},
    ]
    return _by_rate([group for group in groups if group["params"]], trained)


def _by_rate(groups: list[dict[str, Any]], trained: list[nn.Module]) -> list[dict[str, Any]]:
    """The same groups, each as one for every learning rate in it."""
    rates: dict[nn.Parameter, float] = {}
    for module in trained:
        for part in module.modules():
            if isinstance(part, NamesRates):
                named = dict(part.named_parameters(remove_duplicate=False))
                rates |= {named[name]: float(rate) for name, rate in part.learning_rates().items()}
    return [
        {**group, "params": [p for p in group["params"] if rates.get(p, 1.0) == rate], "rate": rate}
        for group in groups
        for rate in sorted({rates.get(p, 1.0) for p in group["params"]} or {1.0}, reverse=True)
    ]


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
