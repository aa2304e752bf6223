"""Scores, equations of angles and their information, against closed forms and against what rows show."""

import numpy as np
import pytest
import torch

from isojepa.certificates.pairs import PairRows
from isojepa.data import Langevin
from isojepa.distributions import GeneralizedNormal, Uniform
from isojepa.seeds import generator, numpy_generator
from isojepa.unmixing.rotations import (
    _measured_slopes,
    _moments,
    find_rotation,
    learn_scores,
    rate_equations,
    refine_rotation,
    score,
    squares_correlate,
    take_sample,
    whiten,
)
from tests.unmixing.worlds import normal_paths, rotation


def white(y: np.ndarray) -> torch.Tensor:
    """Rows of covariance I that keep their axes."""
    y = y - y.mean(0)
    values, vectors = np.linalg.eigh(y.T @ y / len(y))
    return torch.tensor(y @ (vectors / np.sqrt(values)) @ vectors.T, dtype=torch.float32)


def matched(matrix: np.ndarray, truth: np.ndarray) -> float:
    """The smallest of the best |cosines|."""
    return float(np.abs(matrix @ truth).max(1).min())


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
        pull, information = rate_equations(np.eye(2), [(lagged + lagged.T) / 2])
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
    found = find_rotation([white], [], np.random.default_rng(1))
    assert np.abs(found.matrix).max(1).min() > 0.98


def test_squares_correlate_where_large_rows_are_compressed_and_not_in_independent_axes():
    rng = numpy_generator(0, "rows")
    for law in ("laplace", "uniform", "normal"):
        assert not squares_correlate(white(getattr(rng, law)(size=(50_000, 8))), np.eye(8)), law
    assert squares_correlate(compressed(rng, 50_000, 8), np.eye(8))
    assert not squares_correlate(white(rng.laplace(size=(500, 1))), np.eye(1))


@pytest.mark.parametrize("shape", [1.5, 4.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_axes_are_found_also_where_large_rows_are_compressed_or_stretched(shape, seed):
    # mixtures of them are further from normal than the axes are, by what all directions have in common
    rng = numpy_generator(seed, "rows")
    y = compressed(rng, 30_000, 8, shape, amount=0.022 if shape < 2 else -0.026)
    fourth = y.double().pow(4).mean(0) - 3
    mixed = (y.double() @ torch.from_numpy(rotation(8, seed))).pow(4).mean(0) - 3
    assert mixed.abs().mean() > fourth.abs().mean()
    found = find_rotation([y], [], rng)
    assert matched(found.matrix, np.eye(8)) > 0.97


def compressed(
    rng: np.random.Generator, rows: int, dim: int, shape: float = 1.5, amount: float = 0.013
) -> torch.Tensor:
    """White rows of latents of a generalised normal law, less the further out, as encoders leave them."""
    size = rng.gamma(1 / shape, size=(rows, dim)) ** (1 / shape)
    z = size * rng.choice([-1.0, 1.0], (rows, dim))
    z /= z.std(0)
    return white(z / (1 + amount * (z**2).sum(1, keepdims=True)))


def test_scores_of_normal_values_are_the_identity_and_of_others_near_the_true_ones():
    y = torch.tensor(np.random.default_rng(0).standard_normal((3, 5000)))
    g, slope = score(y, learn_scores(y))
    assert torch.corrcoef(torch.stack((g[0], y[0])))[0, 1] > 0.998
    assert slope.numpy() == pytest.approx(1.0, abs=0.05)
    # p ~ exp(-|z / s|^4) has the score 4 z^3 / s^4
    y = GeneralizedNormal(4.0).sample((1, 5000), generator(0, "scores")).double()
    g, _ = score(y, learn_scores(y))
    assert torch.corrcoef(torch.stack((g[0], y[0] ** 3)))[0, 1] > 0.99


def test_slopes_are_derivatives_of_scores():
    y = torch.linspace(-3, 3, 101, dtype=torch.float64)[None].requires_grad_()
    g, slope = score(y, torch.tensor([[0.3], [-1.2], [2.0], [0.7]], dtype=torch.float64))
    (exact,) = torch.autograd.grad(g.sum(), y)
    assert float(slope.detach()) == pytest.approx(float(exact.mean()), abs=1e-12)


def test_the_information_by_shape_is_the_inverse_of_the_variance_of_the_angle():
    angles, variances = [], []
    for seed in range(40):
        y = white(np.random.default_rng(seed).laplace(size=(4000, 2)))
        rotated = refine_rotation(np.eye(2), [y], [], False)
        angles.append(rotated.matrix[0, 1])
        variances.append(1 / (4000 * rotated.information[0, 1]))
    assert np.mean(np.square(angles)) == pytest.approx(np.mean(variances), rel=0.6)


def pairs_with_error(rows: int, amount: float) -> tuple[torch.Tensor, ...]:
    """White pairs of two uniform latents; the second component has a function of the first besides."""
    sides = Langevin(2, Uniform(), 0.8).sample(rows, generator(0, "left"))
    views = [torch.stack((a, b + amount * (a**3 - 1.8 * a)), 1) for a, b in (side.T for side in sides)]
    return (*(white(view.double().numpy()).double() for view in views), sides[0][:, 0])


@pytest.mark.parametrize("across", [False, True])
def test_measured_slopes_are_the_change_of_the_equations_with_the_angle(across):
    y, later, _ = pairs_with_error(20_000, 0.15)
    scores, angle = learn_scores(y.T), 1e-4
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])

    def psi(matrix: np.ndarray, *views: torch.Tensor) -> float:
        moments = _moments(matrix, views, scores)
        table = moments.across if across else moments.products
        return float((table - table.T)[0, 1])

    views = [y, later] if across else [y]
    change = (psi(turn, *views) - psi(turn.T, *views)) / (2 * angle)
    slopes = [_measured_slopes(order, np.eye(2), scores)[0, 1] for order in (views, views[::-1])]
    assert (np.mean(slopes) if across else slopes[0]) == pytest.approx(change, rel=1e-3)


def test_errors_of_an_encoder_rotate_components_less_across_views():
    y, later, latent = pairs_with_error(100_000, 0.15)
    lagged = (y.T @ later).numpy() / len(y)
    angles = []
    for views in ([y], [y, later]):
        matrix = refine_rotation(np.eye(2), views, [(lagged + lagged.T) / 2], False).matrix
        angles.append(np.arccos(abs(np.corrcoef(y.numpy() @ matrix[0], latent.numpy())[0, 1])))
    assert angles[1] < 0.8 * angles[0]


def test_whitening_is_that_of_numpy_and_keeps_the_slowest_directions():
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(3, 3))
    z, rho = rng.normal(size=(9000, 3)), np.array([0.9, 0.5, 0.1])
    later = rho * z + np.sqrt(1 - rho**2) * rng.normal(size=z.shape)
    embeddings = PairRows(z @ mixing.T + 7, later @ mixing.T + 7)
    whitening = whiten(embeddings, None, [])
    both = np.concatenate((z, later)) @ mixing.T + 7
    assert np.allclose(whitening.mean, both.mean(0))
    assert np.allclose(np.cov((both @ whitening.matrix.T).T, bias=True), np.eye(3), atol=1e-6)
    assert np.allclose(np.sort(np.linalg.eigvalsh(whitening.lagged[0])), np.sort(rho), atol=0.03)
    slow = whiten(embeddings, 1, [])
    assert abs(np.corrcoef(slow(both).numpy()[:, 0], np.concatenate((z, later))[:, 0])[0, 1]) > 0.99


def test_blocks_are_fewer_where_rows_depend_on_their_neighbors():
    rng = np.random.default_rng(0)

    def blocks(h: np.ndarray) -> int:
        embeddings = PairRows(h)
        return len(np.unique(take_sample(embeddings, whiten(embeddings, None, [])).block))

    assert blocks(rng.standard_normal((300, 5))) == 20
    assert blocks(normal_paths(1000, 1, 3, 0.98, rng)[:, 0]) in (4, 6, 8, 10, 12)
    assert blocks(normal_paths(100, 1, 3, 0.98, rng)[:, 0]) == 2
    slow = normal_paths(4000, 1, 1, 0.999, rng)[:, 0]
    assert blocks(np.column_stack((slow, rng.standard_normal((4000, 5))))) <= 6  # by the slowest direction
