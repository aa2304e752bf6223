"""One assumption: what was measured, against which threshold, and what to do about it.

The rule of the lines with a p-value, at level alpha = 1 - confidence:

    fails     p <= alpha, and the effect is above its threshold: beyond chance, and large enough to matter
    unclear   p <= alpha with an effect above half the threshold; or p > alpha where so few samples would show
              only effects above the threshold
    holds     otherwise

The p-value says whether there is an effect, the threshold whether it matters: very many samples show every
trifle, and very few show nothing.

The level is that of one line. The lines of a certificate are one verdict: there a line fails only where the
procedure of Holm (1979) rejects it, which keeps the level for all of them (`together`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from isojepa.statistics.intervals import Interval

HOLDS, FAILS, UNCLEAR = "holds", "fails", "unclear"
DETAILS = 64  # entries of `detail` at most


@dataclass(frozen=True)
class Assumption:
    """One line of `check_assumptions`.

    Attributes:
        name: "stationarity", "Gaussianity", "independence", "additive noise", "joint Gaussianity",
            "isotropy" or "dimension".
        of: "latents" or "embeddings".
        measure: what the value is.
        value: the effect, on a scale that does not depend on the number of samples; NaN where it could not be
            measured.
        interval: of the value, where there is one.
        threshold: from which on the effect matters.
        p: probability of an effect as large where the assumption holds; None where there is no test.
        verdict: "holds", "fails" or "unclear".
        sentence: one plain sentence with the number in it.
        advice: what to do about it; empty where it holds.
        detail: named numbers for a plot, at most 64.
        effective: samples left that are nearly independent; None where that was not looked at.
        memory: rows of which one was taken, since neighbours depend on each other; 1 where they do not.
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


def judge(
    p: float, alpha: float, value: float, threshold: float, detectable: float, none: float = 0.0
) -> str:
    """The verdict of a line with a p-value.

    Args:
        p: of the test.
        alpha: its level.
        value: the effect.
        threshold: from which on it matters.
        detectable: the effect that chance alone reaches at the level: smaller ones cannot be seen.
        none: the value of no effect.
    """
    if p <= alpha and value > threshold:
        return FAILS
    if p <= alpha and value - none > (threshold - none) / 2:
        return UNCLEAR
    return UNCLEAR if detectable > threshold else HOLDS


def together(lines: Sequence[Assumption], alpha: float) -> tuple[Assumption, ...]:
    """Lines of one verdict: what fails by itself is unclear where Holm's procedure does not reject it.

    Example:
        >>> line = Assumption("isotropy", "latents", "", 1.0, None, 0.5, 0.03, FAILS, "Rates differ.", "")
        >>> together([line, replace(line, p=0.8, verdict=HOLDS)], 0.05)[0].verdict
        'unclear'
    """
    tested = sorted((line.p, place) for place, line in enumerate(lines) if line.p is not None)
    judged = list(lines)
    for rank, (p, _) in enumerate(tested):
        if p * (len(tested) - rank) > alpha:
            for _, place in tested[rank:]:
                if judged[place].verdict == FAILS:
                    words = f" As one of {len(tested)} checks it may be chance."
                    sentence = judged[place].sentence + words
                    judged[place] = replace(judged[place], verdict=UNCLEAR, sentence=sentence)
            break
    return tuple(judged)


def unmeasured(name: str, of: str, measure: str, threshold: float, reason: str, advice: str) -> Assumption:
    """A line that could not be measured, with the reason as its sentence."""
    return Assumption(name, of, measure, math.nan, None, threshold, None, UNCLEAR, reason, advice)


def bounded(entries: list[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """The first entries of a detail."""
    return tuple((name, float(value)) for name, value in entries[:DETAILS])


def chance(p: float) -> str:
    """A p-value in words."""
    return f"p = {p:.2g}" if p >= 1e-4 else "p < 0.0001"
