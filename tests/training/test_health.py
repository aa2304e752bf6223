"""When a run is told to have collapsed, and when not."""

import pytest

from isojepa.training.health import Health


@pytest.mark.parametrize(
    ("row", "everywhere", "anywhere"),
    [
        ({"smallest_variance": 0.5, "mean_variance": 1.0, "rankme": 30.0}, "", ""),
        (
            {"smallest_variance": 1e-19, "mean_variance": 1.0, "rankme": 30.0},
            "smallest variance is 1e-19",
            "",
        ),
        ({"smallest_variance": 1e-19, "mean_variance": 1.0}, "smallest variance is 1e-19", ""),
        (
            {"smallest_variance": 1e-19, "mean_variance": 1.0, "rankme": 1.1},
            "smallest variance is 1e-19",
            "RankMe is 1.1",
        ),
        (
            {"smallest_variance": 0.0, "mean_variance": 1e-9, "rankme": 30.0},
            "smallest variance is 0",
            "mean variance is 1e-09",
        ),
        ({}, "", ""),
    ],
)
def test_only_objectives_that_ask_for_every_direction_are_judged_by_the_smallest(row, everywhere, anywhere):
    for spreads, words in ((True, everywhere), (False, anywhere)):
        reason = Health(("encoder",), spreads).collapse({"step": 7, **row})
        assert words in reason
        assert bool(words) == bool(reason)
