"""Several tests together: Holm's procedure and the joint p-value keep their level."""

import numpy as np
import pytest

from isojepa.statistics.families import holm, joint_p, permutation_p


def test_holm_rejects_by_the_definition():
    rng = np.random.default_rng(0)
    for ps in rng.uniform(0, 0.1, (200, 5)):
        order, expected = np.argsort(ps), np.zeros(5, bool)
        for rank, place in enumerate(order):
            if ps[place] > 0.05 / (5 - rank):
                break
            expected[place] = True
        assert (holm(ps, 0.05) == expected).all()
    assert holm([], 0.05).tolist() == []


@pytest.mark.parametrize("test", ["permutation", "joint"])
def test_p_values_are_uniform_under_the_null(test):
    rng = np.random.default_rng(0)
    ps = []
    for _ in range(2000):
        draws = rng.standard_normal((60, 3)) * [1, 10, 0.1]
        draws[:, 2] += draws[:, 0]  # dependent
        scores, null = draws[0], draws[1:]
        ps.append(joint_p(scores, null)[0] if test == "joint" else permutation_p(scores[0], null[:, 0]))
    for level in (0.05, 0.5):
        assert np.mean(np.array(ps) <= level) == pytest.approx(level, abs=4 * np.sqrt(level / 2000))


def test_the_joint_p_names_the_statistic_that_stands_out():
    null = np.random.default_rng(0).standard_normal((999, 2)) * [1, 100]
    assert joint_p(np.array([6.0, 150.0]), null) == (pytest.approx(0.001), 0)
