"""Chance is what independent data gives, at any width and size; intervals hold what they promise."""

import numpy as np
import pytest
from scipy.stats import kstest

from isojepa.align import metrics as m
from isojepa.align.metrics import crossings
from tests.align.metrics.test_scores import SCORES

FEW = {"mean_cca", "svcca", "pwcca", "angular", "orthogonal"}  # p in steps of 1/25
COUNTS = {"overlap", "disagreement", "mutual", "cycle"}  # p in steps


def test_biased_cka_of_independent_data_is_a_fifth_at_32_rows_and_is_calibrated():
    rng = np.random.default_rng(0)
    found = [m.cka(rng.normal(size=(32, 8)), rng.normal(size=(32, 8))) for _ in range(100)]
    assert np.mean([c.value for c in found]) == pytest.approx(0.2, abs=0.02)
    assert np.mean([c.chance for c in found]) == pytest.approx(0.2, abs=0.02)
    assert np.mean([c.calibrated for c in found]) == pytest.approx(0, abs=0.02)
    wide = m.cka(rng.normal(size=(32, 256)), rng.normal(size=(32, 256)))
    assert wide.value > 0.85
    assert abs(wide.calibrated) < 0.2


def test_rotations_give_the_chance_of_permutations(monkeypatch):
    rng = np.random.default_rng(1)
    for widths in ((5, 8), (30, 40), (50, 58)):
        x, y = rng.standard_t(5, size=(60, widths[0])), rng.normal(size=(60, widths[1]))
        for score in (m.mean_cca, m.pwcca, m.angular_procrustes, m.orthogonal_procrustes):
            monkeypatch.setattr(crossings, "PERMUTED", 2_000)
            permuted = score(x, y, draws=400)
            monkeypatch.setattr(crossings, "PERMUTED", 0)
            rotated = score(x, y, draws=400)
            assert rotated.null == "400 rotations of 60 rows"
            error = 5 * permuted.chance_spread / 20
            assert rotated.chance == pytest.approx(permuted.chance, abs=error)
            assert rotated.chance_spread == pytest.approx(permuted.chance_spread, rel=0.25)


def test_mean_squared_canonical_correlation_at_chance_is_the_larger_width_over_rows():
    rng = np.random.default_rng(2)
    corners = [crossings._corner(199, 20, 12, rng) for _ in range(300)]
    found = np.array([float((c**2).sum()) / 12 for c in corners])
    assert found.mean() == pytest.approx(20 / 199, abs=4 * found.std() / 300**0.5)


def test_p_below_what_draws_can_tell_comes_from_their_spread():
    x = np.random.default_rng(3).normal(size=(100, 4))
    y = x + np.random.default_rng(4).normal(size=(100, 4))
    assert m.mean_cca(x, y, draws=39).p < 1e-6
    worse = m.mean_cca(x, y[::-1].copy(), draws=39)
    assert round(worse.p * 40) == pytest.approx(worse.p * 40) or worse.p < 1 / 40


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(40, 4, 4), (64, 12, 3), (150, 20, 60)])
@pytest.mark.parametrize("name", SCORES)
def test_p_of_independent_data_is_uniform_and_calibrated_values_are_0(name, shape):
    n, one, two = shape
    repeats = 300
    rng = np.random.default_rng([n, one, sum(map(ord, name))])
    options = {"ridge": 30.0} if name in ("mse", "r2") else {}
    found = [
        SCORES[name](rng.standard_t(6, size=(n, one)), rng.normal(size=(n, two)), seed=seed, **options)
        for seed in range(repeats)
    ]
    p = np.array([c.p for c in found])
    calibrated = np.array([c.calibrated for c in found])
    error = calibrated.std() / repeats**0.5
    assert abs(calibrated.mean()) < 4 * error + 0.02
    # counts at some levels, within four standard errors; scores that are counts may be more careful
    for level in (0.05, 0.2, 0.5):
        share, slack = (p <= level).mean(), 4 * (level * (1 - level) / repeats) ** 0.5
        assert share < level + slack, (level, share)
        if name not in COUNTS:
            assert share > level - slack - (1 / 25 if name in FEW else 0), (level, share)
    if name not in COUNTS | FEW:
        assert kstest(p, "uniform").pvalue > 1e-4


def linked(rng, n):
    z = rng.normal(size=(n, 4))
    return z @ np.diag([2.0, 1.0, 1.0, 0.5]) + 0.5 * rng.normal(size=(n, 4)), z + 0.5 * rng.normal(
        size=(n, 4)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SCORES if name not in ("mse", "r2")])
def test_intervals_hold_what_the_score_tends_to_be(name):
    """At the same number of rows, which is what most intervals promise."""
    rng = np.random.default_rng(sum(map(ord, name)))
    n = 150
    found = [SCORES[name](*linked(rng, n), null=False) for _ in range(300)]
    truth = np.mean([c.value for c in found])
    held = np.mean([c.interval.low <= truth <= c.interval.high for c in found])
    assert held >= 0.88, held


@pytest.mark.slow
@pytest.mark.parametrize("name", ["unbiased_cka", "dsc", "rsa"])
def test_intervals_of_unbiased_scores_hold_the_value_of_the_population(name):
    rng = np.random.default_rng(5)
    truth = np.mean([SCORES[name](*linked(rng, 2500), null=False).value for _ in range(20)])
    found = [SCORES[name](*linked(rng, 100), null=False).interval for _ in range(300)]
    assert np.mean([i.low <= truth <= i.high for i in found]) >= 0.88


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mse", "r2"])
def test_intervals_of_a_map_hold_its_score_on_all_states(name):
    from isojepa.align import AlignmentMap

    rng = np.random.default_rng(6)
    held = []
    for _ in range(200):
        fitted = AlignmentMap("ols").fit(*linked(rng, 60))
        interval = SCORES[name](*linked(rng, 80), map=fitted, null=False).interval
        truth = SCORES[name](*linked(rng, 20_000), map=fitted, null=False).value
        held.append(interval.low <= truth <= interval.high)
    assert np.mean(held) >= 0.88
