r"""The singular values of W beside those that pairs of unrelated states would give (Figure 9).

For white inputs (N, d) and white targets (N, q) that have nothing to do with each other, least squares gives

    W W^T = G (X X^T)^-1 G^T,

a Fisher matrix: with y = d / (N - 1), c = d / q and h^2 = c + y - c y the squares of the singular values fill

    (q / (N - 1)) [(1 - h)^2, (1 + h)^2] / (1 - y)^2

(Wachter 1980; Bai & Silverstein 2010, theorem 4.10), the place of the Marchenko-Pastur law for regression.
Values above its end are those that the pairs support. For inputs that are not white, or with a penalty, the
reference is drawn: the same fit with the signal taken out, whose quantiles are given.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from isojepa.alignment.maps import AlignmentMap
from isojepa.alignment.pairs import as_rows, check_pairs
from isojepa.seeds import numpy_generator
from isojepa.validation import check_count

DRAWS = 20


@dataclass(frozen=True)
class UnrelatedLaw:
    """Singular values of a white map between unrelated embeddings.

    Attributes:
        pairs, first, second: N, d and q.
    """

    pairs: int
    first: int
    second: int

    def __post_init__(self) -> None:
        for name in ("pairs", "first", "second"):
            check_count(name, getattr(self, name))
        if self.pairs - 1 <= self.first:
            raise ValueError(
                f"pairs must be more than the first's dimensions and one, {self.first + 1}, got {self.pairs}"
            )

    @property
    def edges(self) -> tuple[float, float]:
        """The ends of the bulk; beside it there are zeros where q < d.

        Example:
            >>> tuple(round(edge, 3) for edge in UnrelatedLaw(1001, 100, 100).edges)
            (0.0, 0.703)
        """
        y, c, scale = self._ratios()
        h = math.sqrt(c + y - c * y)
        root = math.sqrt(scale) / (1 - y)
        return root * abs(1 - h), root * (1 + h)

    def density(self, values: np.ndarray) -> np.ndarray:
        """Density of the nonzero singular values, which integrates to 1."""
        y, c, scale = self._ratios()
        low, high = (edge**2 / scale for edge in self.edges)
        squares = np.asarray(values, dtype=float) ** 2 / scale
        inside = (squares > low) & (squares < high)
        place = np.where(inside, squares, (low + high) / 2)
        height = (1 - y) * np.sqrt(np.maximum((high - place) * (place - low), 0.0))
        height /= 2 * math.pi * place * (c + y * place)
        slope = 2 * np.asarray(values, dtype=float) / scale  # from squares back to values
        return np.where(inside, height * slope * max(1.0, c), 0.0)

    def _ratios(self) -> tuple[float, float, float]:
        rows = self.pairs - 1
        return self.first / rows, self.first / self.second, self.second / rows


@dataclass(frozen=True)
class MapSpectrum:
    """The spectrum of a map and of unrelated pairs.

    Attributes:
        values: singular values of W, largest first.
        typical: medians of those of unrelated pairs, drawn by re-pairing, largest first.
        edge: 95 % quantile of their largest.
        white_edge: the end of the law for white embeddings; None where N - 1 <= d.
        supported: values above the edge.
        condition, orthogonality: of the map.
        pairs: N.
    """

    values: tuple[float, ...]
    typical: tuple[float, ...]
    edge: float
    white_edge: float | None
    supported: int
    condition: float
    orthogonality: float
    pairs: int

    def rows(self) -> list[dict[str, Any]]:
        """One record for each singular value."""
        beside = zip(self.values, self.typical, strict=True)
        return [
            {"index": index + 1, "value": value, "unrelated": other, "edge": self.edge}
            for index, (value, other) in enumerate(beside)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return asdict(self)


def map_spectrum(
    first: Any,
    second: Any,
    *,
    kind: str = "ridge",
    ridge: float | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> MapSpectrum:
    """The spectrum of the map between two embeddings, and of the same fit after re-pairing at random.

    Args:
        first, second: (n, d) and (n, q) embeddings of the same states, in one order.
        kind: "ols" or "ridge".
        ridge: its penalty; None chooses it by generalized cross-validation; re-paired fits have the same one.
        draws: of the pairing.
        seed: of the draws.

    Raises:
        ValueError: rows do not match, are not finite or too few.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(400, 6))
        >>> spectrum = map_spectrum(x, x @ np.diag([1, 1, 1, 1, 1, 0.01]) + 0.1 * x[::-1], kind="ols")
        >>> spectrum.supported
        5
    """
    check_count("draws", draws)
    check_pairs(first, second)
    x, y = as_rows("first", first), as_rows("second", second)
    fitted = AlignmentMap(kind, ridge=ridge).fit(x, y)
    same = AlignmentMap(kind, ridge=fitted.ridge_ if kind == "ridge" else None)
    values = []
    for index in range(draws):
        rng = numpy_generator(seed, "stress", "unrelated", index)
        values.append(same.fit(x, y[rng.permutation(len(y))]).singular_values_)
    unrelated = np.array(values)
    edge = float(np.quantile(unrelated[:, 0], 0.95))
    white = None
    if len(x) - 1 > x.shape[1]:
        white = UnrelatedLaw(len(x), x.shape[1], y.shape[1]).edges[1]
    singular = fitted.singular_values_
    return MapSpectrum(
        values=tuple(singular.tolist()),
        typical=tuple(np.median(unrelated, axis=0).tolist()),
        edge=edge,
        white_edge=white,
        supported=int((singular > edge).sum()),
        condition=fitted.condition_,
        orthogonality=fitted.orthogonality_,
        pairs=len(x),
    )
