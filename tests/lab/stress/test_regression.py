"""Errors by random-matrix theory against errors of fits to many drawn samples."""

import math

import numpy as np
import pytest

from isojepa_lab.stress.regression import RegressionTask, equivalent
from tests.lab.stress.worlds import spectrum


def simulated(values, matrix, noise, pairs, penalty, mismatch, moments=None, repeats=60):
    """Mean and standard error of the error of fits on right pairs, which is exact for each fit."""
    rng = np.random.default_rng(7)
    out, dim = matrix.shape
    moments = np.diag(values) if moments is None else moments
    errors = []
    for _ in range(repeats):
        x = rng.normal(size=(pairs, dim)) * np.sqrt(values)
        y = x @ matrix.T + np.sqrt(noise / out) * rng.normal(size=(pairs, out))
        wrong = rng.permutation(pairs)[: round(mismatch * pairs)]
        y[wrong] = y[np.roll(wrong, 1)]
        mean_x, mean_y = x.mean(0), y.mean(0)
        x, y = x - mean_x, y - mean_y
        fitted = np.linalg.solve(x.T @ x + penalty * np.eye(dim), x.T @ y).T
        off, offset = matrix - fitted, mean_y - fitted @ mean_x
        errors.append(noise + np.trace(off @ moments @ off.T) + offset @ offset)
    return float(np.mean(errors)), float(np.std(errors) / math.sqrt(repeats))


def task(dim, out, decay, noise=0.1):
    values = spectrum(dim, decay)
    matrix = np.random.default_rng(3).normal(size=(out, dim)) / math.sqrt(dim)
    signal = float((matrix**2 * values).sum())
    return matrix, RegressionTask(values, matrix.T @ matrix, noise * signal)


@pytest.mark.parametrize(
    ("dim", "out", "pairs", "decay", "mismatch", "penalty"),
    [
        (20, 20, 200, 0.0, 0.0, 0.0),
        (20, 10, 200, 1.0, 0.3, 0.0),
        (40, 40, 60, 0.0, 0.0, 0.0),  # 1.5 pairs for each dimension
        (40, 40, 48, 1.0, 0.0, 0.0),
        (40, 40, 41, 0.0, 0.0, 0.05),  # as many as dimensions, a penalty
        (40, 40, 20, 0.0, 0.0, 0.1),  # fewer than dimensions
        (40, 20, 24, 1.5, 0.2, 0.05),
        (60, 60, 240, 2.0, 0.3, 0.01),
        (8, 8, 40, 0.0, 0.3, 0.0),
    ],
)
def test_the_expected_error_is_that_of_simulated_fits(dim, out, pairs, decay, mismatch, penalty):
    matrix, made = task(dim, out, decay)
    found, error = simulated(made.values, matrix, made.noise, pairs, penalty * pairs, mismatch)
    told = made.error(pairs, penalty * pairs, mismatch)
    total = made.signal + made.noise
    # in units of R^2: 0.015 is what sizes this small leave of an asymptotic formula
    assert abs(told - found) / total < 0.015 + 4 * error / total
    wrong = RegressionTask(made.values, made.gram, 1.5 * made.noise)
    assert abs(wrong.error(pairs, penalty * pairs, mismatch) - found) > abs(told - found)


@pytest.mark.parametrize("penalty", [0.0, 0.1])
def test_the_expected_error_on_inputs_of_another_law_is_that_of_simulated_fits(penalty):
    matrix, made = task(20, 20, 1.0)
    root = np.random.default_rng(5).normal(size=(20, 20))
    moments = root @ root.T / 10
    found, error = simulated(made.values, matrix, made.noise, 100, 100 * penalty, 0.1, moments)
    told = made.error(100, 100 * penalty, 0.1, moments)
    assert told == pytest.approx(found, rel=0.03, abs=4 * error)
    assert abs(made.error(100, 100 * penalty, 0.1) - found) > 5 * abs(told - found)


def test_least_squares_has_the_textbook_error_with_one_more_for_the_mean():
    values = np.ones(30)
    made = RegressionTask(values, np.eye(30), 6.0)
    assert made.error(100, 0.0) == pytest.approx(6.0 * (1 + 1 / 100 + 30 / (99 - 30 - 1)))
    assert made.error(31, 0.0) == math.inf
    # mismatched pairs: the bias of the population and no more, where pairs abound
    assert made.error(10**7, 0.0, 0.3) == pytest.approx(6.0 + 0.09 * 30, rel=1e-4)


def test_the_equivalent_penalty_solves_its_equation_and_fits_no_more_than_there_is():
    values = spectrum(50, 1.3)
    for pairs, penalty in ((10, 0.0), (10, 3.0), (51, 0.0), (51, 1e-6), (500, 40.0)):
        found = equivalent(values, pairs, penalty)
        shares = values / (values + found.level)
        filled = shares.sum() + (penalty / found.level if penalty else 0.0)
        assert filled == pytest.approx(min(pairs - 1, 50) if penalty == 0 else pairs - 1, rel=1e-6)
        assert found.freedom <= min(pairs - 1, 50) + 1e-6
    with pytest.raises(ValueError, match="penalty must be at least 0"):
        equivalent(values, 10, -1.0)


def test_the_chosen_penalty_is_the_best_for_pairs_like_those_fitted():
    _, made = task(30, 30, 1.0)
    for pairs, mismatch in ((20, 0.0), (60, 0.0), (60, 0.3)):
        best = made.best_penalty(pairs, mismatch)
        least = made.error_alike(pairs, best, mismatch)
        for factor in (0.1, 0.5, 2.0, 10.0):
            assert made.error_alike(pairs, factor * best, mismatch) >= least
