"""Recorded, goal-directed paths, which break the theorems: which angles have an axis, and a name."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

from isojepa.report.charts import Chart, Curve, curves_chart
from isojepa_lab.papers.own.axis_scores import latent_rows
from isojepa_lab.papers.own.recording_measures import ANGLES, SLOWEST, TRAINED, WAYS, measure
from isojepa_lab.studies.cells import Cell, Computation, crossed
from isojepa_lab.studies.findings import Value
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Judge, Judgement, Statement, judge_lines, judge_values, judged
from isojepa_lab.studies.study import Study

LATENTS = ("shoulder", "wrist")
STRIDES = (2, 8, 32)
PLAIN = "as recorded"
DATA: dict[str, tuple[str, float]] = {  # how training pairs are weighed: method and strength of isotropise
    PLAIN: ("", 0.0),
    "rates 0.5": ("rates", 0.5),
    "moments 0.25": ("moments", 0.25),
}
SHOWN = 0.9  # R^2 from which an angle counts as shown, and rank correlation from which an axis is an angle
LOST = 0.5  # R^2 below which it counts as lost
NEAR = 0.02  # of R^2, that an axis of its own may lack
WAY = "paths"  # what the tables show, where it is not said
PLACE = "{embedding} at stride {stride}"
SIZES: dict[str, dict[str, Any]] = {
    "quick": {"paths": 100, "length": 101, "steps": 20, "batch": 64},
    "standard": {"paths": 1000, "length": 201, "steps": 400, "batch": 512},
    "paper": {"paths": 1000, "length": 201, "steps": 400, "batch": 512},
}
SEEDS = {"quick": 1, "standard": 3, "paper": 10}


def cells(scale: str) -> list[Cell]:
    """Every objective at every stride on data as recorded and as weighed; and embeddings nothing trained."""
    build = partial(_computation, scale)
    seeds = range(SEEDS[scale])
    if scale == "quick":
        cells = crossed(build, data=PLAIN, embedding=(ANGLES, SLOWEST, "whitening"), stride=8, seed=seeds)
        return cells + crossed(build, data="rates 0.5", embedding="whitening", stride=8, seed=seeds)
    untrained = crossed(build, data=PLAIN, embedding=(ANGLES, SLOWEST), stride=STRIDES, seed=seeds)
    return untrained + crossed(build, data=tuple(DATA), embedding=tuple(TRAINED), stride=STRIDES, seed=seeds)


def _computation(scale: str, data: str, embedding: str, stride: int, seed: int) -> Computation:
    method, strength = DATA[data]
    labels = {"embedding": embedding, "stride": stride, "seed": seed, "method": method, "strength": strength}
    return Computation(labels | SIZES[scale], seconds=6.0)


def _each(rows: Rows, way: str = WAY) -> Rows:
    """A row for each angle of an embedding whose axes were found in a way."""
    return Rows(one for row in rows for one in latent_rows(row, row.scores.get(way, {}), LATENTS, way=way))


def _trained(rows: Rows) -> Rows:
    return rows.where(embedding=tuple(TRAINED))


def _lines(rows: Rows, by: list[str]) -> Lines:
    """Means over seeds: of both angles what is read off all axes, one axis, and one that is straightened."""

    def means(own: Rows) -> dict[str, Any]:
        means_by_name: dict[str, Any] = {}
        for latent in LATENTS:
            one = own.where(latent=latent)
            means_by_name |= {
                f"{key}_{latent}": one.mean(key) for key in ("linear", "own", "straight", "rank", "named")
            }
        return means_by_name | {"cues": _counted(row.scores["cue"] for row in own if row.scores["named"])}

    return _each(rows).lines(by, means)


def _counted(names: Any) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(Counter(names).items())) or "–"


def _weighed(rows: Rows) -> Lines:
    """The trained on weighed pairs, with what their R^2 and names gain over the data as they are."""
    shares = rows.lines(["data", "embedding", "stride"], "effective")
    share = {tuple(line.values())[:3]: line["effective"] for line in shares}
    lines = _lines(_trained(rows), ["data", "embedding", "stride"])
    plain = {(line["embedding"], line["stride"]): line for line in lines.where(data=PLAIN)}
    table = Lines()
    for line in lines.where(data=lambda name: name != PLAIN):
        base = plain.get((line["embedding"], line["stride"]))
        if base is not None:
            gain = {
                f"gain_{key}": line[f"{key}_wrist"] - base[f"{key}_wrist"] for key in ("linear", "straight")
            }
            names = sum(line[f"named_{one}"] - base[f"named_{one}"] for one in LATENTS)
            place = (line["data"], line["embedding"], line["stride"])
            table.append({**line, **gain, "gain_named": names, "effective": share[place]})
    return table


def _ways(rows: Rows) -> Lines:
    """Axes with a name, of two, by the way they were found."""
    runs = Rows(row for way in WAYS for row in _each(rows.where(data=PLAIN), way))
    return runs.lines(
        ["embedding", "stride"],
        lambda own: {way: 2 * (own.where(way=way).mean("named") or 0.0) for way in WAYS},
        lambda own: {f"rank_{way}": own.where(way=way).mean("rank") for way in WAYS},
    )


def _reasons(rows: Rows) -> Lines:
    """Why axes have no name: how many of them, by the way they were found, whatever they were trained on."""
    reasons: dict[str, Counter[str]] = {}
    for row in _trained(rows):
        for way in WAYS:
            for reason in row.scores.get(way, {}).get("reasons", ()):
                reason_text = reason.partition(" (")[0]  # without its number
                reasons.setdefault(reason_text, Counter())[way] += 1
    return Lines({"reason": reason, **{way: count[way] for way in WAYS}} for reason, count in reasons.items())


def _shown(rows: Rows, is_shown: bool = True) -> list[Rows]:
    """Runs that show both angles, or those that do not, as rows of both angles each."""
    runs = _each(_trained(rows)).by("data", "embedding", "stride", "seed").values()
    return [
        runs_of_kind for runs_of_kind in runs if (min(runs_of_kind.values("linear")) >= SHOWN) == is_shown
    ]


def _both(rows: Rows) -> Judgement:
    lines = _lines(_trained(rows).where(data=PLAIN), ["embedding", "stride"])
    text = f"{PLACE} ({{linear_shoulder:.2f}} / {{linear_wrist:.2f}})"
    return judge_lines(
        lines, lambda line: min(line["linear_shoulder"], line["linear_wrist"]) >= SHOWN, text, "linear_wrist"
    )


def _own_axes(rows: Rows) -> Judgement:
    lacks = [max(row.scores["linear"] - row.scores["own"] for row in visible) for visible in _shown(rows)]
    return judge_values(lacks, lambda one: one <= NEAR)


def _names(rows: Rows) -> Judgement:
    """Whether runs that show both angles name both; and how well axes without a name fit all the same."""
    judged = _shown(rows)
    counts = [sum(visible_runs.values("named")) for visible_runs in judged]
    others = [
        row.scores["rank"] for visible_runs in judged for row in visible_runs if not row.scores["named"]
    ]
    one, rank = counts.count(1), f"{min(others):.2f}" if others else "–"
    return judge_values(counts, lambda count: count == len(LATENTS), one=one, rank=rank)


def _named(
    test: Callable[[dict[str, Any]], bool], rows: Rows, kinds: tuple[bool, ...] = (True, False)
) -> Judgement:
    """Whether axes with a name pass a test: of runs that show both angles, of those that do not, of all."""
    runs = [visible for kind in kinds for visible in _shown(rows, kind)]
    lines = [{**row.labels, **row.scores} for visible in runs for row in visible if row.scores["named"]]
    failed = Counter(PLACE.format_map(line) for line in lines if not test(line))
    message = "; ".join(f"{place} ({count})" for place, count in failed.items())
    return judged(map(test, lines), told=message)


def _rates(rows: Rows) -> Judgement:
    return _named(lambda line: line["cue"] in ("rate", "shape or rate"), rows)


def _right(is_shown: bool) -> Judge:
    """The judge of whether axes with a name are angles."""
    return lambda rows: _named(lambda line: line["rank"] >= SHOWN, rows, (is_shown,))


def _straightens(latent: str) -> Judge:
    """The judge of whether a named axis that is straightened is nearer to its angle than all axes are."""

    def gains(runs: list[Rows]) -> list[float]:
        named = [
            row.scores
            for candidates in runs
            for row in candidates.where(latent=latent)
            if row.scores["named"]
        ]
        return [one["straight"] - one["linear"] for one in named]

    def judge(rows: Rows) -> Judgement:
        visible, others = (gains(_shown(rows, is_shown)) for is_shown in (True, False))
        facts = {"others": len(others), "others_good": sum(gain > 0 for gain in others)}
        ends = f"{min(others):+.3f} to {max(others):+.3f}" if others else "–"
        return judge_values(visible, lambda gain: gain > 0, **facts, others_ends=ends)

    return judge


def _constant(rows: Rows) -> Judgement:
    lines = _each(rows.where(embedding=ANGLES)).lines(["latent", "stride"], "straight")
    text = "{latent} at stride {stride} {straight:.3f}"
    return judge_lines(lines, lambda line: line["straight"] >= 0.99, text, "straight")


def _more_names(rows: Rows) -> Judgement:
    lines = _ways(rows)
    text = f"{PLACE} ({{pairs:.1f}} to {{paths:.1f}})"
    return judge_lines(lines, lambda line: line["paths"] >= line["pairs"], text)


def _gains(key: str) -> Judge:
    """The judge of whether weighing pairs first raises something."""

    def judge(rows: Rows) -> Judgement:
        text = f"{PLACE}, {{data}} ({{{key}:+.2f}})"
        return judge_lines(_weighed(rows), lambda line: line[key] > 0, text, key)

    return judge


def _predicted(rows: Rows) -> Judgement:
    """Whether the wrist is lost where the slowest functions lack it, and nowhere else."""
    lines = _lines(rows.where(data=PLAIN), ["embedding", "stride"])
    linear_wrist = {line["stride"]: line["linear_wrist"] for line in lines.where(embedding=SLOWEST)}
    compared = Lines(
        {**line, "predicted": linear_wrist[line["stride"]]}
        for line in lines.where(embedding=tuple(TRAINED))
        if line["stride"] in linear_wrist
    )
    text = f"{PLACE} ({{predicted:.2f}}, {{linear_wrist:.2f}})"
    return judge_lines(
        compared, lambda line: (line["predicted"] < LOST) == (line["linear_wrist"] < LOST), text
    )


def _panels(rows: Rows) -> list[Chart]:
    """By angle and data: what all axes give, what one axis gives when it is straightened."""
    each, panels = _each(_trained(rows)), []
    for latent in reversed(LATENTS):
        for data in DATA:
            line_rows = each.where(latent=latent, data=data)
            curves: list[Curve] = line_rows.curves("stride", "linear", "{embedding}")
            curves += [
                replace(curve, name=f"{curve.name}: own axis", style="dashed")
                for curve in line_rows.curves("stride", "straight", "{embedding}")
            ]
            title = f"{latent}, {data}"
            panels.append(curves_chart(title, "stride", "R²", curves, scale="linear", zero=True))
    return panels


def _numbers(rows: Rows) -> dict[str, Value]:
    refused = sum("refused" in row.scores.get(way, {}) for row in rows for way in WAYS)
    facts: dict[str, Value] = {"refused": refused or None}
    nearest = rows.where(embedding=ANGLES, stride=min(rows.by("stride"), default=(0,))[0])
    for score in ("ceiling", "uneven"):
        values = [row.scores[score] for row in nearest if row.scores.get(score)]
        for place, latent in enumerate(LATENTS):
            facts[f"{score}_{latent}"] = fmean(one[place] for one in values) if values else None
    return facts


STUDY = Study.of_file(
    __file__,
    title="Recorded paths: where the paper fails",
    source="Klindt, LeCun & Balestriero (2026), Section 5.2 and Appendix H, in a world of ours like theirs",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(
        recorded=lambda rows: _lines(rows.where(data=PLAIN), ["embedding", "stride"]),
        weighed=_weighed,
        ways=_ways,
        reasons=_reasons,
    ),
    charts=[ChartSpec("recovery", _panels)],
    statements=Statement.named(
        both=_both,
        own_axes=_own_axes,
        names=_names,
        rates=_rates,
        right=_right(is_shown=True),
        guarded=_right(is_shown=False),
        shoulder=_straightens("shoulder"),
        wrist=_straightens("wrist"),
        constant=_constant,
        more_names=_more_names,
        gains=_gains("gain_linear"),
        gains_names=_gains("gain_named"),
        predicted=_predicted,
    ),
    numbers=_numbers,
)
