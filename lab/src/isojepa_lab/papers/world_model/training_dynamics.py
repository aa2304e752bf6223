"""How an embedding becomes the latents: Hermite degrees, directions and Theorem 3's distances in training.

Every 10 steps at first, then every 50, encoders of three worlds are measured on the same fresh pairs. A
direction is learned when its variance passes half of what it has at the end; learning is stepwise if
directions are learned one after the other. At weight 0.5 the spiral is not recovered: the same objective is
minimized for longer, at a lower rate, on larger batches, and from the weights that weight 0.002 found.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Any

import numpy as np
import torch
from torch import nn

from isojepa.certificates import certify
from isojepa.certificates.spectrum import measure_spectrum
from isojepa.config import Config
from isojepa.data.source import Source
from isojepa.encoders.model import Model, embed
from isojepa.linear import held_out_r2
from isojepa.registry import build_spec
from isojepa.report.charts import Chart, Curve, curves_chart
from isojepa.runs import build_all
from isojepa.seeds import generator as make_generator
from isojepa.training.loop import fit
from isojepa.training.recipe import Recipe
from isojepa_lab.studies.cells import Cell, Computation
from isojepa_lab.studies.measured import mean, trend
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.scores import losses
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Judge, Judgement, Statement, asks, judge_lines
from isojepa_lab.studies.study import Study

SPIRAL, COUPLING, GENERIC = "spiral", "coupling, matched encoder", "lift, perceptron"
WORLDS: dict[str, dict[str, Any]] = {
    SPIRAL: {"dim": 2, "mixing": "spiral"},
    COUPLING: {"dim": 8, "mixing": "additive-coupling", "mixing_layers": 4},
    GENERIC: {"dim": 8, "mixing": "lift"},
}
ENCODERS = {
    SPIRAL: build_spec("encoder", "mlp"),
    COUPLING: build_spec("encoder", "coupling", layers=4),
    GENERIC: build_spec("encoder", "mlp", width=128, layers=4),
}
RHO = 0.95
DEFAULT, STUCK = 0.002, 0.5  # weights
WEIGHTS = (DEFAULT, 0.02, 0.1, STUCK)
STEPS = {SPIRAL: 2000, COUPLING: 2000, GENERIC: 3000}
DENSE_UNTIL, DENSE, SPARSE = 400, 10, 50  # steps between measurements
SEEDS = 3
LONGER, SLOWER, LARGER = "four times the steps", "rate 0.001", "batch 8192"
START, START_SLOWER = "from weight 0.002", "from weight 0.002, rate 0.001"
LOW_RATE = 1e-3
DEGREES = 3
RECOVERED = 0.95  # R^2 that separates a recovered spiral from a stuck one
RISING = 0.005  # of R^2 in the last fifth of the steps
SAMPLES = 4_000


def cells(scale: str) -> list[Cell]:
    """Four weights in each world; on the spiral at weight 0.5 four other ways to minimize the same loss."""
    if scale == "quick":
        return [_cell(SPIRAL, DEFAULT, "", 0, 60)]
    seeds = range(SEEDS)
    runs = [_cell(world, weight, "", seed) for world in WORLDS for weight in WEIGHTS for seed in seeds]
    variants = (LONGER, SLOWER, LARGER, START, START_SLOWER)
    return runs + [_cell(SPIRAL, STUCK, variant, seed) for variant in variants for seed in seeds]


def _cell(world: str, weight: float, variant: str, seed: int, steps: int = 0) -> Cell:
    labels: dict[str, Any] = {"world": world, "weight": weight, "variant": variant, "seed": seed}
    steps = (steps or STEPS[world]) * (4 if variant == LONGER else 1)
    return Cell(Computation({**labels, "steps": steps}, seconds=0.05 * steps), labels)


def _config(world: str, weight: float, variant: str, seed: int, steps: int) -> Config:
    recipe = Recipe(steps=steps)
    if world != SPIRAL:
        recipe = replace(recipe, batch=512, batch_start=None, learning_rate=1e-2)
    if variant in (SLOWER, START_SLOWER):
        recipe = replace(recipe, learning_rate=LOW_RATE)
    if variant == LARGER:
        recipe = replace(recipe, batch=8192, batch_start=1024)
    source = build_spec("world", rho=RHO, **WORLDS[world])
    return Config(
        source, ENCODERS[world], build_spec("objective", "lejepa", weight=weight), recipe, seed=seed
    )


@dataclass
class Trajectory:
    """Everything that is measured along the way; an `Evaluation`.

    Attributes:
        encoder: which is measured.
        world: whose fresh pairs are embedded.
        series: numbers by name, one for each measured step.
        variances: at each step, of the principal directions, descending.
        correlations: at each step, squared canonical correlations with the latents, descending.
    """

    encoder: nn.Module
    world: Source
    series: dict[str, list[float]] = field(default_factory=dict)
    variances: list[np.ndarray] = field(default_factory=list)
    correlations: list[np.ndarray] = field(default_factory=list)
    step: int = 0
    name: str = "trajectory"
    primary: str = "r2"
    every: int | None = DENSE

    def __call__(self, models: Mapping[str, Model], generator: torch.Generator) -> dict[str, float]:
        """Measure where the step is one of those that are kept."""
        self.step += DENSE
        if self.step > DENSE_UNTIL and self.step % SPARSE:
            return {}
        batch = self.world.sample(SAMPLES, make_generator(1, "trajectory"))
        h, h_next = (embed(self.encoder, view).double().numpy() for view in batch.views)
        z = batch.latents[0].double().numpy()
        h_white, z_white = (np.linalg.qr(part - part.mean(0))[0] for part in (h, z))
        self.variances.append(np.linalg.eigvalsh(np.cov(h.T))[::-1])
        self.correlations.append(np.linalg.svd(h_white.T @ z_white)[1] ** 2)
        spectrum = measure_spectrum(self.encoder, self.world, degree=DEGREES, samples=SAMPLES)
        bound = certify(self.encoder, self.world, samples=SAMPLES, checks=False, seed=1).bound
        shares = {f"degree {degree}": share.estimate for degree, share in enumerate(spectrum.shares, 1)}
        numbers = {
            "step": float(self.step),
            "r2": held_out_r2(h, z),
            **shares,
            "above": spectrum.above.estimate,
            "epsilon": math.nan if bound is None else bound.epsilon.estimate,
            "delta": math.nan if bound is None else bound.delta.estimate,
            "alignment": float(np.square(h - h_next).sum(1).mean() / 4),  # to the center of the two views
        }
        for key, value in numbers.items():
            self.series.setdefault(key, []).append(float(f"{value:.5g}"))
        return {"r2": numbers["r2"]}

    def learned_at(self) -> list[float]:
        """For each direction, the first measured step at which its variance is half of that at the end."""
        variances, steps = np.array(self.variances), np.array(self.series["step"])
        passed = variances >= variances[-1] / 2
        return [float(steps[int(np.argmax(column))]) for column in passed.T]

    def rise(self) -> list[float]:
        """For each direction, the steps between a tenth and nine tenths of its variance at the end."""
        variances, steps = np.array(self.variances), np.array(self.series["step"])
        ends = [[np.argmax(column >= share * column[-1]) for share in (0.1, 0.9)] for column in variances.T]
        return [float(max(DENSE, steps[int(high)] - steps[int(low)])) for low, high in ends]


def measure(cell: Cell) -> dict[str, Any]:
    """The trajectory of one run, and the loss of its end on fresh pairs."""
    config = _config(**cell.settings)
    encoder, world, objective = build_all(config)
    if cell.settings["variant"] in (START, START_SLOWER):
        first = _config(**{**cell.settings, "weight": DEFAULT, "variant": ""})
        _train(encoder, first, build_all(first).objective)
    trajectory = Trajectory(encoder, world)
    _train(encoder, config, objective, trajectory)
    ended = losses(encoder, world)
    weight = cell.settings["weight"]
    learned, rise = trajectory.learned_at(), trajectory.rise()
    return {
        "r2": trajectory.series["r2"][-1],
        "curve": [
            list(pair) for pair in zip(trajectory.series["step"], trajectory.series["r2"], strict=True)
        ],
        "series": trajectory.series,
        "learned_at": learned,
        "rise": rise,
        "stepwise": _stepwise(learned, rise),
        **ended,
        "total": weight * ended["sigreg"] + (1 - weight) * ended["alignment"],
    }


def _train(encoder: nn.Module, config: Config, objective: Any, *evaluations: Trajectory) -> None:
    source = evaluations[0].world if evaluations else build_all(config).source
    recipe, seed = config.training, config.seed
    fit(encoder, source, objective, recipe=recipe, seed=seed, evaluations=evaluations, progress=False)


def _stepwise(learned: list[float], rise: list[float]) -> float:
    """Steps between one direction and the next over those that one takes; above 1 they come one by one."""
    order = np.argsort(learned)
    gaps = np.diff(np.array(learned)[order])
    return float(median(gaps / np.array(rise)[order][1:]))


def _by_run(rows: Rows) -> Lines:
    return rows.lines(
        ["world", "weight", "variant"],
        *("r2", "epsilon", "delta", "alignment", "sigreg", "total"),
        lambda own: {
            name: _last(own, name) for name in ("degree 1", "degree 2", "above", "epsilon", "delta")
        },
        seeds=len,
        trend=lambda own: trend(own, RISING),
        first=lambda own: fmean(min(row.scores["learned_at"]) for row in own),
        last=lambda own: fmean(max(row.scores["learned_at"]) for row in own),
        stepwise=lambda own: mean(own, "stepwise"),
        white=lambda own: _reached(own, "epsilon"),
        aligned=lambda own: _reached(own, "delta"),
    )


def _last(rows: Rows, name: str) -> float:
    return fmean(row.scores["series"][name][-1] for row in rows)


def _reached(rows: Rows, name: str) -> float:
    """Mean step at which a distance comes within twice of its end."""
    steps = []
    for row in rows:
        values, at = np.array(row.scores["series"][name]), row.scores["series"]["step"]
        above = np.flatnonzero(values > 2 * abs(values[-1]))
        steps.append(at[min(len(at) - 1, int(above[-1]) + 1)] if len(above) else at[0])
    return fmean(steps)


def _charts(rows: Rows) -> list[Chart]:
    charts = []
    for name, title in (("r2", "R² of z from h"), ("degree 1", "Linear share"), ("delta", "δ")):
        curves = []
        for index, ((weight,), group) in enumerate(rows.where(world=SPIRAL, variant="").by("weight").items()):
            series = [row.scores["series"] for row in group]
            points = {at: fmean(one[name][i] for one in series) for i, at in enumerate(series[0]["step"])}
            curves.append(Curve(f"weight {weight:g}", points, index + 1))
        charts.append(curves_chart(f"Spiral: {title}", "steps", title, curves, scale="linear"))
    return charts


def _is_kept(variant: str) -> Judge:
    """Whether weight 0.5 keeps the latents that it starts from, at a lower loss than from random weights."""

    def judge(rows: Rows) -> Judgement:
        stuck = rows.where(world=SPIRAL, weight=STUCK, variant="").mean("total")
        lines = _by_run(rows.where(variant=variant)) if stuck is not None else Lines()
        text = "R² {r2:.4f}, loss {total:.4f}"
        return judge_lines(
            lines, lambda line: line["r2"] > RECOVERED and line["total"] < stuck, text, loss=stuck
        )

    return judge


STUDY = Study.of_file(
    __file__,
    title="How the latents are learned",
    source="Klindt, LeCun & Balestriero (2026), Limitations: the dynamics of optimization are left open",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(runs=_by_run),
    charts=[ChartSpec("spiral", _charts)],
    statements=Statement.named(
        stepwise=asks(
            lambda rows: _by_run(rows.where(variant="")),
            "stepwise",
            lambda ratio: ratio > 1,
            "{world} at weight {weight:g} ({stepwise:.1f})",
        ),
        kept=_is_kept(START_SLOWER),
        kept_at_rate=_is_kept(START),
        others=asks(
            lambda rows: _by_run(rows.where(variant=(LONGER, SLOWER, LARGER))),
            "r2",
            lambda r2: r2 > RECOVERED,
            "{variant} (R² {r2:.3f})",
        ),
    ),
)
