"""Every score against a slow form written from its definition, scipy, scikit-learn and netrep."""

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes as scipy_procrustes
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr

from isojepa.alignment import layer_cka, nearest, value_of
from isojepa.alignment.scores import (
    DISTANCES,
    MOMENT_SCORES,
    DistanceScores,
    DistanceSide,
    MomentScores,
    NeighborScores,
    NeighborSide,
    blocks_of,
)
from isojepa.statistics.nulls import PairingPlan
from tests.reference import naive_comparisons as naive


def pair(n=80, widths=(6, 4), seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, min(widths)))
    return tuple(
        (z @ rng.normal(size=(z.shape[1], width)) + 0.7 * rng.normal(size=(n, width))) * 3 + 5
        for width in widths
    )


@pytest.mark.parametrize("n", [80, 12])
@pytest.mark.parametrize("widths", [(6, 4), (5, 30), (40, 30)])
def test_cka_of_moments_equals_the_gram_form(n, widths):
    x, y = pair(n, widths)
    assert value_of("CKA", x, y) == pytest.approx(naive.cka(x, y))
    assert value_of("unbiased CKA", x, y) == pytest.approx(naive.unbiased_cka(x, y))


def test_canonical_scores_equal_those_of_qr_factors():
    x, y = pair()
    rho, _ = naive.canonical(x, y)
    assert value_of("mean CCA", x, y) == pytest.approx(rho.mean())
    assert value_of("SVCCA", x, y) == pytest.approx(naive.svcca(x, y))
    assert value_of("PWCCA", x, y) == pytest.approx(naive.pwcca(x, y))


def test_mean_cca_equals_scikit_learns_cca():
    decomposition = pytest.importorskip("sklearn.cross_decomposition")
    x, y = pair(400, (3, 3))
    fitted = decomposition.CCA(n_components=3, max_iter=5000, tol=1e-12).fit(x, y)
    one, two = fitted.transform(x, y)
    expected = np.mean([np.corrcoef(one[:, k], two[:, k])[0, 1] for k in range(3)])
    assert value_of("mean CCA", x, y) == pytest.approx(expected, abs=1e-4)


def test_procrustes_distances_equal_those_after_scipys_rotation():
    x, y = pair(widths=(4, 4))
    x, y = x - x.mean(0), y - y.mean(0)
    rotated = x @ scipy_procrustes(x, y)[0]
    assert value_of("orthogonal Procrustes", x, y) == pytest.approx(np.linalg.norm(rotated - y))
    cosine = (rotated * y).sum() / np.linalg.norm(x) / np.linalg.norm(y)
    assert value_of("angular Procrustes", x, y) == pytest.approx(np.arccos(cosine))


def netrep_data():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(60, 5))
    y = x @ rng.normal(size=(5, 5)) + rng.normal(size=(60, 5))
    return x, y, rng.normal(size=(60, 3)) + x[:, :3]


# LinearMetric(alpha=1).fit_score, "angular" and "euclidean", and cos LinearCKA().score
# of github.com/ahwillia/netrep at commit 0186b8a, numpy 2.4.6
NETREP = {
    "y": (0.7965226733025711, 22.699658334327772, 0.523342562593456),
    "w": (0.9358752595157608, 15.839931323306798, 0.47535160701764584),
}


@pytest.mark.parametrize("other", ["y", "w"])
def test_procrustes_distances_and_cka_equal_netreps_recorded_numbers(other):
    x, y, w = netrep_data()
    second = {"y": y, "w": w}[other]
    angle, distance, cka = NETREP[other]
    assert value_of("CKA", x, second) == pytest.approx(cka)
    assert value_of("angular Procrustes", x, second) == pytest.approx(angle)
    assert value_of("orthogonal Procrustes", x, second) == pytest.approx(distance)


@pytest.mark.parametrize("name", DISTANCES)
def test_distances_equal_scipys_spearman(name):
    x, y = pair()
    kind = DISTANCES[name]
    assert value_of(name, x, y) == pytest.approx(spearmanr(pdist(x, kind), pdist(y, kind)).statistic)


def test_dsc_shares_ranks_of_equal_distances_as_scipy_does():
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 3, size=(60, 3)).astype(float) for _ in range(2))
    assert value_of("DSC", x, y) == pytest.approx(spearmanr(pdist(x), pdist(y)).statistic)


@pytest.mark.parametrize("shape", [(300, 1), (300, 3), (700, 40)])
def test_nearest_rows_equal_scikit_learns(shape):
    sklearn = pytest.importorskip("sklearn.neighbors")
    x = np.random.default_rng(0).normal(size=shape) + 100
    search = sklearn.NearestNeighbors(n_neighbors=20, algorithm="brute").fit(x)
    assert (nearest(torch.from_numpy(x), 20).numpy() == search.kneighbors(return_distance=False)).all()


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("values", [2, 3, 50])
def test_nearest_rows_at_equal_distances_come_by_number(values, offset):
    x = np.random.default_rng(0).integers(0, values, size=(400, 3)) + offset
    assert (nearest(torch.from_numpy(x), 10).numpy() == naive.neighbour_lists(x, 10)).all()


def test_nearest_rows_that_float32_does_not_separate_are_exact():
    x = np.random.default_rng(0).normal(size=(300, 2)) * 1e-6
    x[0] = 1e3  # far from all others
    assert (nearest(torch.from_numpy(x), 5).numpy() == naive.neighbour_lists(x, 5)).all()


@pytest.mark.parametrize("k", [1, 7, 30, 79])
def test_overlaps_and_cycles_equal_their_definitions(k):
    x, y = pair()
    assert value_of(f"NO@{k}", x, y) == pytest.approx(naive.overlap(x, y, k))
    assert value_of(f"NOS@{k}", x, y) == pytest.approx(1 - naive.overlap(x, y, k))
    assert value_of(f"mutual k-NN@{k}", x, y) == pytest.approx(naive.mutual_knn(x, y, k))
    assert value_of(f"cycle k-NN@{k}", x, y) == pytest.approx(naive.cycle_knn(x, y, k))


def test_layers_against_layers_equal_unbiased_cka_and_hardly_depend_on_the_batch():
    x, y = pair(512)
    first, second = [x, x**2, np.abs(x)], [y, np.tanh(y)]
    whole = layer_cka(first, second, batch=512)
    expected = [[naive.unbiased_cka(a, b) for b in second] for a in first]
    assert whole == pytest.approx(np.array(expected))
    assert layer_cka(first, second, batch=64) == pytest.approx(whole, abs=0.05)
    images = [layer.reshape(512, 3, 2) for layer in first]
    assert layer_cka(images, second, batch=512) == pytest.approx(whole)
    assert layer_cka(first, second, batch=170).shape == (3, 2)  # 2 rows are left over


BLOCKS = list(blocks_of(80, 6))


def test_scores_without_a_block_are_those_of_the_other_rows():
    x, y = pair()
    rest = [np.delete(np.arange(80), block) for block in BLOCKS]
    without = MomentScores(x, y, tuple(MOMENT_SCORES)).without(BLOCKS)
    for place, name in enumerate(MOMENT_SCORES):
        expected = [value_of(name, x[rows], y[rows]) for rows in rest]
        assert without[:, place] == pytest.approx(np.array(expected)), name
    neighbors = NeighborScores(*(NeighborSide(rows, 20, False) for rows in (x, y)), (3, 10), 3)
    without = neighbors.without(BLOCKS)
    for place, k in enumerate((3, 10)):
        expected = [naive.overlap(x[rows], y[rows], k) for rows in rest]
        assert without[:, place] == pytest.approx(np.array(expected))
    distances = DistanceScores(*(DistanceSide(rows, "euclidean") for rows in (x, y)))
    expected = [value_of("DSC", x[rows], y[rows]) for rows in rest]
    assert distances.without(BLOCKS) == pytest.approx(np.array(expected), abs=1.5e-2)  # ranks of all rows


PLANS = {"permutations": PairingPlan.permutations(80, 9, 0), "shifts": PairingPlan.shifts(80, 10)}


@pytest.mark.parametrize("name", PLANS)
def test_scores_of_wrong_pairings_are_those_of_the_rows_of_each(name):
    x, y = pair()
    plan = PLANS[name]
    pairings = [(x[plan.rows], y[partners]) for partners in plan.partners()]
    drawn = MomentScores(x, y, tuple(MOMENT_SCORES)).null(plan)
    for place, score in enumerate(MOMENT_SCORES):
        expected = [value_of(score, *rows) for rows in pairings]
        assert drawn[:, place] == pytest.approx(np.array(expected), abs=2e-7), score
    sides = [NeighborSide(rows, 5, False) for rows in (x, y)]
    drawn = NeighborScores(*sides, (5,), None).null(plan, np.arange(80))
    assert drawn[:, 0] == pytest.approx(np.array([naive.overlap(*rows, 5) for rows in pairings]))
    sides = [NeighborSide(rows, 5, True) for rows in (x, y)]
    drawn = NeighborScores(*sides, (), 5).null(plan, np.arange(80))
    assert drawn[:, 0] == pytest.approx(np.array([naive.cycle_knn(*rows, 5) for rows in pairings]))
    drawn = DistanceScores(*(DistanceSide(rows, "euclidean") for rows in (x, y))).null(plan)
    expected = [value_of("DSC", *rows) for rows in pairings]
    assert drawn == pytest.approx(np.array(expected), abs=2e-2)  # ranks of all rows


@pytest.mark.parametrize("name", ["CKA", "unbiased CKA", "angular Procrustes", "DSC", "RSA", "NO@5"])
def test_one_scale_changes_no_score_but_the_orthogonal_distance(name):
    x, y = pair(60)
    assert value_of(name, x, 1e60 * y) == pytest.approx(value_of(name, x, y))
