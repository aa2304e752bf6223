r"""A plane in which neighbors stay together: t-SNE (van der Maaten and Hinton, 2008), exact, begun from PCA.

With p_ij how likely i and j are neighbors among the features, whose widths give every row the same
perplexity, and

    q_ij = (1 + ||y_i - y_j||^2)^-1 / sum_kl (1 + ||y_k - y_l||^2)^-1,

the places y minimise KL(p || q), by gradient descent with momentum and gains, p exaggerated twelvefold at
first. Nothing is drawn at random: the same features give the same map. Distances are between directions, as
neighbors are by cosine. What is near on it is near in the features, mostly; distances between groups and
their sizes mean nothing. Memory and time of a step grow with the square of the number of rows.
"""

import numpy as np
import torch
from torch import Tensor

from isojepa.probes.linear import directions
from isojepa.report.looking.components import components
from isojepa.validation import check_count, check_number, validate_types

PERPLEXITY = 30.0
_EXAGGERATION, _EARLY = 12.0, 200  # of p, and for how many steps
_HALVINGS = 50  # of the interval in which a width is looked for
_START = 1e-4  # std of the first axis at the start


@validate_types
def neighbor_map(features: np.ndarray, perplexity: float = PERPLEXITY, steps: int = 600) -> np.ndarray:
    """Places in a plane by t-SNE.

    Args:
        features: (n, dim) finite numbers.
        perplexity: about how many neighbors count; a third of the others where there are fewer.
        steps: of the descent.

    Returns:
        (n, 2); all 0 where directions do not differ, the plane of PCA where there are fewer than five rows.

    Raises:
        ValueError: features are no such thing, or a number is out of its range.
    """
    perplexity = check_number("perplexity", perplexity, "be 1 at least", lambda value: value >= 1)
    check_count("steps", steps)
    rows = directions(features)
    start = components(rows.numpy())
    if len(rows) < 5 or not start.shares[0]:
        return start.scores
    p = joint(rows, min(perplexity, (len(rows) - 1) / 3))
    y = torch.from_numpy(start.scores / start.scores[:, 0].std() * _START).float()
    speed, gains = torch.zeros_like(y), torch.ones_like(y)
    rate = max(len(rows) / _EXAGGERATION / 4, 50.0)
    for step in range(steps):
        early = step < min(_EARLY, steps // 2)
        slope = gradient(y, p * _EXAGGERATION if early else p)
        gains = torch.where(slope.sign() == speed.sign(), gains * 0.8, gains + 0.2).clamp_min_(0.01)
        speed = (0.5 if early else 0.8) * speed - rate * gains * slope
        y = y + speed
    layout: np.ndarray = (y - y.mean(0)).double().numpy()
    return layout


def joint(rows: Tensor, perplexity: float) -> Tensor:
    """p_ij (n, n): symmetric, 0 on the diagonal, sum 1; each row's width is found by bisection."""
    squares = torch.cdist(rows.double(), rows.double()).square_()
    squares.fill_diagonal_(torch.inf)
    squares -= squares.min(1, keepdim=True).values  # the largest weight of each row is 1
    finite = squares.nan_to_num(posinf=0.0)
    low = torch.zeros(len(rows), 1, dtype=torch.float64)
    high = torch.full_like(low, torch.inf)
    beta = 1 / finite.mean(1, keepdim=True).clamp_min(1e-12)
    target_entropy = float(np.log(perplexity))
    for _ in range(_HALVINGS):
        weights = (-beta * squares).exp_()
        total = weights.sum(1, keepdim=True)
        mean = (weights * finite).sum(1, keepdim=True) / total
        wide = total.log() + beta * mean > target_entropy  # its entropy is too large: a narrower one
        low, high = torch.where(wide, beta, low), torch.where(wide, high, beta)
        beta = torch.where(high.isinf(), beta * 2, (low + high) / 2)
    weights = (-beta * squares).exp_()
    weights /= weights.sum(1, keepdim=True)
    return ((weights + weights.T) / (2 * len(rows))).float()


def gradient(y: Tensor, p: Tensor) -> Tensor:
    """The gradient (n, 2) of KL(p || q) by the places."""
    lengths = y.square().sum(1)
    near = torch.addmm(lengths[:, None] + lengths, y, y.T, alpha=-2).clamp_min_(0).add_(1).reciprocal_()
    near.fill_diagonal_(0)
    pull = near * (p - near / near.sum())
    gradient: Tensor = 4 * (pull.sum(1, keepdim=True) * y - pull @ y)
    return gradient
