import itertools

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr

from isojepa.align.metrics import (
    cka,
    cycle_knn,
    dsc,
    neighbour_overlaps,
    rsa,
    unbiased_cka,
)
from isojepa.align.metrics.permutations import Form, moments
from tests.reference import naive_comparisons as naive

N = 5


def every(score):
    """A score under all n! pairings."""
    return np.array([score(list(order)) for order in itertools.permutations(range(N))])


def form_of(matrix):
    """The form of a symmetric matrix (n, n), all of it exact."""
    columns, square = torch.arange(len(matrix)), float((matrix**2).sum())
    return Form.of(lambda v: matrix @ v, matrix.diagonal().clone(), square, columns=columns, total=True)


def pair(seed=0, widths=(3, 2)):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, widths[0])), rng.standard_t(3, size=(N, widths[1]))


@pytest.mark.parametrize("n", [3, 5, 6, 7])
def test_moments_equal_those_of_all_permutations_for_any_symmetric_matrices(n):
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=(n, n)), rng.normal(size=(n, n)) ** 2
    a, b = a + a.T, b + b.T
    t = np.array([(a * b[np.ix_(p, p)]).sum() for p in itertools.permutations(range(n))])
    mean, spread, skewness = moments(*(form_of(torch.from_numpy(m)) for m in (a, b)))
    assert mean == pytest.approx(t.mean())
    assert spread == pytest.approx(t.std())
    assert skewness == pytest.approx(((t - t.mean()) ** 3).mean() / t.std() ** 3)


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("widths", [(3, 2), (9, 8)])
def test_chance_of_cka_is_that_of_all_pairings(unbiased, widths):
    x, y = pair(widths=widths)
    drawn = every(lambda p: (naive.unbiased_cka if unbiased else naive.cka)(x, y[p]))
    found = (unbiased_cka if unbiased else cka)(x, y)
    assert found.chance == pytest.approx(drawn.mean(), abs=1e-12)
    assert found.chance_spread == pytest.approx(drawn.std())
    assert found.p == pytest.approx((drawn >= found.value - 1e-12).mean(), abs=0.2)


def test_chance_of_distance_correlations_is_that_of_all_pairings():
    x, y = pair(widths=(4, 5))
    for score, kind in ((dsc, "euclidean"), (rsa, "correlation")):
        drawn = every(lambda p, kind=kind: spearmanr(pdist(x, kind), pdist(y[p], kind)).statistic)
        found = score(x, y)
        assert found.chance == pytest.approx(drawn.mean(), abs=1e-12)
        assert found.chance_spread == pytest.approx(drawn.std())


def test_chance_of_neighbour_overlaps_is_that_of_all_pairings():
    x, y = pair()
    for found, k in zip(neighbour_overlaps(x, y, ks=(1, 2, 3)), (1, 2, 3), strict=True):
        drawn = every(lambda p, k=k: naive.overlap(x, y[p], k))
        assert found.chance == pytest.approx(drawn.mean()) == pytest.approx(k / (N - 1))
        assert found.chance_spread == pytest.approx(drawn.std())
        assert found.p == pytest.approx((drawn >= found.value - 1e-12).mean(), abs=0.2)


def test_mean_of_cycle_knn_is_that_of_all_pairings():
    x, y = pair()
    drawn = every(lambda p: naive.cycle_knn(x, y[p], 2))
    assert cycle_knn(x, y, k=2).chance == pytest.approx(drawn.mean())


def test_sums_of_three_entries_from_some_columns_are_near_those_from_all():
    x = torch.randn(800, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = x - x.mean(0)
    gram = x @ x.T
    square = float(gram.square().sum())
    whole = form_of(gram)
    some = Form.of(lambda v: gram @ v, gram.diagonal().clone(), square, columns=torch.arange(128))
    assert moments(some, some)[:2] == pytest.approx(moments(whole, whole)[:2], rel=1e-6)
    assert moments(some, some)[2] == pytest.approx(moments(whole, whole)[2], rel=0.3)
