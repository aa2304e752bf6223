"""RankMe and LiDAR against singular values and closed forms."""

import numpy as np
import pytest
import torch

from isojepa.probes.rank import lidar, rankme


def entropy_rank(values, added):
    p = values / values.sum() + added
    return np.exp(-(p * np.log(p)).sum())


@pytest.mark.parametrize("shape", [(200, 12), (9, 30), (5, 5)])
def test_rankme_is_that_of_the_singular_values(shape):
    z = np.random.default_rng(0).normal(size=shape) * np.geomspace(1, 1e-3, shape[1]) + 0.5
    expected = entropy_rank(np.linalg.svd(z, compute_uv=False), 1e-7)
    assert rankme(z) == pytest.approx(expected, rel=1e-6)
    assert rankme(torch.from_numpy(z)) == rankme(z)
    parts = iter([z[:3], z[3:]])
    assert rankme(parts) == pytest.approx(expected, rel=1e-6)


def test_rankme_of_equal_singular_values_is_their_number_and_of_one_direction_1():
    q = np.linalg.qr(np.random.default_rng(0).normal(size=(50, 7)))[0]
    assert rankme(q) == pytest.approx(7, rel=1e-4)
    assert rankme(np.outer(np.arange(1, 9), np.ones(6))) == pytest.approx(1, rel=1e-4)
    assert rankme(np.zeros((5, 3))) == 0
    assert np.isnan(rankme(np.full((5, 3), np.nan)))


def test_lidar_is_that_of_its_definition():
    draw = np.random.default_rng(0)
    q, n, dim = 4, 60, 6
    x = draw.normal(size=(1, n, dim)) @ draw.normal(size=(dim, dim)) + 0.4 * draw.normal(size=(q, n, dim))
    means = x.mean(0)
    between = sum(np.outer(m, m) for m in means - means.mean(0)) / (n - 1)
    within = sum(np.outer(r, r) for r in (x - means).reshape(-1, dim)) / (n * (q - 1)) + 1e-4 * np.eye(dim)
    values, vectors = np.linalg.eigh(within)
    root = vectors / np.sqrt(values) @ vectors.T
    expected = entropy_rank(np.linalg.eigvalsh(root @ between @ root), 1e-8)
    assert lidar(x) == pytest.approx(expected, rel=1e-8)


def test_lidar_counts_what_views_agree_on_and_rankme_what_is_there():
    draw = np.random.default_rng(0)
    shared, own = draw.normal(size=(1, 2000, 3)), draw.normal(size=(2, 2000, 5))
    x = np.concatenate((np.broadcast_to(shared, (2, 2000, 3)), 10 * own), axis=2)
    assert lidar(x) == pytest.approx(3, abs=0.1)
    assert rankme(x[0]) > 5


def test_lidar_of_states_that_do_not_differ_is_0():
    assert lidar(np.ones((2, 10, 3))) == 0
    assert np.isnan(lidar(np.full((2, 10, 3), np.inf)))
    with pytest.raises(ValueError, match="two or more of two or more states"):
        lidar(np.ones((1, 10, 3)))
    with pytest.raises(ValueError, match=r"\(view, state, dim\)"):
        lidar(np.ones((10, 3)))
    with pytest.raises(ValueError, match=r"\(samples, dim\)"):
        rankme(np.ones(3))
