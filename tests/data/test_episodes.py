"""Episodes as objects: rows, actions, pairs and splits."""

import numpy as np
import pytest

from isojepa.data.episodes import Episodes

LENGTHS = (5, 3, 8)


def made(**changes):
    steps = sum(LENGTHS)
    columns = {
        "qpos": np.arange(2.0 * steps).reshape(steps, 2),
        "action": np.ones((steps, 1), np.float32),
        "reward": np.arange(steps),
    }
    return Episodes({**columns, **changes}, LENGTHS)


def test_an_episode_has_its_own_rows():
    episodes = made()
    assert (len(episodes), episodes.steps, episodes.names) == (3, 16, ("qpos", "action", "reward"))
    assert episodes.episode(1)["reward"].tolist() == [5, 6, 7]
    assert episodes.subset([2, 0]).episode(0)["reward"].tolist() == list(range(8, 16))
    assert [part.shape for part in episodes.vectors("reward")] == [(5, 1), (3, 1), (8, 1)]


@pytest.mark.parametrize(
    ("lengths", "offsets", "reason"),
    [
        ([17], None, "lie within the 16 rows"),
        ([4, 4], [0, 13], "got 4 steps from row 13"),
        ([4, 4], [2, 5], "must not overlap, got rows of 0 in 1"),
        ([4, 0], [0, 4], "must have a step"),
        ([4, 4], [0], "as many"),
        ([4.0], None, "whole number"),
        ([], None, "whole number"),
        ([2**62, 2**62], [0, 2**62], "within the 16 rows"),
    ],
)
def test_episodes_outside_of_the_rows_or_in_each_other_are_refused(lengths, offsets, reason):
    with pytest.raises(ValueError, match=reason):
        Episodes({"x": np.zeros((16, 2))}, lengths, offsets)


def test_columns_must_be_numbers_of_equal_length():
    with pytest.raises(ValueError, match="reward must have as many rows as qpos, 16, got 15"):
        made(reward=np.zeros(15))
    with pytest.raises(ValueError, match="reward must hold numbers, got object"):
        made(reward=np.array(["a"] * 16, dtype=object))


def test_an_action_of_nan_is_allowed_only_at_the_end():
    action = np.ones((16, 1))
    action[[4, 7, 15]] = np.nan
    assert [len(part) for part in made(action=action).actions()] == [4, 2, 7]
    action[10] = np.nan
    with pytest.raises(ValueError, match="got NaN or Inf at step 2 of 8 in episode 2"):
        made(action=action).actions()


def test_pairs_lie_in_one_episode_and_short_episodes_have_none():
    first, second, episode = made().pairs(4, "reward")
    assert (second - first == 4).all()
    assert episode.tolist() == [0, 2, 2, 2, 2]
    assert first[:, 0].tolist() == [0, 8, 9, 10, 11]
    with pytest.raises(ValueError, match="stride must be below the 8 steps"):
        made().pairs(8)


def test_pairs_are_drawn_per_episode_without_repeating_one():
    first, _, episode = made().pairs(1, "reward", per_episode=3, seed=1)
    assert np.bincount(episode).tolist() == [3, 2, 3]
    assert len(np.unique(first)) == len(first)
    assert np.array_equal(first, made().pairs(1, "reward", per_episode=3, seed=1)[0])


def test_splits_go_by_episode():
    kept, other = made().split(0.66, seed=3)
    assert (len(kept), len(other)) == (2, 1)
    rewards = [set(np.concatenate(part.values("reward")).tolist()) for part in (kept, other)]
    assert not rewards[0] & rewards[1]
    assert len(rewards[0] | rewards[1]) == 16
