"""Every planner on problems whose optimum scipy knows, and what each promises besides."""

import numpy as np
import pytest
import scipy.optimize
import torch

from isojepa.planning.planners import (
    CEM,
    ICEM,
    MPPI,
    ActionSpace,
    FunctionDynamics,
    GoalCost,
    Gradient,
    LinearDynamics,
    LinearMPC,
    Problem,
    path_weights,
    wrapped,
)
from isojepa.seeds import generator
from tests.planning.planners.problems import DOUBLE, cart, stacked

HORIZON = 6
PLANNERS = [CEM(HORIZON), ICEM(HORIZON), MPPI(HORIZON), Gradient(HORIZON), LinearMPC(HORIZON)]
EXCESS = {CEM: 1e-5, ICEM: 0.02, MPPI: 0.01, Gradient: 0.005, LinearMPC: 1e-8}  # of the optimal cost


def named(planner):
    return type(planner).__name__


def optimum(problem, horizon=HORIZON):
    """Least costs within the bounds, by scipy's bounded least squares."""
    ends = float(problem.space.low), float(problem.space.high)
    solved = [
        scipy.optimize.lsq_linear(*stacked(problem, horizon, place), ends, tol=1e-14)
        for place in range(len(problem))
    ]
    return np.array([2 * one.cost for one in solved]), np.stack([one.x for one in solved])


@pytest.mark.parametrize("planner", PLANNERS, ids=named)
@pytest.mark.parametrize("scale", [0.1, 3.0], ids=["free", "bounds active"])
def test_planners_come_to_the_optimum_of_linear_quadratic_problems(planner, scale):
    problem = cart(scale=scale)
    least, _ = optimum(problem)
    plan = planner.plan(problem, generator(0, "planner"))
    assert plan.actions.shape == (3, HORIZON, 1)
    assert float(plan.actions.abs().max()) <= 1.0
    excess = plan.cost.numpy() / least - 1
    assert excess.min() > -1e-9
    assert excess.max() < EXCESS[type(planner)]


def test_clipping_alone_is_worse_than_the_optimum_within_bounds():
    problem = cart(scale=3.0)
    clipped = LinearMPC(HORIZON, refinements=0).plan(problem, generator(0, "x"))
    assert (clipped.cost.numpy() > 1.001 * optimum(problem)[0]).any()


def test_linear_mpc_gives_the_actions_of_the_riccati_recursion():
    problem = cart(limit=1e6)
    a, b = problem.dynamics.a.numpy(), problem.dynamics.b.numpy()
    weight = np.diag(problem.cost.weights.numpy())
    value, gains = weight, []
    for _ in range(HORIZON):
        gain = np.linalg.solve(problem.cost.effort * np.eye(1) + b.T @ value @ b, b.T @ value @ a)
        value = weight + a.T @ value @ (a - b @ gain)
        gains.insert(0, gain)
    plan = LinearMPC(HORIZON).plan(problem, generator(0, "x"))
    for state, actions in zip(problem.start.numpy(), plan.actions.numpy(), strict=True):
        for gain, action in zip(gains, actions, strict=True):
            np.testing.assert_allclose(action, -gain @ state, atol=1e-8)
            state = a @ state + b @ action


def test_linear_mpc_passes_are_gauss_newton_for_a_model_that_is_not_linear():
    model = FunctionDynamics(lambda h, a: torch.cat((h[:, :1] + torch.sin(h[:, 1:]), h[:, 1:] + a), 1))
    start, goal = torch.zeros(1, 2, dtype=DOUBLE), torch.tensor([[1.5, 0.0]], dtype=DOUBLE)
    problem = Problem(model, GoalCost(effort=0.01), ActionSpace.box(1), start, goal)
    costs = [float(LinearMPC(4, passes).plan(problem, generator(0, "x")).cost) for passes in (1, 3, 10)]
    found = scipy.optimize.minimize(
        lambda x: float(problem.costs(torch.from_numpy(x).view(1, 1, 4, 1))),
        np.zeros(4),
        bounds=[(-1, 1)] * 4,
    )
    assert costs[0] > costs[1]
    assert costs[2] == pytest.approx(found.fun, rel=1e-3)


def test_planning_in_rotated_latents_gives_the_same_actions():
    problem = cart(scale=2.0)
    q, _ = torch.linalg.qr(torch.randn(2, 2, generator=generator(1, "rotation"), dtype=DOUBLE))
    model = problem.dynamics
    turned = LinearDynamics(q @ model.a @ q.T, q @ model.b, model.offset)
    cost = GoalCost(running=1.0, effort=0.05)
    for planner in PLANNERS:
        plans = [
            planner.plan(Problem(dynamics, cost, problem.space, start, start * 0), generator(0, "planner"))
            for dynamics, start in ((model, problem.start), (turned, problem.start @ q.T))
        ]
        torch.testing.assert_close(plans[0].actions, plans[1].actions, atol=1e-7, rtol=0)


@pytest.mark.parametrize("planner", PLANNERS, ids=named)
def test_a_plan_foresees_what_its_actions_do(planner):
    problem = cart()
    plan = planner.plan(problem, generator(0, "planner"))
    h = problem.start
    for step in range(HORIZON):
        torch.testing.assert_close(plan.latents[:, step], h)
        h = h @ problem.dynamics.a.T + plan.actions[:, step] @ problem.dynamics.b.T
    torch.testing.assert_close(plan.latents[:, -1], h)
    torch.testing.assert_close(plan.cost, problem.costs(plan.actions[:, None])[:, 0])


@pytest.mark.parametrize("planner", [CEM(3, 20, 2, 4), ICEM(3), MPPI(3, 20, 2), Gradient(3, 2, 3)], ids=named)
def test_the_model_only_ever_sees_actions_within_the_bounds(planner):
    seen = []

    def step(h, a):
        seen.append(a.detach())
        return h + a

    space = ActionSpace(
        torch.tensor([-0.5, 2.0]),
        torch.tensor([0.5, 3.0]),
        torch.tensor([0.0, 2.2]),
        torch.tensor([4.0, 9.0]),
    )
    problem = Problem(FunctionDynamics(step), GoalCost(), space, torch.zeros(1, 2), torch.full((1, 2), 40.0))
    plan = planner.plan(problem, generator(0, "planner"))
    for actions in (*seen, plan.actions.flatten(0, 1)):
        # scaled to units and back, an action at the bound may be one rounding beyond it
        assert bool((actions >= space.low - 1e-6).all() and (actions <= space.high + 1e-6).all())
    assert bool((plan.actions >= space.low).all() and (plan.actions <= space.high).all())


def test_noise_draws_the_same_plan_again_and_another_seed_another():
    problem = cart(scale=3.0)
    planner = CEM(HORIZON, 30, 2, 5)
    plans = [planner.plan(problem, generator(seed, "planner")).actions for seed in (0, 0, 1)]
    assert torch.equal(plans[0], plans[1])
    assert not torch.equal(plans[0], plans[2])


@pytest.mark.parametrize(
    "planner", [CEM(HORIZON, 40, 5, 6), CEM(HORIZON, 40, 5, 6, momentum=0.3, kept=0.5, shrink=1.2)]
)
@pytest.mark.parametrize("running", [0.0, 1.0])
def test_cem_is_the_textbook_loop_over_problems_and_candidates(planner, running):
    problem = cart(scale=3.0, running=running)
    a, b = problem.dynamics.a.numpy(), problem.dynamics.b.numpy()
    weights = problem.cost.weights.numpy()

    def cost(place, actions):
        h, total = problem.start[place].numpy(), 0.0
        for step, action in enumerate(actions):
            h = a @ h + b @ action
            share = 1.0 if step == HORIZON - 1 else running
            total += share * (weights * h**2).sum() + problem.cost.effort * (action**2).sum()
        return total

    source = generator(0, "planner")
    mean, deviation = np.zeros((3, HORIZON, 1)), np.ones((3, HORIZON, 1))
    stay, seen = [[], [], []], [[], [], []]
    for count in planner.populations:
        noise = torch.randn(HORIZON, 3, count, 1, generator=source, dtype=DOUBLE).numpy()
        for place in range(3):
            drawn = [
                np.clip(mean[place] + deviation[place] * noise[:, place, i], -1, 1) for i in range(count)
            ]
            drawn = [mean[place], *drawn[1:], *stay[place]]
            elites = np.stack(sorted(drawn, key=lambda one: cost(place, one))[: planner.elites])
            seen[place].append(elites[0])
            stay[place] = list(elites[: round(planner.kept * planner.elites)])
            part = planner.momentum
            mean[place] = (1 - part) * elites.mean(0) + part * mean[place]
            deviation[place] = (1 - part) * elites.std(0) + part * deviation[place]
    expected = [min((*seen[place], mean[place]), key=lambda one: cost(place, one)) for place in range(3)]
    plan = planner.plan(problem, generator(0, "planner"))
    np.testing.assert_allclose(plan.actions.numpy(), np.stack(expected), atol=1e-9)


@pytest.mark.parametrize("planner", [CEM(3, 20, 2, 4), ICEM(3), MPPI(3, 20, 2)], ids=named)
def test_a_model_may_differentiate_within_its_step_and_its_plan_be_differentiated(planner):
    def step(h, a):
        with torch.enable_grad():
            h = h.detach().requires_grad_()
            (force,) = torch.autograd.grad((h**4).sum(), h)
        return (h - 0.01 * force + a).detach()

    start = torch.tensor([[1.0, -1.0]])
    problem = Problem(FunctionDynamics(step), GoalCost(), ActionSpace.box(2), start, 0 * start)
    plan = planner.plan(problem, generator(0, "planner"))
    weight = torch.ones(2, requires_grad=True)
    (weight * plan.actions).sum().backward()
    torch.testing.assert_close(weight.grad, plan.actions.sum((0, 1)))


def test_a_plan_that_starts_from_an_earlier_one_is_not_worse():
    problem = cart(scale=2.0)
    good = LinearMPC(HORIZON).plan(problem, generator(0, "x"))
    for planner in (CEM(HORIZON, 10, 1, 3), ICEM(HORIZON, 20, 1, 3), Gradient(HORIZON, 1, 1)):
        again = planner.plan(problem, generator(0, "planner"), good.actions)
        assert bool((again.cost <= good.cost + 1e-12).all())


def test_path_weights_are_the_formula():
    costs = torch.tensor([[3.0, 1.0, 2.0, float("inf")]], dtype=DOUBLE)
    expected = np.exp(-np.array([2.0, 0.0, 1.0, np.inf]) / 0.7)
    np.testing.assert_allclose(path_weights(costs, 0.7)[0].numpy(), expected / expected.sum(), atol=1e-12)


def test_one_iteration_of_mppi_is_the_weighted_mean_of_its_candidates():
    problem = cart(1)
    planner = MPPI(3, candidates=40, iterations=1, temperature=0.3)
    drawn = torch.randn(3, 1, 40, 1, generator=generator(0, "planner"), dtype=DOUBLE).movedim(0, -2)
    drawn = drawn.clamp(-1, 1)
    costs = problem.costs(drawn)
    weights = path_weights(costs, 0.3 * float(costs.mean() - costs.min()))
    expected = (weights[..., None, None] * drawn).sum(1)
    torch.testing.assert_close(planner.plan(problem, generator(0, "planner")).actions, expected)


def test_gradients_through_the_model_equal_finite_differences():
    problem = cart(2, scale=1.0)
    actions = torch.rand(
        2, 1, HORIZON, 1, generator=generator(0, "actions"), dtype=DOUBLE, requires_grad=True
    )
    (gradient,) = torch.autograd.grad(problem.costs(actions).sum(), actions)
    step = 1e-6
    for place in range(HORIZON):
        moved = torch.zeros_like(actions)
        moved[:, :, place] = step
        with torch.no_grad():
            slope = (problem.costs(actions + moved) - problem.costs(actions - moved)) / (2 * step)
        torch.testing.assert_close(gradient[:, :, place, 0], slope, atol=1e-7, rtol=1e-6)


def test_a_candidate_whose_latents_explode_is_never_chosen():
    model = FunctionDynamics(lambda h, a: torch.where(a > 0.2, torch.nan, h + a))
    problem = Problem(model, GoalCost(), ActionSpace.box(1), torch.zeros(2, 1), torch.ones(2, 1))
    for planner in (CEM(3, 100, 10, 10), ICEM(3), MPPI(3)):
        plan = planner.plan(problem, generator(0, "planner"))
        assert bool(torch.isfinite(plan.cost).all())
        assert float(plan.actions.max()) <= 0.2 + 1e-6
    broken = FunctionDynamics(lambda h, a: h * torch.nan)
    problem = Problem(broken, GoalCost(), ActionSpace.box(1), torch.zeros(2, 1), torch.ones(2, 1))
    with pytest.raises(ValueError, match="finite cost"):
        CEM(3, 20, 2, 4).plan(problem, generator(0, "planner"))


def test_angles_are_compared_the_short_way_round():
    cost = GoalCost(period=torch.tensor([2 * np.pi, np.inf]))
    latents = torch.tensor([[[3.0, 3.0]]])
    goal = torch.tensor([[-3.0, -3.0]])
    assert float(cost(latents, goal, torch.zeros(1, 1, 1))) == pytest.approx(
        (2 * np.pi - 6) ** 2 + 36, rel=1e-5
    )
    assert float(wrapped(torch.tensor(6.0))) == pytest.approx(6 - 2 * np.pi)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: CEM(elites=301), "elites"),
        (lambda: CEM(horizon=0), "horizon"),
        (lambda: CEM(momentum=1.0), "momentum"),
        (lambda: ICEM(shrink=0.5), "shrink"),
        (lambda: MPPI(temperature=0.0), "temperature"),
        (lambda: Gradient(rate=-1.0), "rate"),
        (lambda: LinearMPC(passes=0), "passes"),
        (lambda: ActionSpace(torch.ones(2), torch.zeros(2)), "low < high"),
        (lambda: GoalCost(effort=-1.0), "effort"),
        (
            lambda: Problem(None, None, ActionSpace.box(1), torch.zeros(2, 2), torch.zeros(3, 2)),
            "as many rows",
        ),
        (
            lambda: Problem(None, None, ActionSpace.box(1), torch.zeros(1, 2) * torch.nan, torch.zeros(1, 2)),
            "finite",
        ),
        (lambda: LinearDynamics.fit(np.zeros((3, 2)), np.zeros((3, 1)), np.zeros((3, 2))), "rows"),
        (lambda: CEM(4).plan(cart(), generator(0, "x"), torch.zeros(3, 5, 1)), "previous"),
    ],
)
def test_bad_arguments_are_told(make, told):
    with pytest.raises(ValueError, match=told):
        make()


def test_a_model_of_another_width_is_told():
    problem = Problem(
        FunctionDynamics(lambda h, a: h[:, :1]),
        GoalCost(),
        ActionSpace.box(1),
        torch.zeros(1, 2),
        torch.zeros(1, 2),
    )
    with pytest.raises(ValueError, match=r"dynamics\.rollout must return latents"):
        CEM(2, 10, 1, 2).plan(problem, generator(0, "x"))


def test_a_linear_model_is_that_of_its_rows():
    source = generator(0, "rows")
    h, a = (torch.randn(200, width, generator=source, dtype=DOUBLE) for width in (3, 2))
    true = LinearDynamics(*(torch.randn(*s, generator=source, dtype=DOUBLE) for s in ((3, 3), (3, 2), (3,))))
    fitted = LinearDynamics.fit(h.numpy(), a.numpy(), true.step(h, a).numpy())
    for name in ("a", "b", "offset"):
        torch.testing.assert_close(getattr(fitted, name), getattr(true, name))


def test_directions_that_are_only_rounding_have_no_coefficients():
    source = generator(0, "rows")
    flat, a = (torch.randn(500, 2, generator=source) for _ in range(2))
    up = torch.randn(2, 4, generator=source)
    h, after = flat @ up, (0.9 * flat + 0.1 * a) @ up  # float32: two of four directions are rounding
    fitted = LinearDynamics.fit(h.double().numpy(), a.double().numpy(), after.double().numpy())
    assert float(fitted.a.abs().max()) < 5
    torch.testing.assert_close(fitted.step(h.double(), a.double()), after.double(), atol=1e-5, rtol=0)
