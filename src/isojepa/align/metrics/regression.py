r"""How well a linear map predicts one embedding from the other, on states that it was not fitted on.

Rows are split into two halves, by state where ids are given. Both sides are centred and scaled by mean and
standard deviation of the first half, W is fitted there (Equations 3 and 4 of Social-JEPA), and on the
second half

    MSE    mean_n || z2_n - W z1_n ||^2        (Equation 6; summed over columns: about their number at chance)
    R^2    1 - sum_n || z2_n - W z1_n ||^2 / sum_n || z2_n - mean z2 ||^2

Chance: for given z1 and split the residuals are linear in z2, so that their sum of squares is a permutation
statistic (`permutations`) of Q = M' M and z2 z2', M the matrix that takes z2 to the residuals. Mean and
spread are exact for all rows re-paired and W fitted anew, without a single fit: R^2 at chance is 1 - tr Q /
(m - 1) with m rows that are scored, below 0 by about d1 / n, but for a term of second order, which is there
too. R^2 >= r is the same as T <= 0 for Q - (1 - r) H on the scored rows, which gives its p.

A map that is handed in is scored on all rows and held fixed: there, chance is what it predicts for the
wrong rows.

Intervals cover the score of this one map on all states; rows of one state count as one.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from isojepa.align.fits import Spectrum
from isojepa.align.maps import AlignmentMap
from isojepa.align.metrics.comparison import Comparison, Null, compared, pearson_tail
from isojepa.align.metrics.inputs import Pair, check_options, read_pair
from isojepa.align.metrics.permutations import COLUMNS, Form, moments
from isojepa.align.pairs import Split, split_states
from isojepa.arguments import check_number, checked
from isojepa.certificates.intervals import around, from_samples
from isojepa.seeds import generator


class Map(Protocol):
    """A map from the first embedding to the second and back, such as `AlignmentMap`."""

    def transform(self, X: Any) -> np.ndarray:
        """Rows of the first as the second would give them."""
        ...

    def inverse_transform(self, Y: Any) -> np.ndarray:
        """Rows of the second in the coordinates of the first."""
        ...


@checked
def mse(
    first: Any,
    second: Any,
    *,
    map: Any = None,
    ids: Any = None,
    ridge: float | None = None,
    confidence: float = 0.95,
    null: bool = True,
    draws: int | None = None,
    seed: int = 0,
    drop_constant: bool = False,
) -> Comparison:
    """Held-out mean squared error of the linear map from first to second, in standardised columns.

    Args:
        first, second: (n, d1) and (n, d2); more than d1 rows in a half unless there is a ridge.
        map: a map that is scored as it is, on all rows; by default one is fitted on a half.
        ids: (n,) states; a state is on one side of the split only.
        ridge: the penalty lambda of Equation 4; None for least squares.
        confidence: of the interval.
        null: whether to work out chance.
        draws: not used, for chance is exact; all comparisons take it.
        seed: of the split.
        drop_constant: leave out constant columns rather than refuse them.

    Raises:
        ValueError: the arrays are not as `read_pair` wants them, or too few rows for a fit without ridge.
    """
    return _scores(first, second, map, ids, ridge, confidence, null, seed, drop_constant, "MSE")[0]


@checked
def r2(
    first: Any,
    second: Any,
    *,
    map: Any = None,
    ids: Any = None,
    ridge: float | None = None,
    confidence: float = 0.95,
    null: bool = True,
    draws: int | None = None,
    seed: int = 0,
    drop_constant: bool = False,
) -> Comparison:
    """Held-out R^2 of the linear map from first to second. Arguments as for `mse`."""
    return _scores(first, second, map, ids, ridge, confidence, null, seed, drop_constant, "R2")[1]


def _scores(
    first: Any,
    second: Any,
    map: Map | None,
    ids: Any,
    ridge: float | None,
    confidence: float,
    null: bool,
    seed: int,
    drop_constant: bool,
    wanted: str,
) -> tuple[Comparison, Comparison]:
    check_options(confidence)
    pair = read_pair(first, second, drop_constant=drop_constant and map is None)
    if map is not None:
        return scores_of_map(pair, map, ids, confidence, null)
    split = split_states(pair.rows, ids, seed=seed)
    return Regression.of(pair, split, ridge).scores(ids, confidence, null, seed, pair.note, wanted)


@dataclass(frozen=True)
class Regression:
    """A map fitted on one half, with its errors on the other.

    Attributes:
        split: which rows are where.
        fitted: z1 of the first half, standardised, (a, d1).
        weights: (z1' z1 + lambda)^-1 z1_m of the scored rows, (d1, m).
        second: z2 of both halves, fitted before scored, standardised, (n, d2).
        residual: (m, d2).
    """

    split: Split
    fitted: Tensor
    weights: Tensor
    second: Tensor
    residual: Tensor

    @classmethod
    def of(cls, pair: Pair, split: Split, ridge: float | None) -> "Regression":
        """Fit and predict.

        Raises:
            ValueError: there are too few rows for a fit without ridge, or ridge is negative.
        """
        a, width = len(split.fit), pair.first.shape[1]
        penalty = 0.0 if ridge is None else check_number("ridge", ridge, "be at least 0", lambda v: v >= 0)
        if not penalty and a < width + 2:
            raise ValueError(
                f"first must have at least 2 rows more to fit on than columns, got {a} and {width}: bring "
                "more states, or say ridge=1.0 (or more), which is required below that"
            )
        if len(split.score) < 3:
            raise ValueError(f"at least 3 rows are needed to score on, got {len(split.score)}")
        x, y = (_standardised(rows, split) for rows in (pair.first, pair.second))
        fitted, scored = x[:a], x[a:]
        spectrum = Spectrum.of((fitted.T @ fitted).numpy())
        matrix = torch.from_numpy(spectrum.solve((fitted.T @ y[:a]).numpy(), penalty))
        weights = torch.from_numpy(spectrum.solve(scored.T.contiguous().numpy(), penalty))
        return cls(split, fitted, weights, y, y[a:] - scored @ matrix)

    @property
    def r2(self) -> float:
        """Of the scored rows."""
        return 1 - float(self.residual.square().sum() / _deviations(self._scored).sum())

    @property
    def _scored(self) -> Tensor:
        return self.second[len(self.fitted) :]

    def scores(
        self, ids: Any, confidence: float, null: bool, seed: int, note: str, wanted: str = "both"
    ) -> tuple[Comparison, Comparison]:
        """MSE and R^2; chance of the one that is wanted, "MSE", "R2" or "both"."""
        states = None if ids is None else np.asarray(ids)[self.split.score]
        errors, spread = self.residual.square().sum(1), _deviations(self._scored)
        nulls = self._nulls(seed, wanted) if null else (None, None)
        return _compared(errors, spread, states, confidence, nulls, note)

    def _nulls(self, seed: int, wanted: str) -> tuple[Null | None, Null | None]:
        n = len(self.second)
        columns = torch.randperm(n, generator=generator(seed, "columns"))[:COLUMNS]
        # columns are scaled by all rows here: the scale of the fitted ones changes when rows are re-paired
        scale = self.second.std(0, correction=0)
        second, residual = self.second / scale, self.residual / scale
        gram = _gram_form(second, columns)
        error = float(residual.square().sum())
        found = self._null_mse, self._null_r2
        mse, r2 = (
            null(second, error, gram, columns) if wanted in ("both", name) else None
            for name, null in zip(("MSE", "R2"), found, strict=True)
        )
        return mse, r2

    def _null_mse(self, second: Tensor, error: float, gram: Form, columns: Tensor) -> Null:
        """MSE is divided by the variance of the fitted rows, which counts to first order in spread and p."""
        a, m, n = len(self.fitted), len(self.residual), len(second)
        size, trace = float(_deviations(second).sum()) / (n - 1), self._trace()
        share = error / float(_deviations(second[:a]).sum())
        _, deviation, skewness = moments(self._form(0.0, columns, share), gram)
        # small errors are good: the lower tail
        p = pearson_tail(0.0, (share * (a - 1) - trace) * size, deviation, -skewness)
        unit = trace / (a - 1)
        spread = moments(self._form(0.0, None, unit), gram)[1] / ((a - 1) * size)
        # the mean to second order, with the kurtosis of columns
        extra = 1 + (float(((second - second.mean(0)) ** 4).mean()) - 1) / a
        wide = second.shape[1] * a / m
        return Null(extra * unit * wide, spread * wide, p, "exact moments")

    def _null_r2(self, second: Tensor, error: float, gram: Form, columns: Tensor) -> Null:
        m, n = len(self.residual), len(second)
        size, trace = float(_deviations(second).sum()) / (n - 1), self._trace()
        share = error / float(_deviations(second[-m:]).sum())
        _, deviation, skewness = moments(self._form(share, columns), gram)
        p = pearson_tail(0.0, (share * (m - 1) - trace) * size, deviation, -skewness)
        mean, deviation = self._ratio(trace / (m - 1), (m - 1) * size, gram)
        return Null(1 - mean, deviation, p, "exact moments")

    def _ratio(self, share: float, expected: float, gram: Form) -> tuple[float, float]:
        """Mean to second order, and spread to first, of errors over deviations, both re-paired."""
        around_it = [moments(self._form(share * factor, None), gram)[1] for factor in (1.0, 0.5, 1.5)]
        with_spread = (around_it[1] ** 2 - around_it[2] ** 2) / (2 * share)  # covariance, by polarisation
        return share - with_spread / expected**2, around_it[0] / expected

    @functools.cached_property
    def _sides(self) -> tuple[Tensor, Tensor]:
        """Features (a, d1 + 1) and (m, d1 + 1) whose products say how fitted rows enter the predictions."""
        a, m = len(self.fitted), len(self.residual)
        fitted = torch.cat((torch.full((a, 1), 1 / a, dtype=torch.float64), self.fitted), 1)
        return fitted, torch.cat((torch.ones(m, 1, dtype=torch.float64), self.weights.T), 1)

    @functools.cached_property
    def _products(self) -> tuple[Tensor, Tensor, Tensor]:
        """Products of the scored features, of both, and what a fitted row has on the diagonal of Q, (a,)."""
        fitted, scored = self._sides
        other = scored.T @ scored
        return other, (fitted.T @ fitted) @ other, ((fitted @ other) * fitted).sum(1)

    def _trace(self) -> float:
        return len(self.residual) + float(self._products[1].trace())

    def _form(self, share: float, columns: Tensor | None, held: float = 0.0) -> Form:
        """Of Q - share H on the scored rows - held H on the fitted ones, less what makes the trace 0."""
        fitted, scored = self._sides
        a, m, n = len(fitted), len(scored), len(self.second)
        _, product, enters = self._products
        trace = m + float(product.trace()) - share * (m - 1) - held * (a - 1)
        shift = trace / (n - 1)
        square = m + 2 * float(product.trace()) + float((product * product.T).sum())
        square += (share**2 - 2 * share) * (m - 1) - shift * trace
        square += held**2 * (a - 1) - 2 * held * (float(product.trace()) - m / a)
        diagonal = torch.full((n,), 1 - share * (1 - 1 / m), dtype=torch.float64)
        diagonal[:a] = enters - held * (1 - 1 / a)

        def apply(v: Tensor) -> Tensor:
            left = v[a:] - scored @ (fitted.T @ v[:a])
            into = -fitted @ (scored.T @ left) - held * (v[:a] - v[:a].mean(0))
            both = torch.cat((into, left - share * (v[a:] - v[a:].mean(0))))
            return both - shift * (v - v.mean(0))

        return Form.of(apply, diagonal - shift * (1 - 1 / n), square, columns=columns)


def scores_of_map(
    pair: Pair, map: Map, ids: Any, confidence: float, null: bool
) -> tuple[Comparison, Comparison]:
    """MSE and R^2 of a map as it is, on all rows."""
    scale = map.scale_out_ if isinstance(map, AlignmentMap) else pair.second.std(0).numpy()
    predicted = torch.from_numpy(np.asarray(map.transform(pair.first.numpy())) / scale)
    second = pair.second / torch.from_numpy(np.asarray(scale))
    errors, spread = (second - predicted).square().sum(1), _deviations(second)
    nulls: tuple[Null | None, Null | None] = (None, None)
    if null:
        n = len(second)
        x, y = predicted - predicted.mean(0), second - second.mean(0)
        apart = float((predicted.mean(0) - second.mean(0)).square().sum())
        mean = float(x.square().sum() + y.square().sum()) / n + apart
        deviation = 2 * math.sqrt(float(((x.T @ x) * (y.T @ y)).sum()) / (n - 1)) / n
        p = pearson_tail(-float(errors.mean()), -mean, deviation)
        how, size = "exact moments, the map held fixed", float(spread.mean())
        nulls = Null(mean, deviation, p, how), Null(1 - mean / size, deviation / size, p, how)
    states = None if ids is None else np.asarray(ids)
    return _compared(errors, spread, states, confidence, nulls, pair.note)


def _compared(
    errors: Tensor,
    spread: Tensor,
    states: np.ndarray | None,
    confidence: float,
    nulls: tuple[Null | None, Null | None],
    note: str,
) -> tuple[Comparison, Comparison]:
    """MSE and R^2 from squared errors and squared deviations of the scored rows, (m,)."""
    error, size = float(errors.mean()), float(spread.mean())
    if not size > 0:
        raise ValueError("second must vary among the rows that are scored, got equal rows")
    share, n = error / size, len(errors)
    added = [(errors - error).numpy(), ((share * spread - errors) / size).numpy()]
    if states is not None and len(known := np.unique(states, return_inverse=True)[1]) and known.max() + 1 < n:
        added = [np.bincount(known, weights=part) for part in added]
        note = "; ".join(filter(None, (note, "rows of one state are re-paired one by one: p is too small")))
    intervals = []
    for estimate, part in zip((error, 1 - share), added, strict=True):
        if len(part) == n:
            intervals.append(from_samples(part, confidence, estimate))
        else:  # sums over states
            intervals.append(around(estimate, math.sqrt(float((part**2).sum())) / n, confidence))
    return (
        compared("MSE", intervals[0], nulls[0], best=0.0, rows=n, note=note),
        compared("R2", intervals[1], nulls[1], best=1.0, rows=n, note=note),
    )


def _standardised(rows: Tensor, split: Split) -> Tensor:
    """All rows, fitted before scored, by mean and deviation of the fitted."""
    ordered = rows[torch.from_numpy(np.concatenate((split.fit, split.score)))]
    fitted = ordered[: len(split.fit)]
    scale = fitted.std(0, correction=0)
    if not bool((scale > 0).all()):
        raise ValueError(
            "columns must vary among the rows that are fitted on, got a constant one there: bring more states"
        )
    return (ordered - fitted.mean(0)) / scale


def _deviations(rows: Tensor) -> Tensor:
    return (rows - rows.mean(0)).square().sum(1)


def _gram_form(rows: Tensor, columns: Tensor) -> Form:
    """Of the centred Gram matrix, less a multiple of the centring matrix that makes its trace 0."""
    x = rows - rows.mean(0)
    n, lengths = len(x), x.square().sum(1)
    shift = float(lengths.sum()) / (n - 1)
    products = x.T @ x if n >= x.shape[1] else x @ x.T
    square = float(products.square().sum()) - shift * float(lengths.sum())
    return Form.of(
        lambda v: x @ (x.T @ v) - shift * (v - v.mean(0)),
        lengths - shift * (1 - 1 / n),
        square,
        columns=columns,
    )
