"""RowDependence of rows, and tests that keep their level in its presence."""

import numpy as np

from isojepa.alignment.canonical import distant_gain
from isojepa.statistics.dependence import RowDependence, shift_test


def test_the_shift_test_keeps_its_level_for_random_walks() -> None:
    rng = np.random.default_rng(0)
    ps = [shift_test(*rng.normal(size=(2, 200, 2)).cumsum(1)) for _ in range(100)]
    assert np.mean(np.array(ps) <= 0.1) <= 0.1


def test_independent_rows_all_count() -> None:
    rng = np.random.default_rng(0)
    for width in (2, 8, 64):
        found = RowDependence.of(rng.normal(size=(500, width)), rng.normal(size=(500, width)))
        assert found.effective == found.states == 500


def test_one_independent_side_is_enough() -> None:
    rng = np.random.default_rng(0)
    path = rng.normal(size=(500, 2)).cumsum(0)
    assert RowDependence.of(path, rng.normal(size=(500, 2))).effective == 500
    assert RowDependence.of(path, path[:, ::-1]).effective < 20


def test_a_relation_of_all_regions_gains_and_one_of_repeats_does_not() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 3))
    assert distant_gain(x, x + 0.5 * rng.normal(size=x.shape), np.full(3, 0.9)).low > 0
    state = np.arange(800) % 20
    x, y = (rng.normal(size=(20, 3))[state] + 0.2 * rng.normal(size=(800, 3)) for _ in range(2))
    assert distant_gain(x, y, np.full(1, 0.5)).low < 0
