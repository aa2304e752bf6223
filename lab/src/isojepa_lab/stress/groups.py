"""Stress by the states and the encoders: other states than were fitted, other widths, seeds and k."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from isojepa.alignment.pairs import as_rows, check_pairs, split_states
from isojepa.validation import check_count, unknown
from isojepa_lab.stress.curves import PLAN, Bench, StressCurve, StressPlan, StressPoint, gather

KS = (1, 5, 10, 20, 50)  # of the paper, Table 8


def shift(
    first: Any, second: Any, groups: Any, *, fit_on: Any, ids: Any = None, plan: StressPlan = PLAN
) -> StressCurve:
    """Fit on one group of states, score on held-out states of it and on the other groups (Table 5).

    The prediction for another group takes its inputs, and from the fitted pairs the map and the residual: it
    is what the move of the inputs alone costs. What is measured beyond it has changed in how the encoders
    relate.

    Args:
        first, second: (n, d) and (n, q) embeddings of the same states, in one order.
        groups: (n,) of each row, numbers or text.
        fit_on: the group that is fitted on.
        ids: (n,) of the states; each row is a separate state by default.
        plan: how to fit and measure; each repeat is another split of the group.

    Raises:
        ValueError: rows do not match, are not finite or too few, or there is no such group, or no other.
    """
    check_pairs(first, second)
    x, y, named = as_rows("first", first), as_rows("second", second), np.asarray(groups)
    if named.shape != (len(x),):
        raise ValueError(f"groups must be one for each of the {len(x)} rows, got shape {named.shape}")
    names = np.unique(named).tolist()
    if fit_on not in names:
        raise ValueError(unknown("fit_on", str(fit_on), [str(name) for name in names]))
    if len(names) < 2:
        raise ValueError(f"groups must be at least two, got {names}")
    numbers = np.arange(len(x)) if ids is None else np.unique(np.asarray(ids), return_inverse=True)[1]
    inside = np.flatnonzero(named == fit_on)
    order = [fit_on, *(name for name in names if name != fit_on)]
    points: list[StressPoint] = []
    for place, name in enumerate(order):
        measured, predicted, count = [], None, 0
        for repeat in range(plan.repeats):
            split = split_states(len(inside), numbers[inside], plan.share, plan.seed + repeat)
            fit, held = inside[split.fit], inside[split.score]
            if name != fit_on:
                held = np.flatnonzero((named == name) & ~np.isin(numbers, numbers[fit]))
            if len(held) <= max(plan.ks):
                raise ValueError(
                    f"group {name!r} must have more than {max(plan.ks)} rows of states that are not fitted, "
                    f"got {len(held)}"
                )
            bench = Bench.given((x, y, numbers), fit, held)
            measured.append(bench.measure(plan, plan.fitted(bench.first, bench.second)))
            count = len(fit)
            if repeat == 0:
                predicted = bench.predict(plan, plan.setting(count), shifted=name != fit_on)
        points += gather(float(place), str(name), count, measured, predicted, plan.confidence)
    return StressCurve("shift", f"group, fitted on {fit_on}", tuple(points))


def capacity(
    first: Any, others: Mapping[str, Any], ids: Any = None, *, plan: StressPlan = PLAN
) -> StressCurve:
    """Map one encoder to others of different widths (Table 6).

    Args:
        first: (n, d).
        others: embeddings (n, q) of the same states by name.
        ids: (n,) of the states; each row is a separate state by default.
        plan: how to fit and measure; each repeat is another split.

    Raises:
        ValueError: there are no others, or rows do not match, are not finite or too few.
    """
    if not others:
        raise ValueError("others must have at least one encoder, got none")
    points: list[StressPoint] = []
    for name, second in others.items():
        points += _splits(as_rows(name, second).shape[1], name, [(first, second)], ids, plan)
    return StressCurve("capacity", "columns of the second encoder", tuple(points))


def seeds(pairs: Sequence[tuple[Any, Any]], ids: Any = None, *, plan: StressPlan = PLAN) -> StressCurve:
    """Encoders trained with several seeds: mean and spread over them (Table 7).

    Args:
        pairs: embeddings (n, d), (n, q) of the same states, a pair for each seed.
        ids: (n,) of the states.
        plan: how to fit and measure; all seeds have the same split, and repeats are not used.

    Raises:
        ValueError: there is no pair, or rows do not match, are not finite or too few.
    """
    if not pairs:
        raise ValueError("pairs must have at least one seed, got none")
    points = _splits(0.0, f"{len(pairs)} seeds", list(pairs), ids, plan)
    return StressCurve("seeds", "all seeds", tuple(points))


def neighborhoods(
    first: Any, second: Any, ids: Any = None, *, ks: Sequence[int] = KS, plan: StressPlan = PLAN
) -> StressCurve:
    """Disagreement of neighborhoods of several sizes (Table 8).

    Args:
        first, second: (n, d) and (n, q) embeddings of the same states, in one order.
        ids: (n,) of the states; each row is a separate state by default.
        ks: sizes, fewer than the held-out rows.
        plan: how to fit and measure; each repeat is another split.

    Raises:
        ValueError: rows do not match, are not finite or too few.
    """
    sizes = tuple(check_count("ks", k) for k in ks)
    curve = _splits(0.0, "", [(first, second)], ids, dataclasses.replace(plan, ks=sizes))
    points = []
    for k in sizes:
        (point,) = [point for point in curve if point.metric == f"nos@{k}"]
        points.append(dataclasses.replace(point, x=float(k), label=f"k = {k}"))
    return StressCurve("neighborhoods", "k", tuple(points))


def narrowed(rows: Any, widths: Sequence[int]) -> dict[str, np.ndarray]:
    """The same embedding with fewer columns: its first principal directions, as encoders for `capacity`.

    Args:
        rows: (n, d).
        widths: numbers of directions, at most d.

    Example:
        >>> {name: part.shape for name, part in narrowed(np.eye(9)[:, :6], (2, 6)).items()}
        {'2 of 6': (9, 2), '6 of 6': (9, 6)}
    """
    array = as_rows("rows", rows)
    centered = array - array.mean(0)
    vectors = np.linalg.eigh(centered.T @ centered)[1][:, ::-1]
    size = array.shape[1]
    for width in widths:
        check_count("widths", width, 1, size)
    return {f"{width} of {size}": centered @ vectors[:, :width] for width in widths}


def _splits(
    x: float, label: str, encoders: Sequence[tuple[Any, Any]], ids: Any, plan: StressPlan
) -> list[StressPoint]:
    """One setting, over splits of one pair of encoders or over several pairs at one split."""
    measured, predicted, count = [], None, 0
    runs = [(pair, plan.seed) for pair in encoders]
    if len(encoders) == 1:
        runs = [(encoders[0], plan.seed + repeat) for repeat in range(plan.repeats)]
    for (first, second), seed in runs:
        bench = Bench.of(first, second, ids, plan, seed)
        measured.append(bench.measure(plan, plan.fitted(bench.first, bench.second)))
        count = len(bench.first)
        if predicted is None:
            predicted = bench.predict(plan, plan.setting(count))
    return gather(float(x), label, count, measured, predicted, plan.confidence)
