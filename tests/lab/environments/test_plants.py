"""The arm is dm_control's, and its equations are MuJoCo's."""

import numpy as np
import pytest
import torch

from isojepa.seeds import generator
from isojepa_lab.environments.control import LIMIT
from isojepa_lab.environments.latent_control import Angles, Frames, TwoFrames
from isojepa_lab.environments.plants import History, ReacherModel, State, record
from isojepa_lab.environments.reacher_frames import ArmLook
from isojepa_lab.environments.rendering import import_suite
from tests.lab.environments.rendering import plant_or_skip, rendering_or_skip


def drawn(count, seed=0):
    source = generator(seed, "states")
    qpos = torch.randn(count, 2, generator=source, dtype=torch.float64).clamp(-2.7, 2.7)
    return qpos.numpy(), torch.randn(count, 2, generator=source, dtype=torch.float64).numpy()


def acted(count, steps, seed=0):
    source = generator(seed, "actions")
    return (2.4 * torch.rand(steps, count, 2, generator=source, dtype=torch.float64) - 1.2).numpy()


def test_the_arm_moves_as_dm_controls():
    plant = plant_or_skip()
    environment = import_suite().load("reacher", "hard", task_kwargs={"random": 0})
    environment.reset()
    qpos, qvel = drawn(1)
    with environment.physics.reset_context():
        environment.physics.data.qpos[:], environment.physics.data.qvel[:] = qpos[0], qvel[0]
    plant.reset(qpos, qvel)
    for action in acted(1, 80):
        state = plant.step(action)
        environment.step(action[0].clip(-1, 1))
    np.testing.assert_allclose(state.qpos[0], environment.physics.data.qpos, atol=1e-9)
    np.testing.assert_allclose(state.qvel[0], environment.physics.data.qvel, atol=1e-9)


@pytest.mark.parametrize("repeat", [1, 3])
def test_the_equations_are_those_of_mujoco(repeat):
    plant = plant_or_skip(repeat=repeat)
    model = ReacherModel(plant, block=2)
    qpos, qvel = drawn(30)
    h = torch.from_numpy(np.concatenate((qpos, qvel), 1))
    plant.reset(qpos, qvel)
    free = np.full(30, True)
    actions = acted(30, 20).clip(-1, 1)
    for step in range(0, 20, 2):
        for action in actions[step : step + 2]:
            state = plant.step(action)
            free &= np.abs(state.qpos[:, 1]) < LIMIT - 0.05
        h = model.step(h, torch.from_numpy(np.concatenate(actions[step : step + 2], 1)))
    expected = np.concatenate((state.qpos, state.qvel), 1)
    assert free.sum() > 10
    np.testing.assert_allclose(h.numpy()[free], expected[free], atol=1e-9)
    assert float(h[:, 1].abs().max()) <= LIMIT


def test_a_step_moves_angles_by_the_new_velocity_so_the_one_before_is_known():
    plant = plant_or_skip()
    before = plant.reset(*drawn(5))
    after = plant.step(np.ones((5, 2)))
    np.testing.assert_allclose(History([after], plant.seconds).ago(1).qpos, before.qpos, atol=1e-12)
    assert History([before, after], plant.seconds).ago(1) is before


def test_an_action_leaves_its_row():
    plant = plant_or_skip()
    episodes = record(plant, 3, 20, generator(0, "episodes"), hold=2)
    qpos, qvel, actions = (np.stack(episodes.vectors(name)) for name in ("qpos", "qvel", "action"))
    plant.reset(qpos[:, 7], qvel[:, 7])
    state = plant.step(actions[:, 7])
    np.testing.assert_allclose(state.qpos, qpos[:, 8], atol=1e-9)
    assert np.isnan(actions[:, -1]).all()
    assert (actions[:, 6] == actions[:, 7]).all()
    assert len(set(actions[:, 0, 0].tolist())) == 3


def test_frames_show_the_arm_modulo_a_turn_and_again_the_same():
    rendering_or_skip()
    plant = plant_or_skip()
    poses = np.array([[0.3, 1.0], [0.3 + 2 * np.pi, 1.0], [1.3, 1.0]])
    frames = plant.observe(poses, ArmLook(size=48))
    again = plant.observe(poses, ArmLook(size=48))
    assert frames.shape == (3, 48, 48, 3)
    assert frames.dtype == np.uint8
    assert np.array_equal(frames, again)
    assert np.abs(frames[0].astype(int) - frames[1]).max() <= 2
    assert np.abs(frames[0].astype(int) - frames[2]).max() > 50


def test_two_frames_give_latents_and_their_change_and_goals_are_at_rest():
    rendering_or_skip()
    plant = plant_or_skip()
    now, between, before = (State(*drawn(4, seed)) for seed in range(3))
    history = History([before, between, now], plant.seconds)
    encoder = Frames(lambda x: x.mean((2, 3)), ArmLook(size=32), ((0.1, 0.2, 0.3), (0.5, 0.5, 0.5)))
    h = torch.from_numpy(plant.observe(now.qpos, ArmLook(size=32))).float().mean((1, 2)) / 255
    h = (h - torch.tensor([0.1, 0.2, 0.3])) / 0.5
    latents = TwoFrames(encoder, lag=2).latents(plant, history)
    torch.testing.assert_close(latents[:, :3], h)
    torch.testing.assert_close(latents[:, 3:], h - encoder(plant, before.qpos))
    goals = TwoFrames(encoder).goals(plant, now.qpos)
    torch.testing.assert_close(goals, torch.cat((h, torch.zeros(4, 3)), 1))
    torch.testing.assert_close(Angles()(plant, now.qpos), torch.from_numpy(now.qpos).float())


def test_bad_states_actions_and_goals_are_told():
    plant = plant_or_skip()
    with pytest.raises(ValueError, match="shoulder and wrist"):
        plant.reset(np.zeros((2, 3)), np.zeros((2, 3)))
    plant.reset(np.zeros((2, 2)), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="actions must be finite"):
        plant.step(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="actions must be finite"):
        plant.step(np.full((2, 2), np.nan))
