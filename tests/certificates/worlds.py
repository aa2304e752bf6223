"""Pairs that keep the assumptions, and pairs that break one of them."""

import numpy as np
from scipy.stats import laplace, norm


def gaussian(n, dim, rho=0.9, seed=0):
    rng = np.random.default_rng(seed)
    z, noise = rng.standard_normal((2, n, dim))
    rho = np.asarray(rho)
    return z, rho * z + np.sqrt(1 - rho**2) * noise


def both(function, pair):
    return tuple(function(view) for view in pair)


def rotation(dim, seed=5):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((dim, dim)))[0]


def drifting(n, dim, seed=0):
    z, z_next = gaussian(n, dim, seed=seed)
    z_next[:, 0] += 0.3
    return z, z_next


def uniform(n, dim, seed=0):
    return both(norm.cdf, gaussian(n, dim, seed=seed))


def laplacian(n, dim, seed=0):
    return both(lambda z: laplace.ppf(norm.cdf(z)), gaussian(n, dim, seed=seed))


def folded(n, dim, seed=0):
    """The second latent is partly the absolute value of the first: uncorrelated, but dependent."""

    def fold(z):
        return np.column_stack([z[:, 0], 0.8 * np.abs(z[:, 0]) + 0.6 * z[:, 1], z[:, 2:]])

    return both(fold, gaussian(n, dim, seed=seed))


def multiplicative(n, dim, seed=0):
    rng = np.random.default_rng(seed)
    z, noise = rng.standard_normal((2, n, dim))
    return z, 0.9 * z + 0.3 * noise * (0.3 + np.abs(z))


def swirl(z, rate):
    """Each two neighbouring dimensions turn by an angle that grows with their length: N(0, I) is kept."""
    x, y = z[:, 0::2], z[:, 1::2]
    angle = rate * np.hypot(x, y)
    turned = [x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)]
    return np.stack(turned, -1).reshape(z.shape)


def swirled(n, dim, seed=0):
    return both(lambda z: swirl(z, 0.5), gaussian(n, dim, seed=seed))


def two_speeds(n, dim, seed=0):
    rho = np.full(dim, 0.9)
    rho[-1] **= 3
    return gaussian(n, dim, rho, seed)


def harmonic(n, dim, seed=0):
    """One dimension more than latents: the second Hermite polynomial of the first, turned with the rest."""

    def extend(z):
        return np.column_stack([z, (z[:, 0] ** 2 - 1) / np.sqrt(2)]) @ rotation(dim + 1)

    return both(extend, gaussian(n, dim, seed=seed))


def duplicated(n, dim, seed=0):
    return both(lambda z: np.column_stack([z, z[:, 0]]), gaussian(n, dim, seed=seed))


def ornstein_uhlenbeck_episodes(rhos, episodes=400, steps=40, seed=0):
    """Stationary states (episodes, steps, dim), each dimension with its own correlation."""
    rng, rhos = np.random.default_rng(seed), np.asarray(rhos)
    states = rng.standard_normal((episodes, steps, len(rhos)))
    for step in range(1, steps):
        states[:, step] = rhos * states[:, step - 1] + np.sqrt(1 - rhos**2) * states[:, step]
    return states
