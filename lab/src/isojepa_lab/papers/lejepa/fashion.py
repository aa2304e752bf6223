"""Fashion-MNIST without its labels: LeJEPA beside SimCLR, VICReg and Barlow Twins, one network, one budget.

Each run sees the same pictures in the same views for as many steps. A linear probe reads the pooled features
of the frozen backbone: of 5,000 pictures while it trains, of all 60,000 at the end. The learning rate was the
best of a few for every method in short runs of a narrower network, by probes on the test pictures.
"""

import time
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import nn

from isojepa import runs
from isojepa.config import Config
from isojepa.data.images.image_sets import ImageSet, Stack
from isojepa.data.images.source import Images, open_images
from isojepa.probes import LinearProbe
from isojepa.probes.features import features_of
from isojepa.probes.linear import linear_probe, neighbors_probe
from isojepa.probes.rank import rankme
from isojepa.registry import Context, build_spec
from isojepa.report.charts import Chart, Curve, curves_chart
from isojepa.seeds import generator
from isojepa.training.loop import fit
from isojepa.training.recipe import Recipe
from isojepa_lab.studies.cells import Cell, Computation
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Judge, Judgement, Statement, asks, judge_lines, judge_values
from isojepa_lab.studies.study import Study

DATA = "data/fashion-mnist"  # where `tools/data fashion-mnist` puts it
OURS, LONGER, RANDOM, PIXELS = "LeJEPA", "LeJEPA, longer", "random weights", "raw pixels"
METHODS = {  # objective by name
    OURS: "lejepa-images",
    "SimCLR": "simclr",
    "VICReg": "vicreg",
    "Barlow Twins": "barlow-twins",
}
SETTINGS: dict[str, Any] = {
    "backbone": "convnet-32-64-128-256",
    "projector": "512-64",
    "batch": 256,
    "steps": 500,
    "rate": 1.5e-2,
}
QUICK: dict[str, Any] = {
    "backbone": "convnet-4-8",
    "projector": "16-8",
    "batch": 16,
    "steps": 4,
    "rate": 1.5e-2,
}
SECOND, PROBES = 0.8, 120.0  # of one core: a step, and the probes of a run
TIMES = 3  # as many steps of the longer run
LOOKS = 10  # at the features while they are learned
WANTED, GOAL, GAIN = 0.87, 0.90, 5  # accuracies, and points above random weights


def cells(scale: str) -> list[Cell]:
    """Each method, random weights and raw pixels; at paper scale with three seeds."""
    base = {**QUICK, "data": ""} if scale == "quick" else {**SETTINGS, "data": DATA}
    cells = []
    for seed in range(3 if scale == "paper" else 1):
        for method, objective in METHODS.items():
            settings = {**base, "objective": objective, "seed": seed}
            cells.append(Cell(_computation(settings), {"method": method, "seed": seed}))
            if method == OURS:
                longer = {**settings, "steps": TIMES * base["steps"]}
                cells.append(Cell(_computation(longer), {"method": LONGER, "seed": seed}))
        cells.append(Cell(Computation({**base, "steps": 0, "seed": seed}), {"method": RANDOM, "seed": seed}))
    return [*cells, Cell(Computation({"data": base["data"]}), {"method": PIXELS, "seed": 0})]


def _computation(asked: dict[str, Any]) -> Computation:
    """With a guess of its time."""
    return Computation(asked, seconds=PROBES + SECOND * asked["steps"] if asked["data"] else None)


def measure(cell: Cell) -> dict[str, float]:
    """Probes of a frozen backbone, while it learned and at the end."""
    settings = cell.settings
    train, test = _pictures(settings.pop("data"))
    if not settings:
        return _judged(nn.Flatten(), train, test)
    source = Images(train)
    spec = build_spec("encoder", "backbone", backbone=settings["backbone"], projector=settings["projector"])
    config = Config(build_spec("world", "images"), spec, seed=settings["seed"])
    context = runs.context_of(config, source)
    model = spec.build(context)
    scores = {} if not settings["steps"] else _learned(model, source, test, context, **settings)
    return {**scores, **_judged(model, train, test)}


def _learned(
    model: nn.Module,
    source: Images,
    test: ImageSet,
    context: Context,
    objective: str,
    rate: float,
    steps: int,
    batch: int,
    seed: int,
    **network: Any,
) -> dict[str, float]:
    """Train the model: the accuracy of probes by step, and the processor time."""
    recipe = Recipe(
        steps=steps,
        batch=batch,
        batch_start=None,
        learning_rate=rate,
        weight_decay=0.05,
        warmup=0.05,
        beta2=0.999,
        eval_every=max(1, steps // LOOKS),
    )
    look = LinearProbe(source.pictures, test, samples=5_000, test_samples=len(test))
    loss = build_spec("objective", objective).build(context)
    started = time.process_time()
    run = fit(model, source, loss, recipe=recipe, evaluations=(look,), seed=seed, progress=False)
    spent = time.process_time() - started
    return {"cpu_seconds": spent, **{f"at {row['step']}": row["probe"] for row in run.metrics}}


def _judged(model: nn.Module, train: ImageSet, test: ImageSet) -> dict[str, float]:
    """All pictures: a linear probe with its interval, 20 neighbors, RankMe."""
    x, test_x = (features_of(model, pictures) for pictures in (train, test))
    labels = train.labels, test.labels
    linear = linear_probe(x, labels[0], test_x, labels[1])
    nearest = neighbors_probe(x, labels[0], test_x, labels[1], k=(20,))[0]
    low, high = linear.interval
    return {
        "linear": linear.accuracy,
        "low": low,
        "high": high,
        "neighbors": nearest.accuracy,
        "rankme": rankme(x),
    }


def _pictures(data: str) -> tuple[ImageSet, ImageSet]:
    """To learn from and to score."""
    if not data:
        return _drawn(200, 0), _drawn(100, 1)
    if not Path(data).exists():
        raise ValueError(f"{data} does not exist: fetch it with `python tools/data fashion-mnist`")
    return open_images(data, split="train"), open_images(data, split="test")


def _drawn(count: int, seed: int) -> Stack:
    """Pictures of bars that stand or lie, to see that everything works."""
    source = generator(seed, "study fashion", "drawn")
    labels = torch.arange(count) % 2
    images = torch.randint(64, (count, 28, 28), generator=source).byte()
    for row, label in enumerate(labels.tolist()):
        place = int(torch.randint(4, 20, (), generator=source))
        bar = images[row].T if label else images[row]
        bar[place : place + 4] += 160
    return Stack(images.numpy(), labels=labels)


def _curves(rows: Rows) -> list[Chart]:
    """Accuracy against processor time."""
    curves = []
    for (method,), group in rows.where(method=(*METHODS, LONGER)).by("method").items():
        points: dict[float, list[float]] = {}
        for row in group:
            steps = row.config["steps"]
            for name, value in row.scores.items():
                if name.startswith("at "):
                    share = int(name.removeprefix("at ")) / steps
                    points.setdefault(share, []).append(value)
        minutes = (group.mean("cpu_seconds") or 0.0) / 60
        curves.append(
            Curve(str(method), {share * minutes: fmean(accuracies) for share, accuracies in points.items()})
        )
    linear = {"scale": "linear", "across_scale": "linear"}
    title = "Linear probe of 5,000 pictures"
    return [curves_chart(title, "minutes of one core", "accuracy", curves, **linear)]


def _lines(rows: Rows) -> Lines:
    return rows.lines(
        ["method"],
        "linear",
        "low",
        "high",
        "neighbors",
        "rankme",
        seeds=len,
        minutes=lambda own: None if (spent := own.mean("cpu_seconds")) is None else spent / 60,
    )


def _reaches(accuracy: float) -> Judge:
    """Whether LeJEPA does, in each run."""
    lines = lambda rows: _lines(rows.where(method=(OURS, LONGER)))  # noqa: E731
    return asks(lines, "linear", lambda value: value >= accuracy, "{method} {linear:.4f}")


def _gain(rows: Rows) -> Judgement:
    base = rows.where(method=RANDOM).mean("linear")
    ours = rows.where(method=(OURS, LONGER)).values("linear") if base is not None else []
    return judge_values([100 * (value - (base or 0.0)) for value in ours], lambda gain: gain >= GAIN)


def _neighbors(rows: Rows) -> Judgement:
    pixels = rows.where(method=PIXELS).mean("neighbors")
    ours = _lines(rows.where(method=(OURS, LONGER))) if pixels is not None else Lines()
    message = "{method} {neighbors:.4f}"
    return judge_lines(ours, lambda line: line["neighbors"] > pixels, message, "neighbors", pixels=pixels)


def _others(rows: Rows) -> Judgement:
    """Level is within the interval of ours, which covers the choice of test pictures."""
    ours = rows.where(method=OURS)
    high = ours.mean("high")
    others = _lines(rows.where(method=tuple(set(METHODS) - {OURS}))) if high is not None else Lines()
    facts = {"ours": ours.mean("linear"), "least": ours.mean("low"), "most": high}
    message = "{method} {linear:.4f}"
    return judge_lines(others, lambda line: line["linear"] <= high, message, "linear", **facts)


STUDY = Study.of_file(
    __file__,
    title="Fashion-MNIST without labels",
    source="Balestriero & LeCun (2025), LeJEPA; the data are Xiao, Rasul & Vollgraf (2017)",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(methods=_lines),
    charts=[ChartSpec("curves", _curves)],
    statements=Statement.named(
        wanted=_reaches(WANTED), goal=_reaches(GOAL), gain=_gain, neighbors=_neighbors, others=_others
    ),
)
