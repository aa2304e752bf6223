"""How good a map is, in the six numbers of the stress tests of Social-JEPA (Tables 4 to 8).

MSE (Equation 6, summed over columns) and R^2 of z2 against W z1 in standardized columns; between z1 and W_inv
z2 the rank correlation of distances (DSC) and the disagreement of neighbors (NOS@k, Equation 8); and the
condition number of W.
"""

from dataclasses import dataclass

import numpy as np

from isojepa.alignment.comparing import check_ks
from isojepa.alignment.maps import AlignmentMap
from isojepa.alignment.scores import value_of

ROWS = 1000  # whose distances and neighbors are compared, at most
KS = (10,)


@dataclass(frozen=True)
class Quality:
    """Numbers of one map.

    Attributes:
        mse: mean squared error, summed over columns.
        r2: share of the second's variance that is explained.
        dsc: Spearman's correlation of distances.
        nos: disagreement of neighbors by their number k.
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
        ks: numbers of neighbors, fewer than n.
        like: a map whose means and scales standardize the columns, so that maps of few pairs and of many are
            measured alike; the map itself by default.
        rows: whose distances and neighbors are compared, the first ones.

    Raises:
        ValueError: a k is not fewer than the rows, or rows do not fit the map.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(300, 3))
        >>> quality = measure(AlignmentMap("ols").fit(x[:200], x[:200, ::-1]), x[200:], x[200:, ::-1])
        >>> round(quality.r2, 6), round(quality.dsc, 6), quality.nos[10], round(quality.condition, 6)
        (1.0, 1.0, 0.0, 1.0)
    """
    scales = fitted if like is None else like
    error = float((((second - fitted.transform(first)) / scales.scale_out_) ** 2).sum())
    spread = float((((second - second.mean(0)) / scales.scale_out_) ** 2).sum())
    x = (first - scales.mean_in_) / scales.scale_in_
    aligned = (fitted.inverse_transform(second) - scales.mean_in_) / scales.scale_in_
    check_ks(ks, min(rows, len(x)))
    sides = x[:rows], aligned[:rows]
    return Quality(
        mse=error / len(second),
        r2=1 - error / spread,
        dsc=value_of("DSC", *sides),
        nos={k: value_of(f"NOS@{k}", *sides) for k in ks},
        condition=fitted.condition_,
    )
