"""Isotropy: rates, their ratio, and what samples can and cannot say of it."""

import numpy as np
import pytest

from isojepa.certificates.assumptions.rates import (
    check_isotropy,
    compare_rates,
    correlate,
    measure_rates,
    rate,
    slow_to_fast,
)
from isojepa.certificates.assumptions.sample import draw_sample
from tests.certificates.assumptions.worlds import both, gaussian, rotation, two_speeds


def line(z, z_next, of="latents", seed=0):
    sample = draw_sample(z, z_next, of, seed)
    return check_isotropy(sample, measure_rates(sample), 0.95)


def test_directions_of_a_mixed_world_are_its_latents():
    z, z_next = gaussian(50_000, 3, rho=[0.5, 0.95, 0.8])
    mixing = np.array([[2.0, 0.3, 0.0], [0.0, 1.0, -0.7], [0.4, 0.0, 0.5]])
    directions, whole = slow_to_fast(z @ mixing, z_next @ mixing)
    assert whole
    read = np.abs(mixing @ directions)  # latents read off along each direction
    assert np.allclose(read, np.eye(3)[:, [1, 2, 0]], atol=0.05)


def test_rates_are_minus_the_logarithm_of_correlations():
    z, z_next = gaussian(200_000, 2, rho=[0.9, 0.5])
    correlation, influence = correlate(z, z_next)
    assert rate(correlation) == pytest.approx(-np.log([0.9, 0.5]), rel=0.02)
    assert influence.mean(0) == pytest.approx([0, 0], abs=1e-9)
    # the asymptotic deviation of a correlation with a common variance: 1 - rho^2
    assert influence.std(0) == pytest.approx([1 - 0.81, 0.75], rel=0.02)
    assert rate(np.array([0.0, -0.3])).tolist() == [np.inf, np.inf]


def test_naive_extremes_are_biased_and_those_of_two_halves_are_not():
    naive, honest = [], []
    for seed in range(20):
        sample = draw_sample(*gaussian(400, 20, seed=seed), "embeddings", seed)
        directions, _ = slow_to_fast(*sample.views)
        own, _ = correlate(*(view @ directions for view in sample.views))
        naive.append(rate(own[-1]) / rate(own[0]))
        rates = measure_rates(sample).rates
        honest.append(rates[-1] / rates[0])
    assert np.median(naive) > 1.8
    assert np.median(honest) == pytest.approx(1, abs=0.15)


def test_intervals_cover_the_ratio():
    truth = np.log(0.6) / np.log(0.9)
    hits = 0
    for seed in range(200):
        rho, influence = correlate(*gaussian(400, 2, rho=[0.9, 0.6], seed=seed))
        interval, _ = compare_rates(rho, influence, 0.9)
        hits += interval.low < truth < interval.high
    assert 0.84 <= hits / 200 <= 0.96


def test_an_equal_rate_is_rejected_as_often_as_the_level():
    ps = [compare_rates(*correlate(*gaussian(400, 2, seed=seed)), 0.95)[1] for seed in range(300)]
    assert 0.02 <= np.mean(np.array(ps) <= 0.05) <= 0.09


@pytest.mark.parametrize("dim", [2, 8, 64])
@pytest.mark.parametrize("of", ["latents", "embeddings"])
def test_a_latent_three_times_as_fast_fails(dim, of):
    pair = two_speeds(6000, dim)
    if of == "embeddings":
        pair = both(lambda z: z @ rotation(dim), pair)
    found = line(*pair, of=of)
    assert found.verdict == "fails"
    assert found.interval.low < 3 < found.interval.high * 1.15


def test_rates_that_differ_less_than_twofold_are_unclear():
    found = line(*gaussian(20_000, 2, rho=[0.9, 0.9**1.5]))
    assert found.verdict == "unclear"
    assert "one rho" in found.advice


@pytest.mark.parametrize("dim", [1, 2, 64])
def test_shuffled_rows_are_named(dim):
    z, z_next = gaussian(4000, dim)
    found = line(z, z_next[np.random.default_rng(3).permutation(4000)])
    assert found.verdict == "fails"
    assert "shuffled" in found.sentence


def test_a_direction_that_forgets_all_has_an_infinite_rate():
    found = line(*gaussian(6000, 2, rho=[0.9, 0.0]))
    assert found.verdict == "fails"
    assert found.interval.high == np.inf
    assert found.interval.low > 10


def test_more_dimensions_than_samples_look_at_leading_directions_only():
    found = line(*gaussian(100, 200), of="embeddings")
    assert found.verdict == "unclear"
    assert "only 12 leading directions" in found.sentence
