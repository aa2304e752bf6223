"""What every stationary, reversible process of one coordinate must do, whatever its law."""

import math

import numpy as np
import torch
from scipy import stats

from isojepa.laws import GeneralizedNormal, Normal, StudentT, Uniform, bimodal

N = 40_000  # draws: they tell distribution functions apart by 0.01
LAWS = {
    "normal": (Normal(), stats.norm().cdf),
    "uniform": (Uniform(), stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)).cdf),
    "laplace": (GeneralizedNormal(1.0), stats.laplace(scale=1 / math.sqrt(2)).cdf),
    "student": (StudentT(5.0), stats.t(5, scale=math.sqrt(0.6)).cdf),
    "bimodal": (
        bimodal(4.0),
        lambda z: (stats.norm.cdf(z * 5**0.5 - 2) + stats.norm.cdf(z * 5**0.5 + 2)) / 2,
    ),
}


def assert_stationary(process, cdf, source):
    """Both views of a pair, and latents many steps later, have the law."""
    z, z_next = process.sample(N, source)
    late = z_next
    for _ in range(12):
        late = process.step(late, source)
    for sample in (z, z_next, late):
        assert stats.kstest(sample[:, 0].double().numpy(), cdf).pvalue > 1e-3
        assert torch.isfinite(sample).all()


def assert_standard(process, correlation, source):
    """Mean 0, variance 1, and the correlation between the views."""
    z, z_next = (part[:, 0].double() for part in process.sample(N, source))
    for sample in (z, z_next):
        square = sample**2
        assert abs(sample.mean().item()) < 6 / math.sqrt(N)
        assert abs(square.mean().item() - 1) < 6 * square.std().item() / math.sqrt(N)
    product = z * z_next
    assert abs(product.mean().item() - correlation) < 6 * product.std().item() / math.sqrt(N)


def assert_reversible(z, z_next, cdf):
    """Bowker's test of symmetry, of pairs sorted into eighths of the law."""
    a, b = (np.digitize(cdf(part), np.linspace(0, 1, 9)[1:-1]) for part in (z, z_next))
    counts = np.zeros((8, 8))
    np.add.at(counts, (a, b), 1)
    upper, lower = counts[np.triu_indices(8, 1)], counts.T[np.triu_indices(8, 1)]
    seen = upper + lower > 20
    statistic = ((upper - lower)[seen] ** 2 / (upper + lower)[seen]).sum()
    assert stats.chi2.sf(statistic, seen.sum()) > 1e-3
