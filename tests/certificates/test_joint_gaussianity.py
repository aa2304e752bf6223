"""Joint Gaussianity of pairs: its level, its power against maps that keep every view Gaussian."""

from dataclasses import replace

import numpy as np
import pytest

from isojepa.certificates.assumptions import draw_sample
from isojepa.certificates.joint_gaussianity import (
    MAX_JOINT_EFFECT,
    correlated_functions,
    hermite_functions,
    joint_gaussianity,
    worst_plane,
)
from tests.certificates.worlds import both, gaussian, rotation, swirl


def line(h, h_next, seed=0, draws=79, of="embeddings"):
    return joint_gaussianity(replace(draw_sample(h, h_next, of, seed), draws=draws))


def products(z, count, dim=2):
    """Sums of products of two latents each: of degree 2, and nearly Gaussian where they are many."""
    z = z.reshape(len(z), dim, count, 2)
    return z.prod(-1).sum(-1) / np.sqrt(count)


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "n", "seeds"), [(1, 500, 60), (2, 2000, 60), (8, 500, 60), (64, 500, 40)])
def test_rotations_fail_as_rarely_as_the_level(dim, n, seeds):
    lines = [
        line(*both(lambda z: z @ rotation(dim), gaussian(n, dim, (0.3, 0.9, 0.99)[seed % 3], seed)), seed)
        for seed in range(seeds)
    ]
    assert np.mean([found.p <= 0.05 for found in lines]) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / seeds)


def test_each_direction_may_have_its_own_rate_and_scale():
    rates = np.array([0.99, 0.9, 0.5, 0.1])
    pair = both(lambda z: z @ np.diag([1e-6, 1.0, 1e3, 1.0]) @ rotation(4), gaussian(8000, 4, rates))
    assert line(*pair).verdict == "holds"


@pytest.mark.parametrize(("dim", "n"), [(2, 500), (2, 2000), (8, 2000), (64, 4000)])
def test_a_swirl_of_half_a_radian_per_radius_fails(dim, n):
    found = line(*both(lambda z: swirl(z, 0.5), gaussian(n, dim)))
    assert found.verdict == "fails"
    assert found.interval.low > MAX_JOINT_EFFECT
    assert "no rotation" in found.advice


def test_effects_do_not_depend_on_the_number_of_pairs():
    few, many = (line(*both(lambda z: swirl(z, 0.5), gaussian(n, 2))).value for n in (2000, 20_000))
    assert few == pytest.approx(many, rel=0.15)


@pytest.mark.parametrize("count", [2, 10])
def test_sums_of_products_fail(count):
    found = line(*both(lambda z: products(z, count), gaussian(20_000, 4 * count)))
    assert found.verdict == "fails"


def test_a_nonlinear_dimension_fails_by_its_slices():
    found = line(*both(lambda z: np.tanh(0.7 * z), gaussian(4000, 2, 0.5)))
    assert found.verdict == "fails"
    assert dict(found.detail)["p of slices"] < 0.01


def test_loss_of_information_is_not_seen():
    z, z_next = gaussian(8000, 3)
    rng = np.random.default_rng(1)
    assert line(z[:, :2], z_next[:, :2]).verdict == "holds"  # a latent dropped
    noise = 0.5 * rng.standard_normal((2, *z.shape))
    assert line(z + noise[0], z_next + noise[1]).verdict == "holds"


def test_few_pairs_are_unclear_and_say_what_they_could_show():
    found = line(*gaussian(300, 2))
    assert found.verdict == "unclear"
    assert "300 pairs show only values above" in found.sentence
    assert found.advice == "Take more pairs."
    assert "too few" in line(*gaussian(60, 30)).sentence


def test_equal_views_are_named():
    z, _ = gaussian(500, 2)
    assert "no noise that could be looked at" in line(z, z.copy()).sentence
    assert "no noise that could be looked at" in line(z, z @ rotation(2)).sentence


def test_the_functions_are_orthonormal():
    x = np.random.default_rng(0).standard_normal((400_000, 2))
    for values, _ in (hermite_functions(x, 3), hermite_functions(x[:, :1], 3)):
        assert np.allclose(values.T @ values / len(x), np.eye(values.shape[1]), atol=0.05)
    assert correlated_functions(x, x)[2].sum() == 29
    assert correlated_functions(x[:, :1], x[:, 1:])[2].sum() == 4


def test_the_worst_plane_is_the_one_with_the_largest_sum_of_squares():
    rng = np.random.default_rng(0)
    start = rng.standard_normal((500, 5))
    residual = rng.standard_normal((500, 5)) * np.exp(0.3 * start[:, [3, 0, 1, 2, 4]])
    start, residual = (x / np.sqrt((x**2).mean(0)) for x in (start, residual))

    def squares(i, j):
        (x, degrees), (y, others) = (
            hermite_functions(start[:, [i, j]], 3),
            hermite_functions(residual[:, [i, j]], 2),
        )
        return ((x.T @ y) ** 2)[np.isin(np.add.outer(degrees, others), (3, 4))].sum()

    planes = [(i, j) for i in range(5) for j in range(i + 1, 5)]
    assert worst_plane(start, residual) == max(planes, key=lambda plane: squares(*plane))
