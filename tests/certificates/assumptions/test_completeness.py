"""Completeness: what observations hold that the dimensions do not."""

import numpy as np
import pytest

from isojepa.certificates.assumptions.completeness import check_completeness, principal_components
from isojepa.certificates.assumptions.sample import draw_sample
from isojepa.seeds import generator
from tests.certificates.assumptions.worlds import gaussian, rotation


def line(h, x, rows=2000):
    sample = draw_sample(h, None, x, "embeddings", 0)
    return check_completeness(sample, sample.observations, rows, 0.95)


def images(z, noise=0.0):
    """Two blobs on a grid of 8 x 8, moved by the latents."""
    grid = np.stack(np.meshgrid(np.linspace(-3, 3, 8), np.linspace(-3, 3, 8)), -1)
    distance = ((grid[None] - z[:, None, None, :2]) ** 2).sum(-1)
    x = np.exp(-distance / 4)
    return x + noise * np.random.default_rng(1).standard_normal(x.shape)


def test_all_latents_leave_next_to_nothing():
    z, _ = gaussian(4000, 2)
    found = line(z @ rotation(2), images(z))
    assert found.verdict == "holds"
    assert found.value < 0.02


def test_a_missing_latent_is_seen():
    z, _ = gaussian(4000, 2)
    found = line(z[:, :1], images(z))
    assert found.verdict == "fails"
    assert found.value > 0.3
    assert "missing" in found.advice


def test_the_value_is_the_share_of_noise():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((4000, 2))
    x = z @ rng.standard_normal((2, 5)) + rng.standard_normal((4000, 5))
    truth = 5 / (x.var(0).sum())
    found = line(z, x)
    assert found.value == pytest.approx(truth, rel=0.06)


def test_an_intricate_map_with_few_samples_is_unclear():
    z, _ = gaussian(300, 3)
    waves = np.random.default_rng(0).standard_normal((3, 40)) * 0.8
    found = line(z, np.sin(z @ waves))
    assert found.verdict == "unclear"


def test_principal_components_are_those_of_the_full_decomposition():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 30)) * np.geomspace(10, 0.1, 30)
    x -= x.mean(0)
    found = principal_components(x, 5, generator(0, "test"))
    truth = np.linalg.svd(x)[2][:5].T
    assert np.linalg.svd(found.T @ truth)[1] == pytest.approx(np.ones(5), abs=1e-3)


def test_constant_observations_and_few_samples_are_told():
    z, _ = gaussian(300, 2)
    assert line(z, np.full((300, 4), 200, np.uint8)).sentence == "The observations are constant."
    assert "30 samples are too few" in line(z[:30], images(z[:30])).sentence
