"""Our runs beside published ones."""

import math

import numpy as np
import pytest

from isojepa_lab.studies.findings import COMPARISON, compare


def test_the_comparison_has_mean_spread_difference_and_joint_error():
    ours = [0.91, 0.94, 0.92, 0.93]
    row = compare(ours, 0.8, 0.02, published_runs=5)
    assert row["ours"] == pytest.approx(np.mean(ours))
    assert row["ours_std"] == pytest.approx(np.std(ours, ddof=1))
    assert row["runs"] == 4
    assert row["difference"] == pytest.approx(np.mean(ours) - 0.8)
    assert row["standard_error"] == pytest.approx(np.hypot(np.std(ours, ddof=1) / 2, 0.02 / np.sqrt(5)))
    assert {column.key for column in COMPARISON} == set(row)


def test_the_error_of_the_difference_is_the_spread_of_simulated_differences():
    draw = np.random.default_rng(0)
    ours = draw.normal(0.0, 0.3, (20_000, 3)).mean(1)
    theirs = draw.normal(0.0, 0.1, (20_000, 5)).mean(1)
    sample = 0.3 * np.array([-1.0, 0.0, 1.0])  # three runs whose deviation is exactly 0.3
    told = compare(sample.tolist(), 0.0, 0.1, published_runs=5)["standard_error"]
    assert told == pytest.approx(np.std(ours - theirs), rel=0.02)


@pytest.mark.parametrize(
    ("ours", "mark"),
    [
        (0.821, "above"),
        (0.819, ""),
        (0.8, ""),
        (0.781, ""),
        (0.779, "below"),
        (math.nan, ""),
        (math.inf, "above"),
    ],
)
def test_the_mark_is_set_beyond_two_published_deviations(ours, mark):
    assert compare([ours], 0.8, 0.01)["mark"] == mark


def test_rounding_widens_the_published_spread():
    assert compare([0.999999], 0.999998, 3.4e-07)["mark"] == "above"
    assert compare([0.999999], 0.999998, 3.4e-07, rounding=5e-07)["mark"] == ""


def test_without_published_numbers_there_is_no_difference():
    row = compare([0.9, 0.8], None, None)
    assert row["difference"] is row["standard_error"] is row["published"] is None
    assert row["mark"] == ""
    without_spread = compare([0.9, 0.8], 0.1, None)
    assert without_spread["difference"] == pytest.approx(0.75)
    assert without_spread["standard_error"] is None
    assert without_spread["mark"] == ""


def test_no_run_is_told():
    with pytest.raises(ValueError, match="ours must hold at least one value, got none"):
        compare([], 0.8, 0.01)
    with pytest.raises(ValueError, match="published_runs must be positive, got 0"):
        compare([0.9], 0.8, 0.01, published_runs=0)
