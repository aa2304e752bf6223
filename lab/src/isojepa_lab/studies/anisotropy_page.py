"""What the runs with unequal rates say, in sentences, a table and a figure."""

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from isojepa.certificates.eigenfunctions import Prediction, breaking_ratio, predict_process
from isojepa.data import OrnsteinUhlenbeck
from isojepa.distributions import Normal
from isojepa.report.colors import INK, QUIET
from isojepa_lab.studies.anisotropy import OBJECTIVES
from isojepa_lab.studies.findings import Column, Findings, Picture, Table
from isojepa_lab.studies.measured import grouped, measured, told, unscored
from isojepa_lab.studies.results import COLORS, plain_axes
from isojepa_lab.studies.study import Row

Point = dict[str, Any]
_KEPT_R2, _LOST_R2 = 0.85, 0.5  # R^2 of the fast latent above which it is kept, below which it is lost
_LINEAR = 0.1  # distance of the linear share from 1 - 1 / n at which one dimension is nonlinear
_SAME = 0.02  # difference of R^2 below which two objectives do the same
_WHITE = ("SIGReg", "whitening")  # whose alignment can be compared with that of a white embedding


def findings(rows: Sequence[Row]) -> Findings:
    """Tables, figure and sentences of the rows."""
    scored = [row for row in rows if fast(row) is not None]
    points = summaries(scored)
    if not points:
        return Findings(["No run is there yet that could be scored."], notes=[told(rows)])
    picture = Picture(
        "ratio",
        "R² of the fast latent against how many times faster it is; one point per run, lines through the "
        "means. Grey: what a white, aligned embedding should give.",
        draw(scored, points),
    )
    return Findings(_summary(points), [_table(points)], [picture], _notes(rows))


def fast(row: Row) -> float | None:
    """R^2 of the fast latent, the last one; None if it was not measured."""
    each = row.scores.get("r2_each")
    return float(each[-1]) if each and math.isfinite(each[-1]) else None


def slow(row: Row) -> float:
    """Mean R^2 of all other latents, of a row that has them."""
    return fmean(row.scores["r2_each"][:-1])


@cache
def predict(correlations: tuple[float, ...]) -> Prediction:
    """What a white embedding of least alignment takes."""
    return predict_process(OrnsteinUhlenbeck(len(correlations), correlations))


def summaries(rows: Sequence[Row]) -> list[Point]:
    """One mapping per number of latents, slow correlation, ratio and objective: means over seeds."""
    summary_rows = []
    for (latents, rho, ratio, objective), group in grouped(
        rows, "latents", "slow", "ratio", "objective"
    ).items():
        correlations = tuple(group[0].config["world"]["rho"])
        prediction = predict(correlations)
        summary_rows.append(
            {
                "latents": latents,
                "slow": rho,
                "ratio": ratio,
                "objective": objective,
                "runs": len(group),
                "r2_slow": fmean(slow(row) for row in group),
                "r2_fast": fmean(fast(row) or 0.0 for row in group),
                "r2_fast_low": min(fast(row) or 0.0 for row in group),
                "r2_fast_high": max(fast(row) or 0.0 for row in group),
                "predicted_slow": fmean(prediction.r2_per_latent[:-1]),
                "predicted_fast": None if _tied(prediction, correlations) else prediction.r2_per_latent[-1],
                "sigreg": _mean(measured(row, "sigreg") for row in group),
                "linear": _mean(measured(row, "r2_z_to_h") for row in group),
                "alignment": _mean(map(_alignment, group)) if objective in _WHITE else None,
                "alignment_rotation": fmean((1 - r) / 2 for r in correlations),
                "alignment_white": fmean((1 - mode.correlation) / 2 for mode in prediction.taken),
            }
        )
    return sorted(summary_rows, key=lambda one: (one["latents"], one["slow"], one["ratio"]))


def _tied(prediction: Prediction, correlations: tuple[float, ...]) -> bool:
    """Whether the fast latent is as fast as the last function taken and as one that is not."""
    rate = -math.log(correlations[-1])
    return not prediction.unique and math.isclose(rate, prediction.taken[-1].eigenvalue, rel_tol=1e-6)


def _alignment(row: Row) -> float | None:
    """Alignment per unit of variance: a shrunken embedding is not a better one."""
    loss, variance = measured(row, "alignment"), measured(row, "mean_variance")
    return None if loss is None or not variance else loss / variance


def _mean(values: Any) -> float | None:
    finite = [value for value in values if value is not None]
    return fmean(finite) if finite else None


def _table(points: Sequence[Point]) -> Table:
    columns = [
        Column("latents", "latents", "d"),
        Column("slow", "ρ of the slow", "g"),
        Column("ratio", "ratio of rates", "g"),
        Column("objective", "objective"),
        Column("runs", "runs", "d"),
        Column("r2_slow", "R² slow", ".4f"),
        Column("r2_fast", "R² fast", ".4f"),
        Column("predicted_slow", "slow, predicted", ".2f"),
        Column("predicted_fast", "fast, predicted", ".0f"),
        Column("linear", "R² z → h", ".3f"),
        Column("sigreg", "SIGReg", ".2f"),
        Column("alignment", "alignment", ".4f"),
        Column("alignment_rotation", "of a rotation", ".4f"),
        Column("alignment_white", "of the best white", ".4f"),
    ]
    note = (
        "Predicted: by a white embedding of least alignment, no other constraint; nothing at a tie. R² z → "
        "h: the share of the embedding that is linear in the latents. Alignment: mean squared distance to "
        "the center of the views per unit of variance; beside it that of a rotation of the latents, and "
        "the least that a white embedding can have. It can lie a little below: a soft penalty lets the "
        "faster functions shrink more. SIGReg in batches of 256, where a Gaussian sample has about 1."
    )
    return Table("ratios", "R² of the slow and of the fast latent", columns, points, note)


def _summary(points: Sequence[Point]) -> list[str]:
    limit = breaking_ratio(Normal())
    sentences = [_whitening(points, limit), _sigreg(points, limit), _contrastive(points, limit)]
    return [sentence for sentence in sentences if sentence]


def _whitening(points: Sequence[Point], limit: float) -> str:
    subset = [one for one in points if one["objective"] == "whitening"]
    below = [one for one in subset if one["ratio"] < limit]
    above = [one for one in subset if one["ratio"] > limit]
    if not below or not above:
        return "Whitening was not run on both sides of the predicted break."
    lowest, lost = min(one["r2_fast_low"] for one in below), max(one["r2_fast_high"] for one in above)
    ratios = [f"up to ratio {max(one['ratio'] for one in below):g}"]
    ratios.append(f"from {min(one['ratio'] for one in above):g} on")
    apart = max(abs((one["linear"] or 0.0) - 1 + 1 / one["latents"]) for one in above)
    if lowest > _KEPT_R2 and lost < _LOST_R2:
        start = f"**Whitening breaks where theory says, at {limit:g} times the rate of the slow latent.**"
    elif lowest > lost:
        start = f"**Whitening breaks about where theory says, at {limit:g} times the rate, but not cleanly.**"
    else:
        start = f"**Whitening shows no clean break at {limit:g} times the rate of the slow latent.**"
    square = "A square of theirs has taken its place: p" if lost < _LOST_R2 and apart < _LINEAR else "P"
    return (
        f"{start} R² of the fast latent is {lowest:.3f} or more {ratios[0]}, and {lost:.3f} or less "
        f"{ratios[1]}, over all runs; the slow latents keep "
        f"{min(one['r2_slow'] for one in subset):.3f} or more. {square}ast the break the linear share of the "
        f"embedding is within {apart:.3f} of 1 − 1 / n."
    )


def _sigreg(points: Sequence[Point], limit: float) -> str:
    above = [one for one in points if one["objective"] == "SIGReg" and one["ratio"] > limit]
    if not above:
        return ""
    parts = []
    for (latents, rho), group in _by_world(above).items():
        line = ", ".join(
            f"{one['r2_fast']:.3f} at ratio {one['ratio']:g}"
            for one in sorted(group, key=lambda one: one["ratio"])
        )
        parts.append(f"{latents} latents, slow ρ {rho:g}: R² {line}")
    count = sum(one["r2_fast_low"] > _KEPT_R2 for one in above)
    reason = ", since the square that whitening takes is white but not Gaussian"
    start = (
        f"**SIGReg keeps the fast latent beyond the break**{reason}"
        if count == len(above)
        else f"**SIGReg keeps the fast latent beyond the break at {count} of {len(above)} places**{reason}"
        if count
        else "**SIGReg loses the fast latent too**"
    )
    text = f"{start}. {'; '.join(parts)}."
    cheaper = [
        one
        for one in above
        if one["r2_fast_low"] <= _KEPT_R2
        and one["alignment"] is not None
        and one["alignment"] < 0.95 * one["alignment_rotation"]
        and one["sigreg"] is not None
    ]
    if cheaper:
        places = [
            f"{one['latents']} latents, slow ρ {one['slow']:g}, ratio {one['ratio']:g}: "
            f"{one['alignment']:.4f} against {one['alignment_rotation']:.4f}, SIGReg {one['sigreg']:.1f}"
            for one in cheaper
        ]
        text += (
            " Where it fails, its embedding is better aligned than any rotation, at a price in Gaussianity "
            f"that its weight lets it pay (a Gaussian sample has SIGReg about 1). {'; '.join(places)}."
        )
    return text


def _contrastive(points: Sequence[Point], limit: float) -> str:
    by_objective = {
        name: [one for one in points if one["objective"] == name] for name in ("InfoNCE", "AnInfoNCE")
    }
    plain = [one for one in by_objective["InfoNCE"] if one["ratio"] > limit]
    if not plain:
        return ""
    worst = min(plain, key=lambda one: one["r2_fast_low"])
    whole = worst["r2_fast_low"] > _KEPT_R2
    text = (
        f"**Contrastive losses {'do not break' if whole else 'lose some of it'}**: past the break InfoNCE "
        f"reads the fast latent with R² {worst['r2_fast_low']:.3f} at least, over all runs "
        f"({worst['latents']} latents, slow ρ {worst['slow']:g}, ratio {worst['ratio']:g})."
    )
    if whole:
        text += (
            " It asks for information about the other view, and the square of a latent that is known already "
            "brings none; the fast latent only gets a smaller scale."
        )
    return text + _repaired(plain, by_objective["AnInfoNCE"])


def _repaired(plain: Sequence[Point], widths: Sequence[Point]) -> str:
    """What one width per dimension changes where InfoNCE was run past the break."""
    places = {(one["latents"], one["slow"], one["ratio"]): one["r2_fast"] for one in plain}
    pairs = [
        (places[key], one["r2_fast"])
        for one in widths
        if (key := (one["latents"], one["slow"], one["ratio"])) in places
    ]
    if not pairs:
        return ""
    lost = [after for before, after in pairs if before <= _KEPT_R2]
    apart = [abs(after - before) for before, after in pairs]
    verdict = (
        f"repairs {sum(after > _KEPT_R2 for after in lost)} of the {len(lost)} places that InfoNCE loses"
        if lost
        else "has nothing to repair"
    )
    text = (
        f" AnInfoNCE {verdict}: past the break it differs from InfoNCE by {fmean(apart):.4f} on average and "
        f"{max(apart):.4f} at most."
    )
    if max(apart) < _SAME:
        text += (
            " Its widths, one per dimension, are scales of the embedding, which the encoder's last layer "
            "sets anyway; they matter for encoders whose scale is fixed, on a sphere or volume preserving."
        )
    return text


def _by_world(points: Sequence[Point]) -> dict[tuple[int, float], list[Point]]:
    worlds: dict[tuple[int, float], list[Point]] = {}
    for one in points:
        worlds.setdefault((one["latents"], one["slow"]), []).append(one)
    return worlds


def _notes(rows: Sequence[Row]) -> list[str]:
    notes = [
        told(rows),
        "The plane is seen through the sinusoid mixing, four latents through an affine coupling; one latent "
        "is fast, all others share one rate. The paper's condition max K < 2 min K is one for whitening: "
        "under the Gaussian constraint of its Theorem 1 the square is not allowed, and what replaces the "
        "fast latent, if anything does, is a map that folds the latents and stays nearly Gaussian.",
        "InfoNCE has the kernel width 1 and no learned one: an encoder with a linear last layer chooses the "
        "scale of its embedding, which is the same thing.",
    ]
    missing = len(unscored(rows))
    return [*notes, f"{missing} runs could not be scored and are left out."] if missing else notes


def draw(rows: Sequence[Row], points: Sequence[Point]) -> Figure:
    """R^2 of the fast latent over the ratio of rates, one panel per world."""
    worlds = _by_world(points)
    by_objective = grouped(rows, "latents", "slow", "objective")
    limit = breaking_ratio(Normal())
    figure = Figure(figsize=(1.2 + 4.3 * len(worlds), 3.9), dpi=100, layout="constrained")
    panels = figure.subplots(1, len(worlds), sharey=True, squeeze=False)[0]
    for axes, ((latents, rho), group) in zip(panels, worlds.items(), strict=True):
        last = max(2.2, *(one["ratio"] for one in group))
        axes.plot([1, limit, limit, last], [1, 1, 0, 0], color=QUIET, linewidth=1, linestyle="--", zorder=1)
        for (name, color), marker in zip(zip(OBJECTIVES, COLORS, strict=False), "osD^", strict=True):
            mine = [one for one in group if one["objective"] == name]
            runs = by_objective.get((latents, rho, name), [])
            axes.plot(
                [row.labels["ratio"] for row in runs],
                [fast(row) for row in runs],
                marker,
                color=color,
                markersize=7 if name == "AnInfoNCE" else 4.5,
                alpha=0.75,
                label=name if runs else None,
                markerfacecolor="none" if name == "AnInfoNCE" else color,
            )
            ratios, means = [one["ratio"] for one in mine], [one["r2_fast"] for one in mine]
            axes.plot(ratios, means, color=color, linewidth=1)
        plain_axes(axes, f"{latents} latents, slow ρ {rho:g}", "rate of the fast latent / rate of the slow")
        axes.set_ylim(-0.04, 1.04)
    panels[0].set_ylabel("R² of the fast latent", fontsize=9, color=QUIET)
    panels[0].legend(fontsize=8, frameon=False, labelcolor=INK, loc="center left")
    return figure
