r"""How many directions features really use: RankMe, LiDAR and alpha-ReQ, without labels.

RankMe (Garrido et al., 2023) of features Z (n, dim) with singular values s_k:

    p_k = s_k / sum_j s_j + 1e-7,    RankMe = exp( - sum_k p_k log p_k ),

from 1 (all on one line) to min(n, dim). The features are not centered, as published: a constant offset counts
as a direction. Singular values come from Z^T Z, summed up block by block in float64.

LiDAR (Thilak et al., 2023) of q views of each of n states, every state a class of its own: with the mean
m_i of a state's views and m of all,

    B = sum_i (m_i - m)(m_i - m)^T / (n - 1),
    W = sum_i sum_j (x_ij - m_i)(x_ij - m_i)^T / (n (q - 1)) + 1e-4 I,

it is the same exponential of an entropy, of p_k = l_k / sum_j l_j + 1e-8 for the eigenvalues l_k of
W^(-1/2) B W^(-1/2): directions that views agree on count, those that differ from view to view do not.

alpha-ReQ (Agrawal et al., 2022) is the decay of the spectrum: the slope a of log l_k = c - a log k, by least
squares over the eigenvalues l_k of the covariance. Features of natural images are said to be best near 1.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy
import torch

_SPREAD = 1e-4  # that LiDAR adds to the covariance within states
_RANKME, _LIDAR = 1e-7, 1e-8  # that are added to shares
_BLOCK = 8_192


def rankme(features: Any) -> float:
    """RankMe of features.

    Args:
        features: (n, dim); an array, a tensor, or blocks of rows of them.

    Returns:
        The effective number of directions; NaN where a feature is not finite, 0 where all are 0.

    Example:
        >>> round(rankme(np.eye(4)), 3)
        4.0
    """
    blocks: Iterable[Any] = features
    if isinstance(features, np.ndarray | torch.Tensor):
        rows = _array(features)
        blocks = (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK))
    moments: np.ndarray | None = None
    n = 0
    for block in blocks:
        part = _array(block).astype(np.float64)
        moments = part.T @ part if moments is None else moments + part.T @ part
        n += len(part)
    if moments is None:
        raise ValueError("features must have a row at least, got none")
    if not np.isfinite(moments).all():
        return float("nan")
    values = np.linalg.eigvalsh(moments)[::-1][: min(n, len(moments))]
    return _effective(np.sqrt(np.maximum(values, 0)), _RANKME)  # below 0 is rounding


def lidar(views: Any) -> float:
    """LiDAR of several views of each state.

    Args:
        views: (view, state, dim), two views and two states at least.

    Returns:
        The effective number of directions; NaN where a feature is not finite, 0 where states do not differ.

    Raises:
        ValueError: the shape is another.

    Example:
        >>> states = np.random.default_rng(0).normal(size=(1, 500, 3))
        >>> round(lidar(np.concatenate((states, states))))
        3
    """
    x = _array(views, 3).astype(np.float64)
    q, n, dim = x.shape
    if q < 2 or n < 2:
        raise ValueError(f"views must be two or more of two or more states, got shape {x.shape}")
    if not np.isfinite(x).all():
        return float("nan")
    means = x.mean(0)
    between = np.cov(means, rowvar=False).reshape(dim, dim)
    inside = (x - means).reshape(-1, dim)
    within = inside.T @ inside / (n * (q - 1)) + _SPREAD * np.eye(dim)
    # the eigenvalues of W^(-1/2) B W^(-1/2) are those of B against W
    values = scipy.linalg.eigh(between, within, eigvals_only=True)
    return _effective(np.maximum(values, 0), _LIDAR)  # below 0 is rounding


def alpha_req(features: Any) -> float:
    """The decay of the covariance's eigenvalues: alpha of l_k ~ k^-alpha.

    Args:
        features: (n, dim).

    Returns:
        The exponent; NaN where a feature is not finite or fewer than two directions vary.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(100_000, 20)) / np.arange(1, 21)
        >>> round(alpha_req(rows), 1)
        2.0
    """
    x = _array(features).astype(np.float64)
    if not np.isfinite(x).all():
        return float("nan")
    values = np.linalg.eigvalsh(np.cov(x, rowvar=False))[::-1]
    values = values[values > values[0] * np.finfo(np.float32).eps]
    if len(values) < 2:
        return float("nan")
    slope, _ = np.polyfit(np.log(np.arange(1, len(values) + 1)), np.log(values), 1)
    return float(-slope)


def _effective(values: np.ndarray, added: float) -> float:
    """Exponential of the entropy of shares, to which something small is added as both papers have it."""
    total = values.sum()
    if total <= np.finfo(np.float64).tiny:
        return 0.0
    shares = values / total + added
    return float(np.exp(-(shares * np.log(shares)).sum()))


def _array(value: Any, axes: int = 2) -> np.ndarray:
    array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    if array.ndim != axes or 0 in array.shape or array.dtype.kind not in "fiub":
        axes_text = "(samples, dim)" if axes == 2 else "(view, state, dim)"
        raise ValueError(
            f"features must be numbers {axes_text}, got shape {array.shape} of {array.dtype.name}"
        )
    return array
