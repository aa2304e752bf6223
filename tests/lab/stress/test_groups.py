"""Stress by other states, widths, seeds and neighborhoods."""

import numpy as np
import pytest

from isojepa_lab.stress import StressPlan, capacity, narrowed, neighborhoods, seeds, shift
from tests.lab.stress.worlds import pairs

QUICK = StressPlan(repeats=3, rows=300)


def grouped(moved):
    """Two groups; the inputs of the second are wider and elsewhere, and its partners turned if asked for."""
    first, second = pairs(1600, 10, 10, 0.5)
    rotation = np.linalg.lstsq(first, second, rcond=None)[0]
    groups = np.repeat(["day", "night"], 800)
    night = groups == "night"
    residual = second - first @ rotation
    first = first.copy()
    first[night] = 1.5 * first[night] + 1.0
    turned = rotation[:, ::-1] if moved else rotation
    second = first @ rotation + residual
    second[night] = first[night] @ turned + residual[night]
    return first, second, groups


def test_a_shift_of_the_inputs_alone_costs_what_is_predicted():
    first, second, groups = grouped(moved=False)
    curve = shift(first, second, groups, fit_on="day", plan=QUICK)
    assert [point.label for point in curve.of("r2")] == ["day", "night"]
    for metric, tolerance in (("r2", 0.02), ("dsc", 0.05), ("nos@10", 0.06)):
        for point in curve.of(metric):
            assert point.predicted == pytest.approx(point.value, abs=tolerance), metric
    day, night = curve.of("mse")
    assert night.predicted == pytest.approx(night.value, rel=0.1)
    assert night.predicted > day.predicted


def test_a_relation_that_changed_falls_below_the_prediction():
    first, second, groups = grouped(moved=True)
    day, night = shift(first, second, groups, fit_on="day", plan=QUICK).of("r2")
    assert day.predicted == pytest.approx(day.value, abs=0.02)
    assert night.value < night.predicted - 0.3


def test_states_that_were_fitted_are_not_scored_in_another_group():
    first, second, groups = grouped(moved=False)
    ids = np.tile(np.arange(800), 2)  # every state by day and by night
    curve = shift(first, second, groups, fit_on="day", ids=ids, plan=QUICK)
    assert {point.pairs for point in curve.points} == {400}
    with pytest.raises(ValueError, match="fit_on must be one of day, night"):
        shift(first, second, groups, fit_on="dax")
    few = np.where(np.arange(1600) < 1595, "day", "night")
    with pytest.raises(ValueError, match=r"group 'night' must have more than 10 rows .*, got 5"):
        shift(first, second, few, fit_on="day")
    with pytest.raises(ValueError, match="groups must be one for each of the 1600 rows"):
        shift(first, second, groups[:9], fit_on="day")
    with pytest.raises(ValueError, match="groups must be at least two"):
        shift(first, second, np.repeat("day", 1600), fit_on="day")


def test_wider_and_narrower_encoders_are_mapped_and_predicted():
    first, wide = pairs(1000, 16, 24, 1.0)
    others = {"same": first @ np.linalg.qr(np.random.default_rng(0).normal(size=(16, 16)))[0], "wide": wide}
    curve = capacity(first, {**others, **narrowed(first, (4,))}, plan=QUICK)
    assert [(point.label, point.x) for point in curve.of("r2")] == [
        ("same", 16),
        ("wide", 24),
        ("4 of 16", 4),
    ]
    for point in curve.of("r2"):
        assert point.predicted == pytest.approx(point.value, abs=0.02)
    with pytest.raises(ValueError, match="others must have at least one encoder"):
        capacity(first, {})


def test_seeds_are_averaged_at_one_split():
    made = [pairs(500, 6, 6, noise=noise, seed=2) for noise in (0.05, 0.1, 0.2)]
    curve = seeds(made)
    (point,) = curve.of("r2")
    alone = [seeds([pair], plan=StressPlan(repeats=1)).of("r2")[0].value for pair in made]
    assert point.value == pytest.approx(np.mean(alone))
    assert point.spread == pytest.approx(np.std(alone, ddof=1))
    assert point.repeats == 3
    with pytest.raises(ValueError, match="pairs must have at least one seed"):
        seeds([])


def test_neighborhoods_of_several_sizes_are_predicted():
    first, second = pairs(1000, 8, 8)
    curve = neighborhoods(first, second, ks=(1, 10, 50), plan=QUICK)
    assert [point.x for point in curve.points] == [1, 10, 50]
    for point in curve.points:
        assert point.predicted == pytest.approx(point.value, abs=0.05)
        assert point.low < point.value < point.high
