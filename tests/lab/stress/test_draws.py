"""Stress by mismatched and by few pairs."""

import itertools

import numpy as np
import pytest

from isojepa.alignment import AlignmentMap
from isojepa.alignment.maps import fit_robust
from isojepa_lab.stress import StressPlan, mismatched, pair_budget, pair_noise
from tests.lab.stress.worlds import pairs

QUICK = StressPlan(repeats=3, rows=200)


def test_as_many_pairs_as_asked_for_are_mismatched_and_none_with_its_own_state():
    ids = np.repeat(np.arange(40), 3)
    rng = np.random.default_rng(0)
    for share in (0.1, 0.3, 0.9):
        partner = mismatched(ids, share, rng)
        moved = partner != np.arange(120)
        assert int(moved.sum()) == round(share * 120)
        assert (ids[partner[moved]] != ids[moved]).all()
        assert sorted(partner) == list(range(120))
    assert (mismatched(ids, 0.0, rng) == np.arange(120)).all()
    with pytest.raises(ValueError, match="at most half of the mismatched rows, got 10 of 10"):
        mismatched(np.zeros(20, int), 0.5, rng)


def test_mismatched_pairs_cost_epsilon_squared_where_pairs_abound_and_leave_the_condition():
    first, second = pairs(16_000, 6, 6, 0.0)
    curve = pair_noise(first, second, shares=(0.0, 0.2, 0.4), plan=QUICK)
    r2 = [point.value for point in curve.of("r2")]
    assert [value / r2[0] for value in r2] == pytest.approx([1, 0.96, 0.84], abs=0.01)
    assert all(point.value < 1.25 for point in curve.of("condition"))
    for point in curve.of("r2"):
        assert point.predicted == pytest.approx(point.value, abs=0.01)


def test_few_pairs_and_mismatch_make_the_condition_grow_as_predicted():
    first, second = pairs(1200, 24, 24, 1.0, 0.02)
    curve = pair_noise(
        first, second, shares=(0.0, 0.3), pairs=90, plan=StressPlan(kind="ols", repeats=9, rows=200)
    )
    clean, noisy = curve.of("condition")
    assert noisy.value > 5 * clean.value
    for point in (clean, noisy):
        assert point.low <= point.value <= point.high
        assert 0.5 < point.predicted / point.value < 2
    assert curve.of("r2")[1].predicted == pytest.approx(curve.of("r2")[1].value, abs=0.05)


def test_a_budget_curve_rises_with_the_pairs_and_its_prediction_with_it():
    first, second = pairs(1600, 16, 16, 1.0)
    curve = pair_budget(first, second, budgets=(12, 30, 100, 800), plan=QUICK)
    r2 = curve.of("r2")
    assert [point.pairs for point in r2] == [12, 30, 100, 800]
    assert all(a.value < b.value for a, b in itertools.pairwise(r2))
    assert [p.predicted for p in r2[1:]] == pytest.approx([p.value for p in r2[1:]], abs=0.06)
    assert r2[0].predicted == pytest.approx(r2[0].value, abs=0.15)  # fewer pairs than dimensions
    assert [point.x for point in pair_budget(first, second, plan=QUICK).of("r2")] == [50, 100, 500, 800]


def test_a_curve_is_a_function_of_its_seed():
    first, second = pairs(300, 5, 5)
    one, two = (pair_budget(first, second, budgets=(40,), plan=QUICK).rows() for _ in range(2))
    other = pair_budget(first, second, budgets=(40,), plan=StressPlan(repeats=3, seed=1)).rows()
    assert one == two
    assert one != other
    assert set(one[0]) >= {"test", "axis", "x", "metric", "value", "low", "high", "predicted", "pairs"}


def test_rows_of_one_state_are_never_on_both_sides():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(120, 30))
    ids = np.repeat(np.arange(120), 3)
    first = states[ids]  # three equal rows of each state: leaks would be perfect
    second = rng.normal(size=(120, 4))[ids]  # unrelated, but the same for all rows of a state
    curve = pair_budget(first, second, ids, budgets=(150,), plan=StressPlan(repeats=2, predict=False))
    assert curve.of("r2")[0].value < 0.2
    assert curve.of("r2")[0].predicted is None


def test_another_way_to_fit_is_measured_and_kinds_without_theory_are_not_predicted():
    first, second = pairs(400, 5, 5)
    seen = []

    def fit(x, y):
        seen.append(len(x))
        return AlignmentMap("procrustes").fit(x, y)

    pair_noise(first, second, shares=(0.1,), plan=StressPlan(repeats=2, fit=fit))
    assert seen == [200, 200]
    curve = pair_noise(first, second, shares=(0.1,), plan=StressPlan(kind="procrustes", repeats=2))
    assert {point.predicted for point in curve.points} == {None}


def test_wrong_settings_are_told_in_one_line():
    first, second = pairs(60, 5, 5)
    with pytest.raises(ValueError, match="first and second must have a row for each state"):
        pair_noise(first, second[:50])
    with pytest.raises(ValueError, match="second must be finite, got nan in row 3"):
        pair_noise(first, np.where(np.arange(60)[:, None] == 3, np.nan, second))
    with pytest.raises(ValueError, match="ids must be as many as rows, 60, got 9"):
        pair_noise(first, second, ids=np.arange(9))
    with pytest.raises(ValueError, match="pairs must be at most the 30 that are not held out, got 31"):
        pair_budget(first, second, budgets=(31,))
    with pytest.raises(ValueError, match=r"shares must lie in \[0, 1\), got 1"):
        pair_noise(first, second, shares=(1.0,))
    with pytest.raises(ValueError, match="needs more pairs than the first has dimensions"):
        pair_budget(first, second, budgets=(4,), plan=StressPlan(kind="ols"))
    with pytest.raises(ValueError, match="kind must be one of"):
        StressPlan(kind="olx")
    with pytest.raises(ValueError, match="metric must be one of mse, r2, dsc, nos@10, condition"):
        pair_budget(first, second, budgets=(20,), plan=QUICK).of("r3")
    with pytest.raises(ValueError, match="40"):
        pair_budget(first, second, plan=StressPlan(ks=(40,)))


def test_a_robust_fit_keeps_what_the_prediction_of_the_plain_one_loses():
    first, second = pairs(2000, 12, 12, 1.0)
    robust = StressPlan(repeats=2, rows=200, fit=lambda x, y: fit_robust(x, y).map)
    plain = StressPlan(repeats=2, rows=200)
    clean, kept = pair_noise(first, second, shares=(0.0, 0.3), plan=robust).of("r2")
    lost = pair_noise(first, second, shares=(0.3,), plan=plain).of("r2")[0]
    assert kept.value > 0.97 * clean.value
    assert kept.predicted == lost.predicted
    assert kept.value > lost.value + 0.03
