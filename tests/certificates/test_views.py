"""Sums over blocks: the same as plain formulas, whatever the pieces they are read in."""

import numpy as np
import pytest

from isojepa.certificates import embeddings as module
from isojepa.certificates.embeddings import Embeddings
from isojepa.certificates.views import block_edges, read_views


def pairs(seed=0, n=503, dim=4, shift=0.0):
    rng = np.random.default_rng(seed)
    h = rng.standard_normal((n, dim)) @ rng.standard_normal((dim, dim)) + shift
    return h, 0.8 * h + rng.standard_normal((n, dim)) - shift


@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize("chunk", [50, 10**6])
def test_covariance_and_correlation_equal_numpys(chunk, shift, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", chunk)
    h, h_next = pairs(shift=shift)
    views = read_views(Embeddings(h, h_next))
    expected = (np.cov(h, rowvar=False) + np.cov(h_next, rowvar=False)) / 2
    assert views.n == 503
    assert views.covariance() == pytest.approx(expected, rel=1e-7, abs=1e-8)
    a, b = h - h.mean(0), h_next - h_next.mean(0)
    plain = 2 * (a * b).sum() / ((a**2).sum() + (b**2).sum())
    correlation = views.correlation(0.95)
    assert correlation.estimate == pytest.approx(plain, rel=1e-8)
    assert correlation.low < correlation.estimate < correlation.high
    assert views.spreads().sum() == pytest.approx((a**2).sum() + (b**2).sum(), rel=1e-7)


def test_one_view_has_a_covariance_and_no_correlation():
    h, _ = pairs()
    views = read_views(Embeddings(h))
    assert views.covariance() == pytest.approx(np.cov(h, rowvar=False))
    assert views.correlation(0.95) is None


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 39, 40, 41, 1000])
def test_blocks_cover_all_rows_and_meet_at_the_half(n):
    edges = block_edges(n, 3)
    assert edges[-1] == n
    assert n // 2 in edges
    assert list(edges) == sorted(set(edges))
    assert len(edges) <= 40
    h = np.random.default_rng(n).standard_normal((n, 2))
    assert sum(block.n for block in read_views(Embeddings(h, h)).blocks) == n


def test_the_correlations_interval_covers_the_truth_for_rows_that_depend_on_each_other():
    # rows along 40 paths of 50 steps: an interval that took rows as independent would be far too narrow
    covered, naive = 0, 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        path = np.empty((101, 20, 1))
        path[0] = rng.standard_normal((20, 1))
        for t in range(100):
            path[t + 1] = 0.9 * path[t] + np.sqrt(1 - 0.81) * rng.standard_normal((20, 1))
        h, h_next = (part.swapaxes(0, 1).reshape(-1, 1) for part in (path[:-1], path[1:]))
        interval = read_views(Embeddings(h, h_next)).correlation(0.9)
        covered += interval.low < 0.9 < interval.high
        shuffled = rng.permutation(len(h))
        interval = read_views(Embeddings(h[shuffled], h_next[shuffled])).correlation(0.9)
        naive += interval.low < 0.9 < interval.high
    assert covered / 150 >= 0.8
    assert covered > naive
