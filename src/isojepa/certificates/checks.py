"""Checks: one runner turns the effect that a check measures into verdict, sentence and advice.

A check is a function of a sample that returns an `Effect`: a value on a scale that does not depend on the
number of samples, with a p-value or an interval. With the level alpha = 1 - confidence, by a test

    fails     p <= alpha, and the value is above the threshold: beyond chance, and large enough to matter
    unclear   p <= alpha with a value above half the threshold; or p > alpha where so few samples show only
              values above the threshold
    holds     otherwise

and by an interval: fails where all of it lies above the threshold, holds where all of it lies below. The
p-value says whether there is an effect, the threshold whether it matters: very many samples show every
negligible effect, and very few show nothing.

The level is that of one check. The checks of a certificate are one verdict: there a check fails only where
the procedure of Holm (1979) rejects it, which keeps the level for all of them (`together`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from isojepa.statistics.families import holm
from isojepa.statistics.intervals import Interval

HOLDS, FAILS, UNCLEAR = "holds", "fails", "unclear"
MAX_DETAIL = 64


@dataclass(frozen=True)
class CheckResult:
    """One check: what was measured, against which threshold, and what to do about it.

    Attributes:
        name: of the check, e.g. "isotropy".
        of: what was checked: "latents", "embeddings", "actions" or "states".
        measure: what the value is.
        value: the effect, on a scale that does not depend on the number of samples; NaN if not measured.
        interval: of the value; None without one.
        threshold: from which on the effect matters.
        p: probability of an effect as large where the assumption holds; None without a test.
        verdict: "holds", "fails" or "unclear".
        sentence: one sentence with the number in it.
        advice: what to do; empty where it holds.
        detail: named numbers for a plot, at most 64.
        effective: samples that are nearly independent; None if not measured.
        memory: rows of which one was taken, since neighbors depend on each other; 1 if they do not.
    """

    name: str
    of: str
    measure: str
    value: float
    interval: Interval | None
    threshold: float
    p: float | None
    verdict: str
    sentence: str
    advice: str
    detail: tuple[tuple[str, float], ...] = ()
    effective: int | None = None
    memory: int = 1

    def __str__(self) -> str:
        advice = f" {self.advice}" if self.advice else ""
        return f"{self.name:<15} {self.verdict:<8} {self.sentence}{advice}"


@dataclass(frozen=True)
class Effect:
    """What a check measured.

    Attributes:
        sentence: with the value in it, without p and full stop.
        value: NaN if it could not be measured; the check is then unclear.
        interval: of the value.
        p: of the test.
        detectable: value that chance alone reaches at the level; None for a verdict by the interval.
        detail: named numbers.
        rows: that the verdict rests on, in words, e.g. "300 pairs".
        verdict: overrides the rule.
        advice: overrides that of the check, where it does not hold.
    """

    sentence: str
    value: float = math.nan
    interval: Interval | None = None
    p: float | None = None
    detectable: float | None = None
    detail: Sequence[tuple[str, float]] = ()
    rows: str = ""
    verdict: str | None = None
    advice: str | None = None


@dataclass(frozen=True, kw_only=True)
class CheckSample:
    """What a check is run on; subclasses add the data.

    Attributes:
        of: e.g. "latents"; chooses the advice.
        total: rows before any were left out.
        seed: of everything drawn.
        level: of each test.
    """

    of: str
    total: int
    seed: int
    level: float = 0.05

    @property
    def confidence(self) -> float:
        """Of the intervals."""
        return 1 - self.level

    @property
    def limiting(self) -> tuple[int, str]:
        """The number of rows that limits the tests, and its name."""
        return self.total, "rows"


S = TypeVar("S", bound=CheckSample)


@dataclass(frozen=True)
class Check(Generic[S]):
    """A check: call it with a sample.

    Attributes:
        effect: measures the effect on a sample.
        name: e.g. "isotropy".
        measure: what the value is.
        threshold: value from which on the effect matters.
        advice: what to do where it does not hold; by `of` where it differs.
        pairs: whether it needs both views.
        more: what to do where there are too few rows.
        neutral: value of no effect; 1 for ratios.
        order: chance alone reaches values of the order rows^-order.
        of: what is checked; by default what the sample says.
    """

    effect: Callable[[S], Effect]
    name: str
    measure: str
    threshold: float
    advice: str | Mapping[str, str] = ""
    pairs: bool = False
    more: str = "Take more pairs."
    neutral: float = 0.0
    order: float = 0.5
    of: str | None = None

    def __call__(self, sample: S) -> CheckResult:
        """Measure the effect on a sample and judge it."""
        effect = self.effect(sample)
        by_test = effect.detectable is not None
        verdict = effect.verdict or judge(effect, self.threshold, sample.level, self.neutral)
        limited = verdict == UNCLEAR and effect.verdict is None and not math.isnan(effect.value)
        limited &= (
            effect.p is not None and effect.p > sample.level if by_test else effect.value <= self.threshold
        )
        sentence = effect.sentence if effect.p is None else f"{effect.sentence} ({format_p(effect.p)})"
        if verdict == HOLDS and by_test and effect.p is not None and effect.p <= sample.level:
            sentence += ": beyond chance, but too little to matter"
        if limited:
            sentence += self._too_few(effect, *sample.limiting)
        by_kind = self.advice if isinstance(self.advice, str) else self.advice[sample.of]
        advice = by_kind if effect.advice is None else effect.advice
        return CheckResult(
            self.name,
            self.of or sample.of,
            self.measure,
            float(effect.value),
            effect.interval,
            self.threshold,
            effect.p,
            verdict,
            sentence.removesuffix(".") + ".",
            "" if verdict == HOLDS else self.more if limited and effect.advice is None else advice,
            tuple((name, float(value)) for name, value in effect.detail[:MAX_DETAIL]),
        )

    def _too_few(self, effect: Effect, rows: int, name: str) -> str:
        """What so few rows show, and about how many of the file would decide."""
        start, end, limit = self.neutral, effect.detectable, ""
        if end is not None:
            limit = f"; {effect.rows} show only values above {end:.2g}"
        else:
            start, end = effect.value, effect.interval.high if effect.interval else math.inf
        reach, room = end - start, self.threshold - start
        if self.neutral:  # ratios spread on the scale of their logarithm
            reach, room = math.log(end / start), math.log(self.threshold / start)
        if not (room > 0 and reach < math.inf):
            return limit
        needed = rows * (reach / room) ** (1 / self.order)
        digits = 10 ** max(0, int(math.log10(max(needed, 1))) - 1)
        return f"{limit}; about {math.ceil(needed / digits) * digits:,} {name} would decide"


def check(
    name: str, *, measure: str, threshold: float, **options: Any
) -> Callable[[Callable[[S], Effect]], Check[S]]:
    """Make a `Check` of a function that measures an effect on a sample; options are its other fields."""
    return lambda effect: Check(effect, name, measure, threshold, **options)


def judge(effect: Effect, threshold: float, level: float, neutral: float = 0.0) -> str:
    """The verdict on an effect, by its test or else by its interval."""
    interval = effect.interval or Interval(effect.value, effect.value, effect.value)
    if math.isnan(effect.value):
        return UNCLEAR
    if effect.detectable is None or effect.p is None:
        beyond, limit = interval.low > threshold, interval.high
    else:
        beyond, limit = effect.p <= level, effect.detectable
    if beyond and effect.value > threshold:
        return FAILS
    if beyond and effect.value - neutral > (threshold - neutral) / 2:
        return UNCLEAR
    return UNCLEAR if limit > threshold else HOLDS


def together(results: Sequence[CheckResult], level: float) -> tuple[CheckResult, ...]:
    """Checks of one verdict: what fails by itself is unclear where Holm's procedure does not reject it.

    Example:
        >>> line = CheckResult("isotropy", "latents", "", 1.0, None, 0.5, 0.03, FAILS, "Rates differ.", "")
        >>> print(together([line, replace(line, p=0.8, verdict=HOLDS)], 0.05)[0].sentence)
        Rates differ. One of 2 checks with p = 0.03: not significant together.
    """
    ps = [result.p for result in results if result.p is not None]
    rejected = iter(holm(ps, level))
    return tuple(
        result
        if result.p is None or next(rejected) or result.verdict != FAILS
        else replace(
            result,
            verdict=UNCLEAR,
            sentence=f"{result.sentence} One of {len(ps)} checks with {format_p(result.p)}: not significant "
            "together.",
        )
        for result in results
    )


def format_p(p: float) -> str:
    """A p-value in words."""
    return f"p = {p:.2g}" if p >= 1e-4 else "p < 0.0001"
