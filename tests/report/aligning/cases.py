"""Pairs of embeddings for pages, of each verdict, and an alignment with everything there is."""

import functools

import numpy as np

from isojepa.alignment import compare, same
from isojepa.report.aligning import Alignment, Layers

HOSTILE = ("</script><script>alert(1)</script>", '"><img src=x onerror=alert(2)>' + "long" * 60)


def turn(dim, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))[0]


@functools.cache
def embeddings(verdict, rows=400):
    """Two embeddings of which this is the verdict."""
    draw = np.random.default_rng(3)
    z = draw.normal(size=(rows, 6)) * np.linspace(2, 1, 6)
    noise = 0.05 * draw.normal(size=z.shape)
    if verdict == "rotation":
        return z, 3 * z @ turn(6) + noise
    if verdict == "linear":
        return z, z @ turn(6) @ np.diag(np.linspace(0.3, 3, 6)) @ turn(6, 1) + noise
    if verdict == "partly":
        return z, np.hstack((z[:, :3], 2 * draw.normal(size=(rows, 2)))) @ turn(5)
    if verdict == "unrelated":
        return z, draw.normal(size=(rows, 4))
    return z[:50], z[:50] @ turn(6)


@functools.cache
def verdict(name):
    found = same(*embeddings(name))
    assert found.verdict == name
    return found


@functools.cache
def comparisons():
    """Of three encoders, each with each."""
    one, two = embeddings("linear", 200)
    three = one[:, :4] + 0.3 * np.random.default_rng(0).normal(size=(200, 4))
    rows = (one, two, three)
    pairs = {(i, j): compare(rows[i], rows[j], ks=(1, 5, 10)) for i, j in ((0, 1), (1, 0), (0, 2))}
    return rows, pairs


def alignment(names=("left", "right", "rear"), **changes):
    """Three encoders with all that a page can have."""
    given = {
        "verdicts": {(0, 1): "linear"},
        "layers": [
            Layers((0, 1), ["stem", "head"], ["a", "b", "c"], np.array([[0.9, 0.2, 0.1], [0.3, 0.4, 0.8]]))
        ],
        "cycles": {(0, 1, 2): 0.0625},
    }
    return Alignment(names, comparisons()[1], **{**given, **changes})
