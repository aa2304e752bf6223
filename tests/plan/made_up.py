"""Linear-Gaussian worlds and encoders whose errors are known in closed form."""

from dataclasses import dataclass

import numpy as np
import torch

from isojepa.plan import LinearSystem, Lqr
from isojepa.seeds import generator


def normal(*stream, size):
    return torch.randn(*size, generator=generator(0, "tests", *stream), dtype=torch.float64).numpy()


def uniform(*stream, low=0.0, high=1.0):
    drawn = torch.rand((), generator=generator(0, "tests", *stream), dtype=torch.float64)
    return low + (high - low) * float(drawn)


def rotation(size, *stream):
    return np.linalg.qr(normal("rotation", *stream, size=(size, size)))[0]


def world(seed, size, inputs=2):
    """A system with noise, now and then unstable, and costs; its best loop has variances below 1.6."""
    a = normal("A", seed, size=(size, size))
    a *= uniform("radius", seed, low=0.3, high=1.1) / np.abs(np.linalg.eigvals(a)).max()
    b = normal("B", seed, size=(size, inputs))
    w, r = normal("W", seed, size=(size, size)), normal("R", seed, size=(inputs, inputs))
    w, r = np.eye(size) / 2 + w @ w.T / size, np.eye(inputs) / 2 + r @ r.T / inputs
    noise = normal("N", seed, size=(size, size))
    noise = np.eye(size) + noise @ noise.T / size
    loop = Lqr(LinearSystem(a, b, noise), w, r)
    widest = np.linalg.eigvalsh(loop.system.covariance(loop.gain))[-1]
    return Lqr(LinearSystem(a, b, noise * uniform("width", seed, low=0.3, high=1.6) / widest), w, r)


@dataclass(frozen=True)
class Sines:
    """h = Q z + U sin(V z), whose error has mean 0, a known power and a known Lipschitz constant."""

    q: np.ndarray
    u: np.ndarray
    v: np.ndarray

    def __call__(self, z):
        return z @ self.q.T + np.sin(z @ self.v.T) @ self.u.T

    @property
    def power(self):
        """E |U sin(V z)|^2, from E sin(a z) sin(b z) = (exp(-|a - b|^2 / 2) - exp(-|a + b|^2 / 2)) / 2."""
        apart, together = (((self.v[:, None] + sign * self.v[None]) ** 2).sum(2) for sign in (-1, 1))
        return float(np.trace(self.u.T @ self.u @ (np.exp(-apart / 2) - np.exp(-together / 2)) / 2))

    @property
    def lipschitz(self):
        return float(np.linalg.norm(self.u, 2) * np.linalg.norm(self.v, 2))


def sines(seed, size, lipschitz):
    """An encoder with a given Lipschitz constant of its error, of several frequencies."""
    v = normal("V", seed, size=(3, size)) * uniform("frequency", seed, low=0.3, high=4.0)
    u = normal("U", seed, size=(size, 3))
    u *= lipschitz / (np.linalg.norm(u, 2) * np.linalg.norm(v, 2))
    return Sines(rotation(size, seed), u, v)
