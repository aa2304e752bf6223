"""Trajectories whose decay is known, for the tests of lags."""

import numpy as np


def ornstein_uhlenbeck(rng, steps, paths, dim, rho):
    """Stationary paths (steps, paths, dim); rho is one number or one per dimension."""
    rho = np.broadcast_to(rho, dim)
    z = np.empty((steps, paths, dim))
    z[0] = rng.standard_normal((paths, dim))
    for t in range(1, steps):
        z[t] = rho * z[t - 1] + np.sqrt(1 - rho**2) * rng.standard_normal((paths, dim))
    return z


def quadratic(z, share):
    """Energy `share` at degree 2, the rest at degree 1, variance 1."""
    return np.sqrt(1 - share) * z + np.sqrt(share / 2) * (z**2 - 1)
