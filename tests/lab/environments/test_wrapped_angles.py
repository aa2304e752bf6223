"""The ceiling of an angle seen modulo 2 pi: against simulation, and against functions that try to pass it."""

import math

import numpy as np
import pytest
import torch

from isojepa.linear import held_out_r2
from isojepa_lab.environments.wrapped_angles import (
    aligned_r2,
    conditional_mean,
    normal_r2,
    r2_ceiling,
    sample_ceiling,
    wrapped_share,
)

ANGLES = np.random.default_rng(0).normal(size=400_000)
SEEN = (ANGLES + math.pi) % (2 * math.pi) - math.pi


def explained(of_seen):
    return np.corrcoef(ANGLES, of_seen)[0, 1] ** 2


def test_angles_of_deviation_one_leave_five_percent_of_their_variance_open():
    bins = np.floor((SEEN + math.pi) / (2 * math.pi) * 1000).astype(int)
    mean = np.bincount(bins, ANGLES) / np.bincount(bins)
    left_open = ((ANGLES - mean[bins]) ** 2).mean()
    assert 1 - r2_ceiling() == pytest.approx(left_open, abs=0.005)
    assert 1 - r2_ceiling() == pytest.approx(0.0511, abs=1e-4)
    assert wrapped_share() == pytest.approx((np.abs(ANGLES) > math.pi).mean(), abs=2e-4)


def test_the_conditional_mean_attains_it_and_other_functions_do_not():
    assert explained(conditional_mean(SEEN)) == pytest.approx(r2_ceiling(), abs=0.005)
    ours = explained(conditional_mean(SEEN))
    for other in (SEEN, np.sin(SEEN), np.sin(SEEN / 2), SEEN**3, np.clip(SEEN, -2.5, 2.5)):
        assert explained(other) < ours - 0.001
    # regression on several functions at once reaches it from below
    many = np.stack([f(k * SEEN[:200_000]) for k in range(1, 12) for f in (np.sin, np.cos)], 1)
    whole = sample_ceiling(ANGLES[100_000:200_000, None])[0]
    assert held_out_r2(many, ANGLES[:200_000, None]) == pytest.approx(whole, abs=0.002)


def test_an_angle_that_never_winds_is_told_whole_and_one_that_often_does_not_at_all():
    assert r2_ceiling(0.2) == pytest.approx(1.0, abs=1e-12)
    assert r2_ceiling(1e-4) == pytest.approx(1.0, abs=1e-12)
    assert r2_ceiling(4.0) < 1e-4
    spreads = np.linspace(0.3, 3, 20)
    assert (np.diff([r2_ceiling(s) for s in spreads]) <= 1e-12).all()


def test_the_best_aligned_function_lies_below_the_ceiling_and_correlates_most():
    for rho in (0.3, 0.9, 0.99):
        assert 0.93 < aligned_r2(rho) < r2_ceiling()
        assert aligned_r2(rho, harmonics=24) == pytest.approx(aligned_r2(rho), abs=1e-6)
    # what is hardly forgotten at all keeps the ceiling: as rho goes to 0 the mean given the frame is best
    assert aligned_r2(0.01) == pytest.approx(r2_ceiling(), abs=1e-4)


def test_a_normal_function_of_frames_has_less_than_the_best_aligned_one():
    turned = (ANGLES + math.pi) % (2 * math.pi)
    scores = np.argsort(np.argsort(turned)) + 0.5
    normal = torch.special.ndtri(torch.tensor(scores / len(scores))).numpy()
    assert normal_r2() == pytest.approx(np.corrcoef(normal, ANGLES)[0, 1] ** 2, abs=0.005)
    assert normal_r2() < aligned_r2(0.99) < r2_ceiling()
    assert normal_r2(0.2) == pytest.approx(1.0, abs=1e-9)


def test_the_ceiling_of_a_sample_depends_on_its_tails():
    own = sample_ceiling(ANGLES[:10_000, None])[0]
    errors = ANGLES[:10_000] - conditional_mean(ANGLES[:10_000])
    assert own == pytest.approx(1 - (errors**2).mean() / ANGLES[:10_000].var())
    spread = np.std([sample_ceiling(part[:, None]) for part in ANGLES.reshape(40, -1)])
    assert 0.005 < spread < 0.02


@pytest.mark.parametrize("spread", [0.0, -1.0, math.nan, "wide"])
def test_a_spread_is_a_positive_number(spread):
    with pytest.raises(ValueError, match="spread must be positive and finite, got"):
        r2_ceiling(spread)
