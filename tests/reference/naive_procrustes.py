"""Generalised Procrustes analysis from its definition: rows against their mean, over and over."""

import numpy as np


def loss_of(turned: list[np.ndarray]) -> float:
    mean = sum(turned) / len(turned)
    return sum(float(((part - mean) ** 2).sum()) for part in turned) / len(turned[0])


def naive_consensus(
    rows: list[np.ndarray], sweeps: int, rng: np.random.Generator
) -> tuple[list[np.ndarray], float]:
    """Gower's way on zero-padded rows from random rotations: (turned rows, loss)."""
    width = max(part.shape[1] for part in rows)
    padded = [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in rows]
    turned = [part @ np.linalg.qr(rng.normal(size=(width, width)))[0] for part in padded]
    for _ in range(sweeps):
        mean = sum(turned) / len(turned)
        for i, part in enumerate(padded):
            u, _, vt = np.linalg.svd(part.T @ mean)
            turned[i] = part @ u @ vt
    return turned, loss_of(turned)
