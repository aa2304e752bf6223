"""The Langevin world: independent stationary, reversible diffusions with any given law.

Each coordinate follows dz = (log p)'(z) dt + sqrt(2) dW, whose stationary law is p: the world of Theorem 2 of
Klindt, LeCun & Balestriero (2026). Its paths are not simulated. The law is cut into K cells
(`isojepa.laws.cells`); the next cell is drawn from the exact transition matrix of the jumps between cells,
the place inside it from p. So for any K

    the law of every z is p: it has p's mass in each of 16 K pieces,
    the joint law of (z, z') is symmetric: the process is reversible,
    two steps of a time t are one step of 2 t,
    the correlation of z across a pair is the rho that was asked for.

Only the transition kernel is approximate. Inside a cell the past is forgotten: K is chosen so that this blurs
at most a hundredth of the variance of a step, and its effect on the kernel falls like K^-2.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from isojepa.laws.cells import PIECES, Cells, alias_tables, cut
from isojepa.laws.densities import Density, GeneralizedNormal, Mixture, Normal
from isojepa.worlds.arguments import check_count, check_dim, check_lag, check_rho

_FEWEST, _MOST = 256, 2048  # cells
_BLUR = 0.01  # of the variance of a step


@dataclass(frozen=True)
class Langevin:
    """The stationary, reversible diffusion of a law, seen at two times `lag` apart.

    Args:
        dim: number of coordinates, all of one law and independent.
        law: anything with `log_density` and `support`, mean 0 and variance 1.
        rho: correlation of a coordinate with itself after one unit of time, in (0, 1); one number, or one per
            coordinate.
        lag: time between the two views, any positive number.

    Attributes:
        times: time between the two views, per coordinate, in the units in which the diffusion is 1: phi_k of
            `isojepa.laws.sturm_liouville` correlates by exp(-lambda_k time).

    Raises:
        ValueError: an argument is out of range, or rho^lag so near 1 that 2,048 cells would blur it.

    Example:
        >>> from isojepa.seeds import generator
        >>> from isojepa.laws import Uniform
        >>> z, z_next = Langevin(dim=2, law=Uniform(), rho=0.9).sample(8, generator(0, "data"))
    """

    dim: int
    law: Density = field(default_factory=Normal)
    rho: float | Sequence[float] = 0.95
    lag: float = 1.0
    times: tuple[float, ...] = field(init=False, repr=False, compare=False)
    _tables: "_Tables" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", check_dim(self.dim))
        object.__setattr__(self, "rho", check_rho(self.rho, self.dim))
        check_lag(self.lag)
        each = self.rho if isinstance(self.rho, tuple) else (float(self.rho),)  # type: ignore[arg-type]
        cells = _cut_for(self.law, max(each), min(self.lag, 1.0))
        units = {rho: cells.time_of(rho) for rho in set(each)}
        times = tuple(units[rho] * self.lag for rho in each)
        object.__setattr__(self, "times", times if len(times) == self.dim else times * self.dim)
        object.__setattr__(self, "_tables", _Tables(cells, times))

    @property
    def correlation(self) -> float | tuple[float, ...]:
        values = tuple(self._tables.cells.correlation(time) for time in self.times)
        return values if isinstance(self.rho, tuple) else values[0]

    @property
    def gaussian(self) -> bool:
        one = isinstance(self.law, Mixture) and len(self.law.weights) == 1
        return one or self.law in (Normal(), GeneralizedNormal(2.0))

    def sample(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw n pairs, each (n, dim)."""
        cell = self._tables.first((check_count(n), self.dim), generator)
        after = self._tables.next(cell, generator)
        return self._tables.place(cell, generator).float(), self._tables.place(after, generator).float()

    def step(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """Move every latent `lag` forward in time: (..., dim) to (..., dim)."""
        if z.shape[-1:] != (self.dim,):
            raise ValueError(f"z must have {self.dim} coordinates, got shape {tuple(z.shape)}")
        if not torch.isfinite(z).all():
            raise ValueError("z must be finite, got NaN or Inf")
        cell = self._tables.next(self._tables.cell_of(z), generator)
        return self._tables.place(cell, generator).to(z.dtype)

    def trajectory(self, n: int, steps: int, generator: torch.Generator) -> Tensor:
        """Draw n stationary paths: (steps, n, dim), neighbours `lag` apart."""
        cell = self._tables.first((check_count(n), self.dim), generator)
        path = [self._tables.place(cell, generator).float()]
        for _ in range(check_count(steps) - 1):
            cell = self._tables.next(cell, generator)
            path.append(self._tables.place(cell, generator).float())
        return torch.stack(path)


class _Tables:
    """What draws are read from: alias tables of every row of every transition matrix, and of the masses."""

    def __init__(self, cells: Cells, times: tuple[float, ...]) -> None:
        self.cells, self.count = cells, len(cells.mass)
        kinds = list(dict.fromkeys(times))
        rows = np.concatenate([*(cells.transition(time) for time in kinds), cells.mass[None]])
        keep, other = alias_tables(rows)
        self.keep, self.other = torch.from_numpy(keep).reshape(-1), torch.from_numpy(other).reshape(-1)
        self.last = len(rows) - 1
        offsets = torch.tensor([kinds.index(time) * self.count for time in times])
        self.offset = offsets if len(kinds) > 1 else torch.zeros(1, dtype=torch.long)
        self.faces = torch.from_numpy(cells.faces)
        self.pieces = torch.from_numpy(cells.pieces).reshape(-1)

    def first(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Cells drawn by their mass."""
        return self._draw(torch.full(shape, self.last), generator)

    def next(self, cell: Tensor, generator: torch.Generator) -> Tensor:
        """Cells one step later: (..., dim)."""
        return self._draw(cell + self.offset, generator)

    def _draw(self, row: Tensor, generator: torch.Generator) -> Tensor:
        uniform = torch.rand(row.shape, generator=generator, dtype=torch.float64).mul_(self.count)
        column = uniform.long()
        at = row * self.count + column
        kept = uniform.sub_(column) < self.keep.take(at)
        return torch.where(kept, column, self.other.take(at).long())

    def place(self, cell: Tensor, generator: torch.Generator) -> Tensor:
        """Draw z inside each cell."""
        uniform = torch.rand(cell.shape, generator=generator, dtype=torch.float64).mul_(PIECES)
        piece = uniform.long()
        at = cell * (PIECES + 1) + piece
        return torch.lerp(self.pieces.take(at), self.pieces.take(at + 1), uniform.sub_(piece))

    def cell_of(self, z: Tensor) -> Tensor:
        """The cell of each z; the outermost beyond the domain."""
        return torch.searchsorted(self.faces, z.double().contiguous(), right=True)


def _cut_for(law: Density, rho: float, lag: float) -> Cells:
    """Cells fine enough for a correlation, and for that after a part of its time, at most rho^lag."""
    count, lost = _FEWEST, -math.expm1(lag * math.log(rho))
    while True:
        cells = cut(law, count)
        if cells.blur <= _BLUR * lost and cells.within < lost / 2:
            return cells
        if count == _MOST:
            highest = 1 - max(cells.blur / _BLUR, 2 * cells.within)
            after = "" if lag == 1 else f" after a lag of {lag:g}"
            raise ValueError(f"rho must be at most {highest:.7g}{after} for this law, got {rho**lag}")
        count *= 2
