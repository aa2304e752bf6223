"""Lines on actions, on made-up data of known answers."""

import math

import numpy as np
import pytest

from isojepa.certificates.audit.actions import check_law, check_rank, check_serial
from isojepa.certificates.audit.excitation import (
    check_excitation,
    check_feedback,
    check_persistence,
    predict,
)
from isojepa.certificates.audit.material import gather
from isojepa.data.episodes import Episodes

EPISODES, STEPS = 80, 41


def noise(seed, dim=2, law="uniform", episodes=EPISODES, steps=STEPS):
    source = np.random.default_rng(seed)
    draw = {
        "uniform": lambda size: source.uniform(-1, 1, size),
        "normal": lambda size: source.normal(size=size),
    }
    return draw[law]((episodes, steps, dim))


def pushed(actions, seed=0):
    """States that actions push about, z' = 0.9 z + 0.3 a + noise: they depend on past actions only."""
    source = np.random.default_rng([seed, 1])
    states = np.zeros(actions.shape)
    states[:, 0] = source.normal(size=states[:, 0].shape)
    for step in range(actions.shape[1] - 1):
        shock = 0.1 * source.normal(size=states[:, 0].shape)
        states[:, step + 1] = 0.9 * states[:, step] + 0.3 * actions[:, step] + shock
    return states


def material(actions, states=None, seed=0, **more):
    columns = {"action": actions, "qpos": pushed(actions) if states is None else states, **more}
    return gather(Episodes.of(columns), seed=seed, context=tuple(more))


def verdicts(found, confidence=0.95):
    prediction = predict(found)
    lines = [
        check_rank(found, confidence),
        check_serial(found, confidence),
        check_feedback(found, prediction, confidence),
        check_law(found, confidence)[0],
        check_excitation(found, prediction, confidence),
        check_persistence(found, confidence),
    ]
    return {line.name: line for line in lines}


@pytest.mark.parametrize("law", ["uniform", "normal"])
def test_false_alarms_on_independent_actions_are_as_rare_as_stated(law):
    alarms = {}
    for seed in range(20):
        for name, line in verdicts(material(noise(seed, law=law), seed=seed)).items():
            alarms[name] = alarms.get(name, 0) + (line.verdict != "holds")
    assert max(alarms.values()) <= 4, alarms  # of 20 at 5 %: more has probability 0.3 %


def test_uniform_actions_are_called_uniform_and_normal_ones_gaussian():
    for dim in (1, 3):
        _, laws = check_law(material(noise(0, dim)), 0.95)
        assert all(law == "uniform on [-1, 1]" for law in laws)
    _, laws = check_law(material(3 + 2 * noise(1, law="normal")), 0.95)
    assert all(law.startswith("Gaussian with mean") for law in laws)
    _, laws = check_law(material(np.sign(noise(2))), 0.95)
    assert laws == ("one of 2 values",) * 2
    _, laws = check_law(material(np.tanh(2 * noise(3, law="normal"))), 0.95)
    assert all(law.startswith("neither") for law in laws)


def test_saturated_actions_are_told():
    line, _ = check_law(material(np.clip(2 * noise(0), -1, 1)), 0.95)
    assert line.verdict == "fails"
    assert math.isclose(line.value, 0.5, abs_tol=0.05)


def test_a_constant_action_is_named():
    actions = noise(0, 3)
    actions[..., 1] = 0.25
    lines = verdicts(material(actions))
    assert lines["full rank"].verdict == lines["excitation"].verdict == "fails"
    assert "Action 1 never varies (always 0.25)" in lines["full rank"].sentence
    assert "Action 1 never varies" in lines["excitation"].sentence
    actions[...] = 0.0
    lines = verdicts(material(actions))
    assert "Actions 0, 1, 2 never vary" in lines["full rank"].sentence


def test_a_combination_of_actions_that_never_varies_is_named():
    actions = noise(0, 2)
    actions[..., 1] = -actions[..., 0]
    line = verdicts(material(actions))["full rank"]
    assert line.verdict == "fails"
    assert "0.71 action 0 + 0.71 action 1 never varies" in line.sentence


def test_actions_with_a_memory_are_told_from_independent_ones():
    actions = noise(0, law="normal")
    for step in range(1, STEPS):
        actions[:, step] = 0.6 * actions[:, step - 1] + 0.8 * actions[:, step]
    line = verdicts(material(actions, noise(5)))["independence over time"]
    assert line.verdict == "fails"
    assert math.isclose(line.value, 0.58, abs_tol=0.05)  # correlation of ranks of normal variables at 0.6
    assert "1 step later" in line.sentence


def test_actions_whose_size_alone_has_a_memory_are_told():
    source = np.random.default_rng(0)
    actions = noise(1, law="normal") * np.exp(source.normal(size=(EPISODES, 1, 1)))
    line = verdicts(material(actions, noise(5)))["independence over time"]
    assert line.verdict == "fails"
    assert "the size of action" in line.sentence


def test_actions_that_fade_along_an_episode_are_told():
    line = verdicts(material(noise(0) * np.linspace(1, 0.1, STEPS)[:, None]))["independence over time"]
    assert line.verdict == "fails"


@pytest.mark.parametrize("bent", [False, True])
def test_a_policy_that_looks_at_the_state_is_told(bent):
    states = noise(3, law="normal")
    follow = np.cos(2 * states) if bent else -0.5 * states
    shock = noise(4, law="normal")
    scale = follow.std() / 2
    line = verdicts(material(follow + scale * shock, states))["independence of the state"]
    assert line.verdict == "fails"
    assert 0.5 < line.value < 0.85  # 0.8 of the action itself, somewhat less of functions of its ranks


def test_what_is_left_of_actions_given_the_state_is_measured():
    states = noise(3, law="normal")
    actions = states + 0.5 * noise(4, law="normal")
    line = verdicts(material(actions, states))["excitation"]
    assert line.interval.low < 0.8 < line.interval.high  # 1 / (1 + 0.25) of the variance follows
    line = verdicts(material(1.0 * states, states))["excitation"]
    assert line.verdict == "fails"
    assert "noise" in line.advice


def test_a_goal_beside_the_state_counts_as_known():
    states, goals = noise(3), np.repeat(noise(4)[:, :1], STEPS, 1)
    actions = goals - states
    assert verdicts(material(actions, states))["excitation"].verdict == "holds"
    assert verdicts(material(actions, states, goal=goals))["excitation"].verdict == "fails"


def test_actions_that_rest_most_of_the_time_do_not_excite_persistently():
    actions = noise(0)
    actions[:, 15:] = 0.001 * actions[:, 15:]
    line = verdicts(material(actions))["persistent excitation"]
    assert line.verdict == "fails"
    assert math.isclose(line.value, 0.5, abs_tol=0.01)  # two of the four windows of 10 of the 40 actions


def test_few_long_episodes_are_cut_into_pieces_and_short_ones_left_out():
    found = material(noise(0, episodes=2, steps=2001))
    assert len(found.actions) == 80
    assert found.rows == 4000
    assert "cut into 80 pieces" in found.notes[0]
    one, short = noise(1, episodes=1, steps=900)[0], noise(2, episodes=1, steps=2)[0]
    found = gather(Episodes.of({"action": [one, short]}))
    assert found.rows == 899
    assert "1 episodes of fewer than 3 steps" in found.notes[0]


def test_too_little_is_unclear_and_never_an_error():
    lines = verdicts(material(noise(0, episodes=1, steps=4)))
    assert lines["independence over time"].verdict == "unclear"
    assert lines["independence of the state"].verdict == "unclear"
    with pytest.raises(ValueError, match="3 steps or more"):
        gather(Episodes.of({"action": noise(0, episodes=3, steps=2)}))


def test_states_that_are_not_finite_are_refused():
    states = noise(0)
    states[3, 4, 1] = np.nan
    with pytest.raises(ValueError, match="qpos must be finite"):
        material(noise(1), states)
