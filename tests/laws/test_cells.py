"""Cells of a law against dense linear algebra and slow loops."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from isojepa.laws import GeneralizedNormal, Normal, StudentT, Uniform, bimodal, eigensystem
from isojepa.laws.sturm_liouville import PIECES, alias_tables, cut

LAWS = {
    "normal": Normal(),
    "uniform": Uniform(),
    "gennorm-1.5": GeneralizedNormal(1.5),
    "bimodal": bimodal(4.0),
}


@pytest.mark.parametrize("name", [*LAWS, "student"])
def test_jumps_are_reversible_and_keep_the_law(name):
    cells = cut(LAWS.get(name, StudentT(5.0)), 128)
    transition = cells.transition(0.3)
    assert (transition >= 0).all()
    np.testing.assert_allclose(transition.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(cells.mass @ transition, cells.mass, rtol=1e-8)
    joint = cells.mass[:, None] * transition
    np.testing.assert_allclose(joint, joint.T, rtol=1e-8, atol=1e-20)


def test_the_transition_is_the_exponential_of_the_jumps():
    cells = cut(bimodal(4.0), 40)
    flow = cells.vectors @ np.diag(-cells.eigenvalues) @ cells.vectors.T
    root = np.sqrt(cells.mass)
    rates = flow * root / root[:, None]
    assert np.abs(rates - np.triu(np.tril(rates, 1), -1)).max() < 1e-8 * np.abs(rates).max()
    np.testing.assert_allclose(cells.transition(0.2), scipy.linalg.expm(0.2 * rates), atol=1e-10)
    np.testing.assert_allclose(
        cells.transition(0.4), np.linalg.matrix_power(cells.transition(0.2), 2), atol=1e-12
    )


@pytest.mark.parametrize("name", LAWS)
def test_their_spectrum_tends_to_the_diffusions_like_the_square_of_the_width(name):
    truth = eigensystem(LAWS[name], count=2).eigenvalues[1:]
    coarse, fine = (np.abs(cut(LAWS[name], n).eigenvalues[1:3] - truth) for n in (64, 256))
    assert (fine < 2e-3 * truth).all()
    assert (fine < coarse / 6 + 1e-5).all()


def test_for_the_normal_law_the_first_eigenvalue_is_exact_however_coarse():
    for count in (8, 32, 256):
        assert cut(Normal(), count).eigenvalues[1] == pytest.approx(1, abs=1e-5)


def test_masses_means_and_pieces_are_those_of_the_law():
    cells = cut(Normal(), 64)
    below = stats.norm.cdf(np.concatenate(([-np.inf], cells.faces, [np.inf])))
    np.testing.assert_allclose(cells.mass, np.diff(below), atol=1e-7)
    edges = stats.norm.pdf(np.concatenate(([-np.inf], cells.faces, [np.inf])))
    seen = cells.mass > 1e-6
    np.testing.assert_allclose(cells.means[seen], (-np.diff(edges) / np.diff(below))[seen], atol=1e-4)
    shares = np.diff(stats.norm.cdf(cells.pieces), axis=1)
    np.testing.assert_allclose(shares[seen], np.repeat(cells.mass[seen, None] / PIECES, PIECES, 1), rtol=1e-2)
    assert (np.diff(cells.pieces, axis=1) >= 0).all()
    assert cells.within == pytest.approx(1 - cells.mass @ cells.means**2, abs=1e-9)


def test_correlation_and_time_are_inverse():
    cells = cut(GeneralizedNormal(4.0), 128)
    for rho in (0.05, 0.5, 0.9, 0.99):
        assert cells.correlation(cells.time_of(rho)) == pytest.approx(rho, abs=1e-12)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    st.lists(
        st.lists(st.floats(0, 1), min_size=4, max_size=4).filter(lambda row: sum(row) > 1e-3),
        min_size=1,
        max_size=6,
    )
)
def test_alias_tables_give_back_the_probabilities(rows):
    weights = np.array(rows)
    weights /= weights.sum(1, keepdims=True)
    keep, other = alias_tables(weights)
    assert ((keep >= -1e-12) & (keep <= 1 + 1e-12)).all()
    found = keep.copy()
    for row, (kept, instead) in enumerate(zip(keep, other, strict=True)):
        for column in range(4):
            found[row, instead[column]] += 1 - kept[column]
    np.testing.assert_allclose(found / 4, weights, atol=1e-12)


def test_a_density_with_a_gap_is_refused():
    class Gap:
        support = (-2.0, 2.0)

        def log_density(self, z):
            return np.where(np.abs(z) < 0.5, -np.inf, 0.0)

    with pytest.raises(ValueError, match="gap inside its support"):
        cut(Gap(), 16)
