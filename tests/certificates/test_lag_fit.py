"""The split of curves that are known exactly."""

import numpy as np
import pytest

from isojepa.certificates.lag_curves import Curves, working_metric
from isojepa.certificates.lag_fit import STRAIN, basis, fit_lags, slowest_decay
from isojepa.certificates.mixture import share_interval

LAGS = np.array([1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48, 60])
RATE = 0.05


def exact(*mixtures, noise=1e-5):
    """Curves of shares {degree: share}, with redrawn copies of next to no error."""
    values = np.stack([sum(s * np.exp(-RATE * d * LAGS) for d, s in mixture.items()) for mixture in mixtures])
    draws = values + noise * np.random.default_rng(0).standard_normal((30, *values.shape))
    return Curves(LAGS, values, draws, 100.0)


def fitted(curves, rate=None, degree=4, least=0.5):
    return fit_lags(curves, working_metric(LAGS, RATE, 1e6), degree, rate, least)


@pytest.mark.parametrize(
    "mixture", [{1: 1.0}, {1: 0.97, 2: 0.03}, {1: 0.8, 3: 0.15, 4: 0.05}], ids=["linear", "near", "mixed"]
)
def test_the_rate_and_the_shares_of_an_exact_curve_are_found(mixture):
    found = fitted(exact(mixture, mixture))
    assert found.rate == pytest.approx(RATE, rel=0.03)
    assert found.shares[0] == pytest.approx(mixture[1], abs=0.04)
    known = fitted(exact(mixture, mixture), rate=RATE)
    np.testing.assert_allclose(known.shares[:4], [mixture.get(d, 0.0) for d in range(1, 5)], atol=5e-3)
    assert known.misfit < 3


def test_a_pure_direction_gives_the_rate_to_an_impure_whole():
    whole = {1: 0.6, 2: 0.4}
    found = fitted(exact(whole, {1: 1.0}, {1: 0.2, 2: 0.8}))
    assert found.rate == pytest.approx(RATE, rel=0.01)
    assert found.shares[0] == pytest.approx(0.6, abs=0.02)


def test_degree_two_alone_is_read_as_linear_if_that_is_what_the_law_says():
    curves = exact({2: 1.0}, {2: 1.0})
    assert fitted(curves).rate == pytest.approx(2 * RATE, rel=0.02)
    known = fitted(curves, rate=RATE)
    assert known.shares[0] < 1e-3
    assert known.shares[1] == pytest.approx(1, abs=1e-3)


def test_where_the_law_says_nothing_half_the_rate_does_as_well():
    found = fitted(exact({1: 1.0}, {1: 1.0}), least=0.0)
    assert found.region[0] < 0.55 * RATE
    assert found.linear.low < 0.01
    assert fitted(exact({1: 1.0}, {1: 1.0}), least=0.3).region[0] > 0.8 * RATE


@pytest.mark.parametrize("truth", [1.0, 0.9])
def test_the_interval_of_a_share_holds_it_also_where_it_can_be_no_larger(truth):
    # errors with the covariance of the metric; percentiles of redrawn shares leave 1 out in a third of these
    lags = LAGS[::2]
    metric = working_metric(lags, RATE, 4000)
    lower = np.linalg.inv(metric.factor)
    columns, rng = basis(RATE, lags, 2), np.random.default_rng(1)
    curve = truth * np.exp(-RATE * lags) + (1 - truth) * np.exp(-2 * RATE * lags)
    held = 0
    for _ in range(30):
        seen = curve + rng.standard_normal(len(lags)) @ lower.T
        errors = rng.standard_normal((40, len(lags))) @ lower.T
        found = share_interval(columns, seen, errors, metric, 0.95)
        held += found.low - 2e-3 <= truth <= found.high + 2e-3
        assert found.low <= found.estimate <= found.high
    assert held >= 25  # of 30, 28.5 expected


def test_noise_and_far_degrees_are_shares_of_their_own():
    found = fitted(exact({1: 0.8}, {1: 0.8}), rate=RATE)  # 0.2 is gone after one lag
    assert found.shares[-1] == pytest.approx(0.2, abs=1e-3)
    found = fitted(exact({1: 0.8, 12: 0.2}, {1: 1.0}), rate=RATE)
    assert found.shares[-2] == pytest.approx(0.2, abs=0.02)
    assert found.shares.sum() == pytest.approx(1, abs=1e-6)


def test_curves_of_no_single_exponential_strain_the_law():
    spread = {d: 1 / 15 for d in range(1, 30, 2)}
    assert fitted(exact(spread, spread)).strain > STRAIN
    assert fitted(exact({1: 1.0}, {1: 1.0})).strain < STRAIN


def test_the_wrong_rate_shows_as_a_misfit():
    curves = exact({1: 1.0}, {1: 1.0}, noise=1e-3)
    wrong, right = fitted(curves, rate=2 * RATE), fitted(curves, rate=RATE)
    assert wrong.misfit > wrong.misfit_draws.mean() + 20 * wrong.misfit_draws.std()
    assert right.misfit < right.misfit_draws.mean() + 5 * right.misfit_draws.std()


def test_the_mean_decay_is_no_slower_than_the_rate():
    for mixture in ({1: 1.0}, {1: 0.5, 2: 0.5}, {1: 0.1, 5: 0.9}):
        assert slowest_decay(exact(mixture).values, LAGS) >= RATE * (1 - 1e-9)
