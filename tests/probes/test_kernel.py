"""The kernel probe against scikit-learn and against leaving one out by hand."""

import numpy as np
import pytest
import torch

from isojepa.probes.linear import _Bumps, kernel_probe
from isojepa.seeds import generator

kernel_ridge = pytest.importorskip("sklearn.kernel_ridge", reason="the reference is scikit-learn's")


def rings(n, seed):
    """Two rings around each other: no line tells them apart."""
    draw = np.random.default_rng(seed)
    y = draw.integers(0, 2, n)
    angle = draw.uniform(0, 2 * np.pi, n)
    radius = 1 + y + 0.35 * draw.normal(size=n)
    return np.column_stack((radius * np.cos(angle), radius * np.sin(angle))).astype(np.float32), y


def test_with_all_examples_as_landmarks_it_is_kernel_ridge_regression():
    (x, y), (test_x, test_y) = rings(300, 0), rings(200, 1)
    score = kernel_probe(x, y, test_x, test_y, ridges=(0.1,))
    mean, scale = x.mean(0), x.std(0)
    model = kernel_ridge.KernelRidge(alpha=0.1, kernel="rbf", gamma=0.5 / score.chosen["bandwidth"] ** 2).fit(
        (x - mean) / scale, np.eye(2)[y] - 0.5
    )
    answers = model.predict((test_x - mean) / scale).argmax(1)
    assert score.accuracy == pytest.approx((answers == test_y).mean(), abs=0.005)
    assert score.chosen["landmarks"] == 300
    bumps = _Bumps(torch.from_numpy(x), 300, generator(0, "a"))
    _, weight = bumps.choose(torch.from_numpy(x), torch.from_numpy(y), 2, (0.1,))
    ours = torch.cat([phi @ weight for phi in bumps.blocks(torch.from_numpy(test_x))]).numpy()
    np.testing.assert_allclose(ours, model.predict((test_x - mean) / scale), atol=2e-3)


def test_the_bandwidth_is_the_median_distance():
    x, y = rings(300, 0)
    standard = (x - x.mean(0)) / x.std(0)
    distances = np.linalg.norm(standard[:, None] - standard, axis=2)[np.triu_indices(300, 1)]
    assert kernel_probe(x, y, x, y).chosen["bandwidth"] == pytest.approx(np.median(distances), rel=1e-3)


def test_the_ridge_is_that_of_leaving_one_out_by_hand():
    x, y = rings(60, 3)
    ridges = (1e-3, 1e-1, 10.0, 1000.0)
    bumps = _Bumps(torch.from_numpy(x), 60, generator(0, "a"))
    phi = torch.cat(list(bumps.blocks(torch.from_numpy(x)))).numpy()
    targets = np.eye(2)[y] - 0.5
    scores = {}
    for ridge in ridges:
        left_out = np.empty_like(targets)
        for i in range(60):
            rest = np.arange(60) != i
            gram = phi[rest].T @ phi[rest] + ridge * np.eye(phi.shape[1])
            left_out[i] = phi[i] @ np.linalg.solve(gram, phi[rest].T @ targets[rest])
        scores[ridge] = ((left_out.argmax(1) == y).sum(), -np.square(left_out - targets).sum())
    found, _ = bumps.choose(torch.from_numpy(x), torch.from_numpy(y), 2, ridges)
    assert found == max(ridges, key=scores.__getitem__)


def test_a_few_landmarks_do_almost_as_well_as_all():
    (x, y), (test_x, test_y) = rings(1500, 0), rings(1000, 1)
    few = kernel_probe(x, y, test_x, test_y, landmarks=100)
    every = kernel_probe(x, y, test_x, test_y, landmarks=1500)
    assert few.chosen["landmarks"] == 100
    assert few.accuracy > every.accuracy - 0.02 > 0.85


def test_ridges_that_are_none_are_told():
    x, y = rings(60, 0)
    with pytest.raises(ValueError, match="ridge must be positive"):
        kernel_probe(x, y, x, y, ridges=(0,))
    with pytest.raises(ValueError, match="landmarks must be a positive integer"):
        kernel_probe(x, y, x, y, landmarks=0)
