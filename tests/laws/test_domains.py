"""Domains against the densities they are cut from."""

import math

import numpy as np
import pytest

from isojepa.laws import GeneralizedNormal, Normal, StudentT, Uniform
from isojepa.laws.sturm_liouville import continuum, find_domain, log_density_of


@pytest.mark.parametrize("law", [Normal(), GeneralizedNormal(1.0), GeneralizedNormal(300.0), StudentT(3.0)])
@pytest.mark.parametrize("drop", [5.0, 50.0])
def test_the_density_has_dropped_by_that_much_at_the_ends(law, drop):
    domain = find_domain(law, drop)
    top = law.log_density(0.0)
    for end in (domain.low, domain.high):
        assert top - law.log_density(end) == pytest.approx(drop, rel=1e-6)
    assert domain.low == pytest.approx(-domain.high)


def test_the_coordinate_goes_there_and_back_and_its_slope_is_its_derivative():
    for law in (StudentT(3.0), Uniform()):
        domain = find_domain(law)
        nodes = domain.nodes(50)
        np.testing.assert_allclose(domain.to_s(domain.to_z(nodes)), nodes, atol=1e-9)
        np.testing.assert_allclose(domain.to_z(nodes[[0, -1]]), [domain.low, domain.high], rtol=1e-9)
        step = 1e-5
        slope = (domain.to_z(nodes + step) - domain.to_z(nodes - step)) / (2 * step)
        np.testing.assert_allclose(np.exp(domain.log_slope(nodes)), slope, rtol=1e-6)


@pytest.mark.parametrize(("alpha", "begins"), [(0.5, 0.0), (1.0, 0.5), (1.02, math.inf), (2.0, math.inf)])
def test_the_continuum_begins_where_the_score_settles(alpha, begins):
    assert continuum(GeneralizedNormal(alpha)) == pytest.approx(begins, abs=1e-6)


def test_a_bounded_support_has_no_continuum():
    assert continuum(Uniform()) == math.inf


def test_a_density_that_is_infinite_or_undefined_is_refused():
    class Law:
        support = (-math.inf, math.inf)

        def log_density(self, z):
            return np.where(z == 1.0, np.inf, -(z**2))

    with pytest.raises(ValueError, match="got NaN or inf at z = 1"):
        log_density_of(Law(), np.array([0.0, 1.0]))
