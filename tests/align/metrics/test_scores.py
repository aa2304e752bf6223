"""Every score against a slow form written from its definition, scipy, scikit-learn and netrep."""

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes as scipy_procrustes
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr

from isojepa.align import AlignmentMap, split_states
from isojepa.align import metrics as m
from isojepa.align.metrics import distances as distances_module
from isojepa.align.metrics.search import neighbours
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
def test_cka_in_feature_space_equals_the_gram_form(n, widths):
    x, y = pair(n, widths)
    assert m.cka(x, y).value == pytest.approx(naive.cka(x, y)) == m.cka_value(x, y)
    assert m.unbiased_cka(x, y).value == pytest.approx(naive.unbiased_cka(x, y))


def test_canonical_scores_equal_those_of_qr_factors():
    x, y = pair()
    rho, _ = naive.canonical(x, y)
    assert m.mean_cca(x, y, null=False).value == pytest.approx(rho.mean())
    assert m.svcca(x, y, null=False).value == pytest.approx(naive.svcca(x, y))
    assert m.svcca(x, y, variance=0.8, null=False).value == pytest.approx(naive.svcca(x, y, 0.8))
    assert m.pwcca(x, y, null=False).value == pytest.approx(naive.pwcca(x, y))
    assert m.pwcca(x, y, weights="second", null=False).value == pytest.approx(naive.pwcca(y, x))


def test_mean_cca_equals_scikit_learns_cca():
    decomposition = pytest.importorskip("sklearn.cross_decomposition")
    x, y = pair(400, (3, 3))
    found = decomposition.CCA(n_components=3, max_iter=5000, tol=1e-12).fit(x, y)
    one, two = found.transform(x, y)
    expected = np.mean([np.corrcoef(one[:, k], two[:, k])[0, 1] for k in range(3)])
    assert m.mean_cca(x, y, null=False).value == pytest.approx(expected, abs=1e-4)


def test_procrustes_distances_equal_those_after_scipys_rotation():
    x, y = pair(widths=(4, 4))
    x, y = x - x.mean(0), y - y.mean(0)
    rotated = x @ scipy_procrustes(x, y)[0]
    assert m.orthogonal_procrustes(x, y).value == pytest.approx(np.linalg.norm(rotated - y))
    cosine = (rotated * y).sum() / np.linalg.norm(x) / np.linalg.norm(y)
    assert m.angular_procrustes(x, y).value == pytest.approx(np.arccos(cosine))


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
    assert m.cka(x, second).value == pytest.approx(cka)
    assert m.angular_procrustes(x, second).value == pytest.approx(angle)
    assert m.orthogonal_procrustes(x, second).value == pytest.approx(distance)


def test_procrustes_distances_and_cka_equal_netreps():
    linear = pytest.importorskip("netrep.metrics.linear")
    x, y = pair()
    for method, ours in (("angular", m.angular_procrustes), ("euclidean", m.orthogonal_procrustes)):
        theirs = linear.LinearMetric(alpha=1.0, score_method=method).fit_score(x, y)
        assert ours(x, y, null=False).value == pytest.approx(theirs)


@pytest.mark.parametrize("kind", ["euclidean", "correlation", "cosine"])
def test_rsa_equals_scipys_spearman_of_its_distances(kind):
    x, y = pair()
    expected = spearmanr(pdist(x, kind), pdist(y, kind)).statistic
    assert m.rsa(x, y, dissimilarity=kind).value == pytest.approx(expected)


def test_dsc_shares_ranks_of_equal_distances_as_scipy_does():
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 3, size=(60, 3)).astype(float) for _ in range(2))
    assert m.dsc(x, y).value == pytest.approx(spearmanr(pdist(x), pdist(y)).statistic) == m.dsc_value(x, y)


def test_dsc_of_groups_has_the_exact_value_in_its_interval(monkeypatch):
    x, y = pair(2000)
    whole = m.dsc(x, y)
    monkeypatch.setattr(distances_module, "EXACT", 1000)
    some = m.dsc(x, y)
    assert (whole.subsample, some.subsample) == (False, True)
    assert some.interval.low < whole.value < some.interval.high
    assert some.null == "exact moments, re-paired within groups of 500"


@pytest.mark.parametrize("shape", [(300, 1), (300, 3), (700, 40)])
def test_neighbours_equal_scikit_learns(shape):
    sklearn = pytest.importorskip("sklearn.neighbors")
    x = np.random.default_rng(0).normal(size=shape) + 100
    search = sklearn.NearestNeighbors(n_neighbors=20, algorithm="brute").fit(x)
    assert (neighbours(torch.from_numpy(x), 20).numpy() == search.kneighbors(return_distance=False)).all()


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("values", [2, 3, 50])
def test_neighbours_at_equal_distances_come_by_number(values, offset):
    x = np.random.default_rng(0).integers(0, values, size=(400, 3)) + offset
    assert (neighbours(torch.from_numpy(x), 10).numpy() == naive.neighbour_lists(x, 10)).all()


def test_neighbours_that_float32_cannot_tell_apart_are_told_apart():
    x = np.random.default_rng(0).normal(size=(300, 2)) * 1e-6
    x[0] = 1e3  # far from all others
    assert (neighbours(torch.from_numpy(x), 5).numpy() == naive.neighbour_lists(x, 5)).all()


def test_overlaps_of_many_k_equal_those_of_each_k():
    x, y = pair()
    ks = (1, 2, 7, 30, 79)
    for k, found in zip(ks, m.neighbour_overlaps(x, y, ks=ks), strict=True):
        assert found.value == pytest.approx(naive.overlap(x, y, k))
    for k, found in zip(ks, m.neighbour_disagreements(x, y, ks=ks), strict=True):
        assert (found.name, found.higher_is_better) == (f"NOS@{k}", False)
        assert found.value == pytest.approx(1 - naive.overlap(x, y, k))
        assert found.chance == pytest.approx(1 - k / 79)


@pytest.mark.parametrize("k", [1, 5, 10])
def test_mutual_and_cycle_knn_equal_their_definitions(k):
    x, y = pair()
    assert m.mutual_knn(x, y, k=k).value == pytest.approx(naive.mutual_knn(x, y, k))
    assert m.cycle_knn(x, y, k=k).value == pytest.approx(naive.cycle_knn(x, y, k))


@pytest.mark.parametrize("ridge", [None, 3.0])
def test_held_out_errors_equal_algorithm_1(ridge):
    x, y = pair()
    split = split_states(len(x))
    mse, r2 = naive.held_out(x, y, split.fit, split.score, ridge or 0.0)
    assert m.mse(x, y, ridge=ridge).value == pytest.approx(mse)
    assert m.r2(x, y, ridge=ridge).value == pytest.approx(r2)
    fitted = AlignmentMap("ols" if ridge is None else "ridge", ridge=ridge).fit(x[split.fit], y[split.fit])
    assert fitted.score(x[split.score], y[split.score]) == pytest.approx(r2)
    assert m.r2(x[split.score], y[split.score], map=fitted).value == pytest.approx(r2)


def test_held_out_scores_split_by_state():
    x, y = pair(200)
    ids = np.arange(200) // 4
    split = split_states(200, ids)
    mse, r2 = naive.held_out(x, y, split.fit, split.score)
    assert m.mse(x, y, ids=ids).value == pytest.approx(mse)
    assert m.r2(x, y, ids=ids).value == pytest.approx(r2)
    # copies of a state add nothing: the interval is as wide as that of single rows
    copies = np.repeat(np.arange(50), 4)
    many, few = m.r2(x[copies], y[copies], ids=copies), m.r2(x[:50], y[:50])
    width = [c.interval.high - c.interval.low for c in (many, few)]
    assert width[0] == pytest.approx(width[1], rel=0.05)


def test_layers_against_layers_equal_unbiased_cka_and_hardly_depend_on_the_batch():
    x, y = pair(512)
    first, second = [x, x**2, np.abs(x)], [y, np.tanh(y)]
    whole = m.layer_cka(first, second, batch=512)
    expected = [[naive.unbiased_cka(a, b) for b in second] for a in first]
    assert whole == pytest.approx(np.array(expected))
    assert m.layer_cka(first, second, batch=64) == pytest.approx(whole, abs=0.05)
    pictures = [layer.reshape(512, 3, 2) for layer in first]
    assert m.layer_cka(pictures, second, batch=512) == pytest.approx(whole)
    assert m.layer_cka(first, second, batch=170).shape == (3, 2)  # 2 rows are left over


SCORES = {
    "cka": m.cka,
    "unbiased_cka": m.unbiased_cka,
    "mean_cca": m.mean_cca,
    "svcca": m.svcca,
    "pwcca": m.pwcca,
    "dsc": m.dsc,
    "rsa": m.rsa,
    "overlap": m.neighbour_overlap,
    "disagreement": m.neighbour_disagreement,
    "mutual": m.mutual_knn,
    "cycle": m.cycle_knn,
    "angular": m.angular_procrustes,
    "orthogonal": m.orthogonal_procrustes,
    "mse": m.mse,
    "r2": m.r2,
}


@pytest.mark.parametrize("name", SCORES)
def test_the_same_rows_score_the_best_possible_value_far_from_chance(name):
    x, _ = pair(100)
    found = SCORES[name](x, x.copy())
    assert found.value == pytest.approx(found.best, abs=2e-7)
    assert found.calibrated == pytest.approx(1, abs=1e-6)
    assert found.p < 0.01
    assert found.higher_is_better == (found.best == 1)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torch_and_numpy_give_the_same(name, dtype):
    x, y = (torch.from_numpy(rows).to(dtype) for rows in pair(60))
    found, again = (
        SCORES[name](x.requires_grad_(), y),
        SCORES[name](x.detach().double().numpy(), y.double().numpy()),
    )
    assert found == again


def test_half_precision_is_read():
    x, y = (torch.from_numpy(rows).half() for rows in pair(60))
    for rows in (x, x.bfloat16()):
        assert m.cka(rows, y).value == pytest.approx(m.cka(rows.double(), y.double()).value, rel=1e-12)


@pytest.mark.parametrize("name", SCORES)
def test_without_a_null_the_value_is_the_same_and_nothing_is_said_of_chance(name):
    x, y = pair(60)
    found, plain = SCORES[name](x, y), SCORES[name](x, y, null=False)
    assert (plain.value, plain.interval) == (found.value, found.interval)
    assert (plain.chance, plain.p, plain.calibrated) == (None, None, None)


def test_distances_and_cka_do_not_notice_scale_but_for_orthogonal_procrustes():
    x, y = pair(60)
    for name in ("cka", "unbiased_cka", "angular", "dsc", "rsa", "overlap"):
        found, huge = (SCORES[name](x, factor * y, null=False).value for factor in (1.0, 1e60))
        assert huge == pytest.approx(found), name


@pytest.mark.parametrize("k", [1, 3, 10])
def test_overlaps_without_a_row_are_those_of_the_other_rows(k):
    from isojepa.align.metrics.neighbors import _left_out, _places

    x, y = pair(30)
    one, two = (neighbours(torch.from_numpy(rows), k + 1) for rows in (x, y))
    shared, without = _left_out(one, two, _places(one, two), _places(two, one), k)
    assert shared / (30 * k) == pytest.approx(naive.overlap(x, y, k))
    expected = [naive.overlap(np.delete(x, row, 0), np.delete(y, row, 0), k) for row in range(30)]
    assert without == pytest.approx(np.array(expected))


@pytest.mark.parametrize("name", SCORES)
def test_all_scores_have_one_signature(name):
    x, y = pair(60)
    found = SCORES[name](x, y, confidence=0.9, null=True, draws=19, seed=1, drop_constant=True)
    assert isinstance(found, m.Comparison)
    assert found.interval.low <= found.value <= found.interval.high
    assert found.rows in (30, 60)
