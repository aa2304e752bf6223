"""Components, masks, neighbors and maps, each against another way to compute it."""

import numpy as np
import pytest
import torch

from isojepa.report.looking import (
    agreement,
    color_maps,
    components,
    kept_mass,
    nearest_others,
    neighbor_map,
    spread_order,
)
from isojepa.report.looking.neighbor_map import gradient, joint


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize(("n", "dim"), [(40, 7), (7, 40), (3, 3), (2, 5)])
def test_components_are_those_of_a_singular_value_decomposition(n, dim):
    x = draw(n, dim) * np.linspace(3, 1, dim) + 5
    u, s, _ = np.linalg.svd(x - x.mean(0), full_matrices=False)
    count = min(n - 1, 3)
    found = components(x, 3)
    np.testing.assert_allclose(np.abs(found.scores[:, :count]), np.abs(u * s)[:, :count], atol=1e-8)
    np.testing.assert_allclose(found.shares[:count], (s**2 / (s**2).sum())[:count])
    np.testing.assert_array_equal(found.scores[:, count:], 0)
    assert (np.sum(found.scores**3, 0) >= 0).all()


def test_features_that_differ_by_rounding_alone_have_no_components():
    x = np.full((50, 8), 3.0, dtype=np.float32)
    x[::2] = np.nextafter(x[::2], np.float32(4))
    found = components(x)
    assert not found.scores.any()
    assert found.shares == (0.0, 0.0)
    assert not components(np.ones((1, 4))).scores.any()


def test_colors_are_the_three_components_over_all_pictures_at_once():
    maps = draw(3, 12, 5, 4) * np.linspace(4, 1, 12)[:, None, None]
    found = color_maps(maps)
    rows = maps.transpose(0, 2, 3, 1).reshape(-1, 12)
    u, s, _ = np.linalg.svd(rows - rows.mean(0), full_matrices=False)
    truth = (u * s)[:, :3]
    for channel in range(3):
        shown = found.colors[..., channel].ravel()
        inside = (shown > 0) & (shown < 1)  # the ends are cut
        assert 0.9 < inside.mean() < 1
        assert abs(np.corrcoef(shown[inside], truth[inside, channel])[0, 1]) > 1 - 1e-9
    assert (found.colors >= 0).all()
    assert (found.colors <= 1).all()


def test_the_foreground_is_in_the_middle():
    thing = np.zeros((8, 8), dtype=bool)
    thing[2:6, 3:7] = True
    for sign in (1, -1):
        maps = sign * 3.0 * thing * np.ones((2, 6, 1, 1)) + 0.01 * draw(2, 6, 8, 8)
        np.testing.assert_array_equal(color_maps(maps).foreground, np.stack((thing, thing)))


def test_maps_without_variance_are_grey():
    found = color_maps(np.ones((2, 3, 4, 4)))
    np.testing.assert_array_equal(found.colors, 0.5)
    assert not found.foreground.any()


@pytest.mark.parametrize("share", [0.1, 0.6, 0.95, 1.0])
def test_kept_mass_is_the_smallest_set_that_holds_the_share(share):
    weights = np.random.default_rng(0).dirichlet(np.ones(12), size=(2, 3)).reshape(2, 3, 4, 3)
    kept = kept_mass(weights, share)
    for one, mask in zip(weights.reshape(-1, 12), kept.reshape(-1, 12), strict=True):
        ranked = np.sort(one)[::-1]
        fewest = next(n for n in range(1, 13) if ranked[:n].sum() >= share - 1e-12)
        assert mask.sum() == fewest
        assert one[mask].sum() >= share - 1e-9
        assert one[mask].min() >= (one[~mask].max() if fewest < 12 else 0)


def test_kept_mass_of_nothing_and_of_equal_weights():
    assert not kept_mass(np.zeros((1, 2, 2))).any()
    assert kept_mass(np.ones((10, 10)), 0.6).sum() == 60
    with pytest.raises(ValueError, match="share must lie in"):
        kept_mass(np.ones((2, 2)), 0.0)
    with pytest.raises(ValueError, match="not negative"):
        kept_mass(-np.ones((2, 2)))


@pytest.mark.parametrize("n", [2, 3, 50, 1100])
def test_neighbors_are_those_of_a_loop_over_all_pairs(n):
    x = draw(n, 6).astype(np.float32)
    found = nearest_others(x, 4)
    unit = x.astype(np.float64) / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)
    for row in range(0, n, max(1, n // 40)):
        others = [other for other in range(n) if other != row]
        ranked = sorted(others, key=lambda other: -float(unit[row] @ unit[other]))[:4]
        assert found.ids[row].tolist() == ranked
        np.testing.assert_allclose(found.cosines[row], unit[ranked] @ unit[row], atol=1e-5)


def test_nobody_is_a_neighbor_of_themselves_among_equals():
    found = nearest_others(np.ones((5, 3)), 4)
    for row in range(5):
        assert sorted([*found.ids[row].tolist(), row]) == [0, 1, 2, 3, 4]
    assert nearest_others(np.ones((1, 3)), 4).ids.shape == (1, 0)
    assert (nearest_others(np.zeros((3, 2)), 2).cosines == 0).all()


def test_agreement_by_chance_is_what_random_neighbors_have():
    labels = np.repeat(np.arange(4), [300, 200, 80, 20])
    source = np.random.default_rng(0)
    ids = np.stack([source.permutation(np.delete(np.arange(600), row))[:40] for row in range(600)])
    found = agreement(ids, labels)
    assert found.share == pytest.approx(found.chance, abs=0.01)
    assert agreement(nearest_others(np.eye(4)[labels], 10).ids, labels).share == 1


def test_the_order_goes_to_the_farthest_point_each_time():
    points = draw(30, 2)
    order = spread_order(points)
    assert sorted(order.tolist()) == list(range(30))
    for place in range(1, 30):
        gaps = [min(np.linalg.norm(points[i] - points[j]) for j in order[:place]) for i in range(30)]
        assert gaps[order[place]] == pytest.approx(max(gaps))
    assert sorted(spread_order(np.zeros((4, 2))).tolist()) == [0, 1, 2, 3]
    assert len(spread_order(np.zeros((0, 2)))) == 0


def rows_of(x):
    found = torch.from_numpy(x).float()
    return found / found.norm(dim=1, keepdim=True)


def divergence(y, p):
    near = 1 / (1 + (y[:, None] - y[None]).square().sum(-1))
    near = near * (1 - torch.eye(len(y)).to(y))
    q = near / near.sum()
    return torch.where(p > 0, p * (p.clamp_min(1e-300).log() - q.clamp_min(1e-300).log()), 0.0).sum()


def test_the_gradient_of_the_map_is_that_of_the_divergence():
    p = joint(rows_of(draw(25, 5)), 6.0).double()
    y = torch.from_numpy(draw(25, 2, seed=1)).requires_grad_()
    (truth,) = torch.autograd.grad(divergence(y, p), y)
    torch.testing.assert_close(gradient(y.detach(), p), truth, rtol=1e-6, atol=1e-9)


def test_joint_probabilities_have_the_perplexity():
    rows = rows_of(draw(40, 5))
    p = joint(rows, 8.0)
    assert float(p.sum()) == pytest.approx(1, abs=1e-5)
    torch.testing.assert_close(p, p.T)
    sklearn = pytest.importorskip("sklearn.manifold._t_sne")
    squares = (rows[:, None] - rows[None]).square().sum(-1).numpy()
    truth = sklearn._joint_probabilities(squares.astype(np.float32), 8.0, 0)
    i, j = np.triu_indices(40, 1)
    np.testing.assert_allclose(p.numpy()[i, j], truth, rtol=2e-3, atol=1e-7)


def test_the_map_keeps_neighbors_that_a_plane_of_pca_cannot():
    labels = np.arange(300) % 25
    x = 2 * np.eye(25)[labels] @ draw(25, 30, seed=3) / np.sqrt(30) + 0.2 * draw(300, 30)
    found = neighbor_map(x)
    np.testing.assert_array_equal(neighbor_map(x), found)  # nothing is drawn at random

    def kept(points):
        squares = np.square(points[:, None] - points[None]).sum(-1)
        np.fill_diagonal(squares, np.inf)
        return (labels[squares.argmin(1)] == labels).mean()

    assert kept(found) > 0.97
    assert kept(found) > kept(components(x).scores) + 0.1


def test_the_map_diverges_no_more_than_that_of_scikit_learn():
    manifold = pytest.importorskip("sklearn.manifold")
    draws = np.random.default_rng(0), np.random.default_rng(9)
    groups = 4 * draws[1].normal(size=(5, 10))  # noise alone has many ends, and rounding decides for one
    rows = rows_of(draws[0].normal(size=(150, 10)) + groups[np.arange(150) % 5])
    p = joint(rows, 30.0).double()
    ours = divergence(torch.from_numpy(neighbor_map(rows.numpy())), p)
    theirs = manifold.TSNE(method="exact", random_state=0).fit_transform(rows.numpy())
    assert float(ours) < 1.1 * float(divergence(torch.from_numpy(theirs).double(), p))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 10])
def test_few_rows_and_equal_ones_have_places(n):
    for x in (draw(n, 4), np.ones((n, 4)), np.zeros((n, 4))):
        found = neighbor_map(x, steps=50)
        assert found.shape == (n, 2)
        assert np.isfinite(found).all()
    assert not neighbor_map(np.ones((n, 4))).any()
