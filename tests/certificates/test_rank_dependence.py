"""Independence and additive noise: the distance correlation of ranks, levels and power."""

from dataclasses import replace

import numpy as np
import pytest

from isojepa.certificates.assumptions import draw_sample
from isojepa.certificates.rank_dependence import (
    additive_noise,
    all_values,
    independence,
    pair_values,
    pair_weights,
    permute_pairs,
    rank_cosines,
    search_pairs,
    variance_ratio,
)
from isojepa.seeds import generator
from tests.certificates.worlds import both, folded, gaussian, rotation
from tests.reference.distance_correlation import distance_correlation_of_ranks


def line(z, z_next=None, of="latents", rows=1000, draws=99, seed=0):
    return independence(replace(draw_sample(z, z_next, of, seed), rows=rows, draws=draws))


def noise_line(z, z_next, of="latents", rows=2000, draws=99, seed=0):
    return additive_noise(replace(draw_sample(z, z_next, of, seed), rows=rows, draws=draws))


def source():
    return generator(0, "test")


@pytest.mark.parametrize("kind", ["independent", "linear", "folded", "circle"])
def test_the_statistic_is_the_distance_correlation_of_ranks(kind):
    rng = np.random.default_rng(0)
    x, noise = rng.standard_normal((2, 300))
    angle = rng.uniform(0, 2 * np.pi, 300)
    y = {
        "independent": noise,
        "linear": x + noise,
        "folded": np.abs(x) + 0.1 * noise,
        "circle": np.sin(angle),
    }
    x = np.cos(angle) if kind == "circle" else x
    truth = distance_correlation_of_ranks(x, y[kind])
    for count, tolerance in ((4, 0.02), (60, 1e-3)):
        features = rank_cosines(np.stack([x, y[kind]], 1), source(), count)
        found = pair_values(features[:1], features[1:], pair_weights(count))[0]
        assert found == pytest.approx(truth, abs=tolerance)


def test_the_bias_is_removed():
    rng = np.random.default_rng(1)
    values = []
    for _ in range(300):
        features = rank_cosines(rng.standard_normal((40, 2)), source())
        one = replace(draw_sample(np.eye(40)[:, :2], None, "latents", 0), draws=1)
        values.append(
            permute_pairs(features, np.array([[0, 1]]), np.arange(2), pair_weights(), one, source())[0][0]
        )
    assert abs(np.mean(values)) < 4 * np.std(values) / np.sqrt(300)


def test_ties_do_not_make_variables_dependent():
    rng = np.random.default_rng(0)
    found = line((rng.random((2000, 3)) > 0.5).astype(int), rows=2000)
    assert found.verdict == "holds"
    assert found.value < 0.1


@pytest.mark.parametrize("dim", [2, 8])
def test_false_alarms_are_as_rare_as_the_level(dim):
    ps = [line(*gaussian(200, dim, seed=seed), draws=59, seed=seed).p for seed in range(60)]
    assert np.mean(np.array(ps) <= 0.05) <= 0.12
    assert np.mean(np.array(ps) <= 0.5) <= 0.65


@pytest.mark.parametrize("dim", [2, 8, 64])
def test_a_folded_latent_is_found_and_named(dim):
    found = line(*folded(3000, dim), rows=2000)
    assert found.verdict == "fails"
    assert found.sentence.startswith("Dimension 0 and dimension 1")
    assert "no rotation separates them" in found.advice
    assert found.interval.low > 0.1


def test_latents_that_push_each_other_are_found_across_views():
    rng = np.random.default_rng(0)
    z, noise = rng.standard_normal((2, 2000, 2))
    z_next = 0.6 * z + 0.6 * z[:, ::-1] * [1, -1] + np.sqrt(1 - 0.72) * noise
    assert line(z).verdict == "holds"
    found = line(z, z_next)
    assert found.verdict == "fails"
    assert "of the next view" in found.sentence
    assert line(z, z_next, of="embeddings").verdict == "holds"


def test_the_search_finds_what_the_whole_matrix_holds():
    z = folded(400, 14)[0]
    features, weights = rank_cosines(z, source(), 3), pair_weights(3)
    pairs = np.stack(np.triu_indices(14, 1), 1)
    slow = np.array([pair_values(features[[i]], features[[j]], weights)[0] for i, j in pairs])
    assert np.allclose(all_values(z, source(), 14)[tuple(pairs.T)], slow, atol=1e-6)
    assert (search_pairs(z, pairs, source()) == pairs[np.argsort(-slow)[:64]]).all()


def test_monotone_maps_of_each_dimension_change_nothing():
    pair = gaussian(300, 3)
    assert line(*pair).p == line(*both(np.exp, pair)).p


@pytest.mark.parametrize("dim", [1, 2, 8])
def test_false_alarms_of_noise_are_as_rare_as_the_level(dim):
    ps = np.array([noise_line(*gaussian(400, dim, seed=seed), draws=59, seed=seed).p for seed in range(40)])
    assert np.mean(ps <= 0.05) <= 0.15
    assert np.mean(ps <= 0.5) <= 0.7


def test_a_mean_step_with_an_error_is_not_taken_for_noise_that_varies():
    # 40 inputs fitted on 200 pairs: a fifth of the residual's variance is the error of the fit
    ps = np.array([noise_line(*gaussian(400, 40, seed=seed), draws=59, seed=seed).p for seed in range(40)])
    assert np.mean(ps <= 0.05) <= 0.15


def test_noise_that_depends_on_another_dimension_names_it():
    rng = np.random.default_rng(0)
    z, noise = rng.standard_normal((2, 3000, 3))
    noise[:, 2] *= np.exp(0.7 * z[:, 0])
    found = noise_line(z, 0.9 * z + 0.4 * noise)
    assert found.verdict == "fails"
    assert "of dimension 2" in found.sentence
    assert "along dimension 0" in found.sentence


def test_a_nonlinear_mean_step_is_still_additive():
    rng = np.random.default_rng(0)
    z, noise = rng.standard_normal((2, 4000, 2))
    assert noise_line(z, np.tanh(2 * z) + 0.3 * noise).verdict == "holds"


def test_a_rotation_keeps_additive_noise_additive():
    pair = both(lambda z: z @ rotation(6), gaussian(3000, 6, rho=[0.9, 0.9, 0.8, 0.8, 0.7, 0.7]))
    assert noise_line(*pair, of="embeddings").verdict == "holds"


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


def test_few_pairs_and_no_noise_are_named():
    assert "too few to fit the mean step" in noise_line(*gaussian(40, 2)).sentence
    assert "too few to fit the mean step" in noise_line(*gaussian(100, 60)).sentence
    z, _ = gaussian(300, 2)
    assert "no noise that could be looked at" in noise_line(z, z).sentence
    assert "show only values above" in noise_line(*gaussian(120, 2, seed=1)).sentence
