"""Learning a policy, for a few steps: what is written is what the package reads."""

from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

from isojepa.files import read_json
from isojepa.worlds.control import Actor
from isojepa.worlds.control.actor import ACTOR
from isojepa.worlds.rendering import import_suite


@pytest.fixture(scope="module")
def learning():
    for name in ("dm_control", "gymnasium", "stable_baselines3"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    import_suite()  # first: by itself dm_control may choose another way of drawing
    return import_module("isojepa.worlds.control.learning")


def test_the_environment_is_gymnasiums_and_its_episodes_end_by_time(learning):
    world = learning.Reacher(0, length=5)
    seen, _ = world.reset()
    assert world.observation_space.contains(seen)
    ends = [world.step(np.zeros(2, np.float32)) for _ in range(5)]
    assert [end[3] for end in ends] == [False] * 4 + [True]
    assert all(0 <= end[1] <= 1 and not end[2] for end in ends)


@pytest.mark.slow
def test_a_few_steps_leave_an_actor_and_a_record(tmp_path, monkeypatch, learning):
    monkeypatch.setattr(learning, "EVERY", 80)
    monkeypatch.setattr(learning, "JUDGED", 2)
    monkeypatch.setitem(learning.SETTINGS, "learning_starts", 40)
    record = learning.learn(tmp_path, 160, 5.0, 0)
    assert record == read_json(tmp_path / "reacher_sac.json")
    assert len(record["curve"]) == 2
    assert Actor.load(tmp_path / "reacher_sac.safetensors").act(np.zeros((1, 5), np.float32)).shape == (1, 2)


def test_the_record_of_the_packages_actor_says_how_it_was_learned():
    record = read_json(ACTOR.with_suffix(".json"))
    assert record["mode"]["return"] > 10 * record["random"]["return"]
    assert {"seed", "settings", "versions", "curve", "steps"} <= set(record)
    assert max(row["return"] for row in record["curve"]) == next(
        row["return"] for row in record["curve"] if row["steps"] == record["steps"]
    )
