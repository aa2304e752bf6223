"""The maximal correlation: right for maps that hide it, a bound that covers, never below the own."""

import numpy as np
import pytest
import torch

from isojepa.certificates import maximal_correlation
from isojepa.certificates.correlation_fits import Fit
from isojepa.certificates.correlation_functions import Inputs, PlaneScreen, standard_families
from isojepa.certificates.embeddings import Embeddings, NotFinite
from isojepa.certificates.maximal_correlation import estimate_correlation
from isojepa.certificates.views import read_views
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
    found = estimate_correlation(*both(MAPS[name], gaussian(2000, 2)))
    assert 0.88 <= found.value.estimate <= 0.92
    assert found.value.low <= 0.9
    assert found.value.estimate >= found.linear.estimate
    assert found.value.low >= found.linear.low


@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_twenty_thousand_pairs_refute_the_own_correlation_of_a_swirl(rate):
    found = estimate_correlation(*both(lambda z: swirl(z, rate), gaussian(20_000, 2)))
    assert 0.892 <= found.value.estimate <= 0.906
    assert found.linear.estimate < found.value.low <= 0.9
    assert found.pairs == 20_000


def test_a_strong_swirl_is_refuted_by_two_thousand_pairs():
    found = estimate_correlation(*both(lambda z: swirl(z, 2.0), gaussian(2000, 2)))
    assert found.linear.high < 0.7 < 0.8 < found.value.low < 0.9
    assert found.family != "the embedding itself, all dimensions together"


@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_one_plane_of_many_is_enough(rate):
    found = estimate_correlation(*both(lambda z: swirl(z, rate), gaussian(2000, 32)))
    assert found.linear.high < found.value.low <= 0.9


def test_the_identity_in_many_dimensions_is_not_overfitted():
    found = estimate_correlation(*gaussian(2000, 64))
    assert 0.89 <= found.value.estimate <= 0.91
    assert found.value.low <= 0.9


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
    found = [estimate_correlation(*make(1000, dim, rho, seed), seed=seed) for seed in range(30)]
    assert np.mean([one.value.low > rho for one in found]) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 30)
    assert not any(one.sure > rho for one in found)  # one in a thousand


def test_pairs_that_do_not_belong_together_correlate_by_nothing():
    found = estimate_correlation(gaussian(2000, 4, seed=0)[0], gaussian(2000, 4, seed=1)[0])
    assert found.value.low < 0.03
    assert found.value.estimate < 0.1


def test_a_latent_that_never_changes_drives_it_to_one():
    z, z_next = gaussian(2000, 2)
    z[:, 1] = z_next[:, 1]
    assert estimate_correlation(z, z_next).value.low > 0.999


def test_of_unequal_rates_it_is_the_largest():
    found = estimate_correlation(*gaussian(4000, 3, np.array([0.95, 0.7, 0.5])))
    assert found.linear.high < 0.75
    assert found.value.estimate == pytest.approx(0.95, abs=0.006)  # four deviations
    assert found.value.low > 0.93


def test_equal_views_and_few_pairs_give_the_embeddings_own():
    z, z_next = gaussian(100, 2)
    found = estimate_correlation(z, z_next)
    assert found.value == found.linear
    assert found.pairs == 100
    equal = estimate_correlation(np.r_[z, z_next], np.r_[z, z_next])
    assert equal.value.estimate == pytest.approx(1)


def test_the_linear_value_is_that_of_the_views():
    embeddings = Embeddings(*gaussian(500, 3))
    views = read_views(embeddings)
    found = estimate_correlation(embeddings, views=views)
    assert found.linear == views.correlation(0.95)
    assert found == estimate_correlation(embeddings)


def test_tensors_offsets_and_constant_dimensions_are_borne():
    z, z_next = gaussian(1000, 2)
    plain = estimate_correlation(z, z_next)
    assert estimate_correlation(torch.from_numpy(z), torch.from_numpy(z_next)) == plain
    moved = estimate_correlation(*(np.c_[x * [1e-3, 1e-3] + 5, np.ones(1000)] for x in (z, z_next)))
    assert moved.value.estimate == pytest.approx(plain.value.estimate, abs=0.01)


def test_ties_are_borne():
    z, z_next = both(lambda z: np.sign(z) * (np.abs(z) > 0.5), gaussian(1000, 2))
    assert 0.5 < estimate_correlation(z, z_next).value.estimate < 0.9


def test_more_rows_than_can_be_fitted_are_read_in_stretches(monkeypatch, tmp_path):
    monkeypatch.setattr(maximal_correlation, "_FITTED", 2000)
    monkeypatch.setattr(maximal_correlation, "_SCORED", 4000)
    views = both(lambda z: swirl(z, 1.0), gaussian(12_000, 2))
    for name, view in zip(("h", "next"), views, strict=True):
        np.save(tmp_path / f"{name}.npy", view.astype(np.float32))
    maps = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("h", "next")]
    found = estimate_correlation(*maps)
    assert found.pairs == 6000
    assert found.linear.high < 0.85 < found.value.low < 0.9


def test_more_dimensions_than_functions_are_made_of_are_projected(monkeypatch):
    monkeypatch.setattr(maximal_correlation, "_KEPT", 4)
    found = estimate_correlation(*gaussian(4000, 10, np.r_[0.9, np.full(9, 0.3)]))
    assert found.linear.high < 0.45
    assert 0.85 < found.value.low <= 0.9


def test_rows_that_are_not_finite_are_told_or_left_out():
    z, z_next = gaussian(1000, 2)
    z[7, 1] = np.nan
    with pytest.raises(NotFinite, match="NaN or Inf in 1 of 1000"):
        estimate_correlation(z, z_next)
    found = estimate_correlation(Embeddings(z, z_next, drop=True))
    assert found.pairs == 999


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ((np.ones((100, 2)), np.ones((100, 2))), "pairs that vary"),
        ((np.eye(3), np.eye(3)), "at least 6 pairs, got 3"),
        ((np.eye(9), None), "both views"),
    ],
    ids=["constant", "few", "one view"],
)
def test_what_cannot_be_estimated_is_told(pair, message):
    with pytest.raises(ValueError, match=message):
        estimate_correlation(*pair)


def test_the_fit_is_the_generalised_eigenproblem():
    h, h_next = gaussian(600, 2)
    inputs = Inputs(np.concatenate([h, h_next]))
    family = standard_families(inputs, 0)[0]
    fit = Fit(family, [(inputs(h[:300]), inputs(h_next[:300])), (inputs(h[300:]), inputs(h_next[300:]))])
    weights = fit.functions((0, 1), 2, 2)
    a, b = weights(inputs(h)), weights(inputs(h_next))
    a, b = a - a.mean(0), b - b.mean(0)
    assert np.allclose((a.T @ a + b.T @ b) / 1200, np.eye(2), atol=1e-5)
    lagged = (a.T @ b + b.T @ a) / 1200
    assert abs(lagged[0, 1]) < 1e-5
    assert lagged[0, 0] > lagged[1, 1]
    sums = fit.judge(fit.solve((0, 1), 2), 0) + fit.judge(fit.solve((0, 1), 2), 1)
    found = (sums[2] - sums[0] ** 2 / 600 - sums[3] + sums[1] ** 2 / 600) / 600
    assert np.allclose(found, np.diag(lagged), atol=1e-5)


def test_the_screen_finds_the_plane_that_bends():
    z, z_next = gaussian(4000, 6)
    z[:, 2:4], z_next[:, 2:4] = swirl(z[:, 2:4], 0.7), swirl(z_next[:, 2:4], 0.7)
    screen = PlaneScreen(6)
    for part in (slice(0, 2000), slice(2000, 4000)):
        screen.add(z[part], z_next[part])
    assert screen.best((0, 1)) == (2, 3)
    assert screen.best((1,)) == (2, 3)
