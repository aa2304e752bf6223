"""Eigenvalues of a symmetric law's generator by shooting: from 0 outwards, with no flux at the end."""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq


def shot_eigenvalue(log_density, end, bracket, odd):
    """The eigenvalue in a bracket, of an odd or an even eigenfunction.

    With g = p phi' the equation is phi' = g / p, g' = -lambda p phi; phi(0) = 0, g(0) = 1 for odd phi and
    phi(0) = 1, g(0) = 0 for even phi, and g(end) = 0.
    """
    peak = float(log_density(np.array(0.0)))

    def flux(eigenvalue):
        def slope(z, state):
            p = np.exp(float(log_density(np.array(z))) - peak)
            return [state[1] / p, -eigenvalue * p * state[0]]

        start = [0.0, 1.0] if odd else [1.0, 0.0]
        return solve_ivp(slope, (0, end), start, method="LSODA", rtol=1e-10, atol=1e-13).y[1, -1]

    return brentq(flux, *bracket, xtol=1e-10)
