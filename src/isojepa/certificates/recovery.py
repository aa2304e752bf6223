"""Recovery: how far embeddings h are from a linear map, and from a rotation, of the latents z.

Every map is fitted on one half of the samples and scored on the other.

    r2_h_to_z            R^2 of z regressed on h: can the latents be read off linearly?
    r2_z_to_h            R^2 of h regressed on z: is the embedding nothing but the latents?
    r2_orthogonal        R^2 of z predicted by a rotation and translation of h
    gap                  r2_h_to_z - r2_orthogonal: what a linear map gains over a rotation
    orthogonality_error  |Q^T Q - I|_F / sqrt(n) of the fitted h ~ Q z; noise in the fit adds to it
    procrustes_error     E |h - E h - Q (z - E z)|^2 for the best orthogonal Q: the left side of Theorem 3

R^2 is the mean over dimensions. Reference: Klindt, LeCun & Balestriero (2026), Appendix H.
"""

from dataclasses import dataclass

import numpy as np

from isojepa.certificates.intervals import Interval, from_blocks, from_samples
from isojepa.linear import errors, halves, least_squares, procrustes, r2_of

_BLOCKS = 20


@dataclass(frozen=True)
class Recovery:
    """Held-out recovery of latents; the last four are None when h and z have different dimensions."""

    r2_h_to_z: Interval
    r2_z_to_h: Interval
    r2_per_latent: tuple[float, ...]
    r2_per_embedding: tuple[float, ...]
    r2_orthogonal: Interval | None
    gap: Interval | None
    orthogonality_error: Interval | None
    procrustes_error: Interval | None


def measure_recovery(h: np.ndarray, z: np.ndarray, confidence: float = 0.95) -> Recovery:
    """Measure how well h recovers z.

    Args:
        h: (n, m) embeddings.
        z: (n, d) latents.
        confidence: of the intervals.
    """
    fit, score = halves(len(h))
    r2_z, per_latent, influence_z = _score(z[score], least_squares(h[fit], z[fit])(h[score]))
    r2_h, per_embedding, influence_h = _score(h[score], least_squares(z[fit], h[fit])(z[score]))
    orthogonal = gap = orthogonality = error = None
    if h.shape[1] == z.shape[1]:
        rotation = procrustes(z[fit], h[fit])
        residual, _ = errors(h[score], rotation(z[score]))
        error = from_samples(residual.sum(1), confidence)
        r2_o, _, influence_o = _score(z[score], procrustes(h[fit], z[fit])(h[score]))
        orthogonal = from_samples(influence_o, confidence, r2_o)
        gap = from_samples(influence_z - influence_o, confidence, r2_z - r2_o)
        orthogonality = _orthogonality(h[fit], z[fit], confidence)
    return Recovery(
        r2_h_to_z=from_samples(influence_z, confidence, r2_z),
        r2_z_to_h=from_samples(influence_h, confidence, r2_h),
        r2_per_latent=tuple(per_latent.tolist()),
        r2_per_embedding=tuple(per_embedding.tolist()),
        r2_orthogonal=orthogonal,
        gap=gap,
        orthogonality_error=orthogonality,
        procrustes_error=error,
    )


def _score(y: np.ndarray, predicted: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Mean R^2, R^2 per output, and the influence of each sample on the mean R^2.

    R^2 = 1 - a / b with a and b means over samples has the influence -(a_i - (a / b) b_i) / b.
    """
    residual, spread = errors(y, predicted)
    a, b = residual.mean(0), spread.mean(0)
    per_output = r2_of(a, b)
    usable = np.where(b > np.finfo(np.float64).tiny, b, np.inf)
    influence = -((residual - (a / usable) * spread) / usable).mean(1)
    return float(per_output.mean()), per_output, influence


def _orthogonality(h: np.ndarray, z: np.ndarray, confidence: float) -> Interval | None:
    """|Q^T Q - I|_F / sqrt(n) of the least-squares map h ~ Q z, with a jackknife interval."""
    n, dim = z.shape
    if n < 2 * dim + 2:
        return None  # fewer samples than unknowns: the map is not determined
    h, z = h - h.mean(0), z - z.mean(0)
    blocks = np.array_split(np.arange(n), min(_BLOCKS, n // 2))
    squares = [z[block].T @ z[block] for block in blocks]
    products = [z[block].T @ h[block] for block in blocks]
    square, product = sum(squares), sum(products)

    def value(zz: np.ndarray, zh: np.ndarray) -> float:
        q = np.linalg.solve(zz, zh)
        return float(np.linalg.norm(q @ q.T - np.eye(dim)) / np.sqrt(dim))

    try:
        left_out = np.array([value(square - a, product - b) for a, b in zip(squares, products, strict=True)])
        return from_blocks(value(square, product), left_out, confidence)
    except np.linalg.LinAlgError:  # latents that do not span their space determine no map
        return None
