"""Latent processes, from which pairs (z, z') are drawn.

    OrnsteinUhlenbeck   z ~ N(0, I),  z' = r z + sqrt(1 - r^2) eta,  r = rho^lag       corr(z, z') = r
    Langevin            z ~ law,  z' = z a time later, dz = (log p)'(z) dt + sqrt 2 dW
    Copula              z = F^-1(Phi(y)) of an Ornstein-Uhlenbeck process y, F of any law
    NoisyCopies         c ~ law,  z = rho c + sqrt(1 - rho^2) eta,  z' likewise        corr(z, z') = rho^2

The first is the Gaussian world of Klindt, LeCun & Balestriero (2026), "When Does LeJEPA Learn a World
Model?", Section 3.1; the second that of their Theorem 2. The third has the law and the copula chosen apart.
The last is what their released code trains on; it is exchangeable, so both views share one marginal, but
with a non-Gaussian law that marginal is not the law itself.

`Langevin`: independent stationary, reversible diffusions with any given distribution. Each coordinate
follows dz = (log p)'(z) dt + sqrt(2) dW, whose stationary law is p: the world of Theorem 2 of Klindt, LeCun
& Balestriero (2026). Its paths are not simulated. The law is cut into K cells
(`isojepa.distributions.sturm_liouville`); the next cell is drawn from the exact transition matrix of the
jumps between cells, the place inside it from p. So for any K

    the law of every z is p: it has p's mass in each of 16 K pieces,
    the joint law of (z, z') is symmetric: the process is reversible,
    two steps of a time t are one step of 2 t,
    the correlation of z across a pair is rho.

Only the transition kernel is approximate. Inside a cell the next place is independent of the past: K is
chosen so that this blurs at most a hundredth of the variance of a step, and its effect on the kernel falls
like K^-2.

`Copula`: any distribution on top of a hidden Ornstein-Uhlenbeck process,

    y ~ N(0, I),   y' = r y + sqrt(1 - r^2) eta,   r = rho^lag,     z = T(y) = F^-1(Phi(y)) in each coordinate

T is the increasing map that gives z the law with distribution function F
(`isojepa.distributions.normal_scores`). A monotone image of a stationary, reversible Markov process is one
itself, so

    the law of every z is the given one,
    the joint law of (z, z') is symmetric, and its copula is the Gaussian one, whatever the law,
    two steps of a time t are one step of 2 t.

rho is the correlation of the hidden y. That of z is at most as large (Gebelein 1941), and no power of it in
the lag; `correlation` has it.

The transition operator is that of y: its eigenfunctions are Hermite's polynomials of y with the eigenvalues
r^k, for every law, heavy tails included. The best aligned white embedding is y itself up to a rotation, so
a linear map reads z off it with R^2 = corr(z, y)^2, below 1 for every law but the normal one.

`GoalReaching`: goal-directed trajectories of a two-joint arm, latents that violate every assumption of the
theorems.

An arm of two equal links reaches for targets in the plane. A new target appears at random moments; between
them a saturated PD controller drives the joint angles q = (shoulder, wrist) there, with inertia and the
jitter of a stochastic policy:

    q'' = clip(gain (goal - q) - damping q', +-torque) + jitter * noise,      |wrist| <= limit, with a rebound

A target at distance d asks for a wrist angle of +-arccos(d^2 / (2 link^2) - 1), elbow up or down: the
wrist's law is bimodal with its modes near the joint limits. The shoulder prefers the goal nearby: it is
broad, mildly platykurtic, and slower than the wrist. Increments are bursts between rests, and their size
depends on where the arm is. The angles alone are not Markov.

The constants are chosen to come near what Klindt, LeCun & Balestriero (2026), Appendix H, publish of a
trained policy on DMC Reacher: at a stride of 8 steps, correlations 0.992 and 0.982, a nearly bimodal wrist
limited to +-2.79 and 13.6 % of the shoulder beyond +-pi. It is a stand-in for that data, not a simulation
of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from isojepa import validation
from isojepa.data.source import Facts
from isojepa.distributions.densities import Density, GeneralizedNormal, Law, Mixture, Normal, NormalSpec
from isojepa.distributions.normal_scores import NormalScores
from isojepa.distributions.sturm_liouville import PIECES, Cells, alias_tables, checked_support, cut
from isojepa.registry import Context, Spec, component_field, register
from isojepa.validation import short_repr, validate_fields


def _check_dim(dim: int) -> int:
    """A number of coordinates: a positive integer."""
    return validation.check_count("dim", dim)


def check_samples(n: int) -> int:
    """A number of samples or steps: a positive integer."""
    return validation.check_count("the number of samples", n)


def _check_lag(lag: float) -> float:
    """A time between two views: positive and finite."""
    validation.check_number("lag", lag, "be positive and finite", lambda value: value > 0)
    return lag


def check_rho(rho: float | Sequence[float], dim: int) -> float | tuple[float, ...]:
    """A correlation in (0, 1), or one per coordinate."""
    if hasattr(rho, "tolist"):  # an array or tensor
        rho = rho.tolist()
    entries = rho if isinstance(rho, Sequence) and not isinstance(rho, str) else (rho,)
    for value in entries:
        if validation.as_float(value) is None:
            raise ValueError(f"rho must be a number or one per dimension, got {short_repr(rho)}")
    if isinstance(rho, Sequence):
        values = tuple(float(r) for r in rho)
        if len(values) != dim:
            raise ValueError(f"rho must have one value or {dim}, one per dimension, got {len(values)}")
    else:
        values = (float(rho),)
    for value in values:
        if not 0 < value < 1:
            raise ValueError(f"rho must lie in (0, 1), got {value}")
    return values if isinstance(rho, Sequence) else values[0]


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
            `isojepa.distributions.sturm_liouville` correlates by exp(-lambda_k time).

    Raises:
        ValueError: an argument is out of range, or rho^lag so near 1 that 2,048 cells would blur it.

    Example:
        >>> from isojepa.seeds import generator
        >>> from isojepa.distributions import Uniform
        >>> z, z_next = Langevin(dim=2, law=Uniform(), rho=0.9).sample(8, generator(0, "data"))
    """

    dim: int
    law: Density = field(default_factory=Normal)
    rho: float | Sequence[float] = 0.95
    lag: float = 1.0
    times: tuple[float, ...] = field(init=False, repr=False, compare=False)
    _tables: "_Tables" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", _check_dim(self.dim))
        object.__setattr__(self, "rho", check_rho(self.rho, self.dim))
        _check_lag(self.lag)
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
        cell = self._tables.first((check_samples(n), self.dim), generator)
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
        """Draw n stationary paths: (steps, n, dim), neighbors `lag` apart."""
        cell = self._tables.first((check_samples(n), self.dim), generator)
        path = [self._tables.place(cell, generator).float()]
        for _ in range(check_samples(steps) - 1):
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
        stays = uniform.sub_(column) < self.keep.take(at)
        return torch.where(stays, column, self.other.take(at).long())

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


@dataclass(frozen=True)
class Copula:
    """Monotone images, of a given law, of an Ornstein-Uhlenbeck process seen at two times `lag` apart.

    Args:
        dim: number of coordinates, all of one law and independent.
        law: anything with `log_density` and `support`, mean 0 and variance 1.
        rho: correlation of a hidden coordinate y after one unit of time, in (0, 1); one number, or one per
            coordinate.
        lag: time between the two views, any positive number.

    Attributes:
        hidden: correlation of y across a pair, r = rho^lag; a tuple when rho is.
        scores: the map between y and z; None for a normal law, where they are the same.

    Example:
        >>> from isojepa.seeds import generator
        >>> from isojepa.distributions import Uniform
        >>> process = Copula(dim=2, law=Uniform(), rho=0.9)
        >>> z, z_next = process.sample(8, generator(0, "data"))
        >>> round(process.correlation, 4)  # 6 / pi asin(rho / 2)
        0.8915
    """

    dim: int
    law: Density = field(default_factory=Normal)
    rho: float | Sequence[float] = 0.95
    lag: float = 1.0
    hidden: float | tuple[float, ...] = field(init=False, repr=False, compare=False)
    scores: NormalScores | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", _check_dim(self.dim))
        rho = check_rho(self.rho, self.dim)
        object.__setattr__(self, "rho", rho)
        _check_lag(self.lag)
        checked_support(self.law)
        hidden = tuple(r**self.lag for r in rho) if isinstance(rho, tuple) else rho**self.lag
        object.__setattr__(self, "hidden", hidden)
        object.__setattr__(self, "scores", None if self.gaussian else NormalScores(self.law))

    @property
    def correlation(self) -> float | tuple[float, ...]:
        if isinstance(self.hidden, tuple):
            return tuple(self._correlation(r) for r in self.hidden)
        return self._correlation(self.hidden)

    @property
    def gaussian(self) -> bool:
        one = isinstance(self.law, Mixture) and len(self.law.weights) == 1
        return one or self.law in (Normal(), GeneralizedNormal(2.0))

    def sample(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw n pairs, each (n, dim)."""
        y = self._first(n, generator)
        both = self._observed(torch.stack((y, self._moved(y, generator)))).float()
        return both[0], both[1]

    def step(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """Move every latent `lag` forward in time: (..., dim) to (..., dim)."""
        return self._observed(self._moved(self.embed(z), generator)).to(z.dtype)

    def trajectory(self, n: int, steps: int, generator: torch.Generator) -> Tensor:
        """Draw n stationary paths: (steps, n, dim), neighbors `lag` apart."""
        y = self._first(n, generator)
        path = [self._observed(y).float()]
        for _ in range(check_samples(steps) - 1):
            y = self._moved(y, generator)
            path.append(self._observed(y).float())
        return torch.stack(path)

    def embed(self, z: Tensor) -> Tensor:
        """The hidden y of latents, which is the best embedding: (..., dim) to (..., dim), float64.

        Outside the support it is that of the support's end, as far as the map reaches.

        Raises:
            ValueError: z has another number of coordinates, or is not finite.
        """
        if z.shape[-1:] != (self.dim,):
            raise ValueError(f"z must have {self.dim} coordinates, got shape {tuple(z.shape)}")
        if not torch.isfinite(z).all():
            raise ValueError("z must be finite, got NaN or Inf")
        return z.double() if self.scores is None else self.scores.to_y(z)

    def _first(self, n: int, generator: torch.Generator) -> Tensor:
        # float64: the 24 bits of a float32 draw end at |y| = 5.8, which heavy tails show
        return torch.randn(check_samples(n), self.dim, generator=generator, dtype=torch.float64)

    def _moved(self, y: Tensor, generator: torch.Generator) -> Tensor:
        r = torch.tensor(self.hidden, dtype=torch.float64)
        noise = torch.randn(y.shape, generator=generator, dtype=torch.float64)
        return r * y + torch.sqrt((1 - r) * (1 + r)) * noise

    def _observed(self, y: Tensor) -> Tensor:
        return y if self.scores is None else self.scores.to_z(y)

    def _correlation(self, r: float) -> float:
        # a lag so long or short that r is 0 or 1 in float64 leaves nothing to integrate
        return r if self.scores is None or not 0 < r < 1 else self.scores.correlation(r)


@runtime_checkable
class Process(Protocol):
    """A source of latent pairs.

    Attributes:
        dim: number of latent coordinates.
        correlation: correlation of each coordinate across a pair; a tuple when they differ.
        gaussian: whether the latents are exactly N(0, I), which the theorems ask for.
    """

    @property
    def dim(self) -> int: ...

    @property
    def correlation(self) -> float | tuple[float, ...]: ...

    @property
    def gaussian(self) -> bool: ...

    def sample(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw n pairs, each (n, dim)."""
        ...


@runtime_checkable
class MovingProcess(Process, Protocol):
    """A process that can be followed in time."""

    def trajectory(self, n: int, steps: int, generator: torch.Generator) -> Tensor:
        """Draw n paths: (steps, n, dim), neighbors as far apart as the two ends of a pair."""
        ...


@runtime_checkable
class OrderedProcess(Process, Protocol):
    """A process of recorded paths."""

    def in_order(self) -> Self:
        """The same process, whose pairs come path after path."""
        ...


@dataclass(frozen=True)
class OrnsteinUhlenbeck:
    """The stationary Gaussian process of unit variance, seen at two times `lag` apart.

    Args:
        dim: number of coordinates.
        rho: correlation after one unit of time, in (0, 1); one number, or one per coordinate.
        lag: time between the two views, any positive number.

    Example:
        >>> from isojepa.seeds import generator
        >>> z, z_next = OrnsteinUhlenbeck(dim=2, rho=0.95).sample(8, generator(0, "data"))
    """

    dim: int
    rho: float | Sequence[float] = 0.95
    lag: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", _check_dim(self.dim))
        object.__setattr__(self, "rho", check_rho(self.rho, self.dim))
        _check_lag(self.lag)

    @property
    def correlation(self) -> float | tuple[float, ...]:
        if isinstance(self.rho, tuple):
            return tuple(r**self.lag for r in self.rho)
        after: float = float(self.rho) ** self.lag  # type: ignore[arg-type]
        return after

    @property
    def gaussian(self) -> bool:
        return True

    def sample(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw n pairs, each (n, dim)."""
        z = torch.randn(check_samples(n), self.dim, generator=generator)
        return z, self.step(z, generator)

    def step(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """Move every latent `lag` forward in time: (..., dim) to (..., dim)."""
        r = torch.tensor(self.correlation, dtype=torch.float64)
        noise = torch.randn(z.shape, generator=generator, dtype=z.dtype)
        return r.to(z.dtype) * z + torch.sqrt(1 - r**2).to(z.dtype) * noise

    def trajectory(self, n: int, steps: int, generator: torch.Generator) -> Tensor:
        """Draw n stationary paths: (steps, n, dim), neighbors `lag` apart."""
        path = [torch.randn(check_samples(n), self.dim, generator=generator)]
        for _ in range(check_samples(steps) - 1):
            path.append(self.step(path[-1], generator))
        return torch.stack(path)


@dataclass(frozen=True)
class NoisyCopies:
    """Two noisy copies of a hidden center.

    Args:
        dim: number of coordinates.
        rho: correlation of each copy with the center, in (0, 1); the copies correlate by rho^2.
        law: law of the center and of the noise, mean 0 and variance 1.
    """

    dim: int
    rho: float | Sequence[float] = 0.95
    law: Law = field(default_factory=Normal)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", _check_dim(self.dim))
        object.__setattr__(self, "rho", check_rho(self.rho, self.dim))

    @property
    def correlation(self) -> float | tuple[float, ...]:
        if isinstance(self.rho, tuple):
            return tuple(r**2 for r in self.rho)
        return float(self.rho) ** 2  # type: ignore[arg-type]

    @property
    def gaussian(self) -> bool:
        return self.law in (Normal(), GeneralizedNormal(2.0))

    def sample(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw n pairs, each (n, dim)."""
        shape = (check_samples(n), self.dim)
        exact = torch.tensor(self.rho, dtype=torch.float64)
        rho, noise = exact.float(), torch.sqrt(1 - exact**2).float()
        center = self.law.sample(shape, generator)
        z = rho * center + noise * self.law.sample(shape, generator)
        return z, rho * center + noise * self.law.sample(shape, generator)


_Rho = float | tuple[float, ...]


class ProcessSpec(Spec):
    """What the spec of a process answers besides."""

    def facts(self) -> Facts:
        """Dimension, whether the latents are Gaussian and, where it is cheap, their correlation."""
        process: Process = self.build(Context())
        return Facts(process.dim, process.correlation, process.gaussian)


@register("process", "ornstein-uhlenbeck", default=True)
@dataclass(frozen=True)
class OrnsteinUhlenbeckSpec(ProcessSpec):
    """The stationary Gaussian process of unit variance."""

    costless: ClassVar = ("rho", "lag")
    dim: int = 2
    """Number of latents."""
    rho: _Rho = 0.95
    """Correlation after one unit of time, in (0, 1): one for all latents, or one each."""
    lag: float = 1.0
    """Time between the views of a pair."""

    def build(self, context: Context) -> Process:
        return OrnsteinUhlenbeck(self.dim, self.rho, self.lag)


@register("process", "langevin")
@dataclass(frozen=True)
class LangevinSpec(OrnsteinUhlenbeckSpec):
    """The stationary, reversible diffusion of a law."""

    law: Spec = component_field("law", NormalSpec)
    """Law of each latent; `isojepa list laws`."""

    def build(self, context: Context) -> Process:
        return Langevin(self.dim, self.law.build(context), self.rho, self.lag)

    def facts(self) -> Facts:
        if self.law.build(Context()) in (Normal(), GeneralizedNormal(2.0)):
            return OrnsteinUhlenbeckSpec(self.dim, self.rho, self.lag).facts()
        return Facts(self.dim, None, False)  # the correlation of other laws takes their diffusion


@register("process", "copula")
@dataclass(frozen=True)
class CopulaSpec(LangevinSpec):
    """Any law with the dependence of an Ornstein-Uhlenbeck process."""

    def build(self, context: Context) -> Process:
        return Copula(self.dim, self.law.build(context), self.rho, self.lag)


@register("process", "noisy-copies")
@dataclass(frozen=True)
class NoisyCopiesSpec(ProcessSpec):
    """Two noisy copies of a hidden center, which correlate by rho^2."""

    costless: ClassVar = ("rho",)
    dim: int = 2
    """Number of latents."""
    rho: _Rho = 0.95
    """Correlation of each copy with the center, in (0, 1): one for all latents, or one each."""
    law: Spec = component_field("law", NormalSpec)
    """Law of the center and of the noise; `isojepa list laws`."""

    def build(self, context: Context) -> Process:
        return NoisyCopies(self.dim, self.rho, self.law.build(context))


_LINK, _NEAR, _FAR = 0.12, 0.05, 0.20  # lengths of the links and range of the targets, in metres
_LIMIT = 2.79  # of the wrist, in radians
_REBOUND = -0.2  # share of its speed that the wrist keeps at the limit
_GAIN, _DAMPING, _TORQUE = (0.012, 0.020), (0.22, 0.28), 0.03
_FLATNESS = 0.5  # how much tanh bends the shoulder's goals: 0 would be Gaussian


@dataclass(frozen=True)
class GoalReaching:
    """A two-joint arm that a stochastic policy drives to random goals.

    Args:
        rest: mean number of steps between two goals.
        persistence: correlation of the shoulder's goal with the one before, in [0, 1).
        span: largest shoulder angle that is ever a goal, in radians.
        jitter: noise of the policy on each joint, per step (standard deviation).

    Example:
        >>> from isojepa.seeds import generator
        >>> GoalReaching().trajectory(5, 20, generator(0, "data")).shape
        torch.Size([20, 5, 2])
    """

    rest: float = 170.0
    persistence: float = 0.5
    span: float = 4.9
    jitter: tuple[float, float] = (0.014, 0.024)

    def __post_init__(self) -> None:
        validate_fields(self)
        if not 1 <= self.rest < math.inf:
            raise ValueError(f"rest must be at least 1 step and finite, got {self.rest}")
        if not 0 <= self.persistence < 1:
            raise ValueError(f"persistence must lie in [0, 1), got {self.persistence}")
        if not 0 < self.span < math.inf:
            raise ValueError(f"span must be positive and finite, got {self.span}")
        if len(self.jitter) != 2 or not all(0 <= sigma < math.inf for sigma in self.jitter):
            raise ValueError(f"jitter must be two numbers that are not negative, got {self.jitter}")

    @property
    def dim(self) -> int:
        """Number of joint angles."""
        return 2

    def trajectory(self, n: int, steps: int, generator: torch.Generator) -> Tensor:
        """Draw n paths of joint angles in radians: (steps, n, 2), after a burn-in of two rests."""
        for name, value in {"n": n, "steps": steps}.items():
            if int(value) != value or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value}")
        gain, damping, jitter = (
            torch.tensor(value, dtype=torch.float64) for value in (_GAIN, _DAMPING, self.jitter)
        )
        hidden = torch.randn(n, generator=generator, dtype=torch.float64)
        goal = torch.stack((self._shoulder(hidden), _wrist(n, generator)), 1)
        angle, speed = goal.clone(), torch.zeros_like(goal)
        path = torch.empty(steps, n, 2, dtype=torch.float64)
        for step in range(-math.ceil(2 * self.rest), steps):
            fresh = torch.rand(n, generator=generator) * self.rest < 1
            draw = torch.randn(n, generator=generator, dtype=torch.float64)
            renewed = self.persistence * hidden + math.sqrt(1 - self.persistence**2) * draw
            hidden = torch.where(fresh, renewed, hidden)
            aim = torch.stack((self._shoulder(hidden), _wrist(n, generator)), 1)
            goal = torch.where(fresh[:, None], aim, goal)
            noise = torch.randn(n, 2, generator=generator, dtype=torch.float64)
            pull = (gain * (goal - angle) - damping * speed).clamp(-_TORQUE, _TORQUE)
            speed = speed + pull + jitter * noise
            angle = angle + speed
            hit = angle[:, 1].abs() > _LIMIT
            speed[:, 1] = torch.where(hit, _REBOUND * speed[:, 1], speed[:, 1])
            angle[:, 1] = angle[:, 1].clamp(-_LIMIT, _LIMIT)
            if step >= 0:
                path[step] = angle
        return path

    def _shoulder(self, hidden: Tensor) -> Tensor:
        return self.span * torch.tanh(_FLATNESS * hidden)


def _wrist(n: int, generator: torch.Generator) -> Tensor:
    """Wrist angles of targets uniform on a ring, elbow up or down alike (law of cosines)."""
    share = torch.rand(n, generator=generator, dtype=torch.float64)
    squared = _NEAR**2 + share * (_FAR**2 - _NEAR**2)
    angle = torch.arccos((squared / (2 * _LINK**2) - 1).clamp(-1, 1))
    up = torch.rand(n, generator=generator) < 0.5
    return torch.where(up, angle, -angle)
