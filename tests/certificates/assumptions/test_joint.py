"""Joint Gaussianity of pairs: its level, its power against maps that keep every view Gaussian."""

import numpy as np
import pytest

from isojepa.certificates.assumptions.joint import (
    THRESHOLD,
    Comparison,
    check_joint,
    left_functions,
    start_functions,
    worst_plane,
)
from isojepa.certificates.assumptions.sample import draw_sample
from tests.certificates.assumptions.worlds import both, gaussian, rotation, swirl


def line(h, h_next, seed=0, draws=79, of="embeddings"):
    return check_joint(draw_sample(h, h_next, of, seed), 2000, draws, 0.95)


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
    assert found.interval.low > THRESHOLD
    assert "no rotation" in found.advice


def test_effects_do_not_depend_on_the_number_of_pairs():
    few, many = (line(*both(lambda z: swirl(z, 0.5), gaussian(n, 2))).value for n in (2000, 20_000))
    assert few == pytest.approx(many, rel=0.15)


@pytest.mark.parametrize("count", [2, 10])
def test_sums_of_products_fail(count):
    found = line(*both(lambda z: products(z, count), gaussian(20_000, 4 * count)))
    assert found.verdict == "fails"


def test_a_bent_dimension_fails_by_its_slices():
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


def test_equal_views_are_told():
    z, _ = gaussian(500, 2)
    assert "no noise that could be looked at" in line(z, z.copy()).sentence
    assert "no noise that could be looked at" in line(z, z @ rotation(2)).sentence


def test_the_functions_are_orthonormal():
    x = np.random.default_rng(0).standard_normal((400_000, 2))
    for functions in (start_functions(x), left_functions(x), start_functions(x[:, :1])):
        values = np.concatenate(list(functions.values()), axis=1)
        assert np.allclose(values.T @ values / len(x), np.eye(values.shape[1]), atol=0.05)
    assert Comparison(start_functions(x), left_functions(x)).cells == 29
    assert Comparison(start_functions(x[:, :1]), left_functions(x[:, 1:])).cells == 4


def test_the_worst_plane_is_the_one_with_the_largest_sum_of_squares():
    rng = np.random.default_rng(0)
    start = rng.standard_normal((500, 5))
    left = rng.standard_normal((500, 5)) * np.exp(0.3 * start[:, [3, 0, 1, 2, 4]])
    start, left = (x / np.sqrt((x**2).mean(0)) for x in (start, left))

    def squares(i, j):
        first, second = start_functions(start[:, [i, j]]), left_functions(left[:, [i, j]])
        return sum(((first[d].T @ second[e]) ** 2).sum() for d in first for e in second if 3 <= d + e <= 4)

    planes = [(i, j) for i in range(5) for j in range(i + 1, 5)]
    assert worst_plane(start, left) == max(planes, key=lambda plane: squares(*plane))
