"""What the runs with other dimensions than latents say, in sentences, tables and a figure."""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from isojepa.certificates.eigenfunctions import Prediction, predict_process
from isojepa.data import OrnsteinUhlenbeck
from isojepa.report.colors import INK, QUIET
from isojepa_lab.studies.dimension import EQUAL, OBJECTIVES, UNEQUAL
from isojepa_lab.studies.findings import Column, Findings, Picture, Table
from isojepa_lab.studies.measured import grouped, mean, measured, told, unscored
from isojepa_lab.studies.results import COLORS, plain_axes
from isojepa_lab.studies.study import Row

Point = dict[str, Any]
_GAUSSIAN = tuple(name for name in OBJECTIVES if name != "whitening")


def findings(rows: Sequence[Row]) -> Findings:
    """Tables, figure and sentences of the rows."""
    scored = [row for row in rows if measured(row, "r2") is not None]
    points = summaries(scored)
    if not points:
        return Findings(["No run is there yet that could be scored."], notes=[told(rows)])
    equal = [one for one in points if one["rates"] == EQUAL]
    unequal = [one for one in points if one["rates"] == UNEQUAL]
    tables = [_table(equal)] if equal else []
    if unequal:
        tables.append(_unequal_table(unequal))
    pictures = []
    if equal:
        pictures.append(
            Picture(
                "dimension",
                "Against the embedding's dimension: how much of the latents is read off the embedding, how "
                "much of the embedding is linear in the latents, and its smallest variance; one point per "
                "run, lines through the means. Dashed: a white embedding of least alignment. Dotted: the "
                "number of latents.",
                draw([row for row in scored if row.labels["rates"] == EQUAL], equal),
            )
        )
    sentences = [_fewer(equal), _slowest(unequal), _more(equal), _gaussian(equal)]
    return Findings([text for text in sentences if text] or [told(rows)], tables, pictures, _notes(rows))


@cache
def predict(correlations: tuple[float, ...], m: int) -> Prediction:
    """What a white embedding of m dimensions and least alignment takes."""
    return predict_process(OrnsteinUhlenbeck(len(correlations), correlations), m)


def _correlations(row: Row) -> tuple[float, ...]:
    rho, dim = row.config["world"]["rho"], row.config["world"]["dim"]
    return (rho,) * dim if isinstance(rho, float) else tuple(rho)


def summaries(rows: Sequence[Row]) -> list[Point]:
    """One mapping per world, dimension and objective: means over seeds beside what is predicted."""
    summary_rows = []
    for (latents, rates, slow, m, objective), group in grouped(
        rows, "latents", "rates", "slow", "dim", "objective"
    ).items():
        prediction = predict(_correlations(group[0]), int(m))
        taken = prediction.taken
        degrees = [sum(mode.index) for mode in taken]
        each = [list(row.scores["r2_each"]) for row in group if row.scores.get("r2_each")]
        # of each run, the worst R^2 of the slow latents there is room for, and the best of the others
        smallest = [min(values[: int(m)]) for values in each]
        lost = [max(values[int(m) :], default=0.0) for values in each]
        summary_rows.append(
            {
                "latents": latents,
                "rates": rates,
                "slow": slow,
                "dim": m,
                "objective": objective,
                "runs": len(group),
                "r2": mean(group, "r2"),
                "r2_predicted": prediction.r2,
                "linear": mean(group, "r2_z_to_h"),
                "linear_predicted": degrees.count(1) / len(degrees),
                "degrees": ", ".join(f"{degrees.count(d)} of degree {d}" for d in sorted(set(degrees))),
                "alignment": _mean(_ratio(row, "alignment", "mean_variance") for row in group),
                "alignment_predicted": fmean((1 - mode.correlation) / 2 for mode in taken),
                "smallest": _mean(_ratio(row, "smallest_variance", "mean_variance") for row in group),
                "sigreg": mean(group, "sigreg"),
                "each": [fmean(values) for values in zip(*each, strict=True)],
                "kept": min(smallest, default=None),
                "lost": max(lost, default=None),
                "slowest": sum(low > 0.5 > high for low, high in zip(smallest, lost, strict=True)),
                "asked": len(each),
                "lowest": min(map(min, each), default=None),
                "highest": max(map(max, each), default=None),
            }
        )
    return sorted(summary_rows, key=lambda one: (-one["latents"], one["rates"], one["slow"], one["dim"]))


def _ratio(row: Row, above: str, below: str) -> float | None:
    """One score per unit of another, such as a loss per variance; None where it does not exist."""
    value, unit = measured(row, above), measured(row, below)
    return None if value is None or not unit else value / unit


def _mean(values: Iterable[float | None]) -> float | None:
    finite = [value for value in values if value is not None]
    return fmean(finite) if finite else None


def _table(points: Sequence[Point]) -> Table:
    columns = [
        Column("latents", "latents", "d"),
        Column("dim", "dimensions", "d"),
        Column("objective", "objective"),
        Column("runs", "runs", "d"),
        Column("r2", "R² h → z", ".4f"),
        Column("r2_predicted", "predicted", ".3f"),
        Column("linear", "R² z → h", ".4f"),
        Column("linear_predicted", "predicted", ".3f"),
        Column("lowest", "worst latent", ".3f"),
        Column("highest", "best latent", ".3f"),
        Column("alignment", "alignment", ".4f"),
        Column("alignment_predicted", "predicted", ".4f"),
        Column("smallest", "smallest variance", ".3f"),
        Column("sigreg", "SIGReg", ".2f"),
        Column("degrees", "predicted functions"),
    ]
    note = (
        "Predicted: a white embedding of least alignment. R² z → h is the share of the embedding that is "
        "linear in the latents. Worst and best latent: over latents and seeds. Alignment per unit of "
        "variance; smallest variance of a direction as a share of the mean. SIGReg in batches of 256, "
        "where a Gaussian sample has about 1."
    )
    return Table("dimensions", "Equal rates", columns, _wrapped(points), note)


def _unequal_table(points: Sequence[Point]) -> Table:
    rows = [one | {f"z{i + 1}": value for i, value in enumerate(one["each"])} for one in points]
    latents = max(len(one["each"]) for one in points)
    columns = [
        Column("slow", "ρ of the slowest", "g"),
        Column("dim", "dimensions", "d"),
        Column("objective", "objective"),
        Column("runs", "runs", "d"),
        *(Column(f"z{i + 1}", f"R² of z{i + 1}", ".3f") for i in range(latents)),
        Column("linear", "R² z → h", ".4f"),
        Column("alignment", "alignment", ".4f"),
        Column("alignment_predicted", "predicted", ".4f"),
    ]
    note = "From the slowest latent to the fastest. Predicted: 1 for as many as there are dimensions, then 0."
    return Table("rates", "Unequal rates: which latents are kept", columns, _wrapped(rows), note)


def _wrapped(points: Sequence[Point]) -> list[Point]:
    """Without the lists, which no table shows."""
    return [{key: value for key, value in one.items() if key != "each"} for one in points]


def _fewer(points: Sequence[Point]) -> str:
    subset = [
        one for one in points if one["dim"] < one["latents"] and one["each"] and one["linear"] is not None
    ]
    if not subset:
        return ""
    apart = max(abs(one["r2"] - one["r2_predicted"]) for one in subset)
    linear = min(one["linear"] for one in subset)
    word = (
        "a linear projection of the latents"
        if linear > 0.95
        else "mostly a linear projection of the latents"
        if linear > 0.7
        else "not always a linear projection of the latents"
    )
    text = (
        f"**With fewer dimensions than latents the embedding is {word}**: R² z → h is {linear:.3f} or more, "
        f"and R² h → z lies within {apart:.3f} of m / n."
    )
    if linear > 0.7:
        text += (
            " Nothing is superposed: any nonlinear function of equally fast Gaussian latents is faster than "
            "a linear one."
        )
    return (
        f"{text} Which projection it is, is left to chance: single latents have R² from "
        f"{min(one['lowest'] for one in subset):.3f} to {max(one['highest'] for one in subset):.3f}."
    )


def _slowest(points: Sequence[Point]) -> str:
    points = [one for one in points if one["each"] and one["dim"] < one["latents"]]
    if not points:
        return ""
    parts, missed = [], []
    for slow in dict.fromkeys(one["slow"] for one in points):
        subset = [one for one in points if one["slow"] == slow]
        slow_values = [value for one in subset for value in one["each"][: one["dim"]]]
        lost = [value for one in subset for value in one["each"][one["dim"] :]]
        parts.append(
            f"slow ρ {slow:g}: {fmean(slow_values):.3f} on average and "
            f"{min(one['kept'] for one in subset):.3f} at "
            f"least, the others {fmean(lost):.3f} and {max(one['lost'] for one in subset):.3f} at most"
        )
        missed += [one for one in subset if one["slowest"] < one["asked"]]
    runs, right = sum(one["asked"] for one in points), sum(one["slowest"] for one in points)
    clear = "the slowest latents" if right == runs else f"the slowest latents in {right} of {runs} runs"
    text = f"**If rates differ it takes {clear}**, as many as it has dimensions. R²: {'; '.join(parts)}."
    if missed:
        places = [
            f"{one['dim']} dimensions under {one['objective']}, slow ρ {one['slow']:g}"
            + (
                f" (alignment {one['alignment']:.4f}; the slowest latents would have "
                f"{one['alignment_predicted']:.4f})"
                if one["alignment"] is not None
                else ""
            )
            for one in missed
        ]
        text += (
            f" Something else was taken with {'; '.join(places)}: any choice of latents is a saddle of the "
            "loss, and training is slow to leave one whose rate is near the best."
        )
    return text


def _more(points: Sequence[Point]) -> str:
    subset = [
        one
        for one in points
        if one["dim"] > one["latents"] and one["objective"] == "whitening" and one["linear"] is not None
    ]
    if not subset:
        return ""
    share = max(abs(one["linear"] - one["linear_predicted"]) for one in subset)
    least = min(subset, key=lambda one: one["r2"])
    word = "the latents" if least["r2"] > 0.9 else "only part of the latents"
    text = (
        f"**With more dimensions whitening keeps {word}**, R² {least['r2']:.3f} or more (at "
        f"{least['dim']} dimensions for {least['latents']} latents"
    )
    same = [
        one["r2"]
        for one in points
        if one["objective"] == "whitening" and one["dim"] == one["latents"] == least["latents"]
    ]
    text += f"; {same[0]:.3f} at {least['latents']})" if same else ")"
    text += f", and fills up with nonlinear functions: the linear share is within {share:.3f} of n / m."
    apart = [
        abs(one["alignment"] / one["alignment_predicted"] - 1)
        for one in subset
        if one["alignment"] is not None
    ]
    if apart:
        text += (
            f" Alignment is within {max(apart):.1%} of what the next eigenfunctions would have, squares and "
            "products of the latents."
        )
    return text


def _gaussian(points: Sequence[Point]) -> str:
    above = [
        one
        for one in points
        if one["dim"] > one["latents"]
        and all(one[key] is not None for key in ("sigreg", "smallest", "linear"))
    ]
    subset = [one for one in above if one["objective"] in _GAUSSIAN]
    if not subset:
        return ""
    parts = []
    for name in _GAUSSIAN:
        mine = [one for one in subset if one["objective"] == name]
        if mine:
            worst = min(mine, key=lambda one: one["r2"])
            flat = min(mine, key=lambda one: one["smallest"])
            excess = fmean(one["linear"] - one["linear_predicted"] for one in mine)
            parts.append(
                f"{name}: R² h → z falls to {worst['r2']:.3f} ({worst['dim']} dimensions for "
                f"{worst['latents']} latents), the linear share lies {excess:+.3f} beside n / m on average, "
                f"and the smallest variance goes down to {flat['smallest']:.3f} of the mean at {flat['dim']}"
            )
    sigreg = [one["sigreg"] for one in subset]
    white = [one["sigreg"] for one in above if one["objective"] == "whitening"]
    beside = f", against {min(white):.1f} to {max(white):.1f} under whitening" if white else ""
    return (
        "**SIGReg cannot have what it asks for there**: a smooth image of n latents does not fill m "
        f"Gaussian dimensions, and its loss stays at {min(sigreg):.1f} to {max(sigreg):.1f}{beside}. A "
        "square is skewed: to look Gaussian along every direction it has to be mixed with the latents, or to "
        f"shrink. What gives way, by weight: {'; '.join(parts)}."
    )


def _notes(rows: Sequence[Row]) -> list[str]:
    notes = [
        told(rows),
        "Four latents are seen through an affine coupling, two through the sinusoid mixing. There is no "
        "bound of Theorem 3 where dimensions differ: it speaks of rotations.",
    ]
    missing = len(unscored(rows))
    return [*notes, f"{missing} runs could not be scored and are left out."] if missing else notes


def draw(rows: Sequence[Row], points: Sequence[Point]) -> Figure:
    """R^2 both ways and the smallest variance over the embedding's dimension; a row of panels per world."""
    worlds = list(dict.fromkeys(one["latents"] for one in points))
    figure = Figure(figsize=(12, 0.4 + 3.3 * len(worlds)), dpi=100, layout="constrained")
    panels = figure.subplots(len(worlds), 3, squeeze=False)
    runs = grouped(rows, "latents", "objective")
    for line, latents in zip(panels, worlds, strict=True):
        subset = [one for one in points if one["latents"] == latents]
        by_dim = {one["dim"]: one for one in subset}
        for axes, (score, name, title) in zip(
            line,
            (
                ("r2", "r2_predicted", "R² of the latents, h → z"),
                ("r2_z_to_h", "linear_predicted", "linear share of the embedding, z → h"),
                ("smallest_variance", "", "smallest variance / mean"),
            ),
            strict=True,
        ):
            across = sorted(by_dim)
            expected = [by_dim[m][name] if name else 1.0 for m in across]
            axes.plot(across, expected, color=QUIET, linewidth=1, linestyle="--", zorder=1)
            axes.axvline(latents, color=QUIET, linewidth=0.8, linestyle=":", zorder=1)
            for (objective, color), marker in zip(zip(OBJECTIVES, COLORS, strict=False), "sod", strict=True):
                mine = runs.get((latents, objective), [])
                heights = [
                    _ratio(row, score, "mean_variance")
                    if score == "smallest_variance"
                    else measured(row, score)
                    for row in mine
                ]
                at = [row.labels["dim"] for row in mine]
                plotted = [math.nan if height is None else height for height in heights]
                label = objective if mine else None
                axes.plot(at, plotted, marker, color=color, markersize=4, alpha=0.8, label=label)
                key = {"r2": "r2", "r2_z_to_h": "linear", "smallest_variance": "smallest"}[score]
                means = {one["dim"]: one[key] for one in subset if one["objective"] == objective}
                axes.plot(
                    list(means),
                    [math.nan if v is None else v for v in means.values()],
                    color=color,
                    linewidth=1,
                )
            plain_axes(axes, f"{latents} latents: {title}", "dimensions of the embedding")
            axes.set_ylim(-0.03, 1.05)
            axes.set_xticks(across)
    panels[0, 0].legend(fontsize=8, frameon=False, labelcolor=INK, loc="lower right")
    return figure
