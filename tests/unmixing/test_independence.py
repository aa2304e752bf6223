"""The test of independence keeps its level, and sees what single functions do not."""

import numpy as np
import pytest

from isojepa.unmixing import unmix
from isojepa.unmixing.axes import Cause
from isojepa.unmixing.independence import judge_independence


def swirled(z: np.ndarray) -> np.ndarray:
    radius = np.linalg.norm(z, axis=1, keepdims=True)
    return np.cos(radius) * z + np.sin(radius) * np.stack((-z[:, 1], z[:, 0]), axis=1)


@pytest.mark.parametrize("draw", ["uniform", "normal", "laplace"])
def test_independent_axes_are_rejected_as_rarely_as_the_level(draw):
    rejected = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = getattr(rng, draw)(size=(1000, 3)) - 0.5 * (draw == "uniform")
        rejected += judge_independence(y).rejected.any()
    assert rejected <= 3


def test_what_depends_by_its_mean_alone_is_explained_and_by_its_spread_is_not():
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, (8000, 2))
    harmonic = z[:, 0] ** 2
    for second, unexplained in (
        (harmonic, False),
        (harmonic / harmonic.std() + z[:, 1] / z[:, 1].std(), False),
        (z[:, 1] * (1 + z[:, 0]), True),
    ):
        found = judge_independence(np.column_stack((z[:, 0], second)))
        assert found.rejected[0, 1]
        assert found.unexplained[0, 1] == unexplained


def test_a_swirled_square_has_no_names_and_a_square_has():
    z = np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
    found = unmix(swirled(z), straighten=False)
    assert found.named_ == 0
    assert {axis.cause for axis in found.axes_} == {Cause.DEPENDENT}
    assert unmix(z, straighten=False).named_ == 2


def test_a_path_is_thinned():
    rng = np.random.default_rng(0)
    steps = 0.05 * rng.normal(size=(4000, 2))
    z = np.abs((np.cumsum(steps, axis=0) + 1) % 4 - 2) - 1  # reflected at the walls
    assert not judge_independence(z).rejected.any()
