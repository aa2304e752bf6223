"""Regulators against least squares and simulation, in latents and in any rotation of them."""

import numpy as np
import pytest

from isojepa.planning import FiniteLqr, LinearSystem, Lqr
from isojepa_lab.theory.control import open_loop
from tests.planning.made_up import normal, rotation, world


@pytest.mark.parametrize("size", range(1, 9))
def test_actions_and_values_of_a_rotated_embedding_are_those_of_the_latents(size):
    lqr, q = world(size, size), rotation(size, "turn")
    turned = Lqr(lqr.system.turned(q), q @ lqr.w @ q.T, lqr.r)
    z = normal("states", size=(50, size))
    np.testing.assert_allclose(turned.act(z @ q.T), lqr.act(z), atol=1e-8)
    np.testing.assert_allclose(turned.cost_to_go(z @ q.T), lqr.cost_to_go(z), rtol=1e-8)
    assert turned.average_cost == pytest.approx(lqr.average_cost, rel=1e-8)


@pytest.mark.parametrize("size", [1, 3, 6])
def test_finite_plans_to_a_goal_agree_in_a_rotated_embedding(size):
    lqr, q = world(size, size), rotation(size, "turn")
    goal, z = normal("goal", size=(size,)), normal("states", size=(20, size))
    plain = FiniteLqr(lqr.system, lqr.w, lqr.r, 7, goal=goal)
    turned = FiniteLqr(lqr.system.turned(q), q @ lqr.w @ q.T, lqr.r, 7, goal=q @ goal)
    for time in range(7):
        np.testing.assert_allclose(turned.act(time, z @ q.T), plain.act(time, z), atol=1e-8)
        np.testing.assert_allclose(turned.cost_to_go(time, z @ q.T), plain.cost_to_go(time, z), rtol=1e-8)


def test_a_finite_plan_to_a_goal_is_that_of_least_squares():
    system = LinearSystem(normal("A", size=(3, 3)) / 2, normal("B", size=(3, 2)))
    goal, start, horizon = normal("goal", size=(3,)), normal("start", size=(3,)), 6
    lqr = FiniteLqr(system, np.eye(3), np.eye(2) / 10, horizon, goal=goal)
    plan, cost = open_loop(system.a, system.b, start, goal, horizon, 1.0)
    z, taken = start[None], []
    for time in range(horizon):
        taken.append(lqr.act(time, z)[0])
        z = z @ system.a.T + taken[-1] @ system.b.T
    np.testing.assert_allclose(taken, plan, atol=1e-10)
    first = float((start - goal) @ (start - goal))  # least squares does not count the start
    assert lqr.cost_to_go(0, start[None])[0] == pytest.approx(cost + first)


def test_the_cost_of_the_noise_is_in_the_value_of_a_finite_horizon():
    lqr = world(2, 2)
    finite = FiniteLqr(lqr.system, lqr.w, lqr.r, 5, goal=np.array([1.0, -1.0]))
    z, total = np.tile([0.5, 0.2], (40_000, 1)), np.zeros(40_000)
    for time in range(5):
        action, off = finite.act(time, z), z - finite.goal
        total += np.einsum("ni,ij,nj->n", off, lqr.w, off)
        total += np.einsum("ni,ij,nj->n", action, lqr.r, action)
        kicks = normal("kicks", time, size=z.shape) @ np.linalg.cholesky(lqr.system.noise).T
        z = z @ lqr.system.a.T + action @ lqr.system.b.T + kicks
    off = z - finite.goal
    total += np.einsum("ni,ij,nj->n", off, lqr.w, off)
    told = finite.cost_to_go(0, np.array([[0.5, 0.2]]))[0]
    assert abs(total.mean() - told) < 5 * total.std() / 200


def test_no_nearby_gain_costs_less():
    lqr = world(7, 3)
    assert lqr.cost_of(lqr.gain) == pytest.approx(lqr.average_cost)
    for index in range(10):
        other = lqr.gain + 0.05 * normal("other", index, size=lqr.gain.shape)
        assert lqr.cost_of(other) > lqr.average_cost


POINT = LinearSystem([[1.0, 0.1], [0.0, 1.0]], [[0.0], [0.1]])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: Lqr(LinearSystem(np.diag([0.5, 1.2]), [[1.0], [0.0]]), np.eye(2), np.eye(1)),
            "eigenvalue 1.2",
        ),
        (lambda: Lqr(LinearSystem([[0, 2], [-2, 0]], [[0.0], [0.0]]), np.eye(2), np.eye(1)), r"[+-]2i"),
        (
            lambda: Lqr(LinearSystem(np.eye(2), np.eye(2)), np.diag([1.0, 0.0]), np.eye(2)),
            "w must see every mode",
        ),
        (lambda: Lqr(POINT, -np.eye(2), np.eye(1)), "w must be positive semidefinite"),
        (lambda: Lqr(POINT, np.eye(2), [[0.0]]), "r must be positive definite"),
        (lambda: LinearSystem([[np.nan]], [[1.0]]), "a must be finite"),
        (lambda: LinearSystem(np.eye(2), np.eye(2), -np.eye(2)), "noise must be positive semidefinite"),
        (lambda: Lqr(np.eye(2), np.eye(2), np.eye(1)), "system must be a LinearSystem"),
        (lambda: POINT.turned(2 * np.eye(2)), "q must be an orthogonal matrix"),
        (lambda: Lqr(POINT, np.eye(2), np.eye(1)).act(np.zeros((1, 2)), [0.0, 1.0]), "drifts by 0.1 a step"),
        (lambda: Lqr(POINT, np.eye(2), np.eye(1)).act(np.zeros((1, 3))), r"states must be \(n, 2\)"),
        (lambda: Lqr(POINT, np.eye(2), np.eye(1)).cost_of(np.zeros((1, 2))), "closed loop must be stable"),
    ],
)
def test_what_cannot_be_regulated_is_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()
