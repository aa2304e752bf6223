"""Matching against scipy's correlations and matrices whose entropies are known; what it refuses."""

import numpy as np
import pytest
import scipy
import torch

from isojepa.unmixing import match_latents
from isojepa.unmixing.matching import _entropies


def latents(n: int = 2000, d: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def test_a_warped_permutation_has_rank_mcc_1_and_its_signs():
    z = latents()
    order, signs = [2, 0, 3, 1], np.array([1, -1, -1, 1])
    matching = match_latents(np.sinh(2 * z[:, order]) * signs, z)
    assert matching.rank.estimate == pytest.approx(1.0, abs=1e-12)
    assert matching.linear.estimate < 0.9
    for at, own in enumerate(order):
        assert (matching.partners[own].component, matching.partners[own].sign) == (at, signs[at])
        assert matching.partners[own].rank == pytest.approx(signs[at])


def test_correlations_are_those_of_scipy():
    z = latents()
    axes = z @ np.random.default_rng(1).normal(size=(4, 4)) + latents(seed=2)
    matching = match_latents(axes, z)
    assert sorted(partner.component for partner in matching.partners) == [0, 1, 2, 3]
    for at, partner in enumerate(matching.partners):
        assert partner.rank == pytest.approx(scipy.stats.spearmanr(axes[:, partner.component], z[:, at])[0])
        assert partner.linear == pytest.approx(scipy.stats.pearsonr(axes[:, partner.component], z[:, at])[0])
    ranks = [abs(partner.rank) for partner in matching.partners]
    assert matching.rank.estimate == pytest.approx(np.mean(ranks))


def test_the_assignment_is_the_best_one_and_not_the_greedy_one():
    z = latents(20_000, 2)
    # the first axis fits both latents, the first one a little better; the second axis fits only the first
    axes = np.column_stack((z @ [0.75, 0.66], z @ [1.0, 0.0] + 1.2 * latents(20_000, 1, 3)[:, 0]))
    matching = match_latents(axes, z)
    assert [partner.component for partner in matching.partners] == [1, 0]


def test_a_rotation_is_linear_but_not_disentangled():
    z = latents(d=2)
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    matching = match_latents(z @ turn, z)
    assert matching.linear_r2 == pytest.approx(1.0)
    assert matching.disentanglement < 0.01
    assert matching.rank.estimate == pytest.approx(0.7, abs=0.05)
    aligned = match_latents(z * [2.0, -3.0], z)
    assert aligned.disentanglement == pytest.approx(1.0, abs=1e-6)
    assert aligned.completeness == pytest.approx(1.0, abs=1e-6)


def test_entropies_are_those_of_eastwood_and_williams():
    importance = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 2.0]])  # 2 axes, 3 latents
    disentanglement, completeness = _entropies(importance)
    first = 1 - np.log(2) / np.log(3)
    assert disentanglement == pytest.approx((1.0 * first + 2.0 * 1.0) / 3)
    assert completeness == pytest.approx(1.0)
    assert _entropies(np.ones((2, 3))) == (pytest.approx(0.0), pytest.approx(0.0))


def test_fewer_axes_leave_latents_without_partner_and_more_axes_are_left_over():
    z = latents()
    few = match_latents(z[:, :2], z)
    assert [partner.component for partner in few.partners] == [0, 1, None, None]
    assert few.rank.estimate == pytest.approx(0.5)
    assert few.linear_r2 == pytest.approx(0.5, abs=0.02)
    many = match_latents(np.column_stack((latents(seed=5), z)), z)
    assert [partner.component for partner in many.partners] == [4, 5, 6, 7]
    assert many.rank.estimate == pytest.approx(1.0)
    assert many.importance.shape == (8, 4)


def test_left_out_intervals_hold_the_value_of_a_large_sample():
    def noisy(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        z = latents(n, 3, seed)
        return z + 0.5 * latents(n, 3, seed + 1000), z

    truth = match_latents(*noisy(200_000, 0)).rank.estimate
    found = [match_latents(*noisy(1000, seed)).rank for seed in range(1, 31)]
    assert sum(interval.low <= truth <= interval.high for interval in found) >= 24
    assert np.mean([interval.high - interval.low for interval in found]) < 0.05


def test_noise_explains_nothing_out_of_sample():
    matching = match_latents(latents(300, 40, 1), latents(300, 2, 2))
    assert matching.linear_r2 < 0.05
    assert "linear R^2" in str(matching)


@pytest.mark.parametrize("unit", [1e-160, 1e90])
def test_units_change_nothing(unit):
    for axes, truth in ((latents() * unit, latents()), (latents(), latents() * unit)):
        matching = match_latents(axes, truth)
        assert matching.linear.estimate == pytest.approx(1.0)
        assert matching.linear_r2 == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("axes", "truth", "message"),
    [
        (latents(200), latents(300), "same rows, got 200 and 300"),
        (latents(50), latents(50), "at least 100 rows, got 50"),
        (latents(200) * np.nan, latents(200), "components must be finite, got nan in row 0"),
        (
            np.ones((200, 2)),
            latents(200),
            r"components must vary in every column, got 2 constant ones \(0, 1\)",
        ),
        ([["a"]] * 200, latents(200), "components must hold numbers"),
        (torch.ones(200, 2, device="meta"), latents(200), "components must be a dense tensor"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(axes, truth, message):
    with pytest.raises(ValueError, match=message):
        match_latents(axes, truth)
