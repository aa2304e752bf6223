"""When a run is told to have collapsed, and when not."""

import pytest

from isojepa.training.health import Health


@pytest.mark.parametrize(
    ("row", "everywhere", "anywhere"),
    [
        ({"dead_fraction": 0.0, "mean_variance": 1.0, "rankme": 30.0}, "", ""),
        ({"dead_fraction": 13 / 64, "mean_variance": 0.62, "rankme": 36.0}, "", ""),
        ({"dead_fraction": 0.5, "mean_variance": 1.0, "rankme": 30.0}, "50 % of its directions", ""),
        ({"dead_fraction": 0.5, "mean_variance": 1.0}, "50 % of its directions", ""),
        ({"dead_fraction": 0.5, "mean_variance": 1.0, "rankme": 1.1}, "50 % of its", "RankMe is 1.1"),
        (
            {"dead_fraction": 1.0, "mean_variance": 1e-9, "rankme": 30.0},
            "100 % of its directions",
            "mean variance is 1e-09",
        ),
        ({}, "", ""),
    ],
)
def test_only_objectives_that_ask_for_every_direction_are_judged_by_dead_ones(row, everywhere, anywhere):
    for spreads, words in ((True, everywhere), (False, anywhere)):
        health = Health(("encoder",), spreads)
        reason = health.collapse({"step": 100, **row})
        assert words in reason
        assert bool(words) == bool(reason)
        assert not health.collapse({"step": 99, **row})
