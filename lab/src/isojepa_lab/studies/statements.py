"""Statements: conclusions that the rows decide.

The judge of a statement gives one of four verdicts and the facts that it rests on; the story has the claim
and a sentence for each verdict, which the facts fill.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from isojepa.validation import choose
from isojepa_lab.studies.findings import Value
from isojepa_lab.studies.rows import Lines, Rows

HOLDS, IN_PART, FAILS, UNASKED = "holds", "in part", "does not hold", "cannot be asked"
VERDICTS = {
    HOLDS: "everywhere it was asked",
    IN_PART: "at some places and not at others",
    FAILS: "nowhere",
    UNASKED: "the rows that it speaks of are not there",
}


@dataclass(frozen=True)
class Judgement:
    """What the rows say of a claim.

    Attributes:
        verdict: one of `VERDICTS`.
        facts: what the verdict rests on, by the names that the story's sentences have for it.
    """

    verdict: str
    facts: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        choose("verdict", self.verdict, VERDICTS)


Judge = Callable[[Rows], Judgement]


@dataclass(frozen=True)
class Statement:
    """A conclusion of the story.

    Attributes:
        name: in the story.
        judge: rows -> verdict and facts.
    """

    name: str
    judge: Judge

    @classmethod
    def named(cls, **judges: Judge) -> "list[Statement]":
        """Several statements."""
        return [cls(name, judge) for name, judge in judges.items()]


def verdict_of(truths: Iterable[bool]) -> str:
    """What many answers to one question amount to.

    Example:
        >>> verdict_of([True, True]), verdict_of([True, False]), verdict_of([False]), verdict_of([])
        ('holds', 'in part', 'does not hold', 'cannot be asked')
    """
    flags = [bool(truth) for truth in truths]
    if not flags:
        return UNASKED
    return HOLDS if all(flags) else IN_PART if any(flags) else FAILS


def below(limit: float) -> Callable[[float], bool]:
    """A test of numbers."""
    return lambda value: value < limit


def at_most(limit: float) -> Callable[[float], bool]:
    """A test of numbers."""
    return lambda value: value <= limit


def judge_values(values: Iterable[float], test: Callable[[float], bool], **facts: Value) -> Judgement:
    """Whether numbers pass a test, with the lowest and the highest of them as `low` and `high`.

    Example:
        >>> judge_values([0.5, 2.0], lambda ratio: ratio < 1).verdict
        'in part'
    """
    judged_values = list(values)
    ends: dict[str, Value] = {
        "low": min(judged_values, default=None),
        "high": max(judged_values, default=None),
    }
    return judged(map(test, judged_values), **ends, **facts)


def judge_lines(
    lines: Iterable[Mapping[str, Any]],
    test: Callable[[Any], bool],
    text: str = "",
    key: str = "",
    **facts: Value,
) -> Judgement:
    """Whether lines of a table pass a test.

    Args:
        lines: what is asked, one by one.
        test: of a line.
        text: template of a line, keys in braces; `all`, `yes` and `no` print all lines, those that pass and
            those that do not.
        key: of a number in every line; `low` and `high` print the lines that have the least and most of it.
        facts: further ones.
    """
    judged_lines = [(test(line), text.format_map(line), line) for line in lines]
    accepted = {"all": (True, False), "yes": (True,), "no": (False,)}
    listed = {
        name: "; ".join(one for truth, one, _ in judged_lines if truth in kinds)
        for name, kinds in accepted.items()
    }
    if key:
        order = sorted(judged_lines, key=lambda one: one[2][key])
        listed |= {"low": order[0][1], "high": order[-1][1]} if order else {}
    return judged((truth for truth, _, _ in judged_lines), **listed, **facts)


def in_words(claim: str, judgement: Judgement) -> str:
    """A claim, its verdict and the lines of `judge_lines`, for a report without a story."""
    yes, no = judgement.facts["yes"], judgement.facts["no"]
    lines = (f" In {yes}." if yes else "") + (f" Not in {no}." if no else "")
    return f"**{claim}: {judgement.verdict}.** By the estimates.{lines}"


def judged(truths: Iterable[bool], **facts: Value) -> Judgement:
    """The verdict of many answers, with how many of how many were yes as `good` and `asked`."""
    flags = [bool(truth) for truth in truths]
    return Judgement(verdict_of(flags), {"good": sum(flags), "asked": len(flags), **facts})


def asks(
    lines: Callable[[Rows], Lines], key: str, test: Callable[[Any], bool], text: str = "", order: str = ""
) -> Judge:
    """The judge of lines that the rows give, of those that have something at a key; see `judge_lines`.

    `low` and `high` are printed by another key, if one is given as the order.
    """

    def judge(rows: Rows) -> Judgement:
        judged_rows = lines(rows).known(key, order or key)
        return judge_lines(judged_rows, lambda line: test(line[key]), text, order or key)

    return judge
