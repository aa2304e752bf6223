"""Nonlinear regression, against known functions and errors."""

import numpy as np
import pytest

from isojepa.seeds import generator
from isojepa.statistics.regression import NonlinearRegression


def held_out_r2(function, dim, n=1500, noise=0.0, **options):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2 * n, dim))
    y = function(x) + noise * rng.standard_normal(2 * n)
    fit = NonlinearRegression(x[:n], y[:n, None], generator(0, "test"), **options)
    return 1 - np.mean((y[n:] - fit(x[n:])[:, 0]) ** 2) / y[n:].var()


@pytest.mark.parametrize(
    ("function", "dim", "least"),
    [
        (lambda x: 3 * x[:, 0] - x[:, 1], 2, 0.99999),
        (lambda x: x[:, 0] ** 2, 6, 0.98),
        (lambda x: np.sin(2 * x[:, 0]), 1, 0.999),
        (lambda x: x[:, 0] * x[:, 1], 2, 0.98),
        (lambda x: np.sin(x[:, 0] + x[:, 1]) * x[:, 2], 3, 0.8),
        (lambda x: x[:, 0] ** 2 + x[:, 7], 60, 0.95),
    ],
    ids=["linear", "square", "sine", "product", "three", "sixty"],
)
def test_functions_are_learned(function, dim, least):
    assert held_out_r2(function, dim) >= least


def test_noise_is_not_learned():
    assert held_out_r2(lambda x: 0 * x[:, 0], 4, noise=1.0) > -0.03


def test_errors_are_those_of_least_squares_where_nothing_is_nonlinear():
    rng = np.random.default_rng(0)
    x, new = rng.standard_normal((100, 3)), rng.standard_normal((5, 3))
    fit = NonlinearRegression(x, rng.standard_normal((100, 1)), generator(0, "test"), cosines=0, hinges=False)
    centered = x - x.mean(0)
    leverage = ((new - x.mean(0)) @ np.linalg.inv(centered.T @ centered) * (new - x.mean(0))).sum(1)
    shrinkage = fit.relative_variance(new)[:, 0] / leverage
    assert (shrinkage <= 1 + 1e-9).all()
    strong = NonlinearRegression(x, x[:, :1], generator(0, "test"), cosines=0, hinges=False)
    assert strong.relative_variance(new)[:, 0] == pytest.approx(leverage, rel=1e-6)


def test_more_inputs_than_a_third_of_the_samples_and_constant_inputs_are_allowed():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 25))
    x[:, 3] = 1.0
    fit = NonlinearRegression(x, x[:, :2], generator(0, "test"))
    assert np.isfinite(fit(x)).all()
