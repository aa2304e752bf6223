"""What the checks on naming latents are made of, and further wrong statements that they refuse."""

import math

import numpy as np
import pytest
import sympy as sp
from scipy import stats

import isojepa as ij
from isojepa.certificates.eigenfunctions import predict_embedding
from isojepa_lab.theory import CHECKS
from isojepa_lab.theory.harmonics import LAWS, within_window
from isojepa_lab.theory.lamperti import straightened
from isojepa_lab.theory.shape import NORMAL, SHAPES, Shape, t

BY_NAME = {entry.name: entry for entry in CHECKS}


def stretched(size):
    return np.diag(np.linspace(0.5, 2.0, size))


# beside those of test_checks.py: another assumption of each statement, broken
ALSO_WRONG = [
    ("harmonics", {"product": lambda first, second: first * second}),
    ("harmonics-window", {"rule": lambda rates, ratio: max(rates) < ratio * min(rates)}),  # no products
    (
        "harmonics-window",
        {"rule": lambda rates, ratio: max(rates) < min(2, ratio) * min(rates)},
    ),  # too strict
    ("comon", {"product": 2}),
    ("comon", {"least": 0.5}),
    ("comon-cumulants", {"power": 3}),
    ("comon-smooth", {"weight": 0.5}),
    ("common-cumulant", {"share": sp.Rational(1, 2)}),
    ("rates", {"correlations": (0.9,) * 8}),
    ("one-rate", {"matrix": stretched}),
    ("predicted", {"after": 96 / math.pi**4}),
]


@pytest.mark.parametrize(("name", "wrong"), ALSO_WRONG)
def test_another_wrong_statement_fails_without_raising(name, wrong):
    assert any(not part.passed for part in BY_NAME[name].run(**wrong))


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
@pytest.mark.parametrize("rates", [(1, 1.3), (1, 3.6), (1, 4.2), (1, 1, 1.4), (1, 1, 2.2), (1, 1.6, 2.5)])
def test_the_window_is_that_of_the_predicted_embedding(law, rates):
    first, second = ij.distributions.eigensystem(law, count=2).eigenvalues[1:]
    predicted = predict_embedding([law] * len(rates), list(rates))
    assert within_window(rates, second / first) == all(sum(mode.index) == 1 for mode in predicted.taken)


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("Laplace", stats.laplace(scale=math.sqrt(0.5))),
        ("logistic", stats.logistic(scale=math.sqrt(3) / math.pi)),
        ("generalised normal 4", stats.gennorm(4, scale=1 / stats.gennorm(4).std())),
        ("generalised normal 3/2", stats.gennorm(1.5, scale=1 / stats.gennorm(1.5).std())),
    ],
)
def test_shapes_are_the_laws_of_scipy(name, law):
    shape = SHAPES[name]
    points = np.array([0.2, 0.9, 1.7, 2.4])
    log_p = shape.numbers[0](points) - shape.numbers[0](0.0) + math.log(shape.peak)
    np.testing.assert_allclose(log_p, law.logpdf(points), atol=1e-9)
    slope = (law.logpdf(points + 1e-6) - law.logpdf(points - 1e-6)) / 2e-6
    np.testing.assert_allclose(shape.numbers[1](points) + np.zeros(4), -slope, atol=1e-6)


def test_information_is_smallest_for_the_normal_law():
    assert NORMAL.kappa() == pytest.approx(0, abs=1e-12)
    for shape in SHAPES.values():
        assert shape.kappa() > 0.05
    # a scale of the normal law that is not 1 is no law of variance 1: kappa tells it too
    assert Shape(-(t**2) / sp.Integer(3)).kappa() > 0.1


def test_the_bimodal_shape_is_the_mixture_of_its_normals():
    shape, spread = SHAPES["bimodal"], math.sqrt(1 - 0.81)
    points = np.array([0.0, 0.4, 0.9, 1.5])
    density = (stats.norm(0.9, spread).pdf(points) + stats.norm(-0.9, spread).pdf(points)) / 2
    found = np.exp(shape.numbers[0](points) - shape.numbers[0](0.0)) * shape.peak
    np.testing.assert_allclose(found, density, rtol=1e-9)


def test_straightening_a_sample_of_the_arcsine_law_gives_the_uniform_one():
    drawn = np.sort(np.random.default_rng(0).uniform(-math.sqrt(3), math.sqrt(3), 400_000))
    values = math.sqrt(2) * np.sin(math.pi * drawn / (2 * math.sqrt(3)))
    levels = (np.arange(400) + 0.5) / 400
    found = straightened(np.quantile(values, levels), np.full(400, 1 / 400))
    latent = np.quantile(drawn, levels)
    slope, _ = np.polyfit(latent, found, 1)
    assert np.corrcoef(latent, found)[0, 1] ** 2 > 0.9999
    assert slope == pytest.approx(math.pi / math.sqrt(12), rel=0.01)  # the root of lambda_1


def test_straightening_leaves_a_normal_axis_as_it_is():
    y = np.linspace(-8, 8, 3201)
    mass = stats.norm.pdf(y) / stats.norm.pdf(y).sum()
    found = straightened(y, mass)
    seen = np.abs(y) < 6  # the grid ends at 8, and its law with it
    np.testing.assert_allclose((found - found[1600])[seen], y[seen], atol=1e-3)


def test_a_copula_world_stays_bent():
    """Its embedding is normal, so straightening stops at the hidden y and not at z."""
    scores = ij.distributions.NormalScores(ij.distributions.Uniform())
    y = np.linspace(-5, 5, 2001)
    mass = stats.norm.pdf(y) / stats.norm.pdf(y).sum()
    latent = np.interp(y, scores.y, scores.z)
    found = straightened(y, mass)
    one, other = (values - mass @ values for values in (latent, found))
    r2 = (mass @ (one * other)) ** 2 / ((mass @ one**2) * (mass @ other**2))
    assert r2 == pytest.approx(3 / math.pi, abs=1e-3)
