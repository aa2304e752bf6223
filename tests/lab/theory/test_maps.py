"""The exact numbers of explicit maps, against other ways to get them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import hermite_e
from scipy import stats

import isojepa as ij
from isojepa_lab.theory.algebra import hermite, moment, multi_indices, pair, rodrigues
from isojepa_lab.theory.bound import family, published, sharper
from isojepa_lab.theory.control import open_loop, random_system, recursion
from isojepa_lab.theory.converse import slowest
from isojepa_lab.theory.maps import measure, measure_spiral, normalized_hermite, stream
from isojepa_lab.theory.planning import trajectory_law
from isojepa_lab.theory.uniqueness import LAWS


def test_moments_and_hermite_polynomials_are_those_of_scipy_and_numpy():
    assert [moment(k) for k in range(9)] == [round(stats.norm.moment(k)) for k in range(9)]
    points = np.linspace(-2, 2, 7)
    for degree in range(9):
        coefficients = [float(c) for c in rodrigues(degree).all_coeffs()[::-1]]
        expected = hermite_e.hermeval(points, [0.0] * degree + [1.0])
        np.testing.assert_allclose(np.polyval(coefficients[::-1], points), expected, atol=1e-9)
        np.testing.assert_allclose([hermite(degree, x) for x in points], expected, atol=1e-9)
        scaled = expected / math.sqrt(math.factorial(degree))
        np.testing.assert_allclose(normalized_hermite(8, points)[degree], scaled, atol=1e-12)
    assert len(multi_indices(3, 4)) == math.comb(7, 3)


def test_the_pair_of_the_ring_has_the_moments_of_samples():
    ring = pair(1)
    z, z_next = ring.z[0], ring.z_next[0]
    exact = ring.mean(z_next**4 * z**2)  # 3 + 12 rho^2
    assert exact == 3 + 12 * ring.rho**2
    draws = np.random.default_rng(0).standard_normal((2, 400_000))
    pairs = 0.6 * draws[0] + 0.8 * draws[1]
    samples = pairs**4 * draws[0] ** 2
    assert abs(samples.mean() - (3 + 12 * 0.36)) < 5 * samples.std() / math.sqrt(len(samples))


@pytest.mark.parametrize("rho", [0.5, 0.95])
def test_the_numbers_of_the_spiral_are_those_of_the_librarys_spiral(rho):
    exact = measure_spiral(math.pi, rho)
    world = ij.data.World(ij.data.OrnsteinUhlenbeck(dim=2, rho=rho), ij.data.Spiral())
    pairs = world.sample(200_000, ij.generator(0, "theory"))
    losses = ((pairs.views[1] - pairs.views[0]) ** 2).sum(-1).double()
    assert abs(float(losses.mean()) - exact.loss) < 5 * float(losses.std()) / math.sqrt(len(losses))
    linear = (pairs.views[0].T @ pairs.z[0]).double().numpy() / len(losses)
    np.testing.assert_allclose(linear, exact.linear, atol=0.02)


def test_the_spirals_energy_is_that_of_its_jacobian_by_automatic_differentiation():
    z = torch.randn(200, 2, generator=ij.generator(0, "jacobian"), dtype=torch.float64)
    jacobians = torch.func.vmap(torch.func.jacrev(ij.data.Spiral()))(z)
    expected = 2 + math.pi**2 * (z**2).sum(-1)
    torch.testing.assert_close((jacobians**2).sum((1, 2)), expected)
    torch.testing.assert_close(torch.linalg.det(jacobians), torch.ones(200, dtype=torch.float64))


def test_measures_of_a_polynomial_map_have_their_closed_form():
    measured = measure(lambda z: 2 * z + (z**2 - 1) / math.sqrt(2) + 7, 1, 0.9, 6)  # the mean is removed
    assert measured.loss == pytest.approx(2 * (0.1 * 4 + 0.19 * 1))
    assert measured.epsilon == pytest.approx(4)
    assert measured.nonlinear == pytest.approx(1)
    assert measured.d == pytest.approx(1)
    assert measured.error == pytest.approx(2)  # (2 - 1)^2 + 1


def test_the_error_is_the_smallest_over_rotations():
    for _, m in family()[:16]:
        if len(m.linear) != 2:
            continue
        angles = np.linspace(0, 2 * math.pi, 721)
        best = math.inf
        for flip in (1, -1):
            for angle in angles:
                c, s = math.cos(angle), math.sin(angle)
                q = np.array([[c, -flip * s], [s, flip * c]])
                best = min(best, float(np.trace(m.covariance) + 2 - 2 * np.sum(q * m.linear)))
        assert m.error <= best + 1e-12
        assert m.error == pytest.approx(best, abs=1e-4)


def test_the_streams_jacobian_is_that_of_differences():
    z = np.random.default_rng(0).standard_normal((20, 2))
    _, jacobians, _ = stream(z, 0.3, 200)
    for column in range(2):
        shift = np.zeros(2)
        shift[column] = 1e-5
        difference = (stream(z + shift, 0.3, 200)[0] - stream(z - shift, 0.3, 200)[0]) / 2e-5
        np.testing.assert_allclose(jacobians[:, :, column], difference, atol=1e-7)


def test_finite_volumes_find_hermite_polynomials_for_a_gaussian():
    points = np.linspace(-7, 7, 1401)
    functions = slowest(points, points**2 / 2, 4)
    kept = points[points**2 / 2 - 0 < 30]
    for degree in (1, 2, 3):
        expected = normalized_hermite(4, kept)[degree]
        weight = np.exp(-(kept**2) / 2)
        cosine = np.sum(weight * functions[:, degree] * expected) / math.sqrt(
            np.sum(weight * functions[:, degree] ** 2) * np.sum(weight * expected**2)
        )
        assert abs(cosine) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name.replace(" ", "-"))
def test_scores_are_derivatives_of_log_densities(law):
    for point in (0.3, 1.1, 1.9):
        step = 1e-6
        slope = (math.log(law.density(point + step)) - math.log(law.density(point - step))) / (2 * step)
        assert law.score(point) == pytest.approx(slope, abs=1e-6)
    assert law.product > 1  # Cramer-Rao, strict


singular_values = st.lists(st.floats(0, 1.4), min_size=1, max_size=6)


@given(singular_values, st.floats(0, 0.3))
def test_the_sharper_bound_holds_for_any_singular_values_and_lies_below_the_published_one(values, nonlinear):
    s = np.array(values)
    gram = np.zeros(len(s))
    gram[0] = nonlinear  # the nonlinear variance in one direction
    epsilon = float(np.linalg.norm(s**2 + gram - 1))
    error = float(np.sum((s - 1) ** 2)) + nonlinear
    assert error <= sharper(epsilon, nonlinear) + 1e-7  # the root loses half of the digits near 1
    assert sharper(epsilon, nonlinear) <= published(epsilon, nonlinear) + 1e-12


def test_trajectories_have_the_law_of_samples():
    random = np.random.default_rng(0)
    a, b = np.array([[0.9, 0.2], [-0.1, 0.7]]), np.array([[1.0], [0.5]])
    noise = np.array([[0.5, 0.1], [0.1, 0.3]])
    start, plan = np.array([1.0, -1.0]), np.array([[0.3], [-0.2], [0.5]])
    mean, joint = trajectory_law(a, b, noise, start, plan)
    state = np.broadcast_to(start, (200_000, 2))
    path = [state]
    for action in plan:
        shocks = random.multivariate_normal(np.zeros(2), noise, len(state))
        state = state @ a.T + b @ action + shocks
        path.append(state)
    stacked = np.concatenate(path, 1)
    np.testing.assert_allclose(stacked.mean(0), mean, atol=0.01)
    np.testing.assert_allclose(np.cov(stacked.T), joint, atol=0.02)


def test_the_recursions_value_is_the_cost_of_following_it():
    system = random_system(3)
    costs, gains, constant = recursion(system, 5)
    mean, spread = np.array([1.0, -0.5, 2.0]), np.zeros((3, 3))
    start, total = mean, 0.0
    for gain in gains:
        closed = system.a - system.b @ gain
        weight = system.w + gain.T @ system.r @ gain
        total += mean @ weight @ mean + np.trace(weight @ spread)
        mean, spread = closed @ mean, closed @ spread @ closed.T + system.noise
    total += mean @ system.last @ mean + np.trace(system.last @ spread)
    assert total == pytest.approx(start @ costs[0] @ start + constant)


def test_the_open_loop_plan_cannot_be_improved():
    random = np.random.default_rng(0)
    a, b = random.standard_normal((3, 3)) / 2, random.standard_normal((3, 2))
    start, goal = random.standard_normal(3), random.standard_normal(3)
    plan, cost = open_loop(a, b, start, goal, 4, 0.5)

    def value(actions):
        state, total = start, 0.0
        for t, action in enumerate(actions):
            state = a @ state + b @ action
            total += (1.0 if t == 3 else 0.5) * np.sum((state - goal) ** 2) + 0.1 * np.sum(action**2)
        return total

    assert value(plan) == pytest.approx(cost)
    for _ in range(50):
        assert value(plan + 1e-3 * random.standard_normal(plan.shape)) >= cost
