"""Moving averages of a module's weights, as named tensors: how teachers follow, what averages are made of.

    target <- d * target + (1 - d) * source

for parameters, with decay d; buffers, such as the running statistics of a norm, are copied.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


@torch.no_grad()
def follow(target: nn.Module, source: nn.Module, decay: float) -> None:
    """Move the parameters of a module towards those of another, in place, and copy the buffers.

    Args:
        target: what moves, e.g. a teacher.
        source: what it follows; parameters and buffers of the same names and shapes.
        decay: share of the target that stays, in [0, 1]; 0 copies.

    Raises:
        ValueError: the modules differ in names or shapes, or the decay is out of range.

    Example:
        >>> teacher, student = nn.Linear(2, 2), nn.Linear(2, 2)
        >>> follow(teacher, student, decay=0.0)
        >>> torch.equal(teacher.weight, student.weight)
        True
    """
    check_decay(decay)
    move(parameters_of(target), parameters_of(source), decay)
    copy(buffers_of(target), buffers_of(source))


def move(targets: Mapping[str, Tensor], sources: Mapping[str, Tensor], decay: float) -> None:
    """Average tensors by name, in place."""
    _check_names(targets, sources)
    averaged = [name for name, target in targets.items() if target.is_floating_point() or target.is_complex()]
    if averaged:  # all in one go, which matters on a device
        given = [sources[name].to(targets[name]) for name in averaged]
        torch._foreach_lerp_([targets[name] for name in averaged], given, 1 - decay)
    for name in targets.keys() - averaged:  # a counter has no average
        targets[name].copy_(sources[name])


def copy(targets: Mapping[str, Tensor], sources: Mapping[str, Tensor]) -> None:
    """Copy tensors by name, in place."""
    _check_names(targets, sources)
    for name, target in targets.items():
        target.copy_(sources[name])


def _check_names(targets: Mapping[str, Tensor], sources: Mapping[str, Tensor]) -> None:
    ours = {name: tuple(tensor.shape) for name, tensor in targets.items()}
    theirs = {name: tuple(tensor.shape) for name, tensor in sources.items()}
    if ours != theirs:
        odd = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
        raise ValueError(
            f"weights must have the same names and shapes, got {odd[0]!r} of shape {ours.get(odd[0])} here "
            f"and {theirs.get(odd[0])} there ({len(odd)} differ)"
        )


def check_decay(decay: float) -> float:
    """Return the decay, or say that it must lie in [0, 1]."""
    if not 0 <= decay <= 1:
        raise ValueError(f"decay must lie in [0, 1], got {decay}")
    return float(decay)


def parameters_of(module: nn.Module) -> dict[str, Tensor]:
    """By name; tied ones once."""
    return {name: parameter.detach() for name, parameter in module.named_parameters()}


def buffers_of(module: nn.Module) -> dict[str, Tensor]:
    """By name."""
    return dict(module.named_buffers())


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name."""
    return parameters_of(module) | buffers_of(module)


def clones(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of tensors, without their graphs."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
