"""Non-negative mixtures against another solver."""

import numpy as np
import pytest
from scipy.optimize import minimize

from isojepa.certificates.mixture import Whitener, fit_many, fit_shares


def test_the_whitener_gives_errors_unit_covariance():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((4, 4))
    errors = rng.standard_normal((200_000, 4)) @ root.T
    whitener = Whitener.of(root @ root.T, ridge=0.0)
    np.testing.assert_allclose(np.cov(errors @ whitener.factor.T, rowvar=False), np.eye(4), atol=0.02)
    expected = np.einsum("ni,ij,nj->n", errors[:9], np.linalg.inv(root @ root.T), errors[:9])
    np.testing.assert_allclose(whitener.square(errors[:9]), expected, rtol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_shares_equal_another_constrained_solver(seed):
    rng = np.random.default_rng(seed)
    t = np.linspace(0.2, 2, 9)
    basis = np.exp(-np.outer(t, [1, 2, 3, 5]))
    curve = basis @ rng.dirichlet(np.ones(4)) + 0.01 * rng.standard_normal(9)
    root = rng.standard_normal((9, 9)) / 3 + np.eye(9)
    whitener = Whitener.of(root @ root.T, ridge=0.0)
    shares, misfit = fit_shares(basis, curve, whitener)
    other = minimize(
        lambda s: whitener.square(basis @ s - curve),
        np.full(4, 0.25),
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda s: s.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert misfit <= other.fun * (1 + 1e-6) + 1e-9
    np.testing.assert_allclose(shares, other.x, atol=2e-3)
    assert shares.sum() == pytest.approx(1, abs=1e-6)
    assert (shares >= 0).all()


def test_many_curves_are_each_fitted_alone():
    basis = np.exp(-np.outer([0.1, 0.5, 1.0, 2.0], [1, 2, 3]))
    curves = basis @ np.array([[1, 0, 0], [0.5, 0.25, 0.25], [0, 0, 1]]).T
    shares, misfits = fit_many(basis, curves.T, Whitener.of(np.eye(4)))
    np.testing.assert_allclose(shares, [[1, 0, 0], [0.5, 0.25, 0.25], [0, 0, 1]], atol=1e-4)
    assert (misfits < 1e-8).all()
