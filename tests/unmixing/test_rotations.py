"""Scores, equations of angles and their information, against closed forms and against what rows show."""

import numpy as np
import pytest
import torch

from isojepa.data import Langevin
from isojepa.distributions import GeneralizedNormal, Uniform
from isojepa.seeds import generator, numpy_generator
from isojepa.unmixing.rotations import (
    _rates,
    find_rotation,
    pass_over,
    refine_rotation,
    squares_go_together,
)
from isojepa.unmixing.shapes import (
    learn_scores,
    measure_shapes,
    measure_slopes,
    score_and_slope,
)
from tests.unmixing.worlds import rotation


def white(y: np.ndarray) -> torch.Tensor:
    """Rows of covariance I that keep their axes."""
    y = y - y.mean(0)
    values, vectors = np.linalg.eigh(y.T @ y / len(y))
    return torch.tensor(y @ (vectors / np.sqrt(values)) @ vectors.T, dtype=torch.float32)


def matched(matrix: np.ndarray, truth: np.ndarray) -> float:
    """The smallest of the best |cosines|."""
    return float(np.abs(matrix @ truth).max(1).min())


def test_scores_of_normal_rows_are_the_identity():
    y = torch.tensor(np.random.default_rng(0).standard_normal((5000, 3)))
    g, slope = score_and_slope(y, learn_scores(y))
    assert torch.corrcoef(torch.stack((g[:, 0], y[:, 0])))[0, 1] > 0.998
    assert slope.mean() == pytest.approx(1.0, abs=0.02)


def test_scores_of_a_generalised_normal_law_are_near_the_true_ones():
    # p ~ exp(-|z / s|^4) has the score 4 z^3 / s^4
    y = GeneralizedNormal(4.0).sample((5000, 1), generator(0, "scores")).double()
    g, _ = score_and_slope(y, learn_scores(y))
    assert torch.corrcoef(torch.stack((g[:, 0], y[:, 0] ** 3)))[0, 1] > 0.99


def test_slopes_are_derivatives_of_scores():
    y = torch.linspace(-3, 3, 101, dtype=torch.float64)[:, None].requires_grad_()
    scores = torch.tensor([[0.3], [-1.2], [2.0], [0.7]], dtype=torch.float64)
    g, slope = score_and_slope(y, scores)
    (exact,) = torch.autograd.grad(g.sum(), y)
    assert torch.allclose(slope, exact, atol=1e-12)


def test_compiled_loops_are_what_tensors_say_in_float64():
    rng = np.random.default_rng(0)
    y = torch.from_numpy(np.concatenate((rng.laplace(size=(5000, 20)), rng.exponential(size=(5000, 20))), 1))
    y[0] = torch.linspace(-300, 300, 40)  # where exponentials leave float32
    scores = learn_scores(y)
    assert torch.allclose(learn_scores(y.float()), scores, rtol=0.01, atol=0.01)
    exact, found = measure_shapes(y.T, scores), measure_shapes(y.T.float().contiguous(), scores)
    for one, other in zip(exact[:2], found[:2], strict=True):
        assert torch.allclose(one, other.double(), rtol=1e-5, atol=5000 * 2e-5)


def test_a_step_of_newton_undoes_a_small_angle():
    y = white(np.random.default_rng(0).laplace(size=(50_000, 2)))
    turn = np.array([[np.cos(0.1), np.sin(0.1)], [-np.sin(0.1), np.cos(0.1)]])
    one = refine_rotation(turn, pass_over(y), [y], [], len(y), most=1)
    settled = refine_rotation(turn, pass_over(y), [y], [], len(y))
    assert abs(settled.matrix[0, 1]) < 0.01
    assert abs(one.matrix[0, 1] - settled.matrix[0, 1]) < 0.01
    assert one.steps == 1


def test_the_information_by_shape_is_the_inverse_of_the_variance_of_the_angle():
    angles, told = [], []
    for seed in range(40):
        y = white(np.random.default_rng(seed).laplace(size=(4000, 2)))
        found = refine_rotation(np.eye(2), pass_over(y), [y], [], len(y))
        angles.append(found.matrix[0, 1])
        told.append(1 / (4000 * found.information[0, 1]))
    assert np.mean(np.square(angles)) == pytest.approx(np.mean(told), rel=0.6)


def test_the_information_by_rate_is_the_inverse_of_the_variance_of_the_angle():
    squares, told = [], []
    rho = np.array([0.9, 0.7])
    for seed in range(300):
        rng = np.random.default_rng(seed)
        z = rng.standard_normal((2000, 2))
        both = np.concatenate((z, rho * z + np.sqrt(1 - rho**2) * rng.standard_normal(z.shape)))
        values, vectors = np.linalg.eigh(both.T @ both / 4000)
        first, second = np.split(both @ (vectors / np.sqrt(values)) @ vectors.T, 2)
        lagged = first.T @ second / 2000
        pull, information = _rates(np.eye(2), [(lagged + lagged.T) / 2])
        squares.append((pull[0, 1] / information[0, 1]) ** 2)
        told.append(1 / (2000 * information[0, 1]))
    assert np.mean(squares) == pytest.approx(np.mean(told), rel=0.3)


@pytest.mark.parametrize("law", ["laplace", "mixed"])
def test_many_axes_are_found_in_few_rows(law):
    rng = np.random.default_rng(0)
    rows, dim = 8000, 48
    z = rng.laplace(size=(rows, dim)) / np.sqrt(2)
    if law == "mixed":
        z[:, ::2] = rng.uniform(-1, 1, (rows, dim // 2)) * np.sqrt(3)
    values, vectors = np.linalg.eigh(np.cov(z.T))
    white = torch.from_numpy((z - z.mean(0)) @ (vectors / np.sqrt(values)) @ vectors.T).float()
    found = find_rotation(white, [], np.random.default_rng(1))
    assert np.abs(found.matrix).max(1).min() > 0.98


def test_measured_slopes_are_the_change_of_the_equations_with_the_angle():
    y = compressed(numpy_generator(0, "rows"), 20_000, 3).double()
    scores, angle = learn_scores(y), 1e-4
    turn = np.eye(3)
    turn[:2, :2] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]

    def psi(matrix: np.ndarray) -> float:
        return float(pass_over(y)(matrix, scores).psi[0, 1])

    change = (psi(turn) - psi(turn.T)) / (2 * angle)
    assert float(measure_slopes(y.T, scores)[0, 1]) / len(y) == pytest.approx(change, rel=1e-4)


def bent_pairs(rows: int, rho: float = 0.8) -> tuple[torch.Tensor, torch.Tensor]:
    """White pairs of three uniform latents, of which each axis has a little of others' functions besides."""
    process = Langevin(3, Uniform(), rho)
    z, z_next = process.sample(rows, generator(0, "bent"))
    views = [torch.stack((a, b + 0.1 * (a**3 - 1.8 * a), c + 0.1 * a * b), 1) for a, b, c in (z.T, z_next.T)]
    return tuple(white(view.double().numpy()).double() for view in views)


def test_slopes_across_views_are_the_change_of_the_equations_with_the_angle():
    y, later = bent_pairs(20_000)
    scores, angle = learn_scores(y), 1e-4
    turn = np.eye(3)
    turn[:2, :2] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]

    def psi(matrix: np.ndarray) -> float:
        across = pass_over(y, later)(matrix, scores).across
        return float((across - across.T)[0, 1])

    change = (psi(turn) - psi(turn.T)) / (2 * angle)
    both = sum(measure_slopes(a.T, scores, b.T)[0, 1] for a, b in ((y, later), (later, y)))
    assert float(both) / (2 * len(y)) == pytest.approx(change, rel=1e-4)


def test_products_across_views_are_means_of_both_directions():
    y, later = bent_pairs(500)
    scores, matrix = learn_scores(y), rotation(3)
    a, b = (view @ torch.from_numpy(matrix.T) for view in (y, later))
    truth = (score_and_slope(a, scores)[0].T @ b + score_and_slope(b, scores)[0].T @ a) / 1000
    found = pass_over(y, later)(matrix, scores)
    assert np.allclose(found.across, truth.numpy(), atol=1e-12)
    assert pass_over(y)(matrix, scores).across is None
    assert np.allclose(found.products, pass_over(y)(matrix, scores).products)


def test_what_an_encoder_leaves_turns_axes_less_across_views():
    """A function of one latent that is faster than it, added to another: axes within a view follow it."""
    process = Langevin(2, Uniform(), 0.8)
    sides = process.sample(100_000, generator(0, "left"))
    views = [torch.stack((a, b + 0.15 * (a**3 - 1.8 * a)), 1).double() for a, b in (side.T for side in sides)]
    y, later = (white(view.numpy()) for view in views)
    lagged = (y.T @ later).double().numpy() / len(y)
    lagged = [(lagged + lagged.T) / 2]
    angles = []
    for seen in ([y], [y, later]):
        found = refine_rotation(np.eye(2), pass_over(*seen), seen, lagged, len(y)).matrix
        turned = (seen[0].double().numpy() @ found.T).T
        angles.append(np.arccos(abs(np.corrcoef(turned[0], sides[0][:, 0].numpy())[0, 1])))
    assert angles[1] < 0.8 * angles[0]


def test_slopes_of_independent_axes_are_sums_of_two():
    y = white(np.random.default_rng(0).laplace(size=(100_000, 3))).double()
    scores = learn_scores(y)
    kappa = pass_over(y)(np.eye(3), scores).kappa
    found = (measure_slopes(y.T, scores) / len(y)).numpy()
    off = ~np.eye(3, dtype=bool)
    assert np.allclose(found[off], (kappa[:, None] + kappa)[off], rtol=0.1)


def test_squares_go_together_where_large_rows_are_compressed_and_not_in_independent_axes():
    rng = numpy_generator(0, "rows")
    for law in ("laplace", "uniform", "normal"):
        assert not squares_go_together(white(getattr(rng, law)(size=(50_000, 8))), np.eye(8)), law
    assert squares_go_together(compressed(rng, 50_000, 8), np.eye(8))
    assert not squares_go_together(white(rng.laplace(size=(500, 1))), np.eye(1))


@pytest.mark.parametrize("shape", [1.5, 4.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_axes_are_found_also_where_large_rows_are_compressed_or_stretched(shape, seed):
    # mixtures of them are further from normal than the axes are, by what all directions have in common
    rng = numpy_generator(seed, "rows")
    y = compressed(rng, 30_000, 8, shape, amount=0.022 if shape < 2 else -0.026)
    fourth = y.double().pow(4).mean(0) - 3
    mixed = (y.double() @ torch.from_numpy(rotation(8, seed))).pow(4).mean(0) - 3
    assert mixed.abs().mean() > fourth.abs().mean()
    found = find_rotation(y, [], rng)
    assert matched(found.matrix, np.eye(8)) > 0.97


def compressed(
    rng: np.random.Generator, rows: int, dim: int, shape: float = 1.5, amount: float = 0.013
) -> torch.Tensor:
    """White rows of latents of a generalised normal law, less the further out, as encoders leave them."""
    size = rng.gamma(1 / shape, size=(rows, dim)) ** (1 / shape)
    z = size * rng.choice([-1.0, 1.0], (rows, dim))
    z /= z.std(0)
    return white(z / (1 + amount * (z**2).sum(1, keepdims=True)))
