"""Additive noise: the level with a fitted mean, and the power."""

import numpy as np
import pytest

from isojepa.certificates.assumptions.noise import check_noise, variance_ratio
from isojepa.certificates.assumptions.sample import draw_sample
from tests.certificates.assumptions.worlds import both, gaussian, rotation


def line(z, z_next, of="latents", rows=2000, draws=99, seed=0):
    return check_noise(draw_sample(z, z_next, of, seed), rows, draws, 0.95)


@pytest.mark.parametrize("dim", [1, 2, 8])
def test_false_alarms_are_as_rare_as_the_level(dim):
    ps = np.array([line(*gaussian(400, dim, seed=seed), draws=59, seed=seed).p for seed in range(40)])
    assert np.mean(ps <= 0.05) <= 0.15
    assert np.mean(ps <= 0.5) <= 0.7


def test_a_mean_step_with_an_error_is_not_taken_for_noise_that_varies():
    # 40 inputs fitted on 200 pairs: a fifth of the residual's variance is the error of the fit
    ps = np.array([line(*gaussian(400, 40, seed=seed), draws=59, seed=seed).p for seed in range(40)])
    assert np.mean(ps <= 0.05) <= 0.15


def test_noise_that_depends_on_another_dimension_names_it():
    rng = np.random.default_rng(0)
    z, noise = rng.standard_normal((2, 3000, 3))
    noise[:, 2] *= np.exp(0.7 * z[:, 0])
    found = line(z, 0.9 * z + 0.4 * noise)
    assert found.verdict == "fails"
    assert "of dimension 2" in found.sentence
    assert "along dimension 0" in found.sentence


def test_a_nonlinear_mean_step_is_still_additive():
    rng = np.random.default_rng(0)
    z, noise = rng.standard_normal((2, 4000, 2))
    assert line(z, np.tanh(2 * z) + 0.3 * noise).verdict == "holds"


def test_a_rotation_keeps_additive_noise_additive():
    pair = both(lambda z: z @ rotation(6), gaussian(3000, 6, rho=[0.9, 0.9, 0.8, 0.8, 0.7, 0.7]))
    assert line(*pair, of="embeddings").verdict == "holds"


def test_the_ratio_is_that_of_the_variances():
    rng = np.random.default_rng(0)
    inputs = list(rng.uniform(0, 1, (2, 40_000)))
    residuals = [np.where(x < 0.27, 2.0, 1.0) * rng.standard_normal(40_000) for x in inputs]
    ratio, (edges, variances) = variance_ratio(inputs, residuals, 0.95)
    assert ratio.low < 4 < ratio.high
    assert edges == pytest.approx(np.arange(1, 9) / 8, abs=0.02)
    assert variances == pytest.approx([4, 4, 1.48, 1, 1, 1, 1, 1], rel=0.1)


def test_the_ratio_of_equal_variances_is_1_and_not_above():
    rng = np.random.default_rng(0)
    ratios = [
        variance_ratio(list(rng.standard_normal((2, 500))), list(rng.standard_normal((2, 500))), 0.95)[
            0
        ].estimate
        for _ in range(200)
    ]
    assert np.mean(np.log(ratios)) == pytest.approx(0, abs=0.06)


def test_few_pairs_and_no_noise_are_told():
    assert "too few to fit the mean step" in line(*gaussian(40, 2)).sentence
    assert "too few to fit the mean step" in line(*gaussian(100, 60)).sentence
    z, _ = gaussian(300, 2)
    assert "no noise that could be looked at" in line(z, z).sentence
    assert "show only ratios above" in line(*gaussian(120, 2, seed=1)).sentence
