"""Dimension: effective ranks, surplus dimensions, and what is no surplus."""

import numpy as np
import pytest

from isojepa.certificates.assumptions import draw_sample
from isojepa.certificates.dimension import (
    curved_directions,
    dimension,
    effective_ranks,
    skewed_directions,
)
from tests.certificates.worlds import both, duplicated, gaussian, harmonic, rotation


def line(z, z_next=None, of="embeddings", seed=0):
    return dimension(draw_sample(z, z_next, of, seed))


def test_effective_ranks_of_equal_and_single_eigenvalues():
    assert effective_ranks(np.ones(7), 10**9) == pytest.approx((7, 7), rel=1e-6)
    assert effective_ranks(np.array([3.0, 0.0, 0.0]), 10**9) == pytest.approx((1, 1), rel=1e-6)
    assert effective_ranks(np.zeros(3), 100) == (0.0, 0.0)
    entropy, participation = effective_ranks(np.array([2.0, 1.0, 1.0]), 10**9)
    assert participation == pytest.approx(16 / 6, rel=1e-6)
    assert entropy == pytest.approx(2 ** (0.5 + 0.5 * 2), rel=1e-6)


def test_the_participation_ratio_is_free_of_the_bias_of_few_samples():
    rng = np.random.default_rng(0)
    scale = np.sqrt(np.linspace(1, 3, 40))
    truth = (scale**2).sum() ** 2 / (scale**4).sum()
    found, plain = [], []
    for _ in range(60):
        values = np.linalg.eigvalsh(np.cov(rng.standard_normal((60, 40)) * scale, rowvar=False))
        found.append(effective_ranks(values, 60)[1])
        plain.append(values.sum() ** 2 / (values**2).sum())
    assert np.mean(found) == pytest.approx(truth, rel=0.03)
    assert np.mean(plain) < 0.7 * truth


@pytest.mark.parametrize("dim", [2, 8, 40])
@pytest.mark.parametrize("views", [1, 2])
def test_a_second_harmonic_is_found_though_turned(dim, views):
    found = line(*harmonic(6000, dim)[:views])
    assert found.verdict == "fails"
    assert found.value > 0.7
    if views == 2:
        assert "second harmonic" in found.sentence


def test_duplicates_and_constants_are_surplus():
    found = line(*duplicated(500, 3))
    assert found.verdict == "fails"
    assert "1 of 4 directions have next to no variance" in found.sentence
    z, z_next = gaussian(500, 3)
    z[:, 2] = z_next[:, 2] = 1
    found = line(z, z_next)
    assert found.verdict == "fails"
    assert "1 of 3 dimensions are constant (2)" in found.sentence


def test_a_function_of_two_others_is_found_among_its_dimensions():
    z, z_next = gaussian(4000, 5)
    z[:, 4], z_next[:, 4] = (v[:, 0] * v[:, 1] for v in (z, z_next))
    found = line(z, z_next, of="latents")
    assert found.verdict == "fails"
    assert found.value > 0.9


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.95])
def test_correlated_dimensions_are_no_surplus(correlation):
    mixing = np.linalg.cholesky(np.array([[1, correlation], [correlation, 1]]))
    pair = both(lambda z: z @ mixing.T, gaussian(3000, 2))
    assert line(*pair).verdict == "holds"


@pytest.mark.parametrize("dim", [1, 2, 8, 64])
def test_gaussian_dimensions_hold(dim):
    for seed in range(3 if dim < 8 else 1):
        found = line(*gaussian(2000, dim, seed=seed), seed=seed)
        assert found.verdict == "holds"
        assert dict(found.detail)["participation ratio"] == pytest.approx(dim, rel=0.02)


def test_curved_directions_are_those_of_the_function():
    rng = np.random.default_rng(0)
    for dim in (12, 150):  # by a full decomposition, and by an iteration
        y = rng.standard_normal((6000, dim))
        turn = rotation(dim)
        inner = y @ turn
        unit = turn[:, -1]
        t = inner[:, 0] * inner[:, 1] + 0.1 * inner[:, -1]
        found = curved_directions(y, t, unit)
        assert np.abs(unit @ found).max() < 1e-6
        span = turn[:, :2].T @ np.linalg.qr(found)[0]
        assert np.linalg.svd(span)[1].min() > 0.9


def test_third_moments_are_those_of_the_definition():
    y = np.random.default_rng(0).gamma(2.0, size=(40, 3))
    y -= y.mean(0)
    triples = [np.einsum("k,i,j->kij", row, row, row) for row in y]
    gram = sum(
        np.einsum("kij,lij->kl", a, b) for s, a in enumerate(triples) for b in triples[:s] + triples[s + 1 :]
    )
    truth = np.linalg.eigh(gram)[1][:, ::-1]
    assert np.abs((truth * skewed_directions(y, 3)).sum(0)) == pytest.approx(np.ones(3), abs=1e-4)
