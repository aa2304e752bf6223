"""Adversaries in Gaussian worlds: linear maps, and functions that look like them."""

import math

import numpy as np
import scipy
import torch

from isojepa.data.world import orthogonal
from isojepa.seeds import generator
from isojepa_lab.papers.own.adversary import (
    PATHS,
    RHO,
    STEPS,
    Case,
    Maker,
    Map,
    adversary,
    mapped,
    normal,
    walk,
    whitened,
)

_SINCE, _NEXT = "0.3", "0.4"
_LONGER = 400  # steps of slow worlds


def turned(dim: int) -> Map:
    """A fixed rotation."""
    matrix = orthogonal(dim, generator(0, "adversary", "rotation", dim)).double().numpy()
    return lambda z: z @ matrix


def swirl(profile: Map, plane: int = 2) -> Map:
    """Each plane turned by an angle that depends on the radius, which keeps N(0, I)."""

    def turn(z: np.ndarray) -> np.ndarray:
        pairs = z.reshape(*z.shape[:-1], -1, 2)
        radius = (
            np.linalg.norm(z[..., :plane], axis=-1)[..., None]
            if plane > 2
            else np.hypot(pairs[..., 0], pairs[..., 1])
        )
        angle = profile(radius)
        cos, sin = np.cos(angle), np.sin(angle)
        x, y = pairs[..., 0], pairs[..., 1]
        return np.stack((cos * x - sin * y, sin * x + cos * y), -1).reshape(z.shape)

    return turn


def scores(cdf: Map, f: Map) -> Map:
    """Values forced to be Gaussian, by their distribution function."""
    return lambda z: scipy.special.ndtri(np.clip(cdf(f(z)), 1e-12, 1 - 1e-12))


def ranked(f: Map, latents: int) -> Map:
    """The same with a distribution function that was measured, of each dimension by itself."""
    samples = np.sort(f(normal((200_000, latents), generator(0, "adversary", "ranks"))), axis=0)
    levels = (np.arange(len(samples)) + 0.5) / len(samples)

    def force(z: np.ndarray) -> np.ndarray:
        values = f(z)
        levels_of_latents = [
            np.interp(values[..., k], samples[:, k], levels) for k in range(values.shape[-1])
        ]
        return np.asarray(scipy.special.ndtri(np.stack(levels_of_latents, -1)))

    return force


def he2(z: np.ndarray) -> np.ndarray:
    """The second Hermite polynomial, of variance 1."""
    return np.asarray((z**2 - 1) / math.sqrt(2))


def he3(z: np.ndarray) -> np.ndarray:
    """The third Hermite polynomial, of variance 1."""
    return np.asarray((z**3 - 3 * z) / math.sqrt(6))


def flow(wave: tuple[float, float], time: float, steps: int = 20) -> Map:
    """The flow of dz/dt = (d_2 g - z_2 g, z_1 g - d_1 g) with g = sin(wave . z), which keeps N(0, I)."""

    def velocity(z: np.ndarray) -> np.ndarray:
        phase = z @ np.array(wave)
        g, slope = np.sin(phase), np.cos(phase)
        return np.stack((wave[1] * slope - z[..., 1] * g, z[..., 0] * g - wave[0] * slope), -1)

    def move(z: np.ndarray) -> np.ndarray:
        h = time / steps
        for _ in range(steps):  # Runge and Kutta, order 4
            a = velocity(z)
            b = velocity(z + h / 2 * a)
            c = velocity(z + h / 2 * b)
            z = z + h / 6 * (a + 2 * b + 2 * c + velocity(z + h * c))
        return z

    return move


def products(count: int, dim: int = 2, share: float = 1.0) -> Maker:
    """Each direction a sum of products of latents of its own, with a latent beside if `share` is below 1."""

    def make(source: torch.Generator) -> Case:
        total = np.zeros((STEPS, PATHS, dim))
        for _ in range(count):
            total += walk(dim, source) * walk(dim, source)
        h = math.sqrt(share / count) * total
        if share < 1:
            h += math.sqrt(1 - share) * walk(dim, source)
        return Case(h, RHO, 1 - share, 2 - 2 * math.sqrt(1 - share), products=count)

    return make


for _name, _map, _latents in (
    ("one latent as it is", lambda z: z, 1),
    ("two latents as they are", lambda z: z, 2),
    ("rotation of 4", turned(4), 4),
    ("rotation of 8", turned(8), 8),
    ("rotation of 16", turned(16), 16),
    ("two of four latents", lambda z: z[..., :2], 4),
    ("swirl 0.3", swirl(lambda r: 0.3 * r), 2),
    ("swirl 0.5", swirl(lambda r: 0.5 * r), 2),
    ("swirl 1", swirl(lambda r: r), 2),
    ("swirl 2", swirl(lambda r: 2 * r), 2),
    ("twist by the square of the radius", swirl(lambda r: 0.4 * r**2), 2),
    ("twist that goes to and fro", swirl(lambda r: np.sin(3 * r)), 2),
    ("twist of three planes at once", swirl(lambda r: 0.8 * r, plane=6), 6),
    ("cosine of 2z + 0.3", lambda z: np.cos(2 * z + 0.3), 2),
    ("cosine of z", np.cos, 2),
    ("cosine of z + 1", lambda z: np.cos(z + 1), 2),
    ("sine of z", np.sin, 2),
    ("sine of 3z", lambda z: np.sin(3 * z), 2),
    ("degree 2", he2, 2),
    ("degree 2 in 8 dimensions", he2, 8),
    ("degree 3", he3, 2),
    ("degrees 1 and 2, half and half", lambda z: z + he2(z), 2),
    ("degrees 1 and 2, nine to one", lambda z: z + he2(z) / 3, 2),
    ("degrees 1 and 3, half and half", lambda z: z + he3(z), 2),
    ("degrees 1 and 3 that hide each other's kurtosis", lambda z: z - 0.4 * he3(z), 2),
    ("cube", lambda z: z**3, 2),
    ("tanh", np.tanh, 2),
    ("nearly the sign", lambda z: np.tanh(5 * z), 2),
    ("absolute value", np.abs, 2),
    ("normal scores of the absolute value", scores(scipy.special.erf, lambda z: np.abs(z) / math.sqrt(2)), 2),
    ("normal scores of a cosine", ranked(lambda z: np.cos(2 * z + 0.3), 2), 2),
    ("normal scores of a product", ranked(lambda z: z[..., :2] * z[..., 2:], 4), 4),
    (
        "normal scores of sums of 8 products",
        ranked(lambda z: (z[..., :16] * z[..., 16:]).reshape(*z.shape[:-1], 2, 8).sum(-1), 32),
        32,
    ),
    (
        "fold that keeps the Gaussian",
        scores(lambda u: 1 - np.abs(2 * u - 1), lambda z: scipy.special.ndtr(z)),
        2,
    ),
    (
        "fold in three",
        scores(lambda u: np.abs((3 * u) % 2 - 1), lambda z: scipy.special.ndtr(z)),
        2,
    ),
    ("a latent and its square", lambda z: np.concatenate((z, he2(z)), -1), 1),
    ("products of neighbours in 12 dimensions", lambda z: z * np.roll(z, 1, -1), 12),
    (
        "all products of 6 latents",
        lambda z: (z[..., :, None] * z[..., None, :])[..., *np.triu_indices(6, 1)],
        6,
    ),
    (
        "a latent with ten products beside",
        lambda z: z[..., :2] + 0.3 * (z[..., 2:22] * z[..., 22:]).reshape(*z.shape[:-1], 2, 10).sum(-1),
        42,
    ),
    ("radius turned inside out", lambda z: _inside_out(z), 2),
):
    adversary(_name, since=_SINCE)(
        lambda source, f=_map, latents=_latents: mapped(f, latents, source)  # type: ignore[misc]
    )

for _count in (2, 5, 10, 20, 50, 200):
    adversary(f"sum of {_count} products", since=_SINCE)(products(_count))

for _count in (60, 300):
    adversary(f"sum of {_count} products", since=_NEXT)(products(_count))
    adversary(f"a latent with a tenth of {_count} products", since=_NEXT)(products(_count, share=0.1))
for _name, _map in (
    ("flow along a long wave", flow((0.5, 0.25), 0.6)),
    ("flow along a wave", flow((1.0, 0.5), 0.35)),
    ("flow along a short wave", flow((2.0, 1.0), 0.3)),
):
    adversary(_name, since=_NEXT)(lambda source, f=_map: mapped(f, 2, source))  # type: ignore[misc]


def _inside_out(z: np.ndarray) -> np.ndarray:
    """The plane with near and far exchanged: exp(-r^2 / 2) becomes 1 - exp(-r^2 / 2), which keeps N(0, I)."""
    radius = np.maximum(np.linalg.norm(z, axis=-1, keepdims=True), 1e-9)
    other = np.sqrt(-2 * np.log(np.clip(-np.expm1(-(radius**2) / 2), 1e-300, 1)))
    return np.asarray(z / radius * other)


@adversary("slow latents", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return mapped(turned(4), 4, source, rho=0.95, steps=_LONGER)


@adversary("fast latents", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return mapped(turned(2), 2, source, rho=0.5)


@adversary("slow swirl", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return mapped(swirl(lambda r: 0.5 * r), 2, source, rho=0.95, steps=_LONGER)


@adversary("rotation and 10 % noise", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return mapped(turned(4), 4, source, noise=0.1)


@adversary("rotation and 50 % noise", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return mapped(turned(4), 4, source, noise=0.5)


@adversary("absolute value and noise", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return mapped(np.abs, 2, source, noise=0.4)


@adversary("sum of 10 products and noise", since=_SINCE)
def _(source: torch.Generator) -> Case:
    case = products(10)(source)
    noisy = math.sqrt(0.6) * case.h + math.sqrt(0.4) * normal(case.h.shape, source)
    return Case(noisy, case.rho, 0.0, 2.0, products=10)


@adversary("stretched latents", since=_SINCE)
def _(source: torch.Generator) -> Case:
    scales = np.array([1.5, 0.5])
    return Case(scales * walk(2, source), RHO, 1.0, float(((scales - 1) ** 2).mean()))


@adversary("half of the paths of degree 2", since=_SINCE)
def _(source: torch.Generator) -> Case:
    z = walk(2, source)
    h = z.copy()
    h[:, ::2] = he2(z[:, ::2])
    return Case(whitened(h), None, math.nan, 2 - 2 * 0.5)


@adversary("sums of 10 products in 12 dimensions", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return products(10, dim=12)(source)
