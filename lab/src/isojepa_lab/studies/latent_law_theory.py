"""What theory says of generalised normal latents in the three worlds, without any training.

    white      corr(z, f(z))^2 of the function f of one latent that is most alike across a pair: the best
               white embedding takes it. In the Langevin world f = phi_1, the first eigenfunction of the
               diffusion; in the copula world f = y, the hidden normal variable; for noisy copies the first
               singular function below. None where no function is the best.
    gaussian   corr(z, y(z))^2 with y = Phi^-1(F(z)), F the distribution function of z: an embedding that
               shows each latent and is exactly Gaussian.

Noisy copies z = rho c + sqrt(1 - rho^2) eta and z' are independent given c. With (K f)(c) = E[f(z) | c],
E[f(z) f(z')] = E (K f)^2, so the best f is the first singular function of K beside the constant. K is cut
into cells in which the masses of z given c are exact.

No function is the best when alpha is at most 1. Far out in such a tail a Langevin path drifts back at a
bounded speed (alpha = 1) or ever more slowly, so functions that live farther out are slower, without end;
and a far noisy copy is far because its center is, so both copies are far together. What the encoder takes
there is decided by how far out the samples reach, not by the law.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from scipy.special import gammaincc, ndtr, ndtri
from scipy.stats import spearmanr

from isojepa.certificates.eigenfunctions import predict_process, predict_r2
from isojepa.data import Copula, Langevin, NoisyCopies
from isojepa.distributions import GeneralizedNormal, NormalScores
from isojepa.seeds import generator

_CELLS = 400
_REACH = 6.0  # of the cells, in normal scores
_PAIRS = 20_000


@dataclass(frozen=True)
class Expected:
    """What theory says of one world and law.

    Attributes:
        white, gaussian: as the module says.
        rank: Spearman's correlation of z across a pair, from a sample: how alike typical pairs are, whatever
            the tails do.
    """

    white: float | None
    gaussian: float
    rank: float


@cache
def expected(world: str, alpha: float, rho: float) -> Expected:
    """Theory for a world by its name in configs."""
    law = GeneralizedNormal(alpha)
    if world == "noisy-copies":
        white, gaussian = noisy_copies(alpha, rho)
        return Expected(white, gaussian, _rank(NoisyCopies(1, rho, law)))
    gaussian = float(NormalScores(law).coefficients(1)[1] ** 2)
    if world == "langevin":
        return Expected(predict_r2(law) if alpha > 1 else None, gaussian, _rank(Langevin(1, law, rho)))
    process = Copula(1, law, rho)
    return Expected(predict_process(process).r2, gaussian, _rank(process))


def noisy_copies(alpha: float, rho: float, cells: int = _CELLS) -> tuple[float | None, float]:
    """`white` and `gaussian` of noisy copies."""
    noise = math.sqrt(1 - rho**2)
    scores = np.linspace(-_REACH, _REACH, cells + 1)
    to_z = NormalScores(GeneralizedNormal(alpha)).to_z
    edges = to_z(torch.from_numpy(scores)).numpy()
    centers = to_z(torch.from_numpy((scores[1:] + scores[:-1]) / 2)).numpy()
    mass = np.diff(ndtr(scores)) / (1 - 2 * ndtr(-_REACH))
    edges, middles = (rho + noise) * edges, (rho + noise) * centers  # as far as both parts together reach
    kernel = np.diff(_below(alpha, (edges - rho * centers[:, None]) / noise), axis=1)
    kernel /= kernel.sum(1, keepdims=True)
    marginal = mass @ kernel
    support = marginal > 0
    kernel, marginal, middles = kernel[:, support], marginal[support], middles[support]
    share = np.cumsum(marginal) - marginal / 2
    gaussian = _r2(middles, ndtri(np.clip(share, 1e-16, 1 - 1e-16)), marginal)
    if alpha <= 1:
        return None, gaussian
    _, _, functions = np.linalg.svd(np.sqrt(mass[:, None] / marginal) * kernel)
    return _r2(middles, functions[1] / np.sqrt(marginal), marginal), gaussian


def _below(alpha: float, z: np.ndarray) -> np.ndarray:
    """Distribution function of the generalised normal law: |x|^alpha is of law Gamma(1 / alpha)."""
    deviation = math.exp((math.lgamma(3 / alpha) - math.lgamma(1 / alpha)) / 2)
    tail = gammaincc(1 / alpha, np.abs(z * deviation) ** alpha) / 2
    return np.where(z < 0, tail, 1 - tail)


def _r2(a: np.ndarray, b: np.ndarray, mass: np.ndarray) -> float:
    """Squared correlation under weights."""
    a, b = a - mass @ a, b - mass @ b
    return float((mass @ (a * b)) ** 2 / ((mass @ a**2) * (mass @ b**2)))


def _rank(process: Langevin | Copula | NoisyCopies) -> float:
    z, z_next = process.sample(_PAIRS, generator(0, "latent-law", "rank"))
    return float(spearmanr(z[:, 0].numpy(), z_next[:, 0].numpy()).statistic)
