"""Cells of a law against dense linear algebra and slow loops."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from isojepa.distributions import GeneralizedNormal, Normal, StudentT, Uniform, bimodal, eigensystem
from isojepa.distributions.sturm_liouville import alias_tables, cut

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
