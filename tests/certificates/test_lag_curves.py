"""Autocorrelation curves against loops, closed forms and repetition."""

import numpy as np
import pytest

from isojepa.certificates.lag_curves import (
    correlation,
    measure_curves,
    monomials,
    slow_functions,
    trajectories,
    working_metric,
)
from isojepa.seeds import generator
from tests.certificates.paths import ornstein_uhlenbeck


def source(*stream):
    return generator(0, "test", *stream)


def naive(h, lag):
    steps, paths, _ = h.shape
    top = bottom = 0.0
    for t in range(steps - lag):
        for n in range(paths):
            top += h[t, n] @ h[t + lag, n]
            bottom += (h[t, n] @ h[t, n] + h[t + lag, n] @ h[t + lag, n]) / 2
    return top / bottom


@pytest.mark.parametrize("paths", [3, 45])
def test_curves_equal_loops_but_for_the_correction_of_the_mean(paths):
    h = ornstein_uhlenbeck(np.random.default_rng(0), 40, paths, 2, 0.8)
    lags = np.array([1, 3])
    found = measure_curves([h], lags, 20, source()).values[0]
    plain = np.array([naive(h, 1), naive(h, 3)])
    np.testing.assert_allclose([correlation(h, 1), correlation(h, 3)], plain, rtol=1e-12)
    added = (found - plain) / (1 - found)  # (plain + v) / (1 + v) = found
    assert added[0] == pytest.approx(added[1], rel=1e-9)
    assert 0 < added[0] < 0.2


@pytest.mark.parametrize(("paths", "steps"), [(40, 30), (2, 600)], ids=["paths", "blocks"])
def test_the_correction_removes_the_bias_of_the_subtracted_mean(paths, steps):
    rng = np.random.default_rng(1)
    lags, found, plain = np.array([1, 5]), [], []
    together = ornstein_uhlenbeck(rng, steps, 100 * paths, 1, 0.9)
    for h in np.split(together, 100, axis=1):
        h = trajectories(7 + h)
        found.append(measure_curves([h], lags, 20, source()).values[0])
        plain.append([correlation(h, 1), correlation(h, 5)])
    error = np.std(found, 0) / np.sqrt(len(found))
    truth = 0.9**lags
    assert (np.abs(np.mean(found, 0) - truth) < np.abs(np.mean(plain, 0) - truth)).all()
    assert (np.abs(np.mean(found, 0) - truth) < 5 * error + 0.006).all()


@pytest.mark.parametrize(("paths", "steps"), [(60, 50), (1, 3000)], ids=["paths", "blocks"])
def test_redrawn_curves_spread_as_repeated_ones_do(paths, steps):
    rng = np.random.default_rng(2)
    lags, values, spread = np.array([1, 4, 8]), [], []
    for h in np.split(ornstein_uhlenbeck(rng, steps, 80 * paths, 1, 0.85), 80, axis=1):
        curves = measure_curves([trajectories(h)], lags, 60, source())
        values.append(curves.values[0])
        spread.append(curves.draws[:, 0].std(0))
    ratio = np.mean(spread, 0) / np.std(values, 0)
    assert (ratio > 0.75).all()
    assert (ratio < 1.3).all()


def test_the_slowest_direction_is_found_and_seen_on_other_data():
    rng = np.random.default_rng(4)
    z = ornstein_uhlenbeck(rng, 100, 200, 3, (0.95, 0.8, 0.5))
    matrix = rng.standard_normal((3, 3))
    y = slow_functions(z @ matrix, 5, 3)
    for index in range(3):
        halves = [
            np.corrcoef(y[:, s, index].ravel(), z[:, s, index].ravel())[0, 1] for s in np.s_[:100, 100:]
        ]
        assert min(map(abs, halves)) > 0.97


def test_slowness_of_equal_directions_is_not_inflated_by_the_search():
    rng = np.random.default_rng(5)
    first = []
    for h in np.split(ornstein_uhlenbeck(rng, 30, 1600, 6, 0.8), 40, axis=1):
        first.append(correlation(slow_functions(h, 3, 6)[..., :1], 3))
    error = np.std(first) / np.sqrt(len(first))
    assert abs(np.mean(first) - 0.8**3) < 4 * error + 0.005


def test_monomials_unwarp_what_they_can():
    z = ornstein_uhlenbeck(np.random.default_rng(6), 200, 200, 1, 0.9)
    h = np.cbrt(z + 2 * z**3 / 3)  # monotone, not linear
    h = h - h.mean()
    plain = np.corrcoef(h.ravel(), z.ravel())[0, 1] ** 2
    slow = slow_functions(monomials(h, 4000), 7, 1)[:, :100]
    unwarped = np.corrcoef(slow.ravel(), z[:, :100].ravel())[0, 1] ** 2
    assert unwarped > plain + 0.3 * (1 - plain)
    assert monomials(h, 10).shape == h.shape  # too few independent samples


def test_the_working_metric_is_bartletts_covariance():
    rng = np.random.default_rng(8)
    lags = np.array([1, 3, 8])
    values = []
    for h in np.split(ornstein_uhlenbeck(rng, 1500, 400, 1, 0.8), 400, axis=1):
        values.append([correlation(h, int(k)) for k in lags])
    factor = working_metric(lags, -np.log(0.8), 1500).factor
    white = (np.array(values) - 0.8**lags) @ factor.T
    assert np.diag(np.cov(white, rowvar=False)) == pytest.approx([1, 1, 1], abs=0.35)


@pytest.mark.parametrize(
    ("h", "message"),
    [
        (np.zeros(5), r"must be \(steps, paths, dim\), got shape"),
        (np.zeros((100, 2)), "must vary, got a constant"),
        (np.full((100, 2), 3.3), "must vary, got a constant"),
        (np.full((100, 2), np.nan), "must be finite, got NaN or Inf in 100 of 100"),
        (np.zeros((10, 2)), "at least 20 paths of 2 steps, or 64 steps, got 1 paths of 10 steps"),
        (np.zeros((1, 50, 2)), "at least 20 paths of 2 steps"),
    ],
    ids=["axes", "zero", "constant", "nan", "short", "step"],
)
def test_bad_trajectories_are_named(h, message):
    with pytest.raises(ValueError, match=message):
        trajectories(h)
