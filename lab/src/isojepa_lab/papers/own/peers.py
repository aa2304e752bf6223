"""Slow features, VAMPNets, contrastive learning and the white embedding in the same worlds, each unmixed."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from isojepa.data.world import World
from isojepa.registry import Context, build_spec
from isojepa.report.charts import Chart, curves_chart
from isojepa.seeds import generator
from isojepa.unmixing import match_latents
from isojepa_lab.papers.own.axis_scores import score_axes
from isojepa_lab.papers.own.peer_methods import METHODS, Map, find_map
from isojepa_lab.studies.cells import Cell, Computation, Label
from isojepa_lab.studies.findings import Value
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Judgement, Statement, asks, at_most, judge_lines, judge_values
from isojepa_lab.studies.study import Study

OURS, MATCHED = "whitening", "InfoNCE"
LINEAR, SEQUENTIAL, CONTRASTIVE = "linear SFA", "xSFA", "PCL"
CLOSED = (LINEAR, "polynomial SFA", "kernel SFA", SEQUENTIAL)
TRAINED = tuple(name for name in METHODS if name not in CLOSED)
ONE, SEVERAL, WIDE = "one rate", "several rates", "rates beyond the window"
SPREAD = {
    ONE: 0.0,
    SEVERAL: 0.8,
    WIDE: 2.0,
}  # the fastest latent decorrelates 1 + this times as fast as the slowest
RHO = 0.9
FOUND = 0.9  # MCC from which latents count as found
NEAR = 0.01  # differences of an MCC that count as none
SIX = 6  # latents up to which xSFA is said to work
PLANE = ("spiral", "sinusoid", "parabola", "affine-coupling")
LAWS = {"uniform": {}, "generalized-normal": {"shape": 4.0}, "normal": {}}
SIZES: dict[str, dict[str, Any]] = {
    "quick": {
        "worlds": (("affine-coupling", 2, "uniform", ONE), ("lift", 3, "uniform", SEVERAL)),
        "seeds": 1,
        "pairs": 2_000,
        "features": 20,
        "training": {"steps": 20, "batch": 128},
        "axes": 3_000,
        "scored": 1_000,
    },
    "standard": {
        "worlds": (
            *((mixing, 2, "uniform", ONE) for mixing in PLANE),
            *(("lift", dim, "uniform", rates) for rates in (ONE, SEVERAL) for dim in (4, 6, 8)),
            ("lift", 4, "generalized-normal", ONE),
            ("lift", 4, "normal", SEVERAL),
            ("lift", 4, "uniform", WIDE),
        ),
        "seeds": 3,
        "pairs": 50_000,
        "features": 300,
        "training": {"steps": 400, "batch": 512},
        "axes": 30_000,
        "scored": 10_000,
    },
}
SIZES["paper"] = SIZES["standard"] | {
    "pairs": 400_000,
    "features": 1_000,
    "training": {"steps": 3_000, "batch": 2_048},
}


def cells(scale: str) -> list[Cell]:
    """Every method in every world, with a mixing of its own for each seed where mixings are drawn."""
    sizes, cells = SIZES[scale], []
    for mixing, dim, law, rates in sizes["worlds"]:
        for method in METHODS:
            if method == MATCHED and rates != ONE:
                continue  # no kernel is matched to several rates
            for seed in range(sizes["seeds"]):
                settings = {
                    "world": _world(mixing, dim, law, rates, seed),
                    "method": method,
                    "settings": _settings(method, dim, sizes),
                    "axes": sizes["axes"],
                    "scored": sizes["scored"],
                    "seed": seed,
                }
                labels: dict[str, Label] = {
                    "mixing": mixing,
                    "dim": dim,
                    "law": law,
                    "rates": rates,
                    "method": method,
                    "seed": seed,
                }
                seconds = 4.0 + dim / 4 if method in TRAINED else 1.0 + dim / 4
                cells.append(Cell(Computation(settings, seconds=seconds), labels))
    return cells


def measure(cell: Cell) -> dict[str, Any]:
    """Fit a method to its world; score what it gives, as it is and unmixed, on fresh states."""
    settings = cell.settings
    row_scores: dict[str, Any] = settings["world"]
    rho = tuple(row_scores["rho"]) if isinstance(row_scores["rho"], list) else row_scores["rho"]
    world: World = build_spec("world", **{**row_scores, "rho": rho}).build(Context(seed=settings["seed"]))
    started = time.process_time()
    representation = find_map(settings["method"], world, settings["seed"], **settings["settings"])
    spent = time.process_time() - started
    return {
        **score(representation, world, settings["axes"], settings["scored"], settings["seed"]),
        "spent": spent,
    }


def score(found: Map, world: World, axes: int, scored: int, seed: int) -> dict[str, Any]:
    """MCC of features with the latents, and after unmixing; where that refuses, features stay as they are."""
    h, h_next = (found(view.double().numpy()) for view in world.sample(axes, generator(seed, "axes")).views)
    batch = world.sample(scored, generator(seed, "scored"))
    rows, latents = found(batch.views[0].double().numpy()), batch.latents[0].double().numpy()
    partners = match_latents(rows, latents).partners
    ranks = [abs(partner.rank) for partner in partners]
    scores: dict[str, Any] = {
        "mcc": float(np.mean(ranks)),
        "rank": min(ranks),
        "r2": min(partner.linear_r2 for partner in partners),
    }
    started = time.process_time()
    try:
        unmixed = score_axes(h, h_next, rows, latents)
    except ValueError as error:
        unmixed = {**scores, "straight": None, "named": 0, "verdict": str(error)}
    names = ("mcc", "rank", "straight", "named", "verdict")
    return (
        scores
        | {f"unmixed_{name}": unmixed[name] for name in names}
        | {"unmix_spent": time.process_time() - started}
    )


def _world(mixing: str, dim: int, law: str, rates: str, seed: int) -> dict[str, Any]:
    spread = SPREAD[rates]
    rho = [RHO ** (1 + spread * at / (dim - 1)) for at in range(dim)] if spread else RHO
    mixing_settings = {"mixing_seed": seed} if mixing == "lift" else {}
    return {
        "process": "langevin",
        "mixing": mixing,
        "dim": dim,
        "law": law,
        **LAWS[law],
        "rho": rho,
        **mixing_settings,
    }


def _settings(method: str, dim: int, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """What was tuned a little for each method; see the notes of the story."""
    rate = 2e-2 if dim == 2 else 1e-2
    closed = {"pairs": sizes["pairs"], "features": sizes["features"]}
    trained = sizes["training"] | {"learning_rate": rate, "encoder": {"width": 64, "layers": 4}}
    settings: dict[str, dict[str, Any]] = {
        LINEAR: {"pairs": sizes["pairs"]},
        "polynomial SFA": closed,
        "kernel SFA": closed | {"width": 0.5 if dim == 2 else 2.0},
        SEQUENTIAL: closed | {"degree": 2, "kept": 60, "least": 0.1},
        "VAMPNet": trained | {"pairs": sizes["pairs"]},
        CONTRASTIVE: trained | {"hidden": 8, "permutations": 4},
        OURS: trained | {"weight": 0.35 if dim == 2 else 0.1},
        MATCHED: trained,
    }
    return settings[method]


PLACE = ["mixing", "dim", "law", "rates"]
TEXT = "{mixing}, {dim} latents, {law}, {rates}"


def _best(rows: Rows, of: str) -> Lines:
    """In each world ours, unmixed, and the best of the others as found or unmixed."""
    lines = Lines()
    for place, group in rows.by(*PLACE).items():
        others = {
            str(name): mean
            for (name,), some in group.by("method").items()
            if name not in (OURS, MATCHED) and (mean := some.mean(of)) is not None
        }
        ours = group.where(method=OURS).mean("unmixed_mcc")
        if others and ours is not None:
            name = max(others, key=lambda one: others[one])
            line = dict(zip(PLACE, place, strict=True))
            lines.append(
                line | {"ours": ours, "peer": name, "best": others[name], "ahead": ours - others[name]}
            )
    return lines


def _ahead(of: str, least: float) -> Callable[[Rows], Judgement]:
    text = f"{TEXT}: {{ours:.3f}} against {{best:.3f}} of {{peer}}"
    return asks(lambda rows: _best(rows, of), "ahead", lambda ahead: ahead >= least, text)


def _linear(rows: Rows) -> Judgement:
    """Whether linear SFA, unmixed, stays below ours."""
    lines = _best(rows.where(method=(OURS, LINEAR)), "unmixed_mcc")
    return judge_lines(lines, lambda line: line["ahead"] > NEAR, f"{{best:.3f}} in {TEXT}", "best")


def _named(rows: Rows) -> Judgement:
    """Whether polynomial SFA finds latents as it is where rates differ, and only there."""
    selection = rows.where(method="polynomial SFA", rates=(ONE, SEVERAL), dim=at_most(SIX))
    lines = selection.lines(PLACE, "mcc").known("mcc")
    text = f"{{mcc:.3f}} in {TEXT}"
    return judge_lines(
        lines, lambda line: (line["mcc"] > 1 - NEAR) == (line["rates"] == SEVERAL), text, "mcc"
    )


def _six(rows: Rows) -> Judgement:
    """Whether xSFA finds latents of several rates up to six of them, and no more."""
    lines = rows.where(method=SEQUENTIAL, rates=SEVERAL, law="uniform").lines(["dim"], "mcc").known("mcc")
    text = "{mcc:.3f} of {dim} latents"
    return judge_lines(lines, lambda line: (line["mcc"] >= FOUND) == (line["dim"] <= SIX), text, "mcc")


def _window(rows: Rows) -> Judgement:
    """Whether xSFA finds the latent beyond the window better than ours does."""
    selection = rows.where(rates=WIDE).pivot(PLACE, "{method}", "rank", ours=_least_unmixed)
    lines = Lines(line | {"sequential": line.get(SEQUENTIAL)} for line in selection).known(
        "sequential", "ours"
    )
    text = "{sequential:.3f} against {ours:.3f}"
    return judge_lines(lines, lambda line: line["sequential"] > line["ours"] + NEAR, text)


def _matched(rows: Rows) -> Judgement:
    """Whether InfoNCE, unmixed, is at least as good as the white embedding where rates agree."""
    lines = rows.where(method=(OURS, MATCHED), rates=ONE).pivot(PLACE, "{method}", "unmixed_mcc")
    differences = Lines(
        line | {"difference": line[MATCHED] - line[OURS]} for line in lines.known(OURS, MATCHED)
    )
    text = f"{{{MATCHED}:.3f}} against {{{OURS}:.3f}} in {TEXT}"
    return judge_lines(differences, lambda line: line["difference"] >= 0, text, "difference")


def _least_unmixed(own: Rows) -> float | None:
    return own.where(method=OURS).mean("unmixed_rank")


def _contrast(rows: Rows) -> Judgement:
    """Whether unmixing adds nothing to what PCL finds."""
    lines = rows.where(method=CONTRASTIVE).lines(PLACE, "mcc", "unmixed_mcc").known("mcc", "unmixed_mcc")
    text = f"{{mcc:.3f}}, unmixed {{unmixed_mcc:.3f}}, in {TEXT}"
    return judge_lines(lines, lambda line: line["mcc"] >= line["unmixed_mcc"] - NEAR, text, "mcc")


def _harmless(rows: Rows) -> Judgement:
    """Whether features of any method are as good unmixed as they were found."""
    lines = rows.lines([*PLACE, "method"], "mcc", "unmixed_mcc").known("mcc", "unmixed_mcc")
    gains = Lines(line | {"gain": line["unmixed_mcc"] - line["mcc"]} for line in lines)
    text = f"{{method}} from {{mcc:.3f}} to {{unmixed_mcc:.3f}} in {TEXT}"
    return judge_lines(gains, lambda line: line["gain"] >= -NEAR, text, "gain")


def _faster(rows: Rows) -> Judgement:
    """Whether closed forms take less time than what is trained."""
    slowest = [some.mean("spent") for some in rows.where(method=CLOSED).by(*PLACE, "method").values()]
    trained = [some.mean("spent") for some in rows.where(method=TRAINED).by(*PLACE, "method").values()]
    if not trained:
        return judge_values([], at_most(0.0))
    least = min(one for one in trained if one is not None)
    return judge_values([one for one in slowest if one is not None], at_most(least), least=least)


def _panels(rows: Rows) -> list[Chart]:
    charts = []
    for rates in (ONE, SEVERAL):
        selection = rows.where(rates=rates, law="uniform")
        for score_name, words in (("mcc", "as found"), ("unmixed_mcc", "unmixed")):
            curves = selection.curves("dim", score_name, "{method}")
            title = f"{rates.capitalize()}, {words}"
            charts.append(
                curves_chart(title, "latents", "MCC", curves, scale="linear", across_scale="linear")
            )
    return charts


def _numbers(rows: Rows) -> dict[str, Value]:
    return {"worlds": len(rows.by(*PLACE)) or None, "near": NEAR}


STUDY = Study.of_file(
    __file__,
    title="Peers in one run",
    source="Sprekeler, Zito & Wiskott (2014); Mardt et al. (2018); Hyvarinen & Morioka (2017)",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(
        found=lambda rows: rows.pivot(PLACE, "{method}", "mcc"),
        unmixed=lambda rows: rows.pivot(PLACE, "{method}", "unmixed_mcc"),
        least=lambda rows: rows.pivot(PLACE, "{method}", "unmixed_rank"),
        seconds=lambda rows: rows.pivot(PLACE, "{method}", "spent", unmix="unmix_spent"),
    ),
    charts=[ChartSpec("latents", _panels, 2, (5.2, 4.0))],
    statements=Statement.named(
        largest=_ahead("mcc", 0.0),
        shared=_ahead("unmixed_mcc", -NEAR),
        matched=_matched,
        linear=_linear,
        named=_named,
        six=_six,
        window=_window,
        contrast=_contrast,
        harmless=_harmless,
        faster=_faster,
    ),
    numbers=_numbers,
)
