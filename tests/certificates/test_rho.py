"""The maximal correlation: right for maps that hide it, with a bound that covers."""

import numpy as np
import pytest
import torch

from isojepa.arrays import NotFinite
from isojepa.certificates import rho as module
from isojepa.certificates.pairs import PairRows, read_moments
from isojepa.certificates.rho import estimate_correlation
from tests.certificates.worlds import both, gaussian, swirl


def path(n, dim, rho, seed):
    """One path: each row is a step, and its second view the next."""
    noise = np.random.default_rng(seed).standard_normal((n + 1, dim))
    z = [noise[0]]
    for shock in noise[1:]:
        z.append(rho * z[-1] + np.sqrt(1 - rho**2) * shock)
    return np.array(z[:-1]), np.array(z[1:])


MAPS = {
    "identity": lambda z: z,
    "swirl 0.3": lambda z: swirl(z, 0.3),
    "swirl 0.5": lambda z: swirl(z, 0.5),
    "tanh": np.tanh,
    "cube": lambda z: z**3,
}


@pytest.mark.parametrize("name", MAPS)
def test_two_thousand_pairs_are_enough_for_mild_maps(name):
    maximal = estimate_correlation(*both(MAPS[name], gaussian(2000, 2)))
    assert 0.88 <= maximal.value.estimate <= 0.92
    assert maximal.linear.low <= maximal.value.low <= 0.9
    assert maximal.value.estimate >= maximal.linear.estimate


@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_twenty_thousand_pairs_refute_the_own_correlation_of_a_swirl(rate):
    maximal = estimate_correlation(*both(lambda z: swirl(z, rate), gaussian(20_000, 2)))
    assert 0.892 <= maximal.value.estimate <= 0.906
    assert maximal.linear.estimate < maximal.value.low <= 0.9
    assert maximal.pairs == 20_000


@pytest.mark.parametrize(("rate", "dim"), [(2.0, 2), (0.5, 32), (2.0, 32)])
def test_a_swirl_is_refuted_by_two_thousand_pairs_also_in_one_plane_of_many(rate, dim):
    maximal = estimate_correlation(*both(lambda z: swirl(z, rate), gaussian(2000, dim)))
    assert maximal.linear.high < maximal.value.low <= 0.9


def test_the_identity_in_many_dimensions_is_not_overfitted():
    maximal = estimate_correlation(*gaussian(2000, 64))
    assert 0.89 <= maximal.value.estimate <= 0.91
    assert maximal.value.low <= 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rho", "dim", "function"),
    [(0.3, 1, "identity"), (0.6, 4, "identity"), (0.95, 2, "cube"), (0.99, 2, "swirl 0.5")],
)
@pytest.mark.parametrize("make", [gaussian, path], ids=["pairs", "path"])
def test_the_lower_bound_covers(rho, dim, function, make):
    lows = [
        estimate_correlation(*both(MAPS[function], make(400, dim, rho, seed)), seed=seed).value.low
        for seed in range(6)
    ]
    assert sum(low > rho for low in lows) <= 2  # 5 % of 6, and three deviations


@pytest.mark.long
@pytest.mark.parametrize("rho", [0.3, 0.95])
@pytest.mark.parametrize("dim", [1, 2, 8])
@pytest.mark.parametrize("make", [gaussian, path], ids=["pairs", "path"])
def test_the_lower_bound_covers_many_times(rho, dim, make):
    estimates = [estimate_correlation(*make(1000, dim, rho, seed), seed=seed) for seed in range(30)]
    assert np.mean([one.value.low > rho for one in estimates]) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 30)
    assert not any(one.sure > rho for one in estimates)  # one in a thousand


def test_pairs_that_do_not_belong_together_correlate_by_nothing():
    maximal = estimate_correlation(gaussian(2000, 4, seed=0)[0], gaussian(2000, 4, seed=1)[0])
    assert maximal.value.low < 0.03
    assert maximal.value.estimate < 0.1


def test_of_unequal_rates_it_is_the_largest():
    maximal = estimate_correlation(*gaussian(4000, 3, np.array([0.95, 0.7, 0.5])))
    assert maximal.linear.high < 0.75
    assert maximal.value.estimate == pytest.approx(0.95, abs=0.006)  # four deviations
    z, z_next = gaussian(2000, 2)
    z[:, 1] = z_next[:, 1]
    assert estimate_correlation(z, z_next).value.low > 0.999


def test_equal_views_and_few_pairs_give_the_embeddings_own():
    z, z_next = gaussian(100, 2)
    maximal = estimate_correlation(z, z_next)
    assert maximal.value == maximal.linear
    assert maximal.pairs == 100
    equal = estimate_correlation(np.r_[z, z_next], np.r_[z, z_next])
    assert equal.value.estimate == pytest.approx(1)


def test_tensors_offsets_constant_dimensions_ties_and_heavy_tails_do_no_harm():
    z, z_next = gaussian(1000, 2)
    plain = estimate_correlation(z, z_next)
    assert estimate_correlation(torch.from_numpy(z), torch.from_numpy(z_next)) == plain
    embeddings = PairRows(z, z_next)
    assert estimate_correlation(embeddings, moments=read_moments(embeddings)) == plain
    moved = estimate_correlation(*(np.c_[x * [1e-3, 1e-3] + 5, np.ones(1000)] for x in (z, z_next)))
    assert moved.value.estimate == pytest.approx(plain.value.estimate, abs=0.01)
    ties = both(lambda z: np.sign(z) * (np.abs(z) > 0.5), (z, z_next))
    assert 0.5 < estimate_correlation(*ties).value.estimate < 0.9
    heavy = estimate_correlation(*both(lambda z: np.sinh(3 * z), (z, z_next)))
    assert heavy.value.estimate == pytest.approx(0.9, abs=0.02)


def test_many_rows_are_sampled_in_stretches_of_a_file(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_MAX_PAIRS", 6000)
    views = both(lambda z: swirl(z, 1.0), gaussian(12_000, 2))
    for name, view in zip(("h", "next"), views, strict=True):
        np.save(tmp_path / f"{name}.npy", view.astype(np.float32))
    maximal = estimate_correlation(
        *(np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("h", "next"))
    )
    assert maximal.pairs == 6000
    assert maximal.linear.high < 0.85 < maximal.value.low < 0.9


def test_many_dimensions_are_projected_to_the_slowest(monkeypatch):
    monkeypatch.setattr(module, "_MAX_DIM", 4)
    maximal = estimate_correlation(*gaussian(4000, 10, np.r_[0.9, np.full(9, 0.3)]))
    assert maximal.linear.high < 0.45
    assert 0.85 < maximal.value.low <= 0.9


def test_rows_that_are_not_finite_raise_or_are_dropped():
    z, z_next = gaussian(1000, 2)
    z[7, 1] = np.nan
    with pytest.raises(NotFinite, match="NaN or Inf in 1 of 1000"):
        estimate_correlation(z, z_next)
    assert estimate_correlation(PairRows(z, z_next, drop=True)).pairs == 999


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ((np.ones((100, 2)), np.ones((100, 2))), "pairs that vary"),
        ((np.eye(3), np.eye(3)), "at least 6 pairs, got 3"),
        ((np.eye(9), None), "both views"),
    ],
    ids=["constant", "few", "one view"],
)
def test_what_cannot_be_estimated_is_named(pair, message):
    with pytest.raises(ValueError, match=message):
        estimate_correlation(*pair)


def test_the_fit_is_the_generalized_eigenproblem():
    h, h_next = gaussian(600, 2)
    family = module._Family("linear", 2, [(h[:300], h_next[:300]), (h[300:], h_next[300:])])
    weights = family.solve((0, 1), 2)
    sums = family.sums(weights, 0) + family.sums(weights, 1)
    upper, lower = (sums[2:] - sums[:2] ** 2 / 600) / 600
    a, b = h - h.mean(0), h_next - h_next.mean(0)
    covariance = (np.cov((a + b).T, bias=True) + np.cov((a - b).T, bias=True)) / 4
    lagged = (np.cov((a + b).T, bias=True) - np.cov((a - b).T, bias=True)) / 4
    expected = np.sort(np.linalg.eigvals(np.linalg.solve(covariance, lagged)).real)[::-1]
    np.testing.assert_allclose((upper - lower) / (upper + lower), expected, atol=1e-5)


def test_the_screen_finds_the_plane_that_bends():
    z, z_next = gaussian(4000, 6)
    z[:, 2:4], z_next[:, 2:4] = swirl(z[:, 2:4], 0.7), swirl(z_next[:, 2:4], 0.7)
    moments = [module._bends(z[part], z_next[part]) for part in (slice(0, 2000), slice(2000, 4000))]
    assert module._bent_plane(moments) == (2, 3)
    assert module._bent_plane(moments[1:]) == (2, 3)
