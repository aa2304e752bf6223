"""Slow comparisons of two embeddings, written from their definitions: n x n matrices, loops, no sharing."""

import numpy as np


def centred_gram(x):
    n = len(x)
    h = np.eye(n) - 1 / n
    return h @ (x @ x.T) @ h


def cka(x, y):
    k, g = centred_gram(x), centred_gram(y)
    return (k * g).sum() / np.sqrt((k * k).sum() * (g * g).sum())


def unbiased_hsic(k, g):
    """Song et al. (2012), equation 5."""
    n = len(k)
    k, g = k - np.diag(np.diag(k)), g - np.diag(np.diag(g))
    one = np.ones(n)
    total = (
        np.trace(k @ g)
        + (one @ k @ one) * (one @ g @ one) / ((n - 1) * (n - 2))
        - 2 / (n - 2) * one @ k @ g @ one
    )
    return total / (n * (n - 3))


def unbiased_cka(x, y):
    k, g = x @ x.T, y @ y.T
    return unbiased_hsic(k, g) / np.sqrt(unbiased_hsic(k, k) * unbiased_hsic(g, g))


def canonical(x, y):
    """Canonical correlations and the variates of x of length 1, by QR factors of centred columns."""
    x, y = x - x.mean(0), y - y.mean(0)
    qx, qy = np.linalg.qr(x)[0], np.linalg.qr(y)[0]
    left, rho, _ = np.linalg.svd(qx.T @ qy, full_matrices=False)
    return rho, qx @ left


def svcca(x, y, share=0.99):
    def leading(z):
        u, s, _ = np.linalg.svd(z - z.mean(0), full_matrices=False)
        count = int(np.argmax(np.cumsum(s**2) / (s**2).sum() >= share)) + 1
        return u[:, :count] * s[:count]

    return canonical(leading(x), leading(y))[0].mean()


def pwcca(x, y):
    rho, variates = canonical(x, y)
    weights = np.array([sum(abs(h @ column) for column in (x - x.mean(0)).T) for h in variates.T])
    return (weights * rho).sum() / weights.sum()


def neighbour_lists(x, k):
    """By distance, then by number; itself left out."""
    squares = ((x[:, None] - x[None]) ** 2).sum(-1)
    np.fill_diagonal(squares, np.inf)
    return np.argsort(squares, axis=1, kind="stable")[:, :k]


def overlap(x, y, k):
    one, two = neighbour_lists(x, k), neighbour_lists(y, k)
    return np.mean([len(set(a) & set(b)) / k for a, b in zip(one, two, strict=True)])


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def cosine_lists(x, k):
    products = unit(x) @ unit(x).T
    np.fill_diagonal(products, -np.inf)
    return np.argsort(-products, axis=1, kind="stable")[:, :k]


def mutual_knn(x, y, k):
    one, two = cosine_lists(x, k), cosine_lists(y, k)
    return np.mean([len(set(a) & set(b)) / k for a, b in zip(one, two, strict=True)])


def cycle_knn(x, y, k):
    one, two = cosine_lists(x, k), cosine_lists(y, k)
    return np.mean([any(i in one[b] for b in two[i]) for i in range(len(x))])


def held_out(x, y, fit, score, ridge=0.0):
    """MSE and R^2 of Algorithm 1."""
    x, y = ((z - z[fit].mean(0)) / z[fit].std(0) for z in (x, y))
    a = x[fit]
    w = np.linalg.solve(a.T @ a + ridge * np.eye(a.shape[1]), a.T @ y[fit])
    errors = ((y[score] - x[score] @ w) ** 2).sum(1)
    deviations = ((y[score] - y[score].mean(0)) ** 2).sum(1)
    return errors.mean(), 1 - errors.sum() / deviations.sum()
