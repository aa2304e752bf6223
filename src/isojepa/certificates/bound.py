r"""Theorem 3 of Klindt, LeCun & Balestriero (2026) with confidence intervals; it needs no latents.

For embeddings h of a Gaussian world whose pairs have correlation rho,

    epsilon = |Cov(h) - I|_F
    delta   = E |h' - h|^2 - 2 (1 - rho) tr Cov(h)
    D       = delta / (2 rho (1 - rho))
    min over orthogonal Q of E |h - Q z|^2  <=  D + (epsilon + D)^2      for centred h.

Estimation. delta is a mean over pairs, with both views used for the trace; the raw mean may fall below
zero by chance, so it is kept beside its clipped value. The plain epsilon of a sample is far too large in
high dimension (about 10 for a perfect encoder at dimension 1024 with 10,000 samples). The debiased one
splits the samples into K blocks with covariances S_a and takes the mean of <S_a - I, S_b - I> over a != b,
which is unbiased for epsilon^2; it too may fall below zero by chance. Its interval is a jackknife over the
blocks.

The bound grows with epsilon and with D, so its interval runs from its value at both lower ends to its
value at both upper ends, each end at half the error probability (Bonferroni).

The pairs must be independent of each other: of a recorded trajectory, take pairs far enough apart.
"""

from dataclasses import dataclass

import numpy as np

from isojepa.certificates.intervals import Interval, from_blocks, from_samples

_BLOCKS = 20


@dataclass(frozen=True)
class Bound:
    """The terms of Theorem 3. Intervals of delta, D and epsilon^2 are raw: nothing in them is clipped.

    `refuted` tells that delta lies below 0 beyond chance. No embedding of a Gaussian world of correlation rho
    can do that, so rho is wrong or the world is another, and the bound means nothing.
    """

    rho: float
    epsilon_plain: float
    epsilon_squared: Interval
    epsilon: Interval
    delta: Interval
    delta_clipped: float
    d: Interval
    d_clipped: float
    bound: Interval
    per_dimension: Interval
    refuted: bool


def measure_bound(h: np.ndarray, h_next: np.ndarray, rho: float, confidence: float = 0.95) -> Bound:
    """Measure Theorem 3's bound on the recovery error.

    Args:
        h, h_next: (n, dim) embeddings of the two views of n pairs.
        rho: correlation of the latents across a pair, in (0, 1), the same for all.
        confidence: of the intervals.

    Raises:
        ValueError: rho outside (0, 1), or fewer than 8 pairs.
    """
    if not 0 < rho < 1:
        raise ValueError(f"rho must lie in (0, 1), got {rho}")
    n, dim = h.shape
    if n < 8:
        raise ValueError(f"the bound needs at least 8 pairs, got {n}")
    joint = 0.5 + confidence / 2  # two quantities, each with half the error probability

    delta_values = _delta_values(h, h_next, rho)
    delta = from_samples(delta_values, confidence)
    delta_wide = from_samples(delta_values, joint)
    plain, squared, squared_wide = _epsilon(h, h_next, confidence, joint)
    gain = 1 / (2 * rho * (1 - rho))
    bound = Interval(
        _bound(_root(squared.estimate), max(delta.estimate, 0.0) * gain),
        _bound(_root(squared_wide.low), max(delta_wide.low, 0.0) * gain),
        _bound(_root(squared_wide.high), max(delta_wide.high, 0.0) * gain),
    )
    return Bound(
        rho=rho,
        epsilon_plain=plain,
        epsilon_squared=squared,
        epsilon=Interval(_root(squared.estimate), _root(squared.low), _root(squared.high)),
        delta=delta,
        delta_clipped=max(delta.estimate, 0.0),
        d=delta.scaled(gain),
        d_clipped=max(delta.estimate, 0.0) * gain,
        bound=bound,
        per_dimension=bound.scaled(1 / dim),
        refuted=delta_wide.high < 0,
    )


def _bound(epsilon: float, d: float) -> float:
    return d + (epsilon + d) ** 2


def _root(squared: float) -> float:
    return float(np.sqrt(max(squared, 0.0)))


def _delta_values(h: np.ndarray, h_next: np.ndarray, rho: float) -> np.ndarray:
    """(n,) values whose mean is delta, unbiased.

    |h' - h|^2 - (1 - rho) (|h|^2 + |h'|^2) with both views centred; the factor n / (n - 1) returns the
    degree of freedom that centring took.
    """
    n = len(h)
    a, b = h - h.mean(0), h_next - h_next.mean(0)
    loss = ((h_next - h) ** 2).sum(1)
    trace = ((a**2).sum(1) + (b**2).sum(1)) / 2 * n / (n - 1)
    return loss - 2 * (1 - rho) * trace


def _epsilon(
    h: np.ndarray, h_next: np.ndarray, confidence: float, joint: float
) -> tuple[float, Interval, Interval]:
    """Plain epsilon of all samples, and debiased epsilon^2 at two confidences."""
    n, dim = h.shape
    identity = np.eye(dim)
    plain = float(np.linalg.norm(_covariance(h, h_next) - identity))
    count = min(_BLOCKS if dim <= 1024 else _BLOCKS // 2, n // 2)
    off = np.stack(
        [_covariance(h[block], h_next[block]) - identity for block in np.array_split(np.arange(n), count)]
    ).reshape(count, -1)
    products = off @ off.T
    pairs = products - np.diag(np.diag(products))
    total = pairs.sum()
    estimate = total / (count * (count - 1))
    left_out = (total - 2 * pairs.sum(1)) / ((count - 1) * (count - 2))
    return plain, from_blocks(estimate, left_out, confidence), from_blocks(estimate, left_out, joint)


def _covariance(h: np.ndarray, h_next: np.ndarray) -> np.ndarray:
    """Mean of the two views' covariances, each with divisor n - 1."""
    views = (view - view.mean(0) for view in (h, h_next))
    return sum(view.T @ view for view in views) / (2 * (len(h) - 1))
