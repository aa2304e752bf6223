"""Agents trained apart on one set of pictures under two recipes of augmentation, and what relates them.

The states are Fashion-MNIST's training pictures; agent 1 sees them under the recipe of view A, agent 2 under
that of view B (Appendix A.3, the row "ImageNet" of Table 1). Everything that is asked of a pair of trained
agents is measured at once, on one augmentation of each held-out picture by each recipe: the map and its
metrics, few and mismatched pairs, layers, neighborhoods, and probes that are carried over.
"""

from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import nn

from isojepa.alignment.probe_transfer import share_probe
from isojepa.data.images.image_sets import ImageSubset
from isojepa.data.images.source import ImageObservers
from isojepa.data.observers import environment
from isojepa.probes import features_of, rankme
from isojepa.report.charts import Chart, Curve, curves_chart
from isojepa_lab.papers.social.agents import (
    JEPA,
    OBJECTIVES,
    RANDOM,
    Checkpoints,
    at_checkpoints,
    layers_of,
    points_of,
    related,
    train_agent,
)
from isojepa_lab.stress import StressPlan, neighborhoods, pair_budget, pair_noise
from isojepa_lab.studies.cells import Cell, Computation
from isojepa_lab.studies.published import read_published
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Judgement, Statement, judge_lines
from isojepa_lab.studies.study import Study

PIXELS = "raw pixels"
DATA = "data/fashion-mnist"
SHUFFLES = ("none", "patch", "pixel")
NETWORK = "patch_size=4,depth=3,embed_dim=128,num_heads=4"
STEPS, BATCH, SEEDS = 3000, 128, 3
HELD_OUT = 1 / 6  # of the 60,000 states
FITTED, FOLLOWED = 10_000, 2_000  # states that maps are fitted on: at the end, at checkpoints
BETTER = 10  # points of a probe above random weights, from which an encoder counts as trained
PLAN = StressPlan(repeats=3, ks=(10,))
METRICS = ("r2", "mse", "dsc", "nos", "cka", "condition", "orthogonality")


def cells(scale: str) -> list[Cell]:
    """Every objective, shuffled pictures for I-JEPA, and the pixels themselves."""
    if scale == "quick":
        return [_cell(JEPA, "none", 0, steps=2, batch=8)]
    cells_ = [_cell(method, "none", seed) for seed in range(SEEDS) for method in OBJECTIVES]
    cells_ += [_cell(JEPA, shuffle, seed) for seed in range(SEEDS) for shuffle in SHUFFLES[1:]]
    return [*cells_, _cell(PIXELS, "none", 0)]


def _cell(method: str, shuffle: str, seed: int, **changes: int) -> Cell:
    labels: dict[str, Any] = {"method": method, "shuffle": shuffle, "seed": seed}
    settings = {**labels, "steps": STEPS, "batch": BATCH, **changes}
    return Cell(Computation(settings, seconds=200 + 0.5 * settings["steps"]), labels)


@cache
def _seen(shuffle: str) -> ImageObservers:
    if not Path(DATA).exists():
        raise ValueError(f"{DATA} does not exist: fetch it with `python tools/data fashion-mnist`")
    source = environment("recipes", DATA, held_out=HELD_OUT, shuffle=shuffle, patch=4)
    if not isinstance(source, ImageObservers):
        raise ValueError(f"{DATA} must hold pictures, got {source!r}")
    return source


def measure(cell: Cell) -> dict[str, Any]:
    """Train two agents apart, and relate them."""
    settings = cell.settings
    source = _seen(settings["shuffle"])
    pairs = [source.pairs(0, 1, split) for split in ("train", "test")]
    parts = [
        [ImageSubset(views, torch.arange(min(FITTED, len(views)))) for views in (one.first, one.second)]
        for one in pairs
    ]
    agents, looks, losses = [], [], []
    for number in (0, 1):
        fitted, held = (
            ImageSubset(part[number], torch.arange(min(FOLLOWED, len(part[number])))) for part in parts
        )
        look = Checkpoints(fitted, held)
        model, loss = (
            train_agent(source, number, look, settings)
            if settings["method"] != PIXELS
            else (nn.Flatten(), [])
        )
        agents.append(model)
        looks.append(look)
        losses.append(loss)
    rows = [[features_of(model, part) for model, part in zip(agents, both, strict=True)] for both in parts]
    ids = pairs[1].ids.numpy()[: len(rows[1][0])]
    scores = related(rows[0], rows[1], ids)
    labels = np.asarray(parts[1][1].labels)
    heads = share_probe(rows[1][1], labels, first=rows[1][0], share=0.8, seed=settings["seed"])
    scores |= {f"probe {head}": heads[head].accuracy for head in ("own", "naive", "transferred", "regressed")}
    scores["rankme"] = rankme(rows[0][0])
    budget, noise = (one(*rows[1], plan=PLAN) for one in (pair_budget, pair_noise))
    near = neighborhoods(*rows[1], plan=PLAN)
    for name, curve in (("budget", budget), ("noise", noise), ("neighborhoods", near)):
        scores[name] = points_of(curve)
    if settings["method"] != PIXELS:
        scores["layers"] = layers_of(agents, parts[1])
    scores["checkpoints"] = at_checkpoints(looks, losses)
    scores["curve"] = [[step, probe] for step, _, probe, _ in scores["checkpoints"]]
    return scores


def _methods(rows: Rows) -> Lines:
    lines = rows.lines(
        ["method", "shuffle"],
        *METRICS,
        "rankme",
        seeds=len,
        probe="probe own",
        rising=_rising,
    )
    published = {row["setting"]: row for row in read_published("social_cross_view")}
    names = {JEPA: "ImageNet augmentation", "MAE": "MAE", "SimCLR": "SimCLR", "autoencoder": "AutoEncoder"}
    for line in lines:
        name = names.get(line["method"], "") if line["shuffle"] == "none" else f"{line['shuffle']} shuffle"
        line["published"] = published.get(name, {}).get("r2")
    return lines


def _rising(rows: Rows) -> str | None:
    """Whether the probe or the R^2 between the agents rose by 0.01 after four fifths of the steps."""
    gains = []
    for row in rows:
        lines = row.scores.get("checkpoints") or []
        if len(lines) > 4:
            early, end = lines[int(0.8 * len(lines)) - 1], lines[-1]
            gains.append(max(end[2] - early[2], end[3] - early[3]))
    return None if not gains else "still rising" if max(gains) > 0.01 else "flat"


def _stress(name: str, metric: str) -> Any:
    """Lines of a stress test by its setting, a column for each method."""

    def lines(rows: Rows) -> Lines:
        values: dict[float, dict[str, list[float]]] = {}
        for row in rows.where(shuffle="none"):
            for x, one, value, _ in row.scores.get(name) or ():
                if one.startswith(metric):
                    at = float(one.partition("@")[2]) if metric == "nos@" else x
                    values.setdefault(at, {}).setdefault(str(row.labels["method"]), []).append(value)
        return Lines({"x": x, **{key: fmean(one) for key, one in values[x].items()}} for x in sorted(values))

    return lines


def _probes(rows: Rows) -> Lines:
    heads = {head: f"probe {head}" for head in ("own", "naive", "transferred", "regressed")}
    return rows.lines(["method", "shuffle"], seeds=len, **heads)


def _charts(rows: Rows) -> list[Chart]:
    """R^2 between the agents over training, and over the number of pairs."""
    curves = []
    for index, ((method,), group) in enumerate(rows.where(shuffle="none").by("method").items()):
        lines = [row.scores.get("checkpoints") or [] for row in group]
        if lines and len(lines[0]) > 1:
            points = {lines[0][i][0]: fmean(one[i][3] for one in lines) for i in range(len(lines[0]))}
            curves.append(Curve(str(method), points, index + 1))
    linear: dict[str, Any] = {"scale": "linear", "across_scale": "linear"}
    title = "R² between the agents, while they train"
    return [curves_chart(title, "steps", "held-out R²", curves, **linear)]


def _order(rows: Rows) -> Judgement:
    lines = _methods(rows).where(shuffle="none").known("r2")
    ours = [line["r2"] for line in lines if line["method"] == JEPA]
    others = [line for line in lines if line["method"] in ("MAE", "SimCLR", "autoencoder")] if ours else []
    ours_r2 = min(ours, default=None)
    return judge_lines(others, lambda line: line["r2"] < ours_r2, "{method} {r2:.3f}", "r2", ours=ours_r2)


def _above(key: str, least: float = 0.0, scale: float = 1.0) -> Any:
    """Whether trained agents are above random weights in a number."""

    def judge(rows: Rows) -> Judgement:
        lines = _methods(rows).where(shuffle="none").known(key)
        base = [line[key] for line in lines if line["method"] == RANDOM]
        trained = [line for line in lines if line["method"] not in (RANDOM, PIXELS)] if base else []
        floor = min(base, default=None)
        text = f"{{method}} {{{key}:.3f}}"
        return judge_lines(trained, lambda line: scale * (line[key] - floor) > least, text, key, base=floor)

    return judge


def _shuffled(rows: Rows) -> Judgement:
    lines = _methods(rows).where(method=JEPA).known("r2")
    whole = [line["r2"] for line in lines if line["shuffle"] == "none"]
    others = [line for line in lines if line["shuffle"] != "none"] if whole else []
    whole_r2 = min(whole, default=0.0)
    text = "{shuffle} {r2:.3f}"
    return judge_lines(others, lambda line: line["r2"] < whole_r2 - 0.1, text, "r2", whole=whole_r2)


STUDY = Study.of_file(
    __file__,
    title="One set of pictures, two recipes, agents apart",
    source="Zhang et al. (2026), Social-JEPA, Tables 1, 2, 4, 7 to 9 and Figures 5, 7, 8",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(
        methods=_methods,
        budget=_stress("budget", "r2"),
        noise=_stress("noise", "condition"),
        neighborhoods=_stress("neighborhoods", "nos@"),
        probes=_probes,
    ),
    charts=[ChartSpec("training", _charts)],
    statements=Statement.named(
        trained=_above("probe", BETTER, 100), aligned=_above("r2"), order=_order, shuffled=_shuffled
    ),
)
