"""Transitions and plans in made-up linear worlds: whether intervals, bounds and refusals keep their word."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from isojepa.report.charts import Chart, Curve, Reference, curves_chart
from isojepa_lab.papers.own.linear_measures import KINDS, PARTS, POLICIES, TOGETHER
from isojepa_lab.studies.cells import Cell, Computation
from isojepa_lab.studies.findings import Value
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import (
    Judge,
    Judgement,
    Statement,
    asks,
    at_most,
    judge_lines,
    judge_values,
    judged,
)
from isojepa_lab.studies.study import Study

TARGET = 0.9  # share of the worlds in which intervals of 95 % confidence must hold the truth
EXACT = 1e-8  # largest difference that a rotation may make to actions and values
SIZE = (5.2, 4.4)  # inches of a panel
LAYOUTS = {"episodes of 20 steps": 20, "one path": 0}  # steps of an episode
MODELS: dict[str, dict[str, Any]] = {  # what is known of the transition
    "known": {"radius": 0.0, "recorded": 0},
    "off by 0.001": {"radius": 0.001, "recorded": 0},
    "off by 0.01": {"radius": 0.01, "recorded": 0},
    "fitted to 4,000 rows": {"radius": 0.0, "recorded": 4_000},
    "fitted to 64,000 rows": {"radius": 0.0, "recorded": 64_000},
}
GROUPS = {  # panels of the figure
    "The transition is known": ("known",),
    "It is off by a known distance": ("off by 0.001", "off by 0.01"),
    "It is fitted": ("fitted to 4,000 rows", "fitted to 64,000 rows"),
}
SIZES: dict[str, dict[str, Any]] = {
    "quick": {
        "worlds": 4,
        "batches": {"intervals": 1, "bound": 1, "excitation": 1},
        "dims": ((2, 1), (4, 2)),
        "rows": (160, 640),
        "lipschitz": (0.01, 0.3),
        "models": ("known", "fitted to 4,000 rows"),
        "turned": (2, 4),
    },
    "standard": {
        "worlds": 20,
        "batches": {"intervals": 3, "bound": 2, "excitation": 8},
        "dims": ((2, 1), (4, 2), (8, 4)),
        "rows": (80, 160, 320, 640, 1280, 2560),
        "lipschitz": (0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
        "models": tuple(MODELS),
        "turned": (1, 2, 4, 8, 16, 32),
    },
}
SIZES["paper"] = SIZES["standard"] | {"batches": {"intervals": 15, "bound": 10, "excitation": 40}}


def cells(scale: str) -> list[Cell]:
    """A few worlds each: intervals, bounds, policies that excite too little, regulators that are turned."""
    sizes, cells = SIZES[scale], []

    def add(settings: dict[str, Any], **labels: Any) -> None:
        for batch in range(sizes["batches"].get(settings["part"], 1)):
            batch_settings = settings | {"first": batch * sizes["worlds"], "worlds": sizes["worlds"]}
            cells.append(
                Cell(Computation(batch_settings), {**labels, "part": settings["part"], "batch": batch})
            )

    for dim, actions in sizes["dims"]:
        for rows in sizes["rows"]:
            for layout, steps in LAYOUTS.items():
                how = {"part": "intervals", "dim": dim, "actions": actions, "rows": rows}
                add(how | {"steps": steps or rows}, dim=dim, actions=actions, layout=layout, rows=rows)
    for model in sizes["models"]:
        for lipschitz in sizes["lipschitz"]:
            how = {"part": "bound", "lipschitz": lipschitz} | MODELS[model]
            add(how, model=model, lipschitz=lipschitz)
    for policy in POLICIES:
        how = {"part": "excitation", "policy": policy, "dim": 4, "actions": 3, "paths": 40, "steps": 20}
        add(how, policy=policy)
    for dim in sizes["turned"]:
        add({"part": "turned", "dim": dim, "states": 50, "horizon": 20}, dim=dim)
    return cells


def measure(cell: Cell) -> dict[str, Any]:
    """What a part measures in some worlds, one after the other."""
    settings = cell.settings
    first, worlds = settings.pop("first"), settings.pop("worlds")
    return PARTS[settings.pop("part")](range(first, first + worlds), **settings)


def _intervals(rows: Rows) -> Rows:
    """A row for each kind of interval, and one for all of them at once, with its share and its width."""
    return Rows(
        replace(
            row,
            labels=row.labels | {"kind": kind},
            scores={"share": row.scores[kind], "width": row.scores.get(f"{kind}, width")},
        )
        for row in rows.where(part="intervals")
        for kind in (*KINDS, TOGETHER)
    )


def _covers(by: Sequence[str], place: str, kinds: Sequence[str] = KINDS) -> Judge:
    """The judge of whether kinds of intervals hold the truth often enough, by some labels, told as a text."""
    return asks(
        lambda rows: _intervals(rows).where(kind=tuple(kinds)).lines(["kind", *by], "share"),
        "share",
        lambda share: share >= TARGET,
        f"{{share:.1%}} for {place}",
    )


def _narrowing(rows: Rows) -> Lines:
    """Widths over those with a quarter of the rows."""
    lines = Lines()
    for (kind,), group in _intervals(rows).where(kind=KINDS).by("kind").items():
        widths = group.points("rows", "width")
        quarters = [(count, width, widths.get(count / 4)) for count, width in widths.items()]
        lines += [
            {"kind": kind, "rows": int(count), "ratio": width / before}
            for count, width, before in quarters
            if width and before
        ]
    return lines


def _narrow(rows: Rows) -> Judgement:
    """Whether widths fall at least as fast as the root of the rows grows, give or take a tenth."""
    text = "{ratio:.2f} for {kind} with {rows:,} rows"
    return judge_lines(_narrowing(rows), lambda line: line["ratio"] <= 0.55, text, "ratio")


def _worlds(rows: Rows) -> Rows:
    """A row for each world that was regulated by sight."""
    return Rows(
        replace(row, scores=dict(zip(row.scores, values, strict=True)))
        for row in rows.where(part="bound")
        for values in zip(*row.scores.values(), strict=True)
    )


def _verdicts(rows: Rows) -> dict[str, Any]:
    """How many bounds there are, and how far above the regret."""
    said = Counter(str(row.scores["verdict"]) for row in rows)
    lacks = Counter(str(row.scores["lacks"]) for row in rows)
    ratios = rows.values("ratio")
    added = [row.scores["bound"] / row.scores["best"] for row in rows if row.scores["ratio"] is not None]
    return {
        "worlds": len(rows),
        "informative": said["bound"],
        "vacuous": said["vacuous"],
        "refused": said["no bound"],
        "uncertain": lacks["model"],
        "gain": lacks["small gain"],
        "regret": _middle(rows.values("regret")),
        "least": min(ratios, default=None),
        "ratio": _middle(ratios),
        "added": _middle(added),
    }


def _middle(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _above(rows: Rows) -> Judgement:
    worlds = _worlds(rows)
    facts = {name: _verdicts(worlds)[name] for name in ("worlds", "informative", "vacuous", "refused")}
    return judge_values(worlds.values("ratio"), lambda ratio: ratio >= 1, **facts)


def _near(rows: Rows) -> Judgement:
    """Whether informative bounds are within ten times the regret."""
    ratios = Rows(row for row in _worlds(rows) if row.scores["verdict"] == "bound").values("ratio")
    return judge_values(ratios, at_most(10.0), middle=_middle(ratios))


def _informative(rows: Rows) -> Judgement:
    """Whether bounds that are not refused are below the regret of doing nothing."""
    said = [row.scores for row in _worlds(rows) if row.scores["verdict"] != "no bound"]
    endless = sum(not math.isfinite(one["nothing"]) for one in said)
    return judged((one["verdict"] == "bound" for one in said), endless=endless)


def _least_covered(own: Rows) -> float | None:
    """The share of worlds in which intervals hold the truth, of the kind that does so least."""
    return min((share for kind in KINDS if (share := own.mean(kind)) is not None), default=None)


def _policies(rows: Rows) -> Lines:
    return rows.where(part="excitation").lines(
        ["policy"],
        *("open", "named", "promised", "exact", "linear", "weak"),
        covered=_least_covered,
        worlds=lambda own: sum(own.values("worlds")),
        sentence=lambda own: own[0].scores["sentence"],
    )


def _policy_judge(key: str, test: Callable[[float], bool], is_open: bool) -> Judge:
    """The judge of the policies that leave directions open, or of those that do not."""

    def judge(rows: Rows) -> Judgement:
        lines = _policies(rows).where(open=lambda count: (count > 0) == is_open).known(key)
        return judge_lines(lines, lambda line: test(line[key]), f"{{policy}} ({{{key}:.0%}})", key)

    return judge


def _turned(rows: Rows) -> Lines:
    keys = ("action", "value", "cost", "finite_action", "finite_value")
    lines = rows.where(part="turned").lines(["dim"], *keys, "worlds")
    return Lines(line | {"largest": max(line[key] for key in keys)} for line in lines.known(*keys))


def _coverage_panels(rows: Rows) -> list[Chart]:
    intervals = _intervals(rows)
    shares = intervals.curves("rows", "share", "{kind}", {TOGETHER: "dashed"})
    widths = intervals.where(kind=KINDS).curves("rows", "width", "{kind}")
    levels = {"scale": "linear", "references": [Reference(0.95, "confidence"), Reference(TARGET, "target")]}
    return [
        curves_chart("Worlds whose truth intervals hold", "rows", "share", shares, **levels),
        curves_chart("Half width over the estimate", "rows", "median over worlds", widths),
    ]


def _bound_panels(rows: Rows) -> list[Chart]:
    worlds, panels, shares = _worlds(rows), [], []
    regrets = [row.scores["regret"] for row in worlds if row.scores["ratio"] is not None]
    diagonal = Curve(
        "bound = regret", {end: end for end in (min(regrets), max(regrets))} if regrets else {}, 0
    )
    colors = {model: color for color, model in enumerate(MODELS, 1)}
    for title, models in GROUPS.items():
        dots = []
        for (model,), group in worlds.where(model=models).by("model").items():
            said = [row.scores for row in group if row.scores["ratio"] is not None]
            points = {one["regret"]: one["bound"] for one in said}
            dots.append(Curve(str(model), points, colors[str(model)], "dots"))
            lines = group.lines(["lipschitz"], _verdicts)
            points = {line["lipschitz"]: line["informative"] / line["worlds"] for line in lines}
            shares.append(Curve(str(model), points, colors[str(model)]))
        panels.append(curves_chart(title, "measured regret of a step", "bound", [*dots, diagonal]))
    at, share = "Lipschitz constant of the encoder's error", {"scale": "linear", "zero": True}
    panels.append(curves_chart("Worlds with a bound below doing nothing", at, "share", shares, **share))
    return panels


def _numbers(rows: Rows) -> dict[str, Value]:
    return {"certified": int(sum(rows.where(part="intervals").values("worlds"))), "target": TARGET}


STUDY = Study.of_file(
    __file__,
    title="Transitions and plans in linear worlds",
    source="nothing published: worlds of our own in which the truth is known",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(
        rows=lambda rows: _intervals(rows).pivot(["rows"], "{kind}", "share"),
        dims=lambda rows: _intervals(rows).pivot(["dim", "actions", "layout"], "{kind}", "share"),
        bounds=lambda rows: _worlds(rows).lines(["model", "lipschitz"], _verdicts),
        policies=_policies,
        turned=_turned,
    ),
    charts=[ChartSpec("bound", _bound_panels, 2, SIZE), ChartSpec("coverage", _coverage_panels, 2, SIZE)],
    statements=Statement.named(
        by_rows=_covers(["rows"], "{kind} with {rows:,} rows"),
        by_dim=_covers(["dim", "layout"], "{kind} of {dim} latents in {layout}"),
        together=_covers(["rows"], "{rows:,} rows", [TOGETHER]),
        narrow=_narrow,
        above=_above,
        informative=_informative,
        near=_near,
        silent=_policy_judge("promised", at_most(0.0), is_open=True),
        directions=_policy_judge("exact", lambda share: share == 1, is_open=True),
        answered=_policy_judge("linear", lambda share: share >= TARGET, is_open=False),
        barely=_policy_judge("covered", lambda share: share >= TARGET, is_open=False),
        turned=lambda rows: judge_values([line["largest"] for line in _turned(rows)], at_most(EXACT)),
    ),
    numbers=_numbers,
)
