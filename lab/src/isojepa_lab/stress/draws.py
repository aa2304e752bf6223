"""Stress by the pairs themselves: how many there are, and how many of them are mismatched."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from isojepa.validation import check_count, check_number
from isojepa_lab.stress.curves import PLAN, Bench, StressCurve, StressPlan, gather

BUDGETS = (50, 100, 500, 1000, 5000, 20_000)  # of the paper, section B.1
SHARES = (0.0, 0.1, 0.3)  # of the paper, Table 4


def pair_noise(
    first: Any,
    second: Any,
    ids: Any = None,
    *,
    shares: Sequence[float] = SHARES,
    pairs: int | None = None,
    plan: StressPlan = PLAN,
) -> StressCurve:
    """Fit with a fraction of the pairs mismatched, score on matched ones (Table 4).

    Args:
        first, second: (n, d) and (n, q) embeddings of the same states, in one order.
        ids: (n,) of the states; each row is a separate state by default.
        shares: epsilon, that are mismatched.
        pairs: that are fitted on, drawn anew each time; by default all that are not held out.
        plan: how to fit, repeat and measure.

    Raises:
        ValueError: rows do not match, are not finite or too few, or a share is not within 0 and 1.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(600, 4))
        >>> curve = pair_noise(x, x[:, ::-1], shares=(0.0, 0.2), plan=StressPlan(repeats=2))
        >>> [round(point.predicted, 2) for point in curve.of("r2")]
        [1.0, 0.95]
    """
    for share in shares:
        check_number("shares", share, "lie in [0, 1)", lambda value: 0 <= value < 1)
    bench = Bench.of(first, second, ids, plan)
    count = len(bench.first) if pairs is None else _within(pairs, len(bench.first))
    points = []
    for share in shares:
        measured = []
        for repeat in range(plan.repeats):
            rng = plan.rng("pairs", repeat)
            rows = chosen(bench.ids, count, rng)
            wrong = mismatched(bench.ids[rows], share, rng)
            fitted = plan.fitted(bench.first[rows], bench.second[rows][wrong])
            measured.append(bench.measure(plan, fitted))
        predicted = bench.predict(plan, plan.setting(count, share))
        points += gather(share, f"{share:g} mismatched", count, measured, predicted, plan.confidence)
    return StressCurve("pair_noise", "share of mismatched pairs", tuple(points))


def pair_budget(
    first: Any,
    second: Any,
    ids: Any = None,
    *,
    budgets: Sequence[int] | None = None,
    mismatch: float = 0.0,
    plan: StressPlan = PLAN,
) -> StressCurve:
    """Fit on few pairs and on many, score on the same held-out ones (Figure 5).

    Args:
        first, second: (n, d) and (n, q) embeddings of the same states, in one order.
        ids: (n,) of the states; each row is a separate state by default.
        budgets: numbers of pairs; by default those of the paper that there are, and all.
        mismatch: share of the pairs that are mismatched besides.
        plan: how to fit, repeat and measure.

    Raises:
        ValueError: rows do not match, are not finite or too few, a budget is more than there are to fit on,
            or least squares is asked for of fewer pairs than dimensions.
    """
    check_number("mismatch", mismatch, "lie in [0, 1)", lambda value: 0 <= value < 1)
    bench = Bench.of(first, second, ids, plan)
    most = len(bench.first)
    counts = sorted({*(n for n in BUDGETS if n < most), most}) if budgets is None else list(budgets)
    points = []
    for count in (_within(n, most) for n in counts):
        measured = []
        for repeat in range(plan.repeats):
            rng = plan.rng("pairs", repeat)
            rows = chosen(bench.ids, count, rng)
            wrong = mismatched(bench.ids[rows], mismatch, rng)
            fitted = plan.fitted(bench.first[rows], bench.second[rows][wrong])
            measured.append(bench.measure(plan, fitted))
        predicted = bench.predict(plan, plan.setting(count, mismatch))
        points += gather(float(count), f"{count:,} pairs", count, measured, predicted, plan.confidence)
    return StressCurve("pair_budget", "pairs", tuple(points))


def chosen(ids: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of states drawn at random until there are `count` of them.

    Example:
        >>> rows = chosen(np.array([0, 0, 1, 1, 2, 2]), 4, np.random.default_rng(0))
        >>> len(rows), len({0, 0, 1, 1, 2, 2} & {int(row) // 2 for row in rows})
        (4, 2)
    """
    place = rng.permutation(int(ids.max()) + 1)[ids]
    return np.argsort(place, kind="stable")[:count]


def mismatched(ids: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """For each row the row whose partner it gets: itself, but for a share that gets one of another state.

    Args:
        ids: (n,) numbers of the states.
        share: epsilon; round(epsilon n) rows are mismatched among themselves.
        rng: draws which.

    Raises:
        ValueError: one state has so many of the rows that they cannot all be mismatched.

    Example:
        >>> partner = mismatched(np.arange(10), 0.4, np.random.default_rng(0))
        >>> int((partner != np.arange(10)).sum())
        4
    """
    partner = np.arange(len(ids))
    wrong = rng.permutation(len(ids))[: round(share * len(ids))]
    if len(wrong) < 2:
        return partner
    place = rng.permutation(int(ids.max()) + 1)[ids[wrong]]
    wrong = wrong[np.argsort(place, kind="stable")]  # rows of one state side by side
    most = int(np.unique(ids[wrong], return_counts=True)[1].max())
    if 2 * most > len(wrong):
        raise ValueError(f"a state must have at most half of the mismatched rows, got {most} of {len(wrong)}")
    partner[wrong] = np.roll(wrong, most)  # further than a state reaches
    return partner


def _within(pairs: int, most: int) -> int:
    check_count("pairs", pairs, 2)
    if pairs > most:
        raise ValueError(f"pairs must be at most the {most} that are not held out, got {pairs}")
    return pairs
