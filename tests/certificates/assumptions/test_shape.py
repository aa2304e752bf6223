"""Gaussianity of the shape: limit law, bend, search."""

import numpy as np
import pytest
from scipy.stats import laplace, norm

from isojepa.certificates.assumptions.sample import draw_sample
from isojepa.certificates.assumptions.shape import (
    _limit,
    _simulated,
    bend,
    check_gaussianity,
    normal_pvalues,
    search_directions,
)
from tests.certificates.assumptions.worlds import both, gaussian, rotation, uniform


def line(z, of="latents", rows=2000, seed=0):
    sample = draw_sample(z, None, of, seed)
    return check_gaussianity(sample, search_directions(sample, rows), rows, 0.95)


def test_the_limit_law_is_that_of_large_simulated_samples():
    values = _simulated(500).values
    for level in (0.5, 0.1, 0.01):
        quantile = values[int((1 - level) * len(values))]
        assert _limit().tail(quantile) == pytest.approx(level, abs=4 * np.sqrt(level / len(values)))


@pytest.mark.parametrize("n", [30, 200, 600])
def test_p_values_of_normal_samples_are_uniform_whatever_mean_and_deviation(n):
    count = 4000 if n < 512 else 1000  # the limit law takes time
    x = 3 + 7 * np.random.default_rng(0).standard_normal((n, count))
    p = normal_pvalues(x)
    for level in (0.5, 0.05, 0.01):
        assert np.mean(p <= level) == pytest.approx(level, abs=4 * np.sqrt(level / count))


def test_the_bend_of_known_laws():
    u = (np.arange(200_000) + 0.5) / 200_000
    assert bend(norm.ppf(u)[:, None])[0] == pytest.approx(0, abs=1e-6)
    assert bend(u[:, None])[0] == pytest.approx(1 - 3 / np.pi, abs=1e-4)  # corr^2(u, q) = 12 E[u q]^2 = 3/pi
    truth = 1 - np.mean(laplace.ppf(u) * norm.ppf(u)) ** 2 / 2
    assert bend(laplace.ppf(u)[:, None])[0] == pytest.approx(truth, abs=1e-3)


def test_uniform_latents_are_found_in_turned_embeddings():
    h = both(lambda z: z @ rotation(16), uniform(8000, 16))[0]
    found = line(h, of="embeddings")
    assert found.verdict == "fails"
    assert "searched for" in found.sentence


def test_a_search_on_one_half_gives_no_false_alarm_on_the_other():
    ps = np.array([line(gaussian(300, 20, seed=seed)[0], seed=seed).p for seed in range(16)])
    assert np.mean(ps <= 0.05) <= 0.2
