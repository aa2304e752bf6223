"""Pairs whose truth is known: a rotation, inputs of a power law, white noise."""

import numpy as np


def spectrum(dim, decay):
    values = np.arange(1.0, dim + 1) ** -decay
    return values * dim / values.sum()


def pairs(count, dim, out, decay=1.0, noise=0.1, seed=0):
    """Rows (count, dim) of spectrum k^-decay in turned axes, and a part of a rotation of them with noise."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    most = max(dim, out)
    rotation = np.linalg.qr(rng.normal(size=(most, most)))[0][:out, :dim]
    first = (rng.normal(size=(count, dim)) * np.sqrt(spectrum(dim, decay))) @ axes.T
    signal = first @ rotation.T
    second = signal + np.sqrt(noise * signal.var(0).mean()) * rng.normal(size=(count, out))
    return first, second
