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
from isojepa.encoders.layers import (
    buffers_of,
    check_decay,
    clones,
    copy,
    follow,
    move,
    parameters_of,
    tensors_of,
)

__all__ = ["WeightAverage", "follow"]


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
        self.module, self.decay, self.warmup = module, check_decay(decay), warmup
        self.updates = 0
        self._parameters = clones(parameters_of(module))
        self._buffers = clones(buffers_of(module))

    @torch.no_grad()
    def update(self) -> None:
        """Move towards the module's weights as they are now: once after each step of the optimiser."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates)) if self.warmup else self.decay
        move(self._parameters, parameters_of(self.module), decay)
        copy(self._buffers, buffers_of(self.module))
        self.updates += 1

    @contextlib.contextmanager
    def apply(self) -> Iterator[None]:
        """Inside, the module has the averaged weights; afterwards its own again, whatever happened.

        What is done to its weights and buffers inside is lost.
        """
        live = tensors_of(self.module)
        before = clones(live)
        with torch.no_grad():
            copy(live, self._average())
        try:
            yield
        finally:
            with torch.no_grad():
                copy(live, before)

    @torch.no_grad()
    def keep(self) -> None:
        """Give the module the averaged weights for good."""
        copy(tensors_of(self.module), self._average())

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
        copy(self._average(), {k.removeprefix("average/"): v for k, v in state.items() if k != "updates"})
        self.updates = int(state["updates"])

    def _average(self) -> dict[str, Tensor]:
        return self._parameters | self._buffers
