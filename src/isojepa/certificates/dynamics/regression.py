r"""Least squares with what each group of rows changes: the ground of all intervals of a transition.

    y = x Theta + e,  x = (1, s, a),  Theta = M^-1 X^T Y,  M = X^T X

Leaving group g out moves the coefficients by exactly

    Theta - Theta_(-g) = (M - M_g)^-1 X_g^T e_g,

so the delete-a-group jackknife costs one solve per group. Draws around the estimate are sums of these
differences with random signs and sizes (a multiplier bootstrap): sqrt((G - 1) / G) sum_g xi_g D_g, with xi
normal, divided by the root of a chi-squared of G - 1 degrees, so that few groups give wider draws. Groups are
whole episodes where there are enough of them, which allows any dependence within an episode; else pieces of
episodes, which allows dependence over times shorter than a piece.

float64; columns are centered and scaled before anything is squared.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch

MOST = 64  # groups
_ENOUGH = 30  # episodes that are groups themselves


@dataclass(frozen=True)
class Regression:
    """Coefficients of y on (1, x).

    Attributes:
        offset: (out,).
        matrix: (out, in).
        residual: (n, out).
        changes: (groups, out, 1 + in) what each group moves (offset, matrix) by.
    """

    offset: np.ndarray
    matrix: np.ndarray
    residual: np.ndarray
    changes: np.ndarray

    @property
    def noise(self) -> np.ndarray:
        """(out, out) covariance of the residual, unbiased for independent rows."""
        rows, used = len(self.residual), self.matrix.shape[1] + 1
        return np.asarray(self.residual.T @ self.residual / max(1, rows - used))

    def deviations(self, count: int, generator: torch.Generator) -> np.ndarray:
        """(count, out, in) draws of the error of `matrix`."""
        return multiplied(self.changes[:, :, 1:], count, generator)


def multiplied(changes: np.ndarray, count: int, generator: torch.Generator) -> np.ndarray:
    """(count, ...) draws of the error of a statistic, from what each group changes, (groups, ...)."""
    groups = len(changes)
    signs = torch.randn(count, groups, generator=generator, dtype=torch.float64).numpy()
    squares = torch.randn(count, groups - 1, generator=generator, dtype=torch.float64).numpy() ** 2
    heavier = np.sqrt((groups - 1) / squares.sum(1, keepdims=True))
    weights = math.sqrt((groups - 1) / groups) * signs * heavier
    drawn = weights @ changes.reshape(groups, -1)
    return np.asarray(drawn.reshape(count, *changes.shape[1:]))


def foretold(values: np.ndarray, given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What columns (n, k) foretell of others (n, m): the coefficients (k, m), and what is left (n, m).

    By products of standardised columns, in which a share of variance below 1e-10 is rounding.
    """
    seen, told = given - given.mean(0), values - values.mean(0)
    scale = np.sqrt((seen**2).mean(0))
    seen = seen / np.where(scale > 0, scale, 1.0)
    inner = np.linalg.pinv(seen.T @ seen, rcond=1e-10, hermitian=True)
    weights = inner @ (seen.T @ told)
    return weights / np.where(scale > 0, scale, 1.0)[:, None], told - seen @ weights


def group_edges(episode: np.ndarray, most: int = MOST) -> np.ndarray:
    """Rows at which groups begin, and the end: whole episodes if there are enough, else pieces.

    Args:
        episode: (n,) of each row; those of one episode stand together.
        most: groups at most.
    """
    n = len(episode)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(episode)) + 1))
    if len(starts) < _ENOUGH:
        return np.unique(np.linspace(0, n, min(most, n) + 1).round().astype(np.int64))
    wanted = np.linspace(0, n, min(most, len(starts)) + 1)[:-1]
    nearest = np.searchsorted(starts, wanted, side="right") - 1
    return np.concatenate((np.unique(starts[nearest]), [n]))


def regress(x: np.ndarray, y: np.ndarray, edges: np.ndarray) -> Regression:
    """Fit y (n, out) on (1, x (n, in)), with what each group of rows changes.

    Args:
        x, y: the rows.
        edges: (groups + 1,) where groups begin and end.

    Raises:
        ValueError: x is collinear, or is so without one of the groups.
    """
    center, scale = x.mean(0), x.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    design = np.concatenate((np.ones((len(x), 1)), (x - center) / scale), axis=1)
    middle = y.mean(0)
    spans = list(itertools.pairwise(edges))
    inner = np.stack([design[i:j].T @ design[i:j] for i, j in spans])
    cross = np.stack([design[i:j].T @ (y[i:j] - middle) for i, j in spans])
    try:
        fitted = np.linalg.solve(inner.sum(0), cross.sum(0))
        residual = y - middle - design @ fitted
        moved = np.stack([design[i:j].T @ residual[i:j] for i, j in spans])
        changes = np.linalg.solve(inner.sum(0) - inner, moved)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"the inputs must span all of their {x.shape[1]} dimensions, also without one of "
            f"{len(spans)} groups of rows, got collinear ones: more rows are needed"
        ) from None
    return Regression(
        middle + fitted[0] - (center / scale) @ fitted[1:],
        (fitted[1:] / scale[:, None]).T,
        residual,
        _in_units(changes, center, scale),
    )


def _in_units(changes: np.ndarray, center: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Changes (groups, 1 + in, out) of scaled inputs as (groups, out, 1 + in) of the inputs themselves."""
    slopes = changes[:, 1:] / scale[:, None]
    offset = changes[:, :1] - np.einsum("i,gio->go", center, slopes)[:, None]
    return np.concatenate((offset, slopes), axis=1).transpose(0, 2, 1)
