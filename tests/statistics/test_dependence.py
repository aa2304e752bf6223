"""RowDependence of rows, and tests that keep their level in its presence."""

import numpy as np
import scipy

from isojepa.statistics.dependence import RowDependence, effective_rows
from isojepa.statistics.nulls import relation_test


def test_the_relation_test_keeps_its_level_for_random_walks() -> None:
    rng = np.random.default_rng(0)
    ps = [relation_test(*rng.normal(size=(2, 200, 2)).cumsum(1), memory=50) for _ in range(60)]
    assert np.mean(np.array(ps) <= 0.1) <= 0.1


def test_the_relation_test_keeps_its_level_with_one_outlier_in_both() -> None:
    rng = np.random.default_rng(0)
    ps = []
    for _ in range(100):
        x, y = rng.normal(size=(2, 300, 4))
        x[7], y[7] = 100 * rng.normal(size=(2, 4))
        ps.append(relation_test(x, y, memory=1))
    assert np.mean(np.array(ps) <= 0.1) <= 0.16  # 0.1 and two standard errors


def test_relations_without_a_linear_part_are_found() -> None:
    z = np.random.default_rng(0).normal(size=(500, 4))
    for other in (z**2, np.roll(z, 1, axis=1) * z, np.linalg.norm(z, axis=1, keepdims=True)):
        assert relation_test(z, other, memory=1) <= 0.02


def test_effective_rows_are_those_of_the_product_of_both_autocorrelations() -> None:
    rng = np.random.default_rng(0)
    for rho, n in ((0.5, 4000), (0.9, 4000), (0.97, 20_000)):
        paths = scipy.signal.lfilter([1], [1, -rho], rng.normal(size=(2, n, 3)), axis=1)
        expected = n * (1 - rho**2) / (1 + rho**2)
        assert 0.6 * expected < effective_rows(*paths) < 1.6 * expected
    assert effective_rows(*rng.normal(size=(2, 2000, 3)).cumsum(1)) < 30


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
