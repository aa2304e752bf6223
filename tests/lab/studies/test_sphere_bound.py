"""The study of the sphere against independent harmonics, constants and errors."""

import math

import numpy as np
import pytest
from scipy import special

from isojepa.seeds import generator
from isojepa_lab.studies import sphere_bound_series as series
from isojepa_lab.studies.sphere_bound import DIRECTIONS


@pytest.mark.parametrize(
    ("dim", "alpha", "expected"),
    [
        (3, 1.0, 2 * math.pi),  # 4 π Γ(2) / (2 Γ(1) Γ(1))
        (3, 2.0, 16 * math.pi),  # 16 π Γ(3) / (2 Γ(2) Γ(1))
        (2, 1.0, 2 * math.sqrt(math.pi)),  # 4 √π (√π / 2) / √π
        (5, 3.0, 192 * math.pi**2),  # 64 π² Γ(5) / (4 Γ(3) Γ(2))
    ],
)
def test_the_constant_is_that_computed_by_hand(dim, alpha, expected):
    assert math.exp(series.log_constant(dim, alpha)) == pytest.approx(expected)


def test_the_bound_is_one_at_the_number_of_directions_needed():
    dim, alpha = 6, 2.5
    count = 10 ** series.directions_needed(dim, alpha)
    assert series.log_constant(dim, alpha) - 2 * alpha / (dim - 1) * math.log(count) == pytest.approx(
        0, abs=1e-9
    )


def test_the_harmonics_of_the_sphere_are_those_of_scipy_up_to_sign():
    points = series.directions(3, 20, "random", generator(0, "test"))
    polar, azimuth = np.arccos(points[:, 2]), np.arctan2(points[:, 1], points[:, 0])
    degrees = 6
    for m, (own, values) in enumerate(series.harmonics(points, degrees)):
        for k, degree in enumerate(own[: degrees + 1 - m].astype(int)):
            complex_value = special.sph_harm_y(degree, m, polar, azimuth)
            expected = math.sqrt(4 * math.pi * (2 if m else 1)) * complex_value.real
            np.testing.assert_allclose(np.abs(values[k]), np.abs(expected), atol=1e-10)


@pytest.mark.parametrize("dim", [2, 3])
def test_the_kernel_is_the_sum_over_harmonics(dim):
    points = series.directions(dim, 15, "random", generator(1, "test"))
    degrees, alpha = 12, 1.5
    total = sum(
        (values * series.variances(dim, alpha, degree)[:, None]).T @ values
        for degree, values in series.harmonics(points, degrees)
    )
    energies = series.multiplicity(dim, degrees) * series.variances(dim, alpha, np.arange(degrees + 1.0))
    np.testing.assert_allclose(series.kernel(points @ points.T, energies, dim), total, atol=1e-10)


@pytest.mark.parametrize("kind", DIRECTIONS)
@pytest.mark.parametrize("dim", [2, 3])
def test_directions_are_unit_vectors_spread_evenly(dim, kind):
    points = series.directions(dim, 400, kind, generator(0, "test"))
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1)
    np.testing.assert_allclose(points.T @ points / 400, np.eye(dim) / dim, atol=0.1)


def test_a_series_that_the_directions_determine_is_reconstructed():
    # 2 * 5 + 1 harmonics, 16 directions: what is left is the jitter and rounding
    (error,) = series.errors(0, 2, 1.0, "low-discrepancy", (16,), 5, 3)
    assert error < 1e-20


@pytest.mark.parametrize(
    ("dim", "alpha", "counts", "degrees"), [(2, 1.0, (16, 64), 300), (3, 2.0, (32, 128), 50)]
)
def test_the_slope_is_the_predicted_one(dim, alpha, counts, degrees):
    found = np.mean(
        [series.errors(seed, dim, alpha, "low-discrepancy", counts, degrees, 16) for seed in range(2)], axis=0
    )
    slope = math.log(found[1] / found[0]) / math.log(counts[1] / counts[0])
    assert slope == pytest.approx(-2 * alpha / (dim - 1), rel=0.1)
