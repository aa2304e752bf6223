"""Transitions fitted in closed form: what they find, refuse, predict and keep."""

import numpy as np
import pytest
import torch

from isojepa.certificates.dynamics import Transition, fit_transition
from isojepa.encoders.world_model import Dynamics
from isojepa.planning.planners import CEM, LinearMPC
from isojepa.planning.problems import ActionSpace, GoalCost, Problem
from isojepa.seeds import generator
from tests.certificates.dynamics.worlds import normal, random_world

WORLD = random_world(4, 3, 2, feedback=True)


@pytest.fixture(scope="module")
def paths():
    return WORLD.paths(50, 25, generator(0, "paths"))


def test_a_world_without_noise_is_found_exactly():
    source = generator(0, "exact")
    h, a = normal(source, 40, 3), normal(source, 40, 2)
    found = fit_transition(h, a, h @ WORLD.a.T + a @ WORLD.b.T + 0.5)
    np.testing.assert_allclose(found.A, WORLD.a, atol=1e-10)
    np.testing.assert_allclose(found.B, WORLD.b, atol=1e-10)
    np.testing.assert_allclose(found.c, 0.5, atol=1e-10)
    assert found.rows == 40


def test_the_fit_is_numpys_least_squares_and_a_ridge_is_that_of_more_rows(paths):
    z, a = paths
    found = fit_transition(z, a, history=2)
    state = np.concatenate((z[1:-1], z[:-2]), axis=2).reshape(-1, 6)
    x = np.column_stack((state, a[1:].reshape(-1, 2), np.ones(len(state))))
    y = z[2:].reshape(-1, 3)
    expected = np.linalg.lstsq(x, y, rcond=None)[0]
    np.testing.assert_allclose(np.column_stack((found.A, found.B, found.c)).T, expected, atol=1e-9)
    h, taken = z[:-1].reshape(-1, 3), a.reshape(-1, 2)
    ridge = fit_transition(h, taken, z[1:].reshape(-1, 3), ridge=0.1)
    inputs = np.column_stack((h, taken))
    standard = (inputs - inputs.mean(0)) / inputs.std(0)
    more = np.sqrt(0.1 * len(h)) * np.eye(5)
    target = z[1:].reshape(-1, 3)
    rows = np.linalg.lstsq(
        np.concatenate((standard, more)),
        np.concatenate((target - target.mean(0), np.zeros((5, 3)))),
        rcond=None,
    )[0]
    np.testing.assert_allclose(
        np.column_stack((ridge.A, ridge.B)).T, rows / inputs.std(0)[:, None], atol=1e-9
    )


def test_a_rollout_is_one_prediction_after_another_and_the_stacked_state_says_the_same(paths):
    z, a = paths
    found = fit_transition(z, a, history=2)
    state, actions = np.concatenate((z[1], z[0]), axis=1), a[1:5]
    latents = torch.from_numpy(np.stack((z[0], z[1]), axis=1))
    rolled = found.rollout(latents, torch.from_numpy(actions.swapaxes(0, 1))).numpy().swapaxes(0, 1)
    big_a, big_b, big_c = found.stacked()
    for step, action in enumerate(actions):
        state = state @ big_a.T + action @ big_b.T + big_c
        np.testing.assert_allclose(rolled[step], state[:, :3])


def test_a_fitted_transition_is_a_model_that_planners_take(paths):
    z, a = (torch.from_numpy(part) for part in paths)
    for history in (1, 2):
        fitted = fit_transition(*paths, history=history)
        assert isinstance(fitted, Dynamics)
        goal = z[5, :2]
        problem = Problem(fitted, GoalCost(), ActionSpace.box(2), z[:history, :2].transpose(0, 1), goal)
        rolled = problem.rollout(a[:4, :2].transpose(0, 1)).numpy()
        state = np.concatenate([paths[0][step, :2] for step in reversed(range(history))], axis=1)
        for step in range(4):
            state = fitted.step(state, paths[1][step, :2])
            np.testing.assert_allclose(rolled[:, history + step], state[:, :3])
        plan = LinearMPC(4).plan(problem, torch.Generator())
        search = CEM(4, iterations=60).plan(problem, torch.Generator().manual_seed(0))
        assert (plan.cost <= search.cost + 1e-6).all()


def test_a_transition_comes_back_from_its_file(paths, tmp_path):
    found = fit_transition(*paths, history=2)
    found.save(tmp_path / "transition.safetensors")
    again = Transition.load(tmp_path / "transition.safetensors")
    for name in ("A", "B", "c", "noise"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    assert (again.history, again.rows) == (2, found.rows)
    (tmp_path / "other").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="not a safetensors file"):
        Transition.load(tmp_path / "other")
    with pytest.raises(ValueError, match=r"B must be \(2, actions\)"):
        Transition(np.eye(2), np.zeros((3, 1)), np.zeros(2), np.eye(2))


def test_pairs_that_no_action_made_are_refused_with_their_columns(paths):
    z, a = paths
    h, taken, after = z[:-1].reshape(-1, 3), a.reshape(-1, 2), z[1:].reshape(-1, 3)
    with pytest.raises(ValueError, match="pairs that no action made"):
        fit_transition(h, None, after)
    with pytest.raises(ValueError, match=r"a\[0\] never varies.* a\[1\] never varies"):
        fit_transition(h, np.zeros_like(taken), after)
    with pytest.raises(ValueError, match="linear function of the state"):
        fit_transition(h, h[:, :2] - h[:, 2:], after)
    with pytest.raises(ValueError, match="NaN or Inf in columns 0, 1"):
        fit_transition(h, taken * np.nan, after)
    with pytest.raises(ValueError, match=r"more rows than .* 6, got 6"):
        fit_transition(h[:6], taken[:6], after[:6])
