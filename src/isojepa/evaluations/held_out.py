"""Evaluations on held-out states of a source: how far they are spread, and whether they show the latents.

    smallest_variance, mean_variance   over the principal directions of the embedding
    dead_fraction                      of these directions: collapse shows here
    r2                                 held-out R^2 of the latents regressed on the embeddings

Of several models the first has these names; those of the others begin with the model's name.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from isojepa.arguments import checked
from isojepa.encoders.model import Model
from isojepa.encoders.modes import embed
from isojepa.linear import held_out_r2, spread
from isojepa.seeds import generator as make_generator
from isojepa.worlds.batch import Batch
from isojepa.worlds.source import Source, held_out

_HELD = 1 << 25  # numbers of vectors, in all views, that are drawn at once
_PIXELS = 1 << 21  # the same of pictures, which are never kept
_LEAST = 16  # states that are drawn at once, however large they are


@dataclass
class Spread:
    """Smallest and mean variance of the embedding of held-out states, and the fraction of dead directions.

    Pictures, and vectors of very many numbers, are drawn anew in parts at each call, so that they are never
    all in memory; other vectors once.

    Args:
        source: where states come from.
        samples: how many.
        every: steps between two calls; None for the recipe's own pace.
    """

    source: Source
    samples: int = 10_000
    every: int | None = None
    _kept: tuple[bytes, Batch] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        return "spread"

    @property
    def primary(self) -> str:
        return "smallest_variance"

    def __call__(self, models: Mapping[str, Model], generator: torch.Generator) -> dict[str, float]:
        """Numbers by name."""
        parts: dict[str, list[Tensor]] = {name: [] for name in models}
        latents: list[Tensor] = []
        for batch in self._batches(generator):
            for name, model in models.items():
                parts[name].append(embed(model, batch.views[0]))
            if batch.z is not None:
                latents.append(batch.z[0])
        z = torch.cat(latents).double().numpy() if latents else None
        row: dict[str, float] = {}
        for index, (name, embedded) in enumerate(parts.items()):
            numbers = self._numbers(torch.cat(embedded).double().numpy(), z)
            row |= {key if index == 0 else f"{name}.{key}": value for key, value in numbers.items()}
        return row

    def _numbers(self, h: np.ndarray, z: np.ndarray | None) -> dict[str, float]:
        names = ("smallest_variance", "mean_variance", "dead_fraction")
        if not np.isfinite(h).all():
            return dict.fromkeys(names, float("nan"))
        return dict(zip(names, spread(h), strict=True))

    def _batches(self, generator: torch.Generator) -> Iterator[Batch]:
        state = generator.get_state().numpy().tobytes()
        if self._kept is not None and self._kept[0] == state:
            yield self._kept[1]
            return
        shapes = self.source.facts.shapes
        if shapes is None:  # nobody knows how large a state is: one says it
            one = self.source.sample(1, make_generator(0, "probe"))
            shapes = tuple(tuple(view.shape[1:]) for view in one.views)
        vectors = all(len(shape) == 1 for shape in shapes)
        most = (_HELD if vectors else _PIXELS) // max(1, sum(math.prod(shape) for shape in shapes))
        rows = min(self.samples, max(_LEAST, most))
        for start in range(0, self.samples, rows):
            batch = self.source.sample(min(rows, self.samples - start), generator)
            batch = Batch(batch.views[:1], z=None if batch.z is None else batch.z[:1])
            if vectors and rows == self.samples:
                self._kept = state, batch
            yield batch


class Recovery(Spread):
    """Held-out R^2 of the latents regressed on the embeddings, and the embedding's spread.

    Args:
        source: where states come from; it must know its latents.
        samples: how many; half of them fit the regression.
        every: steps between two calls; None for the recipe's own pace.
    """

    @checked
    def __init__(self, source: Source, samples: int = 10_000, every: int | None = None) -> None:
        if source.facts.dim is None:
            raise ValueError(
                "recovery needs a source that knows its latents; see Spread for one that does not"
            )
        super().__init__(source, samples, every)

    @property
    def name(self) -> str:
        return "recovery"

    @property
    def primary(self) -> str:
        return "r2"

    def _numbers(self, h: np.ndarray, z: np.ndarray | None) -> dict[str, float]:
        variances = super()._numbers(h, z)
        if z is None or not np.isfinite(h).all():
            return {"r2": float("nan"), **variances}
        return {"r2": held_out_r2(h, z), **variances}


def default_evaluations(source: Source, samples: int) -> tuple[Spread, ...]:
    """What is measured where nothing is asked for: recovery if the source knows its latents, else spread.

    On states that the source holds out from training, where it does.
    """
    kind = Spread if source.facts.dim is None else Recovery
    return (kind(held_out(source), samples),)
