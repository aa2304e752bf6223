"""The copula world: any law on top of an Ornstein-Uhlenbeck process that stays hidden.

    y ~ N(0, I),   y' = r y + sqrt(1 - r^2) eta,   r = rho^lag,     z = T(y) = F^-1(Phi(y)) in each coordinate

T is the increasing map that gives z the law with distribution function F (`isojepa.laws.normal_scores`). A
monotone image of a stationary, reversible Markov process is one itself, so

    the law of every z is the one that was asked for,
    the joint law of (z, z') is symmetric, and its copula is the Gaussian one, whatever the law,
    two steps of a time t are one step of 2 t.

rho is the correlation of the hidden y. That of z is at most as large (Gebelein 1941), and no power of it in
the lag; `correlation` has it.

The transition operator is that of y: its eigenfunctions are Hermite's polynomials of y with the eigenvalues
r^k, for every law, heavy tails included. The best aligned white embedding is y itself up to a rotation, so a
linear map reads z off it with R^2 = corr(z, y)^2, below 1 for every law but the normal one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from isojepa.laws.densities import Density, GeneralizedNormal, Mixture, Normal
from isojepa.laws.domains import checked_support
from isojepa.laws.normal_scores import NormalScores
from isojepa.worlds.arguments import check_count, check_dim, check_lag, check_rho


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
        >>> from isojepa.laws import Uniform
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
        object.__setattr__(self, "dim", check_dim(self.dim))
        rho = check_rho(self.rho, self.dim)
        object.__setattr__(self, "rho", rho)
        check_lag(self.lag)
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
        """Draw n stationary paths: (steps, n, dim), neighbours `lag` apart."""
        y = self._first(n, generator)
        path = [self._observed(y).float()]
        for _ in range(check_count(steps) - 1):
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
        return torch.randn(check_count(n), self.dim, generator=generator, dtype=torch.float64)

    def _moved(self, y: Tensor, generator: torch.Generator) -> Tensor:
        r = torch.tensor(self.hidden, dtype=torch.float64)
        noise = torch.randn(y.shape, generator=generator, dtype=torch.float64)
        return r * y + torch.sqrt((1 - r) * (1 + r)) * noise

    def _observed(self, y: Tensor) -> Tensor:
        return y if self.scores is None else self.scores.to_z(y)

    def _correlation(self, r: float) -> float:
        # a lag so long or short that r is 0 or 1 in float64 leaves nothing to integrate
        return r if self.scores is None or not 0 < r < 1 else self.scores.correlation(r)
