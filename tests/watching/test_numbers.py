"""The numbers of watched embeddings against what is known of them."""

import math

import numpy as np
import pytest
import torch

from isojepa.seeds import generator
from isojepa.watching.numbers import NAMES, effective_rank, measure, variances


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed, "watch"))


@pytest.mark.parametrize("shape", [(300, 7), (7, 300), (40, 40)])
def test_variances_are_the_squared_singular_values_of_centred_rows(shape):
    h = normal(*shape).double() * torch.arange(1, shape[1] + 1)
    truth = np.linalg.svd((h - h.mean(0)).numpy(), compute_uv=False) ** 2 / (shape[0] - 1)
    np.testing.assert_allclose(variances(h), truth, rtol=1e-9, atol=1e-9 * truth[0])


def test_effective_rank_is_rankme_of_the_centred_rows():
    h = normal(500, 6) @ torch.diag(torch.tensor([3.0, 2.0, 1.0, 0.5, 0.1, 0.0])) + 5
    sigma = np.linalg.svd((h - h.mean(0)).double().numpy(), compute_uv=False)
    p = sigma[:5] / sigma[:5].sum()
    assert measure(h)["effective_rank"] == pytest.approx(math.exp(-(p * np.log(p)).sum()), rel=1e-3)


def test_effective_rank_counts_equal_directions():
    assert effective_rank(np.array([2.0] * 5 + [0.0] * 3)) == pytest.approx(5)
    assert effective_rank(np.zeros(3)) == 0


def test_independent_views_disagree_by_one_and_copies_by_nothing():
    views = normal(4, 3000, 6)
    assert measure(views[0], views)["disagreement"] == pytest.approx(1, abs=0.03)
    same = views[:1].expand(3, -1, -1)
    assert measure(views[0], same)["disagreement"] == pytest.approx(0, abs=1e-12)


def test_pairs_of_correlation_rho_disagree_by_one_minus_rho():
    z, noise = normal(2, 20000, 3)
    pair = torch.stack((z, 0.8 * z + 0.6 * noise))
    row = measure(z, pair)
    assert row["disagreement"] == pytest.approx(0.2, abs=0.01)
    assert row["alignment"] == pytest.approx(float((pair[0] - pair[1]).square().mean()) / 4, rel=1e-5)


def test_gaussian_rows_are_not_rejected_more_often_than_the_level_says():
    p = [measure(normal(512, 8, seed=seed), draws=99)["gaussianity_p"] for seed in range(60)]
    assert sum(value <= 0.1 for value in p) <= 14  # of 60 at level 0.1: six are expected
    assert max(p) > 0.5


def test_other_laws_are_rejected_and_standardizing_forgives_scale_alone():
    wide, cubes = 3 * normal(512, 4), normal(512, 4) ** 3
    assert measure(wide)["gaussianity_p"] < 0.01
    assert measure(wide, standardize=True)["gaussianity_p"] > 0.01
    assert measure(cubes, standardize=True)["gaussianity_p"] < 0.01


def test_rows_with_nan_are_counted_and_left_out():
    h = normal(400, 5)
    broken = h.clone()
    broken[::4, 2] = math.nan
    row, clean = measure(broken), measure(h[torch.arange(400) % 4 != 0])
    assert row["nonfinite"] == pytest.approx(0.25)
    assert {k: row[k] for k in NAMES[:3]} == {k: clean[k] for k in NAMES[:3]}
    assert measure(torch.full((8, 3), math.inf))["nonfinite"] == 1


@pytest.mark.parametrize("shape", [(0, 0), (1, 4), (3, 4), (20, 64)])
def test_too_few_rows_give_nan_and_no_error(shape):
    row = measure(normal(*shape))
    assert set(row) == set(NAMES)
    assert math.isnan(row["smallest_variance"])


def test_measuring_leaves_the_global_generators_alone():
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    measure(normal(64, 3), normal(2, 64, 3))
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()  # noqa: NPY002
