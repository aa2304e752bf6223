"""Own, naive, transferred, regressed and distilled probes on held-out states."""

import math

import numpy as np
import pytest
import scipy

from isojepa.alignment import AlignmentMap, LinearHead, share_probe
from isojepa.alignment.probe_transfer import _design, _difference, _share


def made(noise, condition=2.0, rows=1600, dim=12, width=None, seed=0):
    """Classes as Gaussians seen by encoder 1, and a noisy linear image of them seen by encoder 2."""
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=rows)
    z1 = rng.normal(size=(4, dim))[y] + rng.normal(size=(rows, dim))
    u, v = (np.linalg.qr(rng.normal(size=(d, d)))[0] for d in (width or dim, dim))
    w = (u[:, :dim] * np.geomspace(1, 1 / condition, dim)) @ v
    z2 = z1 @ w.T
    return z1, z2 + noise * z2.std() * rng.normal(size=z2.shape) + 3, y


def means(noise, condition, seeds=3):
    found = []
    for seed in range(seeds):
        z1, z2, y = made(noise, condition, seed=seed)
        sharing = share_probe(z2, y, first=z1)
        found.append([sharing.r2, *(score.accuracy for score in sharing.scores)])
    r2, own, naive, transferred, regressed, distilled = np.mean(found, 0)
    return r2, {
        "own": own,
        "naive": naive,
        "transferred": transferred,
        "regressed": regressed,
        "distilled": distilled,
    }


@pytest.mark.parametrize(("noise", "condition"), [(0.0, 50.0), (0.1, 5.0), (0.2, 2.0), (0.25, 2.0)])
def test_a_transferred_probe_is_within_two_points_where_r2_exceeds_nine_tenths(noise, condition):
    r2, accuracy = means(noise, condition)
    assert r2 > 0.9
    assert abs(accuracy["transferred"] - accuracy["own"]) < 0.02
    assert accuracy["naive"] < accuracy["own"] - 0.2


def test_below_that_an_ill_conditioned_inverse_loses_what_a_backward_map_keeps():
    r2, accuracy = means(0.5, 20.0)
    assert r2 < 0.9
    assert accuracy["transferred"] < accuracy["own"] - 0.05
    assert accuracy["regressed"] > accuracy["own"] - 0.02


def test_a_high_r2_is_not_enough_where_w_is_ill_conditioned():
    """R^2 speaks of the large directions of encoder 2; the inverse is applied to the small ones too."""
    r2, accuracy = means(0.2, 60.0)
    assert r2 > 0.9
    assert accuracy["transferred"] < accuracy["own"] - 0.05
    assert accuracy["regressed"] > accuracy["own"] - 0.02


def test_the_naive_head_is_not_defined_where_widths_differ():
    z1, z2, y = made(0.1, width=15)
    found = share_probe(z2, y, first=z1)
    assert math.isnan(found["naive"].accuracy)
    assert "12 columns and encoder 2 15" in found["naive"].reason
    assert abs(found["transferred"].difference) < 0.02
    assert found.to_dict()["scores"][1]["head"] == "naive"


def test_without_rows_of_the_first_encoder_only_what_needs_none_is_scored():
    z1, z2, y = made(0.0)
    head = LinearHead(np.random.default_rng(0).normal(size=(4, 12)))
    fitted = AlignmentMap("ols").fit(z1[:800], z2[:800])
    found = share_probe(z2, y, head=head, fitted=fitted)
    assert math.isnan(found["distilled"].accuracy)
    assert "not given" in found["distilled"].reason
    assert found["transferred"].accuracy == pytest.approx(
        np.mean(head(z1) == y), abs=0.05
    )  # an exact map: the head's own accuracy
    with pytest.raises(ValueError, match="first must be given"):
        share_probe(z2, y, head=head)


def test_states_are_never_on_both_sides():
    """A label that only the state's id tells cannot be learned from other states."""
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(100), 8)
    y = np.repeat(rng.integers(2, size=100), 8)
    z = np.repeat(rng.normal(size=(100, 90)), 8, 0) + 0.01 * rng.normal(size=(800, 90))
    by_state, by_row = share_probe(z, y, first=z, ids=ids), share_probe(z, y, first=z)
    assert by_row["own"].accuracy > 0.8 > by_state["own"].accuracy
    assert by_state.scored_states == 50


def test_intervals_of_repeated_rows_are_those_of_their_states():
    rng = np.random.default_rng(0)
    single = rng.random(200) < 0.8
    low, high = _share(single, np.arange(200), 0.95)
    again = _share(np.repeat(single, 5), np.repeat(np.arange(200), 5), 0.95)
    assert again == pytest.approx((low, high), abs=0.005)
    assert _design(np.repeat(single, 5).astype(float), np.repeat(np.arange(200), 5)) == pytest.approx(
        5, rel=0.02
    )


def test_the_interval_of_a_difference_covers():
    rng, covered = np.random.default_rng(0), 0
    for _ in range(400):
        own = rng.random(150) < 0.9
        right = np.where(own, rng.random(150) < 0.95, rng.random(150) < 0.3)
        truth = 0.9 * 0.95 + 0.1 * 0.3 - 0.9
        _, (low, high) = _difference(right, own, np.arange(150), 0.95)
        covered += low <= truth <= high
    assert covered >= scipy.stats.binom.ppf(0.001, 400, 0.95)


def test_equal_heads_differ_by_nothing_with_an_interval():
    own = np.arange(50) % 5 > 0
    difference, (low, high) = _difference(own, own, np.arange(50), 0.95)
    assert difference == 0
    assert low < 0 < high


def test_bad_labels_and_ids_are_told():
    z1, z2, y = made(0.1, rows=60)
    with pytest.raises(ValueError, match="labels must be 60 whole numbers"):
        share_probe(z2, y[:-1], first=z1)
    with pytest.raises(ValueError, match="labels must be 60 whole numbers"):
        share_probe(z2, y - 9, first=z1)
    with pytest.raises(ValueError, match="two classes at least"):
        share_probe(z2, np.zeros(60, int), first=z1)
    with pytest.raises(ValueError, match="ids must be as many as rows"):
        share_probe(z2, y, first=z1, ids=np.arange(5))
    with pytest.raises(ValueError, match="a row for each state"):
        share_probe(z2[:-1], y[:-1], first=z1)
