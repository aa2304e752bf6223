"""Linear-Gaussian worlds and encoders made at random, of which everything is known in closed form.

Worlds in which a transition is fitted, seen through a rotation,

    z' = A z + B a + noise,  a = K z + dither,  h = Q z,

and worlds that are regulated by what an encoder with a nonlinear error sees, h = Q z + U sin(V z).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from isojepa.certificates.invariants import Invariants, gramian, inner_products
from isojepa.planning import LinearSystem, Lqr
from isojepa.seeds import generator
from isojepa.statistics.intervals import Interval

Policy = Callable[[np.ndarray, torch.Generator], np.ndarray]  # states (n, dim) -> actions (n, actions)
_FORGET = 100  # steps before the first that counts
_ROUNDING = 1e-9


@dataclass(frozen=True)
class LinearWorld:
    """A world with a policy and an encoder that is a rotation.

    Attributes:
        a, b: (dim, dim) and (dim, actions) of the transition.
        gain: (actions, dim) K of the actions.
        noise: (dim, dim) root of the covariance of the transition's noise.
        dither: standard deviation (std) of the part of each action that the state does not decide.
        q: (dim, dim) of h = Q z.
    """

    a: np.ndarray
    b: np.ndarray
    gain: np.ndarray
    noise: np.ndarray
    dither: float
    q: np.ndarray

    @property
    def turned(self) -> tuple[np.ndarray, np.ndarray]:
        """A and B in the encoder's coordinates."""
        return self.q @ self.a @ self.q.T, self.q @ self.b

    def act(self, z: np.ndarray, source: torch.Generator) -> np.ndarray:
        """Actions (n, actions) in states (n, dim)."""
        return np.asarray(z @ self.gain.T + self.dither * normal(source, len(z), len(self.gain)))

    def paths(
        self, count: int, steps: int, source: torch.Generator, policy: Policy | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Latents (steps + 1, count, dim) after a burn-in of a hundred steps, and actions."""
        act, dim = policy or self.act, len(self.a)
        z = normal(source, count, dim)
        latents, taken = [], []
        for step in range(_FORGET + steps):
            action = act(z, source)
            if step >= _FORGET:
                latents.append(z)
                taken.append(action)
            z = z @ self.a.T + action @ self.b.T + normal(source, count, dim) @ self.noise.T
        return np.stack([*latents, z]), np.stack(taken)


def normal(source: torch.Generator, *shape: int) -> np.ndarray:
    """Standard normal numbers."""
    return torch.randn(*shape, generator=source, dtype=torch.float64).numpy()


def random_world(seed: int, dim: int, actions: int, feedback: bool = False) -> LinearWorld:
    """A random world whose closed loop is stable."""
    source = generator(seed, "world", dim, actions, int(feedback))
    a = normal(source, dim, dim)
    radius = 0.3 + 0.65 * float(torch.rand(1, generator=source))
    a *= radius / np.abs(np.linalg.eigvals(a)).max()
    b = normal(source, dim, actions) / np.sqrt(dim)
    noise = 0.3 * np.eye(dim) + 0.2 * normal(source, dim, dim) / np.sqrt(dim)
    gain = np.zeros((actions, dim))
    if feedback:
        gain = normal(source, actions, dim) / np.sqrt(dim)
        while np.abs(np.linalg.eigvals(a + b @ gain)).max() > 0.95:
            gain = 0.7 * gain
    q = np.linalg.qr(normal(source, dim, dim))[0]
    return LinearWorld(a, b, gain, noise, 0.5, q)


def covered(values: Invariants, a: np.ndarray, b: np.ndarray) -> dict[str, bool]:
    """Of each kind of invariant, whether all of its intervals hold the truth at once.

    Args:
        values: the intervals.
        a, b: the true transition, in any rotation.
    """
    truth = np.linalg.eigvals(a)
    fitted = np.array([one.estimate for one in values.eigenvalues])
    truth = truth[linear_sum_assignment(np.abs(fitted[:, None] - truth))[1]]
    parts = {"real": truth.real, "imag": truth.imag, "modulus": np.abs(truth)}
    held = {
        "eigenvalues of A": all(
            within(getattr(one, name), exact)
            for name, expected in parts.items()
            for one, exact in zip(values.eigenvalues, expected, strict=True)
        )
    }
    reached = np.linalg.eigvalsh(gramian(a, b, values.horizon))[::-1]
    for name, expected, ends in (
        ("singular values of B", np.linalg.svd(b, compute_uv=False), values.singular_values),
        ("Gramian", reached, values.gramian),
    ):
        held[name] = all(within(one, exact) for one, exact in zip(ends, expected, strict=True))
    responses = inner_products(a, b, len(a))
    low, high = values.responses_low - _ROUNDING, values.responses_high + _ROUNDING
    held["impulse responses"] = bool(((low <= responses) & (responses <= high)).all())
    return held


def within(interval: Interval, truth: float) -> bool:
    """Whether an interval holds a number, up to rounding."""
    return bool(interval.low - _ROUNDING <= truth <= interval.high + _ROUNDING)


def regulated_world(seed: int, dim: int, inputs: int = 2) -> Lqr:
    """A system with noise, now and then unstable, and costs; its best loop has variances below 1.6."""
    a, b = normal(_stream("A", seed), dim, dim), normal(_stream("B", seed), dim, inputs)
    a *= _between("radius", seed, 0.3, 1.1) / np.abs(np.linalg.eigvals(a)).max()
    w, r = normal(_stream("W", seed), dim, dim), normal(_stream("R", seed), inputs, inputs)
    w, r = np.eye(dim) / 2 + w @ w.T / dim, np.eye(inputs) / 2 + r @ r.T / inputs
    noise = normal(_stream("N", seed), dim, dim)
    noise = np.eye(dim) + noise @ noise.T / dim
    loop = Lqr(LinearSystem(a, b, noise), w, r)
    widest = np.linalg.eigvalsh(loop.system.covariance(loop.gain))[-1]
    return Lqr(LinearSystem(a, b, noise * _between("width", seed, 0.3, 1.6) / widest), w, r)


@dataclass(frozen=True)
class Sines:
    """h = Q z + U sin(V z), whose error has mean 0, a known power and a known Lipschitz constant."""

    q: np.ndarray
    u: np.ndarray
    v: np.ndarray

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """Embeddings (n, dim) of latents (n, dim)."""
        return np.asarray(z @ self.q.T + np.sin(z @ self.v.T) @ self.u.T)

    @property
    def power(self) -> float:
        """E |U sin(V z)|^2, from E sin(a z) sin(b z) = (exp(-|a - b|^2 / 2) - exp(-|a + b|^2 / 2)) / 2."""
        apart, together = (((self.v[:, None] + sign * self.v[None]) ** 2).sum(2) for sign in (-1, 1))
        return float(np.trace(self.u.T @ self.u @ (np.exp(-apart / 2) - np.exp(-together / 2)) / 2))

    @property
    def lipschitz(self) -> float:
        """|U| |V|, a bound of the error's slope everywhere."""
        return float(np.linalg.norm(self.u, 2) * np.linalg.norm(self.v, 2))


def sines(seed: int, dim: int, lipschitz: float) -> Sines:
    """An encoder with a given Lipschitz constant of its error, of several frequencies."""
    v = normal(_stream("V", seed), 3, dim) * _between("frequency", seed, 0.3, 4.0)
    u = normal(_stream("U", seed), dim, 3)
    u *= lipschitz / (np.linalg.norm(u, 2) * np.linalg.norm(v, 2))
    return Sines(np.linalg.qr(normal(_stream("rotation", seed), dim, dim))[0], u, v)


def _stream(name: str, seed: int) -> torch.Generator:
    return generator(0, "tests", name, seed)  # the tests look at the same worlds


def _between(name: str, seed: int, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), generator=_stream(name, seed), dtype=torch.float64))
