"""Exponential moving averages of weights: for evaluation, and for teachers that follow a student.

After each step, with decay d,

    average <- d * average + (1 - d) * weights

and buffers, such as the running statistics of a norm, are copied. With warm-up the decay of the t-th update,
t = 0, 1, ..., is min(d, (1 + t) / (10 + t)), so that the first weights are soon forgotten.

torch's `AveragedModel` keeps a deep copy of the module and wraps it; here the average is a set of named
tensors, which a checkpoint holds as it is and which any module of these names can take. Averages have the
types of the weights: in half precision, steps of less than a digit are lost.
"""

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from isojepa.arguments import checked


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
    _check_decay(decay)
    _move(_parameters(target), _parameters(source), decay)
    _copy(_buffers(target), _buffers(source))


class WeightAverage:
    """The moving average of a module's weights. It starts from the weights that are there.

    Args:
        module: whose weights; on the device where it will be trained.
        decay: share of the average that stays at an update, in [0, 1].
        warmup: let the decay rise from 0.1.

    Attributes:
        updates: how many there were.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> average = WeightAverage(layer, decay=0.5)
        >>> with torch.no_grad():
        ...     _ = layer.bias.add_(1.0)
        >>> average.update()
        >>> with average.apply():
        ...     averaged = layer.bias.item()
        >>> round(layer.bias.item() - averaged, 3)
        0.5
    """

    @checked
    def __init__(self, module: nn.Module, decay: float, warmup: bool = False) -> None:
        self.module, self.decay, self.warmup = module, _check_decay(decay), warmup
        self.updates = 0
        self._parameters = _clones(_parameters(module))
        self._buffers = _clones(_buffers(module))

    @torch.no_grad()
    def update(self) -> None:
        """Move towards the module's weights as they are now: once after each step of the optimiser."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates)) if self.warmup else self.decay
        _move(self._parameters, _parameters(self.module), decay)
        _copy(self._buffers, _buffers(self.module))
        self.updates += 1

    @contextlib.contextmanager
    def apply(self) -> Iterator[None]:
        """Inside, the module has the averaged weights; afterwards its own again, whatever happened.

        What is done to its weights and buffers inside is lost.
        """
        live = _tensors(self.module)
        before = _clones(live)
        with torch.no_grad():
            _copy(live, self._average())
        try:
            yield
        finally:
            with torch.no_grad():
                _copy(live, before)

    @torch.no_grad()
    def keep(self) -> None:
        """Give the module the averaged weights for good."""
        _copy(_tensors(self.module), self._average())

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint needs: the number of updates, and each averaged tensor under "average/"."""
        average = {f"average/{name}": tensor for name, tensor in self._average().items()}
        return {"updates": torch.tensor(self.updates), **average}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint's tensors.

        Raises:
            ValueError: they are not those of this module.
        """
        if "updates" not in state:
            raise ValueError(f"the state of an average must have 'updates', got {sorted(state)[:5]}")
        _copy(self._average(), {k.removeprefix("average/"): v for k, v in state.items() if k != "updates"})
        self.updates = int(state["updates"])

    def _average(self) -> dict[str, Tensor]:
        return self._parameters | self._buffers


def _move(targets: Mapping[str, Tensor], sources: Mapping[str, Tensor], decay: float) -> None:
    """Average tensors by name, in place."""
    _check_names(targets, sources)
    averaged = [name for name, target in targets.items() if target.is_floating_point() or target.is_complex()]
    if averaged:  # all in one go, which matters on a device
        given = [sources[name].to(targets[name]) for name in averaged]
        torch._foreach_lerp_([targets[name] for name in averaged], given, 1 - decay)
    for name in targets.keys() - averaged:  # a counter has no average
        targets[name].copy_(sources[name])


def _copy(targets: Mapping[str, Tensor], sources: Mapping[str, Tensor]) -> None:
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


def _check_decay(decay: float) -> float:
    if not 0 <= decay <= 1:
        raise ValueError(f"decay must lie in [0, 1], got {decay}")
    return float(decay)


def _parameters(module: nn.Module) -> dict[str, Tensor]:
    """By name; tied ones once."""
    return {name: parameter.detach() for name, parameter in module.named_parameters()}


def _buffers(module: nn.Module) -> dict[str, Tensor]:
    return dict(module.named_buffers())


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    return _parameters(module) | _buffers(module)


def _clones(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
