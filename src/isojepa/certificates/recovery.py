r"""Recovery: how far embeddings h are from a linear map, and from a rotation, of the latents z.

Every map is fitted on the first half of the rows and scored on the second, in one pass over both.

    r2_h_to_z            R^2 of z regressed on h: can the latents be read off linearly?
    r2_z_to_h            R^2 of h regressed on z: is the embedding nothing but the latents?
    r2_orthogonal        R^2 of z predicted by a rotation and translation of h
    gap                  r2_h_to_z - r2_orthogonal: what a linear map gains over a rotation
    orthogonality_error  |Q^T Q - I|_F / sqrt(n) of the fitted h ~ Q z; noise in the fit adds to it
    procrustes_error     E |h - E h - Q (z - E z)|^2 for the best orthogonal Q: the left side of Theorem 3

R^2 is the mean over dimensions. Reference: Klindt, LeCun & Balestriero (2026), Appendix H.

The numbers are those of the fitted map on held-out rows; the intervals are for the population's best map. A
fitted map does worse on the other half than that one, and better on its own half. In many dimensions, with
g unknowns per row, the factors are 1 / (1 - g) and 1 - g, so the error of the best map is close to

    q = sqrt(q_fit q_held_out)            of the shares q = 1 - R^2, or of the squared errors.

Its logarithm has an interval by the jackknife over 20 blocks of successive held-out rows (Student's t), less
the jackknife's bias; both halves are taken to vary alike, which halves the variance. Squared errors have long
tails: rare rows decide the mean, and a symmetric interval ends too early. With s the skewness of the
estimate, that of single rows over the square root of their number, the ends are those of Hall's
transformation (Hall 1992, "On the removal of skewness by transformation"), which solves

    x + s x^2 / 3 + s^2 x^3 / 27 + s / 6 = +-t,

or the logarithm's, whichever is farther. The skewness of a sample of such rows is too small, so s is taken
half as large again, and for shares it is at least that of the squared residuals. Where even the mean square
of inputs, outputs or residuals is not known to a fifth, the rows that decide may all be missing: `few` names
such numbers, and their intervals are all they can be. `tests/certificates/coverage.py` counts how often the
intervals hold.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
import torch

from isojepa.certificates.pairs import PairRows, RowBlock, block_edges
from isojepa.linear import ROUNDING, Factor, LinearMap, nearest_rotation, r2_of
from isojepa.statistics.intervals import Interval, from_blocks
from isojepa.validation import check_number, validate_types

MAX_SQUARE_ERROR = 0.2  # relative error of a mean square, above which the rows that decide may be missing
MIN_ROWS_PER_UNKNOWN = 2  # below which a map is hardly determined
SKEWNESS_FACTOR = 1.5  # the skewness of a sample is too small
MIN_TAIL_ROWS = 4096  # of one piece, whose tails are measured
_EXACT = 1e-9  # deviation of residuals over that of outputs, below which they are rounding
_TINY = float(np.finfo(np.float64).tiny)

_Kind = Literal["share", "error"]  # 1 - R^2, or the mean squared distance


@dataclass(frozen=True)
class Recovery:
    """Held-out recovery of latents.

    Attributes:
        r2_h_to_z, r2_z_to_h: R^2 of one regressed on the other.
        r2_per_latent, r2_per_embedding: the same for each output.
        r2_orthogonal, gap, orthogonality_error, procrustes_error: None where h and z have other dimensions.
        few: names of the numbers above for which there are too few rows: their intervals hold all that the
            number can be.
    """

    r2_h_to_z: Interval
    r2_z_to_h: Interval
    r2_per_latent: tuple[float, ...]
    r2_per_embedding: tuple[float, ...]
    r2_orthogonal: Interval | None
    gap: Interval | None
    orthogonality_error: Interval | None
    procrustes_error: Interval | None
    few: tuple[str, ...] = ()


@validate_types
def measure_recovery(h: np.ndarray, z: np.ndarray, confidence: float = 0.95) -> Recovery:
    """Measure how well h recovers z.

    Args:
        h: (n, m) embeddings.
        z: (n, d) latents.
        confidence: of the intervals.
    """
    check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    pairs = PairRows(h, z=z)
    reading = RecoveryReading(pairs)
    for block in pairs.blocks(reading.edges):
        reading.add(block)
    return reading.result(confidence)


class RecoveryReading:
    """Recovery measured while the rows pass by: maps are fitted at the end of the first half.

    Args:
        pairs: rows with latents.

    Raises:
        ValueError: fewer than 4 rows: a half would have no variance.
    """

    def __init__(self, pairs: PairRows) -> None:
        if pairs.latent_dim is None:
            raise ValueError("recovery needs latents")
        if len(pairs) < 4:
            raise ValueError(
                f"at least 4 samples are needed to fit on one half and score on the other, got {len(pairs)}"
            )
        self.edges = block_edges(len(pairs), pairs.dim)
        self._half = len(pairs) // 2
        self._square = pairs.latent_dim == pairs.dim
        self._factor: Factor | None = None
        self._moments: dict[int, np.ndarray] = {}  # of the blocks of the first half
        self._maps: dict[str, _HeldOutErrors] = {}

    def add(self, block: RowBlock) -> None:
        """Add rows that lie within one of the blocks that end at `edges`."""
        h, z, number = block.h, block.z, bisect_right(self.edges, block.start)
        if not len(h) or z is None:
            return
        if block.start < self._half:
            if self._factor is None:
                self._factor = Factor(h.mean(0), z.mean(0))
            self._factor.add(h, z)
            if self._square:
                ones = np.ones((len(h), 1))
                rows = np.hstack((z - self._factor.offset, ones, h - self._factor.center))
                products = rows[:, : z.shape[1] + 1].T @ rows
                self._moments[number] = self._moments.get(number, 0.0) + products
            return
        if not self._maps and self._factor is not None and self._factor.n >= 2:
            self._maps = _fit_maps(self._factor, self._square)
        for name, errors in self._maps.items():
            errors.add(*((h, z) if name in _TO_LATENTS else (z, h)), number)

    def result(self, confidence: float) -> Recovery:
        """The recovery of all rows.

        Raises:
            ValueError: one of the halves has too few usable rows.
        """
        maps = self._maps
        if not maps or maps["h_to_z"].held_out_rows < 2:
            raise ValueError("at least 2 samples without NaN or Inf are needed in each half")
        if len(maps["h_to_z"].sums) < 2:
            raise ValueError(
                "samples without NaN or Inf lie too close together in the second half to compare blocks of it"
            )
        intervals, few = {}, []
        for name, (low, high, rests_on) in _NUMBERS.items():
            if any(one not in maps for one in rests_on):
                continue
            errors = [maps[one] for one in rests_on]
            if name == "gap":
                interval = _gap(errors[0], errors[1], confidence)
            elif name == "procrustes_error":
                interval = errors[0].interval("error", confidence)
            else:
                share = errors[0].interval("share", confidence)
                interval = Interval(float(errors[0].per_output().mean()), 1 - share.high, 1 - share.low)
            if any(one.few("error" if name == "procrustes_error" else "share") for one in errors):
                few.append(name)
                value = interval.estimate
                interval = Interval(value, min(low, value), max(high, value))
            intervals[name] = interval
        return Recovery(
            **{name: intervals.get(name) for name in _NUMBERS},  # type: ignore[arg-type]
            r2_per_latent=tuple(maps["h_to_z"].per_output().tolist()),
            r2_per_embedding=tuple(maps["z_to_h"].per_output().tolist()),
            orthogonality_error=_orthogonality(list(self._moments.values()), confidence),
            few=tuple(few),
        )


_TO_LATENTS = ("h_to_z", "h_rotated")
_NUMBERS: dict[str, tuple[float, float, tuple[str, ...]]] = {  # range, and the maps that a number rests on
    "r2_h_to_z": (0.0, 1.0, ("h_to_z",)),  # the best linear map is no worse than a constant
    "r2_z_to_h": (0.0, 1.0, ("z_to_h",)),
    "r2_orthogonal": (-math.inf, 1.0, ("h_rotated",)),
    "gap": (0.0, math.inf, ("h_to_z", "h_rotated")),
    "procrustes_error": (0.0, math.inf, ("z_rotated",)),
}


def _fit_maps(factor: Factor, square: bool) -> dict[str, "_HeldOutErrors"]:
    """The maps of the first half, ready to be scored."""
    h_to_z, z_to_h = factor.maps()
    maps = {"h_to_z": h_to_z, "z_to_h": z_to_h}
    if square:
        rotation = nearest_rotation(factor.products())
        maps["h_rotated"] = LinearMap(rotation, h_to_z.center, h_to_z.offset)
        maps["z_rotated"] = LinearMap(rotation.T, z_to_h.center, z_to_h.offset)
    return {
        name: _HeldOutErrors(one, factor.n, *factor.errors(one, back=name not in _TO_LATENTS))
        for name, one in maps.items()
    }


class _HeldOutErrors:
    """Sums of the errors of a fitted map over blocks of held-out rows.

    Args:
        linear: the map.
        rows: that it was fitted to.
        residual, spread: (out,) means of squared residuals, and of squares about the mean, on those rows.
        inputs: (in,) mean squares of the inputs about theirs.
    """

    def __init__(
        self, linear: LinearMap, rows: int, residual: np.ndarray, spread: np.ndarray, inputs: np.ndarray
    ) -> None:
        self.linear, self._rows = linear, rows
        flat = np.sqrt(spread) <= ROUNDING * np.abs(linear.offset)
        shares = _shares(residual, np.where(flat, 0.0, spread))
        self._fitted: dict[_Kind, float] = {"share": float(shares.mean()), "error": float(residual.sum())}
        self._exact = bool(residual.sum() <= _EXACT**2 * spread.sum())
        # an exact fit has errors on other rows that are any multiple of its own
        self._scales = (inputs, spread, np.maximum(residual, _EXACT**2 * spread))
        self._weights = shares / max(float(shares.sum()), _TINY)
        self._tails = [np.zeros((2, len(one))) for one in self._scales]  # second and fourth powers
        self._powers = {"share": np.zeros(4), "error": np.zeros(4)}  # of the rows' parts in an error, 0 to 3
        self.sums: dict[int, np.ndarray] = {}  # rows, residuals, deviations, squared deviations
        self._low, self._high = np.full((2, len(spread)), math.inf) * [[1], [-1]]  # values of the outputs

    def add(self, x: np.ndarray, y: np.ndarray, block: int) -> None:
        """Add rows x (n, in) and y (n, out) of one block."""
        squares, deviation = (y - self.linear(x)) ** 2, y - self.linear.offset
        sums = np.stack(
            (np.full(y.shape[1], len(y)), squares.sum(0), deviation.sum(0), (deviation**2).sum(0))
        )
        self.sums[block] = self.sums.get(block, 0.0) + sums
        self._low, self._high = np.minimum(self._low, y.min(0)), np.maximum(self._high, y.max(0))
        rows = slice(None, None, max(1, len(x) // MIN_TAIL_ROWS))
        inputs = x[rows] - self.linear.center
        # powers of numbers over those of the fitted rows: none is too large
        parts = [
            _over(*one)
            for one in zip((inputs**2, deviation[rows] ** 2, squares[rows]), self._scales, strict=True)
        ]
        for tails, part in zip(self._tails, parts, strict=True):
            tails += part.sum(0), (part**2).sum(0)
        total = squares[rows].sum(1, keepdims=True)
        by_kind = {
            "share": (parts[2] - parts[1]) @ self._weights,
            "error": _over(total, self._scales[2].sum(keepdims=True))[:, 0] - 1,
        }
        for kind, values in by_kind.items():
            square = values**2
            self._powers[kind] += len(values), values.sum(), square.sum(), (square * values).sum()

    @property
    def held_out_rows(self) -> int:
        """Rows that were scored."""
        return int(sum(sums[0, 0] for sums in self.sums.values()))

    def per_output(self) -> np.ndarray:
        """(out,) R^2 of each output."""
        residual, spread = self._means()
        return r2_of(residual[0], spread[0])

    def few(self, kind: _Kind) -> bool:
        """Whether there are too few rows for an interval."""
        if self._rows < MIN_ROWS_PER_UNKNOWN * (len(self.linear.center) + 1):
            return True
        if self._exact:  # the tails of rounding say nothing
            return False
        rows, error = self._powers[kind][0], 0.0
        for second, fourth in self._tails:
            kurtosis = rows * fourth / np.where(second > 0, second, 1.0) ** 2
            error = max(error, float(np.sqrt(np.maximum(kurtosis - 1, 0.0)).mean()))
        return error / math.sqrt(self._effective(kind)) > MAX_SQUARE_ERROR

    def center(self, kind: _Kind) -> float:
        """The error of the best map of the population."""
        fitted, held_out = self._fitted[kind], float(self.left_out(kind)[0])
        if min(fitted, held_out) <= 0:
            return max(fitted, held_out)
        bias = float(np.clip(_jackknife(self.left_out(kind))[1], -0.5, 0.5))  # wild blocks say little of it
        return math.sqrt(fitted) * math.sqrt(held_out) * math.exp(-bias)

    def interval(self, kind: _Kind, confidence: float) -> Interval:
        """Of the error of the best map, with the held-out error of the fitted one as its estimate."""
        held_out, center = float(self.left_out(kind)[0]), self.center(kind)
        if min(self._fitted[kind], held_out) <= 0:  # nothing is left over: nothing is uncertain
            return Interval(held_out, min(held_out, 0.0), max(center, held_out))
        error = self._error(kind)
        t = float(scipy.special.stdtrit(len(self.sums) - 1, 0.5 + confidence / 2))
        skewness = max(0.0, self._moments(kind)[1], self._moments("error")[1])
        low, high = skewed_ends(error, SKEWNESS_FACTOR * skewness / math.sqrt(self._effective(kind)), t)
        low, high = min(max(low, 0.0), math.exp(-t * error)), max(high, math.exp(min(t * error, 700.0)))
        return Interval(held_out, min(center * low, held_out), max(center * high, held_out))

    def left_out(self, kind: _Kind) -> np.ndarray:
        """(1 + blocks,) the error on all held-out rows, then without each block."""
        residual, spread = self._means()
        return np.asarray(residual.sum(1) if kind == "error" else _shares(residual, spread).mean(1))

    def _means(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean squares of residuals and outputs, (1 + blocks, out): of all rows, then without each block."""
        sums = np.stack(list(self.sums.values()))
        n, residual, first, second = np.concatenate((sums.sum(0)[None], sums.sum(0) - sums)).swapaxes(0, 1)
        size = np.maximum(np.abs(self._low), np.abs(self._high))
        flat = self._high - self._low <= ROUNDING * size  # the spread of a constant is rounding
        return residual / n, np.where(flat, 0.0, second / n - (first / n) ** 2)

    def _moments(self, kind: _Kind) -> tuple[float, float]:
        """Variance and skewness of the rows' parts in the error."""
        rows, *sums = self._powers[kind]
        first, second, third = np.array(sums) / max(rows, 1.0)
        variance = max(float(second - first**2), 0.0)
        central = float(third - 3 * first * second + 2 * first**3)
        return variance, central / variance**1.5 if variance > _EXACT**2 else 0.0

    def _error(self, kind: _Kind) -> float:
        """Standard error of the logarithm, at least that of independent rows."""
        independent = math.sqrt(self._moments(kind)[0] / (self._rows + self.held_out_rows))
        return max(_jackknife(self.left_out(kind))[0] / math.sqrt(2), independent)

    def _effective(self, kind: _Kind) -> float:
        """Independent rows with the same standard error, at most all rows."""
        rows, variance = self._rows + self.held_out_rows, self._moments(kind)[0]
        return float(rows) if variance <= _EXACT**2 * rows else variance / self._error(kind) ** 2


def skewed_ends(error: float, skewness: float, t: float) -> tuple[float, float]:
    """Ends of an interval around 1, for an estimate with a standard error and a skewness of 0 or more.

    The transformation bends back where skewness is large, so the upper end is the farthest up to there.
    """
    grid = skewness * np.linspace(1e-3, 1, 64) + 1e-6
    low, high = (3 / grid * (np.cbrt(1 + grid * (x - grid / 6)) - 1) for x in (t, -t))
    return float(1 - low[-1] * error), float(1 - high.min() * error)


def _jackknife(values: np.ndarray) -> tuple[float, float]:
    """Standard error and bias of a value, over the value, by those without each block."""
    whole, blocks = values[0], len(values) - 1
    if whole <= 0:
        return 0.0, 0.0
    relative = values[1:] / whole
    variance = (blocks - 1) / blocks * ((relative - relative.mean()) ** 2).sum()
    return math.sqrt(variance), float((blocks - 1) * (relative.mean() - 1))


def _gap(linear: _HeldOutErrors, rotation: _HeldOutErrors, confidence: float) -> Interval:
    """What the best linear map gains in R^2 over the best rotation."""
    values = rotation.left_out("share") - linear.left_out("share")
    center, estimate = rotation.center("share") - linear.center("share"), float(values[0])
    reach = from_blocks(0.0, values[1:], confidence).high / math.sqrt(2)
    return Interval(estimate, min(center - reach, estimate), max(center + reach, estimate))


def _shares(residual: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """1 - R^2 of each output, as exact as it can be; 1 where there is no spread."""
    flat = spread <= _TINY
    return np.asarray(np.where(flat, 1.0, residual / np.where(flat, 1.0, spread)))


def _over(squares: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Squares over their means on the fitted rows; 0 where those are nothing."""
    small = means <= _TINY
    return np.asarray(np.where(small, 0.0, squares / np.where(small, 1.0, means)))


def _orthogonality(moments: list[np.ndarray], confidence: float) -> Interval | None:
    """|Q^T Q - I|_F / sqrt(n) of the least-squares map h ~ Q z, with a jackknife interval.

    Args:
        moments: of each block, the products of (z, 1) with (z, 1, h), about points near the means.
        confidence: of the interval.
    """
    if len(moments) < 2:
        return None
    total, dim = np.sum(moments, axis=0), len(moments[0]) - 1
    if total[dim, dim] < 2 * dim + 2:
        return None  # fewer rows than unknowns: the map is not determined

    def value(sums: np.ndarray) -> float:
        covariance = sums[:dim] - np.outer(sums[:dim, dim], sums[dim]) / sums[dim, dim]
        zz, zh = (torch.from_numpy(part) for part in (covariance[:, :dim], covariance[:, dim + 1 :]))
        q = torch.linalg.solve(zz, zh).numpy()
        off = q @ q.T - np.eye(dim)
        size = max(1.0, float(np.abs(off).max()))  # squares of huge numbers would overflow
        return float(size * np.linalg.norm(off / size) / np.sqrt(dim))

    try:
        return from_blocks(value(total), np.array([value(total - one) for one in moments]), confidence)
    except RuntimeError:  # latents that do not span their space determine no map
        return None
