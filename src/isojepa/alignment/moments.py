r"""Second moments of pairs in one pass: what every linear map in closed form is made of.

For rows x (n, p), y (n, q) with weights w of total w. (all 1 by default),

    mean   (sum_i w_i x_i) / w.                   Sxx   sum_i w_i (x_i - mean)(x_i - mean)^T

and likewise Syy, Sxy. Rows come in pieces; a piece's own moments are joined with those so far by the update
of Chan, Golub & LeVeque (1983), which centers each piece by itself and so keeps the digits that sums of
squares about zero lose. All in float64; (p + q)^2 numbers are kept whatever the number of rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class PairMoments:
    """Counts, means and centered products of pairs.

    Attributes:
        rows: number of rows that counted.
        weight: sum of their weights.
        mean: (p + q,) of both, side by side.
        products: (p + q, p + q) centered.
        first: p.
    """

    rows: int
    weight: float
    mean: np.ndarray
    products: np.ndarray
    first: int

    @classmethod
    def empty(cls, first: int, second: int) -> "PairMoments":
        """Of no rows."""
        width = first + second
        return cls(0, 0.0, np.zeros(width), np.zeros((width, width)), first)

    def add(self, x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> None:
        """Join rows x (n, p), y (n, q) of float64 with weights (n,)."""
        both = np.concatenate((x, y), axis=1)
        if weights is not None:
            kept = weights > 0
            both, weights = both[kept], weights[kept]
        if not len(both):
            return
        weight = float(len(both)) if weights is None else float(weights.sum())
        mean = both.mean(0) if weights is None else weights @ both / weight
        both -= mean
        if weights is not None:
            both *= np.sqrt(weights)[:, None]
        new = torch.from_numpy(both)
        self.join(PairMoments(len(both), weight, mean, (new.T @ new).numpy(), self.first))

    def join(self, other: "PairMoments") -> None:
        """Add the moments of other rows."""
        total = self.weight + other.weight
        if not total:
            return
        step = other.mean - self.mean
        self.products += other.products
        self.products += np.outer(step, step) * (self.weight * other.weight / total)
        self.mean = self.mean + step * (other.weight / total)
        self.weight, self.rows = total, self.rows + other.rows

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> "PairMoments":
        """Of rows x (n, p), y (n, q)."""
        found = cls.empty(x.shape[1], y.shape[1])
        found.add(x, y, weights)
        return found

    @classmethod
    def without_each(cls, parts: Sequence["PairMoments"]) -> list["PairMoments"]:
        """Of all parts but the first, but the second, ..."""
        found = []
        for left_out in range(len(parts)):
            rest = cls.empty(parts[0].first, len(parts[0].mean) - parts[0].first)
            for number, part in enumerate(parts):
                if number != left_out:
                    rest.join(part)
            found.append(rest)
        return found

    @property
    def xx(self) -> np.ndarray:
        """Centered products of x, (p, p)."""
        return self.products[: self.first, : self.first]

    @property
    def yy(self) -> np.ndarray:
        """Centered products of y, (q, q)."""
        return self.products[self.first :, self.first :]

    @property
    def xy(self) -> np.ndarray:
        """Centered products of x and y, (p, q)."""
        return self.products[: self.first, self.first :]

    @property
    def scale(self) -> np.ndarray:
        """Standard deviations of all columns, (p + q,)."""
        return np.sqrt(np.diagonal(self.products) / max(self.weight, np.finfo(np.float64).tiny))

    def scaled(self, scale: np.ndarray) -> "PairMoments":
        """Those of the columns divided by scales (p + q,)."""
        return PairMoments(
            self.rows, self.weight, self.mean / scale, self.products / np.outer(scale, scale), self.first
        )
