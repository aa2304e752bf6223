"""Hermite energies by the definition, one sample pair and one multi-index at a time."""

import itertools
import math

import numpy as np
from scipy.special import eval_hermitenorm


def polynomial(index, z):
    """H_a at one point."""
    return math.prod(
        float(eval_hermitenorm(k, x)) / math.sqrt(math.factorial(k)) for k, x in zip(index, z, strict=True)
    )


def indices(dim, degree):
    return [a for a in itertools.product(range(degree + 1), repeat=dim) if sum(a) <= degree]


def energies_given_guess(h, z, guess, degree):
    """(degree + 2) unbiased energies of one output, per degree and above; guess is {index: coefficient}."""
    n = len(h)
    values = {a: np.array([polynomial(a, row) for row in z]) for a in guess}
    residual = h - sum(b * values[a] for a, b in guess.items())
    total = np.zeros(degree + 2)
    off = 0.0
    for a, b in guess.items():
        q = residual * values[a]
        pairs = sum(q[i] * q[j] for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
        total[sum(a)] += b**2 + 2 * b * q.mean() + pairs
        off += pairs
    total[-1] = (residual**2).mean() - off
    return total
