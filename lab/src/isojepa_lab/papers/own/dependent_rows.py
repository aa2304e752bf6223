"""Verdicts on two embeddings whose rows depend on each other: false alarms, and power."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from isojepa.alignment import compare, same
from isojepa.seeds import numpy_generator
from isojepa.statistics.intervals import wilson
from isojepa_lab.studies.cells import Cell, Computation, crossed
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import TableSpec
from isojepa_lab.studies.statements import Statement, asks, at_most
from isojepa_lab.studies.study import Study

LEVEL = 0.05  # of a false verdict, and of each score's p
TARGET = 0.9  # share of related samples that must get the right answer, of independent rows
REPEATS, PERIOD = 20, 50  # rows of a state; rows of a season
SCORES = ("R2", "CKA", "mean CCA", "angular Procrustes", "RSA", "DSC", "NO@10", "mutual k-NN@10")
VERDICTS = ("rotation", "linear", "partly", "unrelated", "too-few")
RELATIONS = {
    "rotation": "rotation",
    "linear map": "linear",
    "swirl of 2 dimensions": "partly",
    "tanh": "partly",
    "1 dimension shared": "partly",
}
SHAPES: dict[str, tuple[tuple[int, int], ...]] = {
    "quick": ((300, 4),),
    "standard": ((200, 2), (500, 8), (1000, 8), (5000, 64)),
}
SHAPES["paper"] = (*SHAPES["standard"], (20_000, 8))
_PLACE = "{kind}, {rows:,d} x {dim:d}"
_LARGE = 1_000  # rows above which a fifth of the trials is made


def _paths(rho: float) -> Callable[[int, int, np.random.Generator], np.ndarray]:
    def draw(n: int, p: int, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(scipy.signal.lfilter([1], [1, -rho], rng.normal(size=(n, p)), axis=0))

    return draw


def _season(n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    angle = 2 * np.pi * np.arange(n)[:, None] / PERIOD
    return np.hstack((np.sin(angle), np.cos(angle))) @ rng.normal(size=(2, p)) + rng.normal(size=(n, p))


def _drift(n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    return _paths(1.0)(n, p, rng) + np.arange(n)[:, None] * rng.normal(size=p) / 10


def _trend(n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(np.exp(2 * np.arange(n) / n)[:, None] * rng.normal(size=p) + _paths(0.5)(n, p, rng))


def _repeats(n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    states = np.repeat(rng.normal(size=(n // REPEATS, p)), REPEATS, axis=0)
    return np.asarray(states + 0.1 * rng.normal(size=states.shape))


def _clusters(n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(3 * rng.normal(size=(4, p))[rng.integers(0, 4, n)] + rng.normal(size=(n, p)))


def _outlier(n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    rows = rng.normal(size=(n, p))
    rows[n // 2] *= 100
    return rows


KINDS: dict[str, Callable[[int, int, np.random.Generator], np.ndarray]] = {
    "independent": lambda n, p, rng: rng.normal(size=(n, p)),
    "AR 0.5": _paths(0.5),
    "AR 0.9": _paths(0.9),
    "AR 0.99": _paths(0.99),
    "AR 0.999": _paths(0.999),
    "random walk": _paths(1.0),
    "walk with drift": lambda n, p, rng: (
        _paths(1.0)(n, p, rng) + np.arange(n)[:, None] * rng.normal(size=p) / 10
    ),
    "common trend": lambda n, p, rng: (
        np.exp(2 * np.arange(n) / n)[:, None] * rng.normal(size=p) + _paths(0.5)(n, p, rng)
    ),
    "common season": _season,
    "repeated states": lambda n, p, rng: (
        np.repeat(rng.normal(size=(n // REPEATS, p)), REPEATS, axis=0)
        + 0.1 * rng.normal(size=(n // REPEATS * REPEATS, p))
    ),
    "clusters": lambda n, p, rng: (
        3 * rng.normal(size=(4, p))[rng.integers(0, 4, n)] + rng.normal(size=(n, p))
    ),
    "t2 rows": lambda n, p, rng: rng.standard_t(2, size=(n, 1)) * rng.normal(size=(n, p)),
    "one outlier in both": _outlier,
}


def cells(scale: str) -> list[Cell]:
    """Unrelated samples of each kind for `same` and `compare`, and related ones for `same`."""
    trials, kinds = (2, ("independent", "AR 0.9", "random walk")) if scale == "quick" else (200, tuple(KINDS))
    cells = []
    for part in ("same", "compare", "related"):
        for rows, dim in SHAPES[scale]:
            count = trials if rows <= _LARGE and part == "same" else max(trials // 5, 2)
            settings: dict[str, Any] = {"part": part, "kind": kinds, "rows": rows, "dim": dim}
            if part == "related":
                settings["relation"] = tuple(RELATIONS)
                count = max(trials // 10, 2)
            cells += crossed(lambda count=count, **how: Computation({**how, "trials": count}), **settings)
    return cells


def measure(cell: Cell) -> dict[str, float | None]:
    """Shares of the trials with each answer, or with p of at most 0.05 for each score."""
    how = cell.settings
    draw, shape = KINDS[how["kind"]], (how["rows"], how["dim"])
    answers: list[dict[str, float]] = []
    for trial in range(how["trials"]):
        rng = numpy_generator(trial, "dependent rows", how["part"], how["kind"], *map(str, shape))
        x = draw(*shape, rng)
        if how["part"] == "compare":
            comparisons = compare(x, draw(*shape, rng), seed=trial)
            scores = comparisons.aligned | comparisons.raw
            answers.append(
                {name: float((scores[name].p or 1.0) <= LEVEL) for name in SCORES if name in scores}
            )
        else:
            y = _related(how["relation"], x, draw, rng) if how["part"] == "related" else draw(*shape, rng)
            verdict = same(x, y, seed=trial).verdict
            answers.append({name: float(verdict == name) for name in VERDICTS})
    shares = {name: float(np.mean([one[name] for one in answers])) for name in answers[0]}
    if how["part"] == "same":
        shares["false"] = shares["rotation"] + shares["linear"] + shares["partly"]
        shares["false_low"] = wilson(round(shares["false"] * how["trials"]), how["trials"], 0.95).low
    elif how["part"] == "compare":
        shares["false"] = max(shares[name] for name in shares)
        shares["false_low"] = wilson(round(shares["false"] * how["trials"]), how["trials"], 0.95).low
    else:
        shares["right"] = shares[RELATIONS[how["relation"]]]
    return {**shares, "trials": how["trials"]}


def _related(
    relation: str, x: np.ndarray, draw: Callable[..., np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """Rows of the second encoder: a map of the first's, turned, with a tenth of its spread as noise."""
    n, p = x.shape
    y, spread = x.copy(), x.std(0)
    if relation == "linear map":
        y = x * np.linspace(0.5, 2, p)
    elif relation == "tanh":
        y = np.tanh(1.5 * (x - x.mean(0)) / spread)
    elif relation == "1 dimension shared":
        y = draw(n, p, rng)
        y[:, 0] = x[:, 0]
    elif relation == "swirl of 2 dimensions":
        plane = (x[:, :2] - x[:, :2].mean(0)) / spread[:2]
        angle = 1.5 * np.linalg.norm(plane, axis=1)
        y[:, 0] = (np.cos(angle) * plane[:, 0] - np.sin(angle) * plane[:, 1]) * spread[0]
        y[:, 1] = (np.sin(angle) * plane[:, 0] + np.cos(angle) * plane[:, 1]) * spread[1]
    turn = np.linalg.qr(rng.normal(size=(p, p)))[0]
    return np.asarray((y + 0.1 * y.std(0) * rng.normal(size=y.shape)) @ turn)


def _by_kind(part: str, *keys: str) -> Callable[[Rows], Lines]:
    return lambda rows: rows.where(part=part).lines(["kind", "rows", "dim"], *keys)


STUDY = Study.of_file(
    __file__,
    title="Verdicts on rows that depend on each other",
    source="none",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(
        same=_by_kind("same", "false", "false_low", "unrelated", "too-few", "trials"),
        compare=_by_kind("compare", *SCORES, "trials"),
        related=lambda rows: rows.where(part="related").lines(
            ["relation", "kind", "rows", "dim"],
            "right",
            "too-few",
            "rotation",
            "linear",
            "partly",
            "unrelated",
        ),
    ),
    charts=[],
    statements=Statement.named(
        quiet=asks(_by_kind("same", "false_low"), "false_low", at_most(LEVEL), "{kind}, {rows:,d} x {dim:d}"),
        scores=asks(
            _by_kind("compare", "false_low"), "false_low", at_most(LEVEL), "{kind}, {rows:,d} x {dim:d}"
        ),
        powerful=asks(
            lambda rows: rows.where(part="related", kind=("independent", "AR 0.5")).lines(
                ["relation", "kind", "rows", "dim"], "right"
            ),
            "right",
            lambda share: share >= TARGET,
            "{relation} of " + _PLACE + " ({right:.0%})",
        ),
    ),
)
