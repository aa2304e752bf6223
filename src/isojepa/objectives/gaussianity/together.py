"""Many tests of the same samples, and their laws under the null from the same simulated ones.

Alone, each test draws samples of N(0, I), projects and sorts them for itself (`Null.simulated`). Here what is
drawn, whitened, projected and sorted is so once for all tests. A p-value is as right as that of a simulation
of its own; those of two tests are dependent, as they are anyway, since both look at the same embeddings.
Nothing here needs the compiled loops, whose start alone takes longer.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa import ranks
from isojepa.objectives.gaussianity.epps_pulley import EppsPulley
from isojepa.objectives.gaussianity.fused import plain_epps_pulley
from isojepa.objectives.gaussianity.null import Null
from isojepa.objectives.gaussianity.order import Ordered, Sorted
from isojepa.objectives.gaussianity.pairs import Pairs
from isojepa.objectives.gaussianity.sliced import Sliced
from isojepa.objectives.gaussianity.statistic import Multivariate, whitened
from isojepa.seeds import generator

Test = Sliced | Multivariate
_SLICED, _PAIRED = 1 << 18, 1 << 22  # numbers held at a time: about a processor's cache, and not many calls
_NARROW = 64  # dimensions up to which sums over pairs of simulated samples stay well inside of float32


def simulate_together(
    tests: Sequence[Test],
    n: int,
    dim: int,
    draws: int,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[Null]:
    """The law of each test for n samples of N(0, I), in the order of the tests.

    Args:
        tests: of samples (n, dim).
        n: samples.
        dim: of each.
        draws: simulations.
        seed: draws them.
        progress: called with simulations done and their number.
    """
    if draws < 1:
        raise ValueError(f"draws must be positive, got {draws}")
    source = generator(seed, "null", n, dim)
    # directions that span less than the whole space need no more dimensions than that
    plain = all(isinstance(test, Sliced) and not test.standardize for test in tests)
    width = min(dim, max(test.slices for test in tests if isinstance(test, Sliced))) if plain else dim
    block = _SLICED if plain else _PAIRED
    size = max(1, block // max(test._held(n, width) for test in tests))
    parts: list[list[Tensor]] = [[] for _ in tests]
    with ranks.alone(), torch.no_grad():  # every rank draws the same, so none has to send it
        for start in range(0, draws, size):
            drawn = torch.randn(min(size, draws - start), n, width, generator=source, dtype=torch.float32)
            sample = Sample(drawn, dim, simulated=True)
            for part, test in zip(parts, tests, strict=True):
                part.append(sample.value(test).double())
            if progress is not None:
                progress(min(start + size, draws), draws)
    values = [torch.cat(part).nan_to_num(nan=math.inf).numpy() for part in parts]
    return [Null(np.sort(value)) for value in values]


class Sample:
    """Samples (..., n, dim), and what tests make of them, each part made once.

    Args:
        x: the samples.
        dim: of the space that they stand for; more than x has where only what directions span was drawn.
        simulated: they are N(0, I): numbers of moderate size, for which float32 and plain logarithms suffice.
    """

    def __init__(self, x: Tensor, dim: int | None = None, simulated: bool = False) -> None:
        self.x, self.simulated = x, simulated
        self.n = x.shape[-2]
        self.dim = x.shape[-1] if dim is None else dim
        self._made: dict[tuple[object, ...], Any] = {}

    def value(self, test: Test) -> Tensor:
        """The statistic.

        Raises:
            ValueError: it is not defined for these samples.
        """
        if isinstance(test, Multivariate):
            pairs: Pairs = self._once(("pairs", test.standardize), lambda: self._pairs(test.standardize))
            return test._pairs(pairs, self.n)
        inner = (type(test.test), repr(test.test), *_key(test))
        values: Tensor = self._once(inner, lambda: self._per_slice(test))
        return values.mean(-1) if test.reduce == "mean" else values.amax(-1)

    def _per_slice(self, test: Sliced) -> Tensor:
        """The univariate statistic of each slice."""
        projected: Tensor = self._once(("projected", *_key(test)), lambda: self._projected(test))
        if isinstance(test.test, Ordered):
            return test.test._sorted(
                self._once(("sorted", *_key(test)), lambda: self._ascending(projected)), self.n
            )
        if isinstance(test.test, EppsPulley):
            return plain_epps_pulley(projected, test.test.grid, test.test.unbiased)
        return test.test.statistic(projected)

    def _projected(self, test: Sliced) -> Tensor:
        """Projections (..., n, slices); in memory slice after slice, as sorting wants them."""
        directions = test.spanned(self.dim) if self.dim > self.x.shape[-1] else test.directions(self.dim)
        return (directions @ self._white(test.standardize).float().mT).mT

    def _ascending(self, projected: Tensor) -> Sorted:
        # NumPy sorts float32 with vector instructions, several times as fast as torch
        values = np.sort(projected.mT.numpy(), axis=-1)
        return Sorted(torch.from_numpy(values).mT, moderate=self.simulated)

    def _pairs(self, standardize: bool) -> Pairs:
        x = self._white(standardize)
        return Pairs(x.float() if self.simulated and self.dim <= _NARROW else x.double())

    def _white(self, standardize: bool) -> Tensor:
        white: Tensor = self._once(("white",), lambda: whitened(self.x)) if standardize else self.x
        return white

    def _once(self, key: tuple[object, ...], make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


def _key(test: Sliced) -> tuple[object, ...]:
    """What tells the projections of a test from those of another."""
    return test.slices, test.sampler, test.seed, test.standardize
