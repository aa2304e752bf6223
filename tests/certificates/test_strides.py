"""Numbers per stride against worlds whose numbers are known."""

import math

import numpy as np
import pytest

from isojepa.certificates.strides import stride_rows
from isojepa.data.episodes import Episodes
from tests.certificates.worlds import ornstein_uhlenbeck_episodes as ou


def test_correlations_fall_by_powers_of_the_stride():
    rows = stride_rows(Episodes.of({"qpos": ou([0.95, 0.8])}), strides=(1, 4, 16, 64), samples=1000)
    assert [row.stride for row in rows] == [1, 4, 16]
    for row in rows:
        assert row.pairs == 4000
        assert math.isclose(row.rho[0], 0.95**row.stride, abs_tol=0.05)
        assert math.isclose(row.rho[1], 0.8**row.stride, abs_tol=0.05)


def test_normal_differences_lie_at_the_floor_and_others_above():
    for row in stride_rows(Episodes.of({"qpos": ou([0.95, 0.8])}), strides=(1, 8), samples=1000):
        assert max(*row.sigreg, row.joint) < 6 * row.floor
    steps = np.random.default_rng(1).exponential(size=(400, 40, 2))
    row = stride_rows(Episodes.of({"qpos": np.cumsum(steps, 1)}), strides=(1,), samples=1000)[0]
    assert min(*row.sigreg, row.joint) > 20 * row.floor


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_the_floor_is_what_normal_samples_have(dim):
    source = np.random.default_rng(dim)
    found = []
    for seed in range(60):
        walk = np.cumsum(source.normal(size=(300, 2, dim)), 1)
        found.append(stride_rows(Episodes.of({"qpos": walk}), strides=(1,), repeats=1, seed=seed)[0])
    for values, floor in (
        ([np.mean(row.sigreg) for row in found], found[0].floor),
        ([row.joint for row in found], found[0].joint_floor),
    ):
        error = np.std(values, ddof=1) / len(values) ** 0.5
        assert abs(np.mean(values) - floor) < 4 * error + 0.005


def test_unequal_lengths_are_taken_and_too_long_strides_raise():
    states = ou([0.9], episodes=40)
    ragged = [path[: 10 + at % 20] for at, path in enumerate(states)]
    rows = stride_rows(Episodes.of({"qpos": ragged}), strides=(1, 16), per_episode=0)
    assert [row.pairs for row in rows] == [sum(max(len(path) - s, 0) for path in ragged) for s in (1, 16)]
    with pytest.raises(ValueError, match="strides must leave 20 pairs"):
        stride_rows(Episodes.of({"qpos": ragged}), strides=(64,))
