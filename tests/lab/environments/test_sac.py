"""Learning a policy, for a few steps: what is written is what the package reads."""

from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

from isojepa.io import read_json
from isojepa_lab.environments.control import Actor
from isojepa_lab.environments.rendering import import_suite


@pytest.fixture(scope="module")
def learning():
    for name in ("dm_control", "gymnasium", "stable_baselines3"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    import_suite()  # first: by itself dm_control may choose another way of drawing
    return import_module("isojepa_lab.environments.sac")


def test_the_environment_is_gymnasiums_and_its_episodes_end_by_time(learning):
    world = learning.ShapedReacher(0, length=5)
    seen, _ = world.reset()
    assert world.observation_space.contains(seen)
    ends = [world.step(np.zeros(2, np.float32)) for _ in range(5)]
    assert [end[3] for end in ends] == [False] * 4 + [True]
    assert all(0 <= end[1] <= 1 and not end[2] for end in ends)


@pytest.mark.slow
def test_a_few_steps_leave_an_actor_and_a_record(tmp_path, monkeypatch, learning):
    monkeypatch.setattr(learning, "EVERY", 80)
    monkeypatch.setattr(learning, "EVALUATED", 2)
    monkeypatch.setitem(learning.SETTINGS, "learning_starts", 40)
    record = learning.learn(tmp_path, 160, 5.0, 0)
    assert record == read_json(tmp_path / "reacher_sac.json")
    assert len(record["curve"]) == 2
    assert Actor.load(tmp_path / "reacher_sac.safetensors").act(np.zeros((1, 5), np.float32)).shape == (1, 2)
