"""Independence: the distance correlation of ranks, its level and its power."""

import numpy as np
import pytest

from isojepa.certificates.assumptions.dependence import (
    all_values,
    check_independence,
    judge_pairs,
    pair_values,
    pair_weights,
    rank_cosines,
    search_pairs,
)
from isojepa.certificates.assumptions.sample import draw_sample
from isojepa.seeds import generator
from tests.certificates.assumptions.worlds import both, folded, gaussian
from tests.reference.distance_correlation import distance_correlation_of_ranks


def line(z, z_next=None, of="latents", rows=1000, draws=99, seed=0):
    return check_independence(draw_sample(z, z_next, of, seed), rows, draws, 0.95)


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
        args = np.array([[0, 1]]), np.arange(2), pair_weights()
        values.append(judge_pairs(features, *args, 1, 0.95, source()).squared[0])
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
    z = folded(400, 10)[0]
    features = rank_cosines(z, source())
    weights = pair_weights()
    pairs = np.stack(np.triu_indices(10, 1), 1)
    whole = all_values(features, weights, np.arange(10))
    slow = np.array([pair_values(features[[i]], features[[j]], weights)[0] for i, j in pairs])
    assert np.allclose(whole[pairs[:, 0], pairs[:, 1]], slow, atol=1e-6)
    assert (search_pairs(features, pairs, weights, 5) == pairs[np.argsort(-slow)[:5]]).all()


def test_monotone_maps_of_each_dimension_change_nothing():
    pair = gaussian(300, 3)
    assert line(*pair).p == line(*both(np.exp, pair)).p
