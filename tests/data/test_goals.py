"""The goal-directed arm against the facts it is made to resemble."""

import numpy as np
import pytest

from isojepa.data.processes import GoalReaching
from isojepa.seeds import generator


@pytest.fixture(scope="module")
def paths():
    return GoalReaching().trajectory(800, 201, generator(0, "data")).numpy()


def correlations(paths, stride):
    a, b = paths[:-stride].reshape(-1, 2), paths[stride:].reshape(-1, 2)
    return [np.corrcoef(a[:, i], b[:, i])[0, 1] for i in (0, 1)]


def test_correlations_at_stride_8_are_near_the_published_ones(paths):
    shoulder, wrist = correlations(paths, 8)
    assert shoulder == pytest.approx(0.992, abs=0.003)
    assert wrist == pytest.approx(0.982, abs=0.004)
    assert np.log(wrist) / np.log(shoulder) > 2  # the theorems' argument breaks


def test_the_wrist_is_bimodal_within_its_limits(paths):
    wrist = paths[..., 1].ravel()
    assert np.abs(wrist).max() <= 2.79
    middle, modes = (np.abs(wrist) < 0.5).mean(), (np.abs(np.abs(wrist) - 1.8) < 0.5).mean()
    assert modes > 5 * middle


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rest": 0.5}, "rest must be at least 1"),
        ({"persistence": 1.0}, "persistence must lie in"),
        ({"span": -1.0}, "span must be positive"),
        ({"jitter": (0.1, -0.1)}, "jitter must be two numbers"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        GoalReaching(**options)
    with pytest.raises(ValueError, match="steps must be a positive integer"):
        GoalReaching().trajectory(1, 0, generator(0, "data"))
