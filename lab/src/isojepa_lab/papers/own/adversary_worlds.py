"""Adversaries in worlds that break an assumption: several rates, inertia, other laws, static content."""

import math

import numpy as np
import torch

from isojepa.data import Copula, Langevin
from isojepa.data.world import orthogonal
from isojepa.distributions import Uniform
from isojepa.distributions.densities import GeneralizedNormal
from isojepa_lab.papers.own.adversary import (
    PATHS,
    RHO,
    STEPS,
    Case,
    adversary,
    normal,
    truth_of,
    walk,
    whitened,
)

_SINCE = "0.3"


def _turned(z: np.ndarray, source: torch.Generator) -> np.ndarray:
    turned: np.ndarray = z @ orthogonal(z.shape[2], source).double().numpy()
    return turned


@adversary("two rates, 0.95 and 0.70", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return Case(_turned(walk(2, source, (0.95, 0.70)), source), None, 1.0, 0.0)


@adversary("two rates, one twice the other", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return Case(_turned(walk(2, source, (0.9, 0.81)), source), None, 1.0, 0.0)


@adversary("two rates added up", since=_SINCE)
def _(source: torch.Generator) -> Case:
    z = walk(4, source, (0.95, 0.95, 0.7, 0.7))
    return Case((z[..., :2] + z[..., 2:]) / math.sqrt(2), None, 1.0, 0.0)


@adversary("a rate and twice it added up", since=_SINCE)
def _(source: torch.Generator) -> Case:
    z = walk(4, source, (0.9, 0.9, 0.81, 0.81))
    return Case((z[..., :2] + z[..., 2:]) / math.sqrt(2), None, 1.0, 0.0)


@adversary("paths of different rates", since=_SINCE)
def _(source: torch.Generator) -> Case:
    half = PATHS // 2
    parts = [walk(2, source, rho, paths=half) for rho in (0.9, 0.6)]
    return Case(np.stack(parts, 2).reshape(STEPS, 2 * half, 2), None, 1.0, 0.0)


@adversary("static content beside", since=_SINCE)
def _(source: torch.Generator) -> Case:
    still = np.broadcast_to(normal((1, PATHS, 1), source), (STEPS, PATHS, 1))
    return Case(_turned(np.concatenate((walk(2, source), still), -1), source), None, 1.0, 0.0)


@adversary("static content added", since=_SINCE)
def _(source: torch.Generator) -> Case:
    z = walk(2, source)
    return Case(math.sqrt(0.8) * z + math.sqrt(0.2) * normal((1, PATHS, 2), source), None, 1.0, math.nan)


@adversary("a step late", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return Case(walk(2, source, steps=STEPS + 1)[:-1], RHO, 1.0, 0.0)


@adversary("backwards in time", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return Case(np.ascontiguousarray(walk(4, source)[::-1]), RHO, 1.0, 0.0)


@adversary("differences of steps", since=_SINCE)
def _(source: torch.Generator) -> Case:
    z = walk(2, source, steps=STEPS + 1)
    return Case(np.diff(z, axis=0) / math.sqrt(2 - 2 * RHO), None, 1.0, math.nan)


@adversary("means of steps", since=_SINCE)
def _(source: torch.Generator) -> Case:
    z = walk(2, source, steps=STEPS + 4)
    summed = sum(z[k : k + STEPS] for k in range(5))
    return Case(whitened(np.asarray(summed)), None, 1.0, math.nan)


def _second_order(a: float, b: float, source: torch.Generator) -> np.ndarray:
    """Paths of x' = a x + b x_before + noise, after it has forgotten its start."""
    warm = 100
    noise = normal((STEPS + warm, PATHS, 2), source)
    x = np.zeros_like(noise)
    for t in range(2, len(x)):
        x[t] = a * x[t - 1] + b * x[t - 2] + noise[t]
    return whitened(x[warm:])


@adversary("oscillation", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return Case(_second_order(1.6, -0.8, source), None, 1.0, math.nan)


@adversary("inertia without oscillation", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return Case(_second_order(1.3, -0.4, source), None, 1.0, math.nan)


@adversary("latents that turn", since=_SINCE)
def _(source: torch.Generator) -> Case:
    cos, sin = RHO * math.cos(0.3), RHO * math.sin(0.3)
    turn = np.array([[cos, -sin], [sin, cos]])
    z = normal((STEPS, PATHS, 2), source)
    for t in range(1, STEPS):
        z[t] = z[t - 1] @ turn.T + math.sqrt(1 - RHO**2) * z[t]
    return Case(z, None, 1.0, 0.0)


@adversary("copula of a uniform law", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return _copula(Copula(2, Uniform(), rho=RHO), source)


@adversary("copula of a peaked law", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return _copula(Copula(2, GeneralizedNormal(1.0), rho=RHO), source)


def _copula(process: Copula, source: torch.Generator) -> Case:
    """Latents of the law as they are; the Gaussian ones below them are what the truth is about."""
    h = process.trajectory(PATHS, STEPS, source).double().numpy()
    flat = h.reshape(-1, 2)
    order = np.argsort(np.argsort(flat, axis=0), axis=0)
    levels = torch.from_numpy((order + 0.5) / len(flat))
    linear, error = truth_of(whitened(h).reshape(-1, 2), torch.special.ndtri(levels).numpy())
    return Case(h, RHO, linear, error)


@adversary("Langevin in a peaked law", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return _langevin(GeneralizedNormal(1.2), source)


@adversary("Langevin in a flat law", since=_SINCE)
def _(source: torch.Generator) -> Case:
    return _langevin(GeneralizedNormal(6.0), source)


def _langevin(law: GeneralizedNormal, source: torch.Generator) -> Case:
    h = Langevin(2, law, rho=RHO).trajectory(PATHS, STEPS, source).double().numpy()
    return Case(h, None, math.nan, 0.0)


@adversary("latents with the noise of outliers", since=_SINCE)
def _(source: torch.Generator) -> Case:
    z = walk(2, source)
    rare = torch.rand(z.shape, generator=source, dtype=torch.float64).numpy() < 0.01
    h = math.sqrt(0.9) * z + math.sqrt(0.1) * 10 * rare * normal(z.shape, source)
    return Case(h, RHO, 0.9, 2 - 2 * math.sqrt(0.9))


@adversary("variance that changes from path to path", since=_SINCE)
def _(source: torch.Generator) -> Case:
    scale = np.exp(0.5 * normal((1, PATHS, 1), source) - 0.25)
    return Case(scale * walk(2, source), None, math.nan, math.nan)
