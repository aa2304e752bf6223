"""Collected episodes: columns, replay, seeds, resuming, workers and policies of stable-baselines3."""

from pathlib import Path

import numpy as np
import pytest
import torch

import isojepa as ij
from isojepa.data.environments import open_environment
from isojepa.data.files import read_episodes
from tests.own_environment import PointMass, make

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("h5py")
OWN = str(Path(__file__).parent.parent / "own_environment.py")


def same(episodes, expected):
    assert set(episodes.names) == set(expected.names)
    assert episodes.lengths.tolist() == expected.lengths.tolist()
    for name in expected.names:
        assert episodes.dtype(name) == expected.dtype(name)
        for number in range(len(expected)):
            np.testing.assert_array_equal(episodes.rows(name, number), expected.rows(name, number))


@pytest.mark.parametrize("source", ["Pendulum-v1", "CartPole-v1", f"{OWN}:make"])
def test_seeds_and_actions_reproduce_the_observations(source):
    episodes, environment = ij.collect(source, episodes=3, seed=5), open_environment(source)
    for number in range(3):
        rows = episodes.episode(number)
        native = environment.env
        observation, _ = native.reset(seed=int(rows["seed"][0]))
        for step, row in enumerate(rows["action"][:-1]):
            np.testing.assert_array_equal(rows["observation"][step], np.float32(observation))
            observation, reward, terminated, truncated, _ = native.step(environment.actions.decode(row))
            assert rows["reward"][step] == np.float32(reward)
            assert rows["terminated"][step] == terminated
            np.testing.assert_array_equal(rows["state"][step + 1], environment.get_state())
        assert terminated or truncated
        np.testing.assert_array_equal(rows["observation"][-1], np.float32(observation))
        assert np.isnan(rows["action"][-1]).all()
        assert np.isnan(rows["reward"][-1])
        assert not rows["terminated"][-1]
        assert len(np.unique(rows["seed"])) == 1


def test_an_episode_depends_on_its_number_and_the_seed_alone():
    few, many = (ij.collect("CartPole-v1", episodes=count, seed=3) for count in (2, 5))
    same(many.subset([0, 1]), few)
    other = ij.collect("CartPole-v1", episodes=2, seed=4)
    assert not np.array_equal(other.rows("observation", 0)[0], few.rows("observation", 0)[0])


class Alternating:
    """A policy with a memory, which `reset` clears."""

    def __init__(self):
        self.resets, self.sign = 0, 0

    def reset(self):
        self.resets, self.sign = self.resets + 1, 1

    def __call__(self, observation):
        self.sign = -self.sign
        return np.full(2, self.sign)


def test_policies_are_callables_and_files(tmp_path):
    policy = Alternating()
    episodes = ij.collect(PointMass, policy, 2, steps=3)
    assert policy.resets == 2
    assert [part[:, 0].tolist() for part in episodes.actions()] == [[-1, 1, -1]] * 2
    assert episodes.meta["policy"] == "tests.data.test_collecting.Alternating"
    file = tmp_path / "policy.py"
    file.write_text(
        "def push(observation):\n    return [1, 0]\n"
        "class Push:\n    def predict(self, observation):\n        return [1, 0], None\n"
    )
    for name in ("push", "Push"):
        found = ij.collect(PointMass, f"{file}:{name}", 1, steps=2)
        assert found.actions()[0].tolist() == [[1, 0]] * 2
        assert len(found.meta["policy_version"]) == 12


def test_a_policy_of_stable_baselines3_is_loaded_if_it_is_trusted(tmp_path):
    sb3 = pytest.importorskip("stable_baselines3")
    model = sb3.PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, n_epochs=1, seed=0, device="cpu")
    model.learn(32).save(tmp_path / "model.zip")
    name = f"ppo:{tmp_path / 'model.zip'}"
    with pytest.raises(ValueError, match=r"is a pickle.*trust=True \(--trust\)"):
        ij.collect("CartPole-v1", name, 2)
    episodes = ij.collect("CartPole-v1", name, 2, trust=True)
    same(ij.collect("CartPole-v1", name, 2, trust=True), episodes)
    same(ij.collect("CartPole-v1", model, 2), episodes)
    observations = torch.from_numpy(np.concatenate(episodes.values("observation")))
    chances = model.policy.get_distribution(observations).distribution.probs
    taken = torch.from_numpy(np.concatenate(episodes.values("action")))
    likelihood = (chances * taken).nansum(1)
    assert 0.3 < likelihood.mean() < 1
    with pytest.raises(ValueError, match="does not exist"):
        ij.collect("CartPole-v1", "sac:none.zip", 1, trust=True)
    with pytest.raises(ValueError, match="ALGO one of a2c, ddpg, dqn, ppo, sac, td3, got 'rand0m'"):
        ij.collect("CartPole-v1", "rand0m", 1)


class Failing:
    """A policy that raises an error at some call."""

    def __init__(self, calls):
        self.calls = calls

    def __call__(self, observation):
        self.calls -= 1
        if not self.calls:
            raise KeyError("observation")
        return np.tanh(observation[:2])


def test_an_interrupted_collection_resumes(tmp_path):
    path, folder = tmp_path / "a.h5", tmp_path / "a.h5.parts"
    same(
        ij.collect(make, Failing(0), 7, steps=10, out=tmp_path / "b.h5"),
        whole := ij.collect(make, Failing(0), 7, steps=10),
    )
    for calls in (25, 22):  # each finishes two episodes
        with pytest.raises(RuntimeError, match="policy raised KeyError"):
            ij.collect(make, Failing(calls), 7, steps=10, out=path)
        assert not path.exists()
    assert len(list(folder.glob("part-*.npz"))) >= 2
    with pytest.raises(ValueError, match=r"a.h5.parts holds another collection: delete it"):
        ij.collect(make, Failing(0), 7, steps=11, out=path)
    counts = []
    episodes = ij.collect(make, Failing(0), 7, steps=10, out=path, progress=counts.append)
    assert counts == [4, 1, 1, 1]
    same(episodes, whole)
    assert episodes.meta == whole.meta
    assert path.read_bytes() == (tmp_path / "b.h5").read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.h5", "b.h5"]


def test_a_finished_file_is_returned_and_another_collection_replaces_it(tmp_path):
    path = tmp_path / "a.h5"
    first = ij.collect(make, Failing(0), 3, steps=5, out=path)
    same(ij.collect(make, Failing(1), 3, steps=5, out=str(path)), first)  # the policy is not called
    assert len(ij.collect(make, Failing(0), 2, steps=5, out=path)) == 2
    assert ij.collect("Pendulum-v1", episodes=2, steps=5, out=path).meta["environment"] == "Pendulum-v1"
    assert read_episodes(path).shape("observation") == (3,)
    (tmp_path / "a.txt").write_text("notes")
    with pytest.raises(ValueError, match=r"a.txt cannot be read as episodes"):
        ij.collect("Pendulum-v1", episodes=2, out=tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "notes"


def test_damaged_parts_are_an_error_that_names_the_folder(tmp_path):
    with pytest.raises(RuntimeError):
        ij.collect(make, Failing(25), 7, steps=10, out=tmp_path / "a.h5")
    (part,) = (tmp_path / "a.h5.parts").glob("part-*.npz")
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"cannot be read.*delete .*a.h5.parts"):
        ij.collect(make, Failing(0), 7, steps=10, out=tmp_path / "a.h5")


@pytest.mark.slow
@pytest.mark.parametrize("source", ["CartPole-v1", f"{OWN}:make"])
def test_workers_collect_the_same_bits(tmp_path, source):
    alone = ij.collect(source, episodes=6, seed=2)
    same(ij.collect(source, episodes=6, seed=2, workers=2, out=tmp_path / "a.h5"), alone)


def test_workers_need_a_named_environment_and_a_policy_that_can_be_pickled():
    with pytest.raises(ValueError, match="workers > 1 needs an environment named by"):
        ij.collect(make, workers=2)
    with pytest.raises(ValueError, match="workers > 1 needs a policy that can be pickled"):
        ij.collect("Pendulum-v1", lambda observation: [0], workers=2)


class Endless(PointMass):
    """The point without a time limit."""

    def step(self, action):
        return *super().step(action)[:3], False, {}


def test_mistakes_are_errors_that_say_what_to_do(monkeypatch):
    monkeypatch.setattr("isojepa.data.environments.MAX_STEPS", 100)
    with pytest.raises(ValueError, match="Endless has no time limit and ran for 100 steps: pass steps="):
        ij.collect(Endless, episodes=1)
    assert ij.collect(Endless, episodes=1, steps=150).steps == 151
    with pytest.raises(ValueError, match="Pendulum-v1 has no expert: define expert"):
        ij.collect("Pendulum-v1", "expert")
    with pytest.raises(ValueError, match=r"episode 0: .* got 3 in dimension 0: clip it"):
        ij.collect(make, lambda observation: [3, 0], 1)
    with pytest.raises(ValueError, match="action must be numbers, got 'left'"):
        ij.collect(make, lambda observation: "left", 1)
    with pytest.raises(ValueError, match=r"action must have shape \(2,\), got \(3,\)"):
        ij.collect(make, lambda observation: [0, 0, 0], 1)
    with pytest.raises(ValueError, match="policy must be callable or have predict"):
        ij.collect(make, 3)
    for name in ("episodes", "steps", "workers"):
        with pytest.raises(ValueError, match=f"{name} must be a positive integer, got 0"):
            ij.collect(make, **{name: 0})
