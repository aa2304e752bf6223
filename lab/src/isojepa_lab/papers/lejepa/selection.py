"""Choosing a run without labels: training losses and ranks of features beside the accuracy of a probe.

Settings are varied around one recipe: the weight with the number of views, the weight with the learning rate,
then directions, quadrature points, projector and batch. What is compared is what `isojepa select` knows of a
run. Probes are scored on pictures held out from training for validation; test pictures only report.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from isojepa.data.images.source import Images
from isojepa.encoders.model import embed
from isojepa.probes import alpha_req, lidar, rankme
from isojepa.report.charts import Chart, Curve, curves_chart
from isojepa.seeds import generator
from isojepa.statistics.intervals import Interval
from isojepa.training.watch import measure as watch
from isojepa_lab.papers.lejepa.small_images import (
    FASHION,
    QUICKDRAW,
    network,
    pictures,
    probes,
    train,
    views_of,
)
from isojepa_lab.studies.cells import Cell, Computation, Row
from isojepa_lab.studies.measured import spread, trend
from isojepa_lab.studies.rank_correlations import rank_correlation
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Statement, asks
from isojepa_lab.studies.study import Study

WEIGHED, RATED, AROUND = "weights", "rates", "around"  # parts of the study
RANDOM, PIXELS = "random weights", "raw pixels"
RANKED = 2048  # validation pictures that ranks are taken of
BASE: dict[str, Any] = {
    "data": FASHION,
    "weight": 0.05,
    "rate": 1.5e-2,
    "views": 4,
    "slices": 1024,
    "knots": 17,
    "projector": "512-64",
    "batch": 256,
    "steps": 300,
}
WEIGHTS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
VARIED: dict[str, Sequence[Any]] = {
    "slices": (16, 64, 256, 4096),
    "knots": (5, 9, 33),
    "projector": ("512-16", "512-256", "2048-64", "linear-64"),
    "batch": (64, 128, 512),
}
SEEDS = 2
PUBLISHED_ALPHA, PUBLISHED = 0.4, {"loss": 0.85, "scaled": 0.99}
ALPHAS = np.linspace(0, 1, 41)
CRITERIA = {"loss": -1, "scaled": -1, "rankme": 1, "lidar": 1, "alpha_req": -1, "gaussianity": -1}  # 1: more
RISING = 0.005  # of accuracy in the last fifth of the steps


def cells(scale: str) -> list[Cell]:
    """The two grids, one setting at a time, random weights and raw pixels."""
    if scale == "quick":
        return [_cell(WEIGHED, 0, steps=2, batch=16, slices=16)]
    runs: list[Cell] = []
    for seed in range(SEEDS):
        for views in (2, 4):
            runs += [_cell(WEIGHED, seed, weight=weight, views=views) for weight in WEIGHTS]
        runs += [_cell(WEIGHED, seed, weight=weight, views=8) for weight in (0.02, 0.05, 0.1)]
        for rate in (5e-3, 1.5e-2, 4e-2):
            weights = (0.005, 0.02, 0.05, 0.1, 0.2)
            runs += [_cell(RATED, seed, data=QUICKDRAW, weight=weight, rate=rate) for weight in weights]
        for name, values in VARIED.items():
            runs += [_cell(AROUND, seed, **{name: value}) for value in values]
        runs += [_cell(RANDOM, seed, data=data, steps=0) for data in (FASHION, QUICKDRAW)]
    return runs + [_cell(PIXELS, 0, data=data, steps=0, batch=0) for data in (FASHION, QUICKDRAW)]


def _cell(part: str, seed: int, **changes: Any) -> Cell:
    labels = {**BASE, **changes, "part": part, "seed": seed}
    seconds = 30 + 0.2 * labels["steps"] * labels["views"] / 4 * labels["batch"] / 256
    return Cell(Computation(labels, seconds=seconds), labels)


def measure(cell: Cell) -> dict[str, Any]:
    """Loss, ranks and Gaussianity of one run, and its probes."""
    settings = cell.settings
    data = settings["data"]
    if settings["part"] == PIXELS:
        return probes(torch.nn.Flatten(), data)
    model = network(data, settings["projector"], settings["seed"])
    scores = train(model, settings) if settings["steps"] else {}
    views = Images(pictures(data).validation, views_of(settings["views"]))
    batch = views.sample(RANKED, generator(0, "study selection", "views"))
    embeddings = torch.stack([embed(model, view) for view in batch.views[:2]])
    return {
        **scores,
        "rankme": rankme(embeddings[0]),
        "lidar": lidar(embeddings.numpy()),
        "alpha_req": alpha_req(embeddings[0]),
        "gaussianity": watch(embeddings[0])["gaussianity"],
        **probes(model, data),
    }


def _runs(rows: Rows) -> Rows:
    return rows.where(part=(WEIGHED, RATED, AROUND))


def _value(row: Row, criterion: str, alpha: float = PUBLISHED_ALPHA) -> float:
    """A criterion of a run, its sign turned so that more is better."""
    value = float(row.scores["loss" if criterion == "scaled" else criterion])
    if criterion == "scaled":
        value /= float(row.labels["weight"]) ** alpha
    if criterion == "alpha_req":
        value = abs(value - 1)
    return CRITERIA[criterion] * value


def _correlation(rows: Rows, criterion: str, alpha: float = PUBLISHED_ALPHA) -> Interval | None:
    """Spearman's correlation of a criterion with the accuracy on validation pictures."""
    selection = Rows(row for row in rows if math.isfinite(row.scores.get("loss", math.nan)))
    values = [_value(row, criterion, alpha) for row in selection]
    settings = [tuple(value for key, value in row.labels.items() if key != "seed") for row in selection]
    return rank_correlation(values, selection.values("validation"), settings) if len(selection) > 3 else None


def _best_alpha(rows: Rows) -> float | None:
    """The exponent of the highest correlation."""
    correlations = {float(alpha): _correlation(rows, "scaled", float(alpha)) for alpha in ALPHAS}
    estimates = {alpha: one.estimate for alpha, one in correlations.items() if one is not None}
    return max(estimates, key=lambda alpha: estimates[alpha]) if estimates else None


def _correlations(rows: Rows) -> Lines:
    lines = Lines()
    groups = {WEIGHED: "weights x views", RATED: "weights x rates", AROUND: "one setting at a time"}
    for part, title in groups.items():
        selection = rows.where(part=part)
        for criterion in CRITERIA:
            interval = _correlation(selection, criterion)
            if interval is not None:
                line = {
                    "runs": title,
                    "criterion": criterion,
                    "count": len(selection),
                    "rho": interval.estimate,
                }
                lines.append(
                    {
                        **line,
                        "low": interval.low,
                        "high": interval.high,
                        "published": PUBLISHED.get(criterion),
                    }
                )
    return lines


def _regrets(rows: Rows) -> Lines:
    """Test accuracy of the run that each criterion chooses, beside the best, the median and a random one."""
    lines = Lines()
    for (part,), group in _runs(rows).by("part").items():
        runs = Rows(row for row in group if row.scores.get("loss") is not None)
        if len(runs) < 2:
            continue
        test = np.array(runs.values("test"))
        base = {"runs": part, "best": test.max(), "median": float(np.median(test)), "random": test.mean()}
        for criterion in CRITERIA:
            scores = [_value(row, criterion) for row in runs]
            chosen = float(test[int(np.nanargmax(scores))])
            lines.append(
                {
                    **base,
                    "criterion": criterion,
                    "chosen": chosen,
                    "regret": base["best"] - chosen,
                    "gain": chosen - base["median"],
                }
            )
    return lines


def _alphas(rows: Rows) -> Lines:
    """The exponent that is best on one grid, judged on the other."""
    lines = Lines()
    for first_part, other in ((WEIGHED, RATED), (RATED, WEIGHED)):
        alpha = _best_alpha(rows.where(part=first_part))
        if alpha is None or not rows.where(part=other):
            continue
        here, there = (_correlation(rows.where(part=part), "scaled", alpha) for part in (first_part, other))
        plain = _correlation(rows.where(part=other), "loss")
        if here is not None and there is not None and plain is not None:
            lines.append(
                {
                    "fitted": first_part,
                    "alpha": alpha,
                    "here": here.estimate,
                    "judged": other,
                    "there": there.estimate,
                    "loss": plain.estimate,
                }
            )
    return lines


def _settings(rows: Rows) -> Lines:
    labels = ["part", *BASE]
    return rows.lines(
        labels,
        "loss",
        "validation",
        "test",
        "rankme",
        "lidar",
        "alpha_req",
        "gaussianity",
        seeds=len,
        spread=lambda own: spread(own, "validation"),
        trend=lambda own: trend(own, RISING),
    )


def _charts(rows: Rows) -> list[Chart]:
    charts = []
    for part, across in ((WEIGHED, "views"), (RATED, "rate")):
        curves: list[Curve] = rows.where(part=part).curves("weight", "validation", f"{across} {{{across}}}")
        charts.append(
            curves_chart(f"{part}: accuracy", "weight", "validation accuracy", curves, scale="linear")
        )
    return charts


STUDY = Study.of_file(
    __file__,
    title="Choosing a run without labels",
    source="Balestriero & LeCun (2025), LeJEPA, Figures 1, 8, 10, 11, 19, 21 and Tables 1, 7",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(correlations=_correlations, alphas=_alphas, regrets=_regrets, settings=_settings),
    charts=[ChartSpec("weights", _charts)],
    statements=Statement.named(
        scaled=asks(
            lambda rows: _correlations(rows).where(criterion="scaled"),
            "rho",
            lambda rho: rho >= 0.85,
            "{runs} ({rho:.2f} [{low:.2f}, {high:.2f}])",
        ),
        loss=asks(
            lambda rows: _correlations(rows).where(criterion="loss"),
            "rho",
            lambda rho: rho >= 0.85,
            "{runs} ({rho:.2f} [{low:.2f}, {high:.2f}])",
        ),
        regret=asks(
            lambda rows: _regrets(rows).where(criterion="scaled"),
            "regret",
            lambda regret: regret <= 0.005,
            "{runs} ({chosen:.4f}, best {best:.4f}, median {median:.4f})",
        ),
        carries=asks(
            _alphas,
            "there",
            lambda rho: rho >= 0.85,
            "α = {alpha:.2f} of {fitted} on {judged} ({there:.2f}, loss {loss:.2f})",
        ),
    ),
)
