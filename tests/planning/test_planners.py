"""Every planner on problems whose optimum scipy knows, and what each promises besides.

Coloured noise: its spectrum and its variance.

The policy by inverse dynamics: recorded actions are told, and goals reached.
"""

import numpy as np
import pytest
import scipy.optimize
import torch

from isojepa.planning.planners import (
    CEM,
    ICEM,
    MPPI,
    Gradient,
    InverseDynamics,
    LinearMPC,
    colored_noise,
    path_weights,
)
from isojepa.planning.problems import (
    ActionSpace,
    FunctionDynamics,
    GoalCost,
    LinearDynamics,
    Problem,
)
from isojepa.seeds import generator
from tests.planning.problems import DOUBLE, cart, stacked

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


def test_one_iteration_of_mppi_is_the_weighted_mean_of_its_candidates():
    problem = cart(1)
    planner = MPPI(3, candidates=40, iterations=1, temperature=0.3)
    drawn = torch.randn(3, 1, 40, 1, generator=generator(0, "planner"), dtype=DOUBLE).movedim(0, -2)
    drawn = drawn.clamp(-1, 1)
    costs = problem.costs(drawn)
    weights = path_weights(costs, 0.3 * float(costs.mean() - costs.min()))
    expected = (weights[..., None, None] * drawn).sum(1)
    torch.testing.assert_close(planner.plan(problem, generator(0, "planner")).actions, expected)


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


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: CEM(elites=301), "elites"),
        (lambda: MPPI(temperature=0.0), "temperature"),
        (lambda: LinearMPC(passes=0), "passes"),
        (lambda: ActionSpace(torch.ones(2), torch.zeros(2)), "low < high"),
        (
            lambda: Problem(None, None, ActionSpace.box(1), torch.zeros(2, 2), torch.zeros(3, 2)),
            "as many rows",
        ),
        (lambda: LinearDynamics.fit(np.zeros((3, 2)), np.zeros((3, 1)), np.zeros((3, 2))), "rows"),
        (lambda: CEM(4).plan(cart(), generator(0, "x"), torch.zeros(3, 5, 1)), "previous"),
    ],
)
def test_bad_arguments_are_told(make, told):
    with pytest.raises(ValueError, match=told):
        make()


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


@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0])
def test_the_periodogram_falls_as_the_frequency_to_the_power_of_minus_beta(beta):
    noise = colored_noise((4000, 64, 1), beta, generator(0, "noise"), torch.zeros(0))[..., 0].numpy()
    power = (np.abs(np.fft.rfft(noise, axis=1)) ** 2).mean(0)[1:-1]
    slope = np.polyfit(np.log(np.arange(1, 32)), np.log(power), 1)[0]
    assert slope == pytest.approx(-beta, abs=0.02)


def walks(count=40, steps=30):
    """A point in the plane that goes where its action points."""
    actions = 2 * torch.rand(count, steps, 2, generator=generator(0, "walks"), dtype=torch.float64) - 1
    places = torch.cat((torch.zeros(count, 1, 2), 0.5 * actions.cumsum(1)[:, :-1]), 1)
    return list(places.numpy()), list(actions.numpy())


@pytest.fixture(scope="module")
def policy():
    return InverseDynamics.fit(*walks(), reach=3, ahead=1, steps=300)


def moved(h, a):
    return h + 0.5 * a


def test_the_policy_finds_the_action_that_leads_to_the_next_latent(policy):
    goal = torch.tensor([[0.3, -0.2], [-0.4, 0.1]])
    problem = Problem(FunctionDynamics(moved), GoalCost(), ActionSpace.box(2), torch.zeros(2, 2), goal)
    plan = policy.plan(problem, generator(0, "x"))
    assert plan.actions.shape == (2, 1, 2)
    torch.testing.assert_close(plan.actions[:, 0], 2 * goal, atol=0.1, rtol=0)
