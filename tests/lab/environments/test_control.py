"""The arm in lockstep: dm_control's own steps, starts and rewards; policies with known effects."""

import math
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from isojepa.seeds import generator
from isojepa_lab.environments import control as arm_module
from isojepa_lab.environments.control import Actor, Exploration, Learned, Uniform, reacher_episodes, simulate
from isojepa_lab.environments.rendering import import_suite

pytestmark = pytest.mark.skipif(find_spec("dm_control") is None, reason="dm_control is not installed")


@pytest.fixture(scope="module")
def control():
    return import_suite().load("reacher", "hard", task_kwargs={"random": 0})


def placed(control, state, target):
    control.reset()
    physics = control.physics
    with physics.reset_context():
        physics.data.qpos[:], physics.data.qvel[:] = state[1:3], state[3:]
        physics.named.model.geom_pos["target", ["x", "y"]] = target
    return physics


@pytest.mark.parametrize("policy", [Uniform(), Exploration()])
def test_steps_rewards_and_observations_are_dm_controls_own(control, policy):
    found = simulate(policy, 3, 30, seed=4)
    for episode in range(3):
        state = np.concatenate(([0.0], found["qpos"][episode, 0], found["qvel"][episode, 0]))
        physics = placed(control, state, found["target"][episode, 0])
        for step in range(29):
            seen = control.task.get_observation(physics)
            ours = arm_module.finger(found["qpos"][episode, step])
            np.testing.assert_allclose(found["target"][episode, step] - ours, seen["to_target"], atol=1e-9)
            assert control.task.get_reward(physics) == found["reward"][episode, step]
            control.task.before_step(found["action"][episode, step], physics)
            physics.step()
            np.testing.assert_allclose(physics.data.qpos, found["qpos"][episode, step + 1], atol=1e-9)
            np.testing.assert_allclose(physics.data.qvel, found["qvel"][episode, step + 1], atol=1e-8)


def test_rewards_agree_where_the_target_is_touched(control):
    source = np.random.default_rng(0)
    angles = source.uniform(-2.5, 2.5, (40, 2))
    targets = arm_module.finger(angles) + source.uniform(-0.03, 0.03, (40, 2))
    ours = arm_module.reward(angles, targets)
    theirs = [
        control.task.get_reward(placed(control, np.array([0, *angle, 0, 0]), target))
        for angle, target in zip(angles, targets, strict=True)
    ]
    assert 5 < ours.sum() < 35
    assert np.array_equal(ours, theirs)


def test_starts_and_targets_have_dm_controls_law():
    states = arm_module.draw_starts(20_000, generator(0, "test"))
    targets = arm_module.draw_targets(20_000, generator(1, "test"))
    limits = arm_module.model().jnt_range[1]
    assert math.isclose(limits[1], arm_module.LIMIT, abs_tol=1e-9)
    assert not states[:, [0, 3, 4]].any()
    for column, end in ((states[:, 1], math.pi), (states[:, 2], limits[1])):
        grid = np.sort((column / end + 1) / 2)
        assert np.abs(grid - (np.arange(20_000) + 0.5) / 20_000).max() < 0.015
    radius = np.linalg.norm(targets, axis=1)
    assert radius.min() >= 0.05
    assert radius.max() <= 0.20
    assert math.isclose(radius.mean(), 0.125, abs_tol=0.001)


def test_turning_arm_and_target_changes_nothing_that_a_policy_sees():
    angles, speeds = np.array([0.3, -1.1]), np.array([2.0, -3.0])
    target, turn = np.array([0.1, -0.05]), 1.7
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    turned = angles + np.array([turn, 0.0])
    first = arm_module.observe(angles, target - arm_module.finger(angles), speeds)
    second = arm_module.observe(turned, rotation @ target - arm_module.finger(turned), speeds)
    np.testing.assert_allclose(first, second, atol=1e-6)


def test_the_exploration_is_one_stationary_isotropic_gaussian_process():
    found = simulate(Exploration(), 1500, 65, seed=1)
    angles = found["qpos"]
    for step in (0, 32, 64):
        np.testing.assert_allclose(angles[:, step].std(0), 0.9, rtol=0.08)
        assert abs(np.corrcoef(angles[:, step].T)[0, 1]) < 0.1
    rates = [np.corrcoef(angles[:, 0, joint], angles[:, 64, joint])[0, 1] for joint in (0, 1)]
    assert abs(rates[0] - rates[1]) < 0.08
    saturated = (np.abs(found["action"][:, :-1]) >= 1).mean()
    assert saturated < 0.01
    free = (np.abs(found["action"][:, :-1]) < 1).all(-1) & (np.abs(angles[:, :-1, 1]) < 2.5)
    speeds = found["qvel"]
    shock = speeds[:, 1:] - (1 - 0.02 * 2.0) * speeds[:, :-1] + 0.02 * 2.0 / 3.0 * angles[:, :-1]
    expected = Exploration()._law[1]  # the noise alone is left of a step
    np.testing.assert_allclose(shock[free].std(0), expected, rtol=0.04)  # the largest are cut off


def test_episodes_repeat_with_their_seed_and_differ_with_another():
    first, again, other = (reacher_episodes("random", 4, 6, seed) for seed in (0, 0, 1))
    assert np.array_equal(np.concatenate(first.values("qpos")), np.concatenate(again.values("qpos")))
    assert not np.array_equal(np.concatenate(first.values("qpos")), np.concatenate(other.values("qpos")))
    assert np.isnan(np.stack(first.values("action"))[:, -1]).all()
    assert [len(part) for part in first.actions()] == [5] * 4
    with pytest.raises(ValueError, match="policy must be one of ou, random, sac"):
        reacher_episodes("sacc", 1)
    with pytest.raises(ValueError, match="steps must be an integer of at least 2"):
        reacher_episodes("random", 1, 1)


def test_the_policy_of_the_package_reaches_targets_that_random_torques_do_not():
    reached = simulate(Learned(), 100, 151, seed=7)["reward"][:, -1]
    random = simulate(Uniform(), 100, 151, seed=7)["reward"][:, -1]
    assert reached.mean() > 0.9
    assert random.mean() < 0.1


def layers(hidden=8, **changes):
    source = torch.Generator().manual_seed(0)
    shapes = {"first": (hidden, 5), "second": (hidden, hidden), "mean": (2, hidden), "log_std": (2, hidden)}
    found = {f"{name}.weight": torch.randn(shape, generator=source) for name, shape in shapes.items()}
    found |= {f"{name}.bias": torch.randn(shape[0], generator=source) for name, shape in shapes.items()}
    return found | changes


def test_an_actor_computes_what_its_layers_say(tmp_path):
    weights = layers()
    Actor(weights).save(tmp_path / "a.safetensors")
    actor = Actor.load(tmp_path / "a.safetensors")
    x, noise = torch.randn(7, 5), torch.randn(7, 2)
    hidden = x
    for name in ("first", "second"):
        hidden = torch.nn.functional.linear(hidden, weights[f"{name}.weight"], weights[f"{name}.bias"]).relu()
    mean = torch.nn.functional.linear(hidden, weights["mean.weight"], weights["mean.bias"])
    spread = torch.nn.functional.linear(hidden, weights["log_std.weight"], weights["log_std.bias"])
    np.testing.assert_allclose(actor.act(x.numpy()), mean.tanh(), atol=1e-5)
    drawn = (mean + spread.clamp(-20, 2).exp() * noise).tanh()
    np.testing.assert_allclose(actor.act(x.numpy(), noise), drawn, atol=1e-4)


def test_actors_of_other_shapes_and_damaged_files_are_refused(tmp_path):
    for changes in (
        {"mean.weight": torch.zeros(3, 8)},
        {"mean.bias": torch.full((2,), math.nan)},
        {"second.weight": torch.zeros(8, 7)},
        {"first.weight": torch.zeros(8, 6)},
    ):
        with pytest.raises(ValueError, match="must be finite and of shape"):
            Actor(layers(**changes))
    with pytest.raises(ValueError, match=r"first\.weight must have"):
        Actor({})
    (tmp_path / "a.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ValueError, match="cannot be read as an actor"):
        Actor.load(tmp_path / "a.safetensors")


def test_the_inertia_of_the_torques_is_mujocos(control):
    from isojepa_lab.environments.control import torques

    angles, speeds, wanted = np.array([[0.4, 1.2]]), np.array([[1.5, -2.0]]), np.array([[3.0, -5.0]])
    action = torques(angles, speeds, wanted)[0]
    assert np.abs(action).max() < 1
    physics = placed(control, np.array([0, *angles[0], *speeds[0]]), (0.1, 0.1))
    physics.set_control(action)
    physics.step()
    np.testing.assert_allclose(physics.data.qvel, speeds[0] + 0.02 * wanted[0], atol=1e-9)
