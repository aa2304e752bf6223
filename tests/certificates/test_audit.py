"""The audit: checks on synthetic episodes of known answers, the whole of them, and what to do next."""

import json
import math

import numpy as np
import pytest

from isojepa.certificates.audit import audit, read_for_audit
from isojepa.certificates.audit_checks import (
    distributions,
    excitation,
    gather,
    no_wrapping,
    persistent_excitation,
    serial_independence,
    state_independence,
    visible_velocity,
    within_bounds,
)
from isojepa.data.episodes import Episodes
from isojepa.io import to_jsonable
from tests.certificates.worlds import ornstein_uhlenbeck_episodes

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


def verdicts(sample):
    checks = (serial_independence, state_independence, within_bounds, excitation, persistent_excitation)
    return {line.name: line for line in (check(sample) for check in checks)}


@pytest.mark.parametrize("law", ["uniform", "normal"])
def test_false_alarms_on_independent_actions_are_as_rare_as_stated(law):
    alarms = {}
    for seed in range(20):
        for name, line in verdicts(material(noise(seed, law=law), seed=seed)).items():
            alarms[name] = alarms.get(name, 0) + (line.verdict != "holds")
    assert max(alarms.values()) <= 4, alarms  # of 20 at 5 %: more has probability 0.3 %


def test_uniform_actions_are_called_uniform_and_normal_ones_gaussian():
    for dim in (1, 3):
        laws = distributions(material(noise(0, dim)))
        assert all(law == "uniform on [-1, 1]" for law in laws)
    laws = distributions(material(3 + 2 * noise(1, law="normal")))
    assert all(law.startswith("Gaussian with mean") for law in laws)
    laws = distributions(material(np.sign(noise(2))))
    assert laws == ("one of 2 values",) * 2
    laws = distributions(material(np.tanh(2 * noise(3, law="normal"))))
    assert all(law.startswith("neither") for law in laws)


def test_saturated_actions_are_found():
    line = within_bounds(material(np.clip(2 * noise(0), -1, 1)))
    assert line.verdict == "fails"
    assert math.isclose(line.value, 0.5, abs_tol=0.05)


def test_constant_actions_are_named():
    actions = noise(0, 3)
    actions[..., 1] = 0.25
    line = verdicts(material(actions))["excitation"]
    assert line.verdict == "fails"
    assert "1 (always 0.25)" in line.sentence
    actions[...] = 0.0
    assert "0 (always 0), 1 (always 0), 2" in verdicts(material(actions))["excitation"].sentence


@pytest.mark.parametrize("states", [True, False])
def test_a_combination_of_actions_that_never_varies_is_named(states):
    actions = noise(0, 2)
    actions[..., 1] = -actions[..., 0]
    sample = material(actions) if states else gather(Episodes.of({"action": actions}))
    line = verdicts(sample)["excitation"]
    assert line.verdict == "fails"
    assert "0.71 action 0 + 0.71 action 1" in line.sentence
    assert ("Given the state" in line.sentence) == states


def test_actions_with_a_memory_differ_from_independent_ones():
    actions = noise(0, law="normal")
    for step in range(1, STEPS):
        actions[:, step] = 0.6 * actions[:, step - 1] + 0.8 * actions[:, step]
    line = verdicts(material(actions, noise(5)))["independence over time"]
    assert line.verdict == "fails"
    assert math.isclose(line.value, 0.58, abs_tol=0.05)  # correlation of ranks of normal variables at 0.6
    assert "1 step later" in line.sentence


def test_actions_whose_size_alone_has_a_memory_are_found():
    source = np.random.default_rng(0)
    actions = noise(1, law="normal") * np.exp(source.normal(size=(EPISODES, 1, 1)))
    line = verdicts(material(actions, noise(5)))["independence over time"]
    assert line.verdict == "fails"
    assert "the size of action" in line.sentence


def test_actions_that_fade_along_an_episode_are_found():
    line = verdicts(material(noise(0) * np.linspace(1, 0.1, STEPS)[:, None]))["independence over time"]
    assert line.verdict == "fails"


@pytest.mark.parametrize("nonlinear", [False, True])
def test_a_policy_that_looks_at_the_state_is_found(nonlinear):
    states = noise(3, law="normal")
    follow = np.cos(2 * states) if nonlinear else -0.5 * states
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
    assert found.total == 4000
    assert "cut into 80 pieces" in found.notes[0]
    one, short = noise(1, episodes=1, steps=900)[0], noise(2, episodes=1, steps=2)[0]
    found = gather(Episodes.of({"action": [one, short]}))
    assert found.total == 899
    assert "1 episodes of fewer than 3 steps" in found.notes[0]


def test_too_little_is_unclear_and_never_an_error():
    lines = verdicts(material(noise(0, episodes=1, steps=4)))
    assert lines["independence over time"].verdict == "unclear"
    assert lines["independence of the state"].verdict == "unclear"
    with pytest.raises(ValueError, match="3 steps or more"):
        gather(Episodes.of({"action": noise(0, episodes=3, steps=2)}))


def test_states_that_are_not_finite_raise():
    states = noise(0)
    states[3, 4, 1] = np.nan
    with pytest.raises(ValueError, match="qpos must be finite"):
        material(noise(1), states)


@pytest.fixture(scope="module")
def fair():
    """Gaussian, isotropic, stationary states, and independent uniform actions."""
    actions = noise(0, episodes=600, steps=40)
    actions[:, -1] = np.nan
    return Episodes.of({"qpos": 0.5 * ornstein_uhlenbeck_episodes([0.95, 0.95], 600), "action": actions})


def test_noise_that_is_said_to_be_a_policy_is_called_noise(fair):
    found = audit(fair)
    assert found.description.startswith(
        "The actions are i.i.d. noise as far as this shows, uniform on [-1, 1]"
    )
    assert not found.broken
    assert found.stride == 1
    assert found.line("isotropy").verdict == "holds"
    assert json.dumps(to_jsonable(found.to_dict()))


def test_a_policy_in_a_world_that_breaks_assumptions_fails_with_advice():
    source = np.random.default_rng(0)
    states = ornstein_uhlenbeck_episodes([0.995, 0.7], 600)
    states[..., 0] = np.sign(states[..., 0]) * (2 + 0.3 * np.abs(states[..., 0]))
    actions = -0.5 * states + 0.1 * source.normal(size=states.shape)
    found = audit(Episodes.of({"state": states, "action": actions}), stride=1)
    assert "follow from the state" in found.description
    assert {"Gaussianity", "isotropy", "independence of the state"} <= set(found.broken)
    advice = " ".join(found.advice)
    assert "Visit dimension 0 more between" in advice


def test_an_audit_needs_no_states():
    found = audit(Episodes.of({"action": noise(0), "pixels": np.zeros((80, 41, 2, 2, 3), np.uint8)}))
    assert found.stride == 0
    assert found.line("independence over time").verdict == "holds"
    assert found.line("visible velocity").verdict == "unclear"


def test_columns_that_are_missing_or_broken_are_named(fair):
    with pytest.raises(ValueError, match="did you mean 'action'"):
        audit(fair, action="actions")
    with pytest.raises(ValueError, match="stride must be below the 40 steps"):
        audit(fair, stride=40)
    broken = np.concatenate(fair.values("action"))
    broken[17] = np.nan
    episodes = Episodes({"action": broken}, fair.lengths)
    with pytest.raises(ValueError, match="got NaN or Inf at step 17 of 40 in episode 0"):
        audit(episodes)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("states", "actions"),
    [
        (np.ones((50, 30, 2)), noise(1, episodes=50, steps=30)),
        (noise(0, episodes=50, steps=30) * (1.0, 0.0), noise(1, episodes=50, steps=30) > 0),
        (1e40 * noise(0, episodes=50, steps=30), 1e-40 * noise(1, episodes=50, steps=30)),
        (noise(0, episodes=300, steps=3), noise(1, episodes=300, steps=3)),
        (np.zeros((1, 5, 2)), np.zeros((1, 5, 2))),
    ],
    ids=["states at rest", "a dimension at rest, switches", "huge and tiny", "three steps", "nothing moves"],
)
def test_odd_episodes_are_audited_as_far_as_they_go(states, actions):
    found = audit(Episodes.of({"qpos": states, "action": actions}))
    assert found.description
    assert json.dumps(to_jsonable(found.to_dict()))


def test_numbers_whose_squares_are_near_overflow_raise():
    with pytest.raises(ValueError, match="action must be below"):
        audit(Episodes.of({"action": 1e200 * noise(0)}))


def test_npz_files_are_read_as_blocks_and_flat(tmp_path):
    block = noise(0, episodes=5, steps=7)
    np.savez(tmp_path / "block.npz", action=block, qpos=block)
    np.savez(tmp_path / "flat.npz", action=block.reshape(35, 2), qpos=block.reshape(35, 2), ep_len=[7] * 5)
    for name in ("block.npz", "flat.npz"):
        found = read_for_audit(tmp_path / name, ["action"])
        assert np.array_equal(np.stack(found.values("action")), block)
    np.savez(tmp_path / "odd.npz", action=block, qpos=block[:, :3])
    with pytest.raises(ValueError, match="of one number of episodes and steps"):
        read_for_audit(tmp_path / "odd.npz", ["action"])
    np.savez(tmp_path / "object.npz", action=np.array([None, {}], dtype=object))
    (tmp_path / "no.npz").write_bytes(b"nothing")
    for name in ("object.npz", "no.npz"):
        with pytest.raises(ValueError, match=name):
            read_for_audit(tmp_path / name, ["action"])
    with pytest.raises(ValueError, match="column must be one of action, qpos, got 'torque'"):
        read_for_audit(tmp_path / "flat.npz", ["torque"])


def gliding(seed=0, smooth=0.9):
    """Positions with inertia: v' = smooth v + noise, x' = x + 0.1 v'."""
    source = np.random.default_rng(seed)
    speed = np.zeros((EPISODES, STEPS, 2))
    speed[:, 0] = source.normal(size=(EPISODES, 2))
    for step in range(1, STEPS):
        speed[:, step] = smooth * speed[:, step - 1] + (1 - smooth**2) ** 0.5 * source.normal(
            size=(EPISODES, 2)
        )
    start = source.normal(size=(EPISODES, 1, 2))
    return start + 0.1 * np.cumsum(speed, 1), speed


def audited(**columns):
    actions = np.random.default_rng(9).normal(size=(EPISODES, STEPS, 1))
    return gather(Episodes.of({"action": actions, **columns}))


def test_velocity_is_seen_in_two_states_and_not_in_one():
    position, speed = gliding()
    line = visible_velocity(audited(qpos=position, qvel=speed))
    assert (line.verdict, line.value) == ("holds", 2.0)
    detail = dict(line.detail)
    assert detail["R2 of dimension 0 from 1"] < 0.2
    assert detail["R2 of dimension 0 from 2"] > 0.99  # the difference is the speed itself
    assert "2 consecutive frames" in line.sentence


def test_without_recorded_velocity_the_next_step_stands_for_it():
    position, _ = gliding(smooth=0.99)
    line = visible_velocity(audited(qpos=position))
    assert line.value == 2.0
    assert math.isclose(dict(line.detail)["R2 of dimension 0 from 2"], 0.98, abs_tol=0.01)  # 0.99 squared


def test_velocity_that_states_do_not_show_fails():
    position, _ = gliding()
    other = np.random.default_rng(3).normal(size=position.shape)
    line = visible_velocity(audited(qpos=position, qvel=other))
    assert (line.verdict, line.value) == ("fails", math.inf)


def test_wrapped_angles_fail():
    turning = np.cumsum(np.full((EPISODES, STEPS, 1), 0.4), 1)
    wrapped = (turning + np.pi) % (2 * np.pi) - np.pi
    line = no_wrapping(audited(qpos=wrapped))
    assert line.verdict == "fails"
    assert "steps of about 2 pi" in line.sentence
    line = no_wrapping(audited(qpos=turning))
    assert line.verdict == "unclear"
    assert math.isclose(line.value, 34 / 41, abs_tol=1e-9)  # from the eighth step on it is beyond pi
    assert no_wrapping(audited(qpos=0.1 * turning)).verdict == "holds"
