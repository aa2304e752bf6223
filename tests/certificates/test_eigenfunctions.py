"""Predictions against closed forms, brute force and samples."""

import itertools
import math

import numpy as np
import pytest

from isojepa.certificates.eigenfunctions import (
    breaking_ratio,
    predict_embedding,
    predict_process,
    predict_r2,
)
from isojepa.data import Langevin, NoisyCopies, OrnsteinUhlenbeck
from isojepa.distributions import (
    GeneralizedNormal,
    Normal,
    SpectrumWarning,
    StudentT,
    Uniform,
    bimodal,
    eigensystem,
)
from isojepa.linear import held_out_r2
from isojepa.seeds import generator


def first_harmonics(prediction):
    """Whether exactly phi_1 of every latent is taken."""
    dim = len(prediction.r2_per_latent)
    return {mode.index for mode in prediction.taken} == {
        tuple(row) for row in np.eye(dim, dtype=int).tolist()
    }


def test_the_best_r2_has_its_closed_forms():
    assert predict_r2(Normal()) == pytest.approx(1, abs=1e-10)
    assert predict_r2(Uniform()) == pytest.approx(96 / math.pi**4, abs=1e-6)


@pytest.mark.parametrize("alpha", [1.5, 4.0, 8.0])
def test_the_best_r2_is_that_of_a_regression_on_samples(alpha):
    law = GeneralizedNormal(alpha)
    z = law.sample((200_000, 1), generator(0, "r2")).double().numpy()
    assert held_out_r2(eigensystem(law, count=1)(1, z), z) == pytest.approx(predict_r2(law), abs=3e-3)


def test_modes_are_ordered_as_by_brute_force():
    laws, rates = [Uniform(), Normal(), bimodal(4.0)], [1.0, 0.7, 1.3]
    spectra = [eigensystem(law, count=12).eigenvalues for law in laws]
    every = sorted(
        (sum(rate * s[k] for rate, s, k in zip(rates, spectra, index, strict=True)), index)
        for index in itertools.product(range(13), repeat=3)
    )
    found = predict_embedding(laws, rates, 12).taken
    np.testing.assert_allclose(
        [mode.eigenvalue for mode in found], [value for value, _ in every[1:13]], rtol=1e-6
    )
    assert [mode.index for mode in found] == [index for _, index in every[1:13]]


@pytest.mark.parametrize(
    ("ratio", "r2", "unique"),
    [(1.0, (1, 1), True), (1.9, (1, 1), True), (2.1, (1, 0), True), (2.0, None, False)],
)
def test_two_gaussian_latents_break_at_twice_the_rate(ratio, r2, unique):
    found = predict_embedding([Normal(), Normal()], [1.0, ratio])
    assert found.unique == unique
    if r2 is not None:
        assert found.r2_per_latent == pytest.approx(r2, abs=1e-6)
        assert first_harmonics(found) == (r2 == (1, 1))


def test_breaking_ratios():
    assert breaking_ratio(Normal()) == pytest.approx(2, abs=1e-7)
    assert breaking_ratio(Uniform()) == pytest.approx(4, abs=1e-6)
    assert breaking_ratio(Uniform(), slow=2) == pytest.approx(2, abs=1e-6)
    ratio = breaking_ratio(bimodal(4.0))
    for factor, kept in ((0.99, True), (1.01, False)):
        found = predict_embedding([bimodal(4.0)] * 2, [1.0, factor * ratio])
        assert first_harmonics(found) == kept


def test_more_dimensions_take_more_and_fewer_take_less():
    law = Uniform()
    one, two, five = (predict_embedding([law, law], [1.0, 1.0], dim) for dim in (1, 2, 5))
    assert not one.unique
    assert sum(one.r2_per_latent) == pytest.approx(96 / math.pi**4, abs=1e-6)
    assert two.r2 == pytest.approx(96 / math.pi**4, abs=1e-6)
    # of modes 1..5 (0,1), (1,0), (1,1), (0,2), (2,0) only the first two are odd in one latent alone
    assert five.r2 == pytest.approx(two.r2, abs=1e-9)
    assert [sum(mode.index) for mode in five.taken] == [1, 1, 2, 2, 2]
    assert str(five.taken[2]) == "phi_1(z1) phi_1(z2)"
    assert predict_embedding([law], [1.0], 3).r2 == pytest.approx(96 / math.pi**4 * (1 + 1 / 81), abs=1e-6)


def test_processes_give_their_rates():
    found = predict_process(OrnsteinUhlenbeck(2, rho=(0.9, 0.9**3)))
    assert found.r2_per_latent == pytest.approx((1, 0), abs=1e-6)
    assert found.taken[1].correlation == pytest.approx(0.81, abs=1e-6)
    process = Langevin(3, Uniform(), rho=0.8)
    found = predict_process(process)
    assert first_harmonics(found)
    assert found.taken[0].correlation == pytest.approx(
        math.exp(-(math.pi**2) / 12 * process.times[0]), abs=1e-6
    )
    with pytest.raises(
        ValueError, match="process must be a Langevin or a Copula or an OrnsteinUhlenbeck, got NoisyCopies"
    ):
        predict_process(NoisyCopies(2))


def test_a_continuous_spectrum_is_told():
    with pytest.warns(SpectrumWarning):
        assert not predict_embedding([Normal(), StudentT(5.0)], [1.0, 1.0]).discrete


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: predict_embedding([], [], 3), "rates must be as many as laws, at least one"),
        (lambda: predict_embedding([Normal()], [1.0, 2.0], 3), "rates must be as many as laws.*got 2 for 1"),
        (lambda: predict_embedding([Normal()], [0.0], 3), "rates must be positive and finite, got 0.0"),
        (
            lambda: predict_embedding([Normal()], [1.0], 64),
            "number of modes must be an integer in 1..64, got 65",
        ),
        (lambda: breaking_ratio(Normal(), slow=0), "slow must be a positive integer, got 0"),
    ],
    ids=["none", "unequal", "rate", "count", "slow"],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
