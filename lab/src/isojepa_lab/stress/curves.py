"""A stress test's result: for each setting the measured numbers with intervals, and the predicted ones."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from isojepa.alignment.maps import AlignmentMap
from isojepa.alignment.pairs import as_rows, check_pairs, split_states
from isojepa.seeds import numpy_generator
from isojepa.validation import check_count, check_number
from isojepa_lab.stress.model import PREDICTED, PairModel, StressSetting
from isojepa_lab.stress.quality import ROWS, Quality, measure

Fit = Callable[[np.ndarray, np.ndarray], AlignmentMap]


@dataclass(frozen=True)
class StressPlan:
    """How maps are fitted, repeated and measured.

    Attributes:
        kind: of the map, as for `AlignmentMap`.
        ridge: its penalty; None chooses it by generalized cross-validation.
        share: fraction of the states to fit on; the others are held out.
        repeats: draws of the pairs, or splits where no pairs are drawn.
        seed: of all of it.
        ks: numbers of neighbors.
        rows: held-out rows whose distances and neighbors are compared, at most; no more than are fitted on.
        predict: whether to predict, for which the fitted states must outnumber the dimensions by 3; only for
            the kinds ols and ridge.
        confidence: of the intervals.
        fit: another way to fit, such as a robust one; predicted as if it were of this kind.
    """

    kind: str = "ridge"
    ridge: float | None = None
    share: float = 0.5
    repeats: int = 5
    seed: int = 0
    ks: tuple[int, ...] = (10,)
    rows: int = ROWS
    predict: bool = True
    confidence: float = 0.95
    fit: Fit | None = None

    def __post_init__(self) -> None:
        check_count("repeats", self.repeats)
        check_count("rows", self.rows, 4)
        check_number("confidence", self.confidence, "lie between 0 and 1", lambda value: 0 < value < 1)
        for k in self.ks:
            check_count("ks", k)
        AlignmentMap(self.kind, ridge=self.ridge)

    @property
    def predicted(self) -> bool:
        """Whether predictions are made."""
        return self.predict and self.kind in PREDICTED

    def fitted(self, first: np.ndarray, second: np.ndarray) -> AlignmentMap:
        """A map of these pairs."""
        if self.fit is not None:
            return self.fit(first, second)
        return AlignmentMap(self.kind, ridge=self.ridge).fit(first, second)

    def setting(self, pairs: int, mismatch: float = 0.0) -> StressSetting:
        """What is predicted for."""
        return StressSetting(pairs, self.kind, self.ridge, mismatch)

    def rng(self, *stream: str | int) -> np.random.Generator:
        """A named stream of the seed."""
        return numpy_generator(self.seed, "stress", *stream)


PLAN = StressPlan()


@dataclass(frozen=True)
class Bench:
    """Pairs that may be fitted on and pairs that are held out, of other states.

    Attributes:
        first, second: (n, d) and (n, q) to fit on.
        ids: (n,) numbers of their states.
        held_first, held_second: held out.
        like: a map of all pairs to fit on, whose means and scales standardize all columns.
    """

    first: np.ndarray
    second: np.ndarray
    ids: np.ndarray
    held_first: np.ndarray
    held_second: np.ndarray
    like: AlignmentMap

    @classmethod
    def of(cls, first: Any, second: Any, ids: Any, plan: StressPlan, seed: int | None = None) -> "Bench":
        """Split pairs by state.

        Raises:
            ValueError: rows do not match, are not finite, or are too few.
        """
        check_pairs(first, second)
        x, y = as_rows("first", first), as_rows("second", second)
        split = split_states(len(x), ids, plan.share, plan.seed if seed is None else seed)
        numbers = np.arange(len(x)) if ids is None else np.unique(np.asarray(ids), return_inverse=True)[1]
        return cls.given((x, y, numbers), split.fit, split.score)

    @classmethod
    def given(
        cls, rows: tuple[np.ndarray, np.ndarray, np.ndarray], fit: np.ndarray, score: np.ndarray
    ) -> "Bench":
        """Of rows first, second, ids that are fitted and scored as given."""
        x, y, numbers = rows
        like = AlignmentMap("ridge", ridge=1.0).fit(x[fit], y[fit])
        return cls(x[fit], y[fit], numbers[fit], x[score], y[score], like)

    @cached_property
    def model(self) -> PairModel:
        """Of the pairs to fit on."""
        return PairModel.fit(self.first, self.second)

    def compared_rows(self, plan: StressPlan) -> int:
        """Rows whose distances and neighbors are compared: no more than there are training pairs."""
        return min(len(self.first), len(self.held_first), plan.rows)

    def measure(self, plan: StressPlan, fitted: AlignmentMap) -> Quality:
        """A map on the held-out pairs."""
        return measure(
            fitted, self.held_first, self.held_second, plan.ks, self.like, self.compared_rows(plan)
        )

    def predict(self, plan: StressPlan, setting: StressSetting, shifted: bool = False) -> Quality | None:
        """What is to be expected there; of other states by their inputs alone."""
        if not plan.predicted:
            return None
        rows = self.compared_rows(plan)
        if shifted:
            return self.model.quality(setting, self.held_first, None, plan.ks, plan.seed, rows)
        return self.model.quality(setting, self.first[:rows], self.second[:rows], plan.ks, plan.seed)


@dataclass(frozen=True)
class StressPoint:
    """One number at one setting.

    Attributes:
        x: where it stands on the axis.
        label: the setting in words.
        pairs: that were fitted on.
        metric: mse, r2, dsc, nos@k or condition.
        value: mean over the repeats; of the condition, the median.
        low, high: of the mean, by Student's law; of the condition, the least and the largest.
        spread: standard deviation over the repeats.
        repeats: how many.
        predicted: by theory from the fitted pairs; None where there is no prediction.
    """

    x: float
    label: str
    pairs: int
    metric: str
    value: float
    low: float
    high: float
    spread: float
    repeats: int
    predicted: float | None


@dataclass(frozen=True)
class StressCurve:
    """All points of a stress test.

    Attributes:
        test: its name.
        axis: what x is.
        points: by setting, then by metric.
    """

    test: str
    axis: str
    points: tuple[StressPoint, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One record for each point, for tables and charts."""
        return [{"test": self.test, "axis": self.axis, **asdict(point)} for point in self.points]

    def of(self, metric: str) -> list[StressPoint]:
        """The points of one metric, in the order of the settings.

        Raises:
            ValueError: there is no such metric.
        """
        points = [point for point in self.points if point.metric == metric]
        if not points:
            names = list(dict.fromkeys(point.metric for point in self.points))
            raise ValueError(f"metric must be one of {', '.join(names)}, got {metric!r}")
        return points


def gather(
    x: float,
    label: str,
    pairs: int,
    measured: Sequence[Quality],
    predicted: Quality | None,
    confidence: float,
) -> list[StressPoint]:
    """The points of one setting."""
    expected = {} if predicted is None else predicted.numbers()
    points = []
    for metric in measured[0].numbers():
        values = np.array([quality.numbers()[metric] for quality in measured])
        middle, low, high, spread = _summary(values, metric == "condition", confidence)
        prediction = expected.get(metric)
        points.append(
            StressPoint(x, label, pairs, metric, middle, low, high, spread, len(values), prediction)
        )
    return points


def _summary(values: np.ndarray, median: bool, confidence: float) -> tuple[float, float, float, float]:
    finite = bool(np.isfinite(values).all())
    spread = float(values.std(ddof=1)) if len(values) > 1 and finite else math.nan
    if median:
        return float(np.median(values)), float(values.min()), float(values.max()), spread
    middle = float(values.mean())
    reach = math.nan
    if len(values) > 1:
        reach = (
            float(scipy.stats.t.ppf(0.5 + confidence / 2, len(values) - 1)) * spread / math.sqrt(len(values))
        )
    return middle, middle - reach, middle + reach, spread
