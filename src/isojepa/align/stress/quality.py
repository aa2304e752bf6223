"""How good a map is, in the six numbers of the stress tests of Social-JEPA (Tables 4 to 8).

MSE and R^2 of z2 against W z1 in standardised columns (Equation 6, divided by the number of columns);
between z1 and W_inv z2 the rank correlation of distances (DSC) and the disagreement of neighbours (NOS@k,
Equation 8); and the condition number of W.
"""

from dataclasses import dataclass

import numpy as np
import scipy
import torch

from isojepa.align.maps import AlignmentMap

ROWS = 1000  # whose distances and neighbours are compared, at most
KS = (10,)


@dataclass(frozen=True)
class Quality:
    """Numbers of one map.

    Attributes:
        mse: mean squared error per column.
        r2: share of the second's variance that is explained.
        dsc: Spearman's correlation of distances.
        nos: disagreement of neighbours by their number k.
        condition: kappa(W).
    """

    mse: float
    r2: float
    dsc: float
    nos: dict[int, float]
    condition: float

    def numbers(self) -> dict[str, float]:
        """By name: mse, r2, dsc, nos@10, condition."""
        nos = {f"nos@{k}": value for k, value in self.nos.items()}
        return {"mse": self.mse, "r2": self.r2, "dsc": self.dsc, **nos, "condition": self.condition}


def measure(
    fitted: AlignmentMap,
    first: np.ndarray,
    second: np.ndarray,
    ks: tuple[int, ...] = KS,
    like: AlignmentMap | None = None,
    rows: int = ROWS,
) -> Quality:
    """Measure a map on pairs that it was not fitted on.

    Args:
        fitted: the map.
        first, second: (n, d) and (n, q) held-out pairs.
        ks: numbers of neighbours, fewer than n.
        like: a map whose means and scales standardise the columns, so that maps of few pairs and of many are
            measured alike; the map itself by default.
        rows: whose distances and neighbours are compared, the first ones.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(300, 3))
        >>> found = measure(AlignmentMap("ols").fit(x[:200], x[:200, ::-1]), x[200:], x[200:, ::-1])
        >>> round(found.r2, 6), round(found.dsc, 6), found.nos[10], round(found.condition, 6)
        (1.0, 1.0, 0.0, 1.0)
    """
    scales = fitted if like is None else like
    error = float((((second - fitted.transform(first)) / scales.scale_out_) ** 2).sum())
    spread = float((((second - second.mean(0)) / scales.scale_out_) ** 2).sum())
    x = (first - scales.mean_in_) / scales.scale_in_
    aligned = (fitted.inverse_transform(second) - scales.mean_in_) / scales.scale_in_
    return Quality(
        mse=error / second.size,
        r2=1 - error / spread,
        dsc=_distance_consistency(x[:rows], aligned[:rows]),
        nos=_disagreements(x[:rows], aligned[:rows], ks),
        condition=fitted.condition_,
    )


def _distance_consistency(first: np.ndarray, second: np.ndarray) -> float:
    distances = (scipy.spatial.distance.pdist(rows) for rows in (first, second))
    one, two = (scipy.stats.rankdata(values) for values in distances)
    return float(np.corrcoef(one, two)[0, 1])


def _disagreements(first: np.ndarray, second: np.ndarray, ks: tuple[int, ...]) -> dict[int, float]:
    most = max(ks)
    if most >= len(first):
        raise ValueError(f"ks must be fewer than the {len(first)} held-out pairs, got {most}")
    one, two = (_nearest(rows, most) for rows in (first, second))
    same = one[:, :, None] == two[:, None, :]
    return {k: 1 - float(same[:, :k, :k].sum()) / (k * len(first)) for k in ks}


def _nearest(rows: np.ndarray, k: int) -> np.ndarray:
    points = torch.from_numpy(np.ascontiguousarray(rows))
    distances = torch.cdist(points, points)
    distances.fill_diagonal_(torch.inf)
    return distances.topk(k, largest=False).indices.numpy()
