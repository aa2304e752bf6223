"""p-values of wrong pairings, by their definition; taming of outliers."""

import numpy as np
import pytest

from isojepa.statistics.nulls import PairingPlan, tame


def test_shifts_stay_inside_and_pair_each_row_with_one_s_steps_on() -> None:
    plan = PairingPlan.shifts(101, 10)
    assert plan is not None
    partners = list(plan.partners())
    assert len(partners) == 1 + plan.draws == 21
    assert (partners[0] == plan.rows).all()
    steps = sorted(int(other[0] - plan.rows[0]) for other in partners)
    assert steps == list(range(-20, 21, 2))
    assert min(map(min, partners)) >= 0
    assert max(map(max, partners)) <= 100


def test_too_few_rows_have_no_shifts() -> None:
    assert PairingPlan.shifts(35) is None


def test_p_counts_the_true_pairing_and_is_twice_as_careful_for_shifts() -> None:
    scores = np.array([2.0, *range(20)])  # 18 of 20 wrong pairings are as good
    assert PairingPlan.permutations(50, 20, 0).p_value(scores) == pytest.approx(19 / 21)
    assert PairingPlan.permutations(50, 20, 0).p_value(scores, higher_is_better=False) == pytest.approx(
        4 / 21
    )
    plan = PairingPlan.shifts(200, 10)
    assert plan is not None
    assert plan.p_value(np.array([18.0, *range(20)])) == pytest.approx(3 / 11)
    assert plan.p_value(scores) == 1.0


def test_random_pairings_are_the_same_for_one_seed() -> None:
    one, two, other = (list(PairingPlan.permutations(30, 3, seed).partners()) for seed in (0, 0, 1))
    assert all((a == b).all() for a, b in zip(one, two, strict=True))
    assert any((a != b).any() for a, b in zip(one, other, strict=True))


def test_far_rows_vanish_and_others_are_white() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 4)) @ rng.normal(size=(4, 4))
    rows[3] *= 1e4
    white = tame(rows)
    assert np.linalg.norm(white[3]) < 0.01
    covariance = np.cov(white.T)
    assert covariance / covariance[0, 0] == pytest.approx(np.eye(4), abs=0.15)
