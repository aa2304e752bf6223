"""Page and figure of the study of theory and training."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import t as student

from isojepa.report.colors import INK, QUIET
from isojepa_lab.studies.results import COLORS, markdown_table, plain_axes

Rows = Sequence[Mapping[str, Any]]

PAGE = """\
# Theory meets training

Made by `python -m isojepa_lab.studies.theory_meets_training`; numbers, settings and versions are in
`theory_meets_training.json`.

![Predicted and measured 1 - R², the first eigenfunctions, and two rates](theory_meets_training.png)

Claims: a white, aligned embedding of independent latents takes the first eigenfunction φ₁ of each latent's
law, so that the best linear R² is corr(z, φ₁(z))², below 1 for every law but the normal one; and of two
Gaussian latents the faster is lost once it is twice as fast.

## What any latent law should give

Two latents of one law in the Langevin world, correlation {rho:g} across a pair, seen through the sinusoid
mixing. The prediction is computed from the density alone. Encoders of width {width} and {layers} layers,
{steps} steps of alignment and whitening; mean over {seeds} seeds of the held-out R² on {samples:,} pairs, ±
half a 95 % interval (Student's t over seeds, and the finite sample of each).

{laws}

"Open" is what the distance to φ₁ leaves open: an embedding whose R² against φ₁ is c can have any R² against z
within (√(ca) ± √((1-c)(1-a)))², where a is the prediction. The more it leaves open, the more training and not
theory decides the last digits.

{long_table}

## When one latent is faster

Two Gaussian latents, the slow one with correlation {slow_rho:g}, the fast one with {slow_rho:g} to the power
of the ratio; {rate_steps} steps; R² of each function read off the two-dimensional embedding, mean over seeds.

{rate_table}

## What we saw

- Over {count} laws, with predictions from {lowest:.3f} to 1, measured and predicted R² differ by
  {mean_gap:.4f} on average and {worst_gap:.4f} at most ({worst_law}). Training alone costs {floor:.4f}, seen
  at alpha 2, where the theory promises 1.
- {agree} of {count} laws agree within their interval plus that floor.{apart}
- R² against φ₁ is {phi_low:.4f} to {phi_high:.4f}.{trained_longer}
- The loss is not monotone in alpha: 1 - R² is {loss15:.3f} at 1.5, 0 at 2, {loss4:.3f} at 4, largest on the
  light side at {peak_alpha:.1f} ({peak_loss:.4f}), and {loss_uniform:.4f} = 1 - 96/π⁴ for the uniform law.
  Towards alpha 1, where the spectrum becomes continuous, it grows: {loss_first:.2f} at {first_alpha:.2f}.
- {break_words}
  For other laws the ratio λ₂/λ₁ is another: {ratio15:.2f} at alpha 1.5, {ratio8:.2f} at 8, 4 for the
  uniform law.
"""


def page(rows: Rows, settings: Mapping[str, Any]) -> str:
    """The study's rows as Markdown."""
    curve = [row for row in rows if row["part"] == "curve"]
    summary_rows = summaries(rows, settings["steps"])
    normal = next((one for one in summary_rows if one["alpha"] == 2), None)
    floor = 1 - normal["r2"] if normal else math.nan
    worst = max(summary_rows, key=lambda one: abs(one["gap"]))
    apart = [one for one in summary_rows if abs(one["gap"]) > one["half"] + floor]
    light = max((row for row in curve if row["alpha"] > 2), key=lambda row: 1 - row["r2"])
    first = min(curve, key=lambda row: row["alpha"])
    rates = [row for row in rows if row["part"] == "anisotropy"]
    return PAGE.format(
        **settings,
        laws=markdown_table(
            ["law", "predicted", "measured", "measured - predicted", "R² against φ₁", "open"],
            [_cells(one) for one in summary_rows],
        ),
        long_table=_long_table(rows, settings["steps"]),
        rate_table=_rate_table(rates),
        count=len(summary_rows),
        lowest=min(one["predicted"] for one in summary_rows),
        mean_gap=fmean(abs(one["gap"]) for one in summary_rows),
        worst_gap=abs(worst["gap"]),
        worst_law=worst["law"],
        floor=floor,
        agree=len(summary_rows) - len(apart),
        apart=_apart(apart),
        phi_low=min(one["r2_phi"] for one in summary_rows),
        phi_high=max(one["r2_phi"] for one in summary_rows),
        trained_longer=_trained_longer(rows, settings["steps"]),
        loss15=1 - _at(curve, 1.5, "r2"),
        loss4=1 - _at(curve, 4.0, "r2"),
        peak_alpha=light["alpha"],
        peak_loss=1 - light["r2"],
        loss_uniform=1 - 96 / math.pi**4,
        loss_first=1 - first["r2"],
        first_alpha=first["alpha"],
        break_words=_break_words(rates),
        ratio15=_at(curve, 1.5, "ratio"),
        ratio8=_at(curve, 8.0, "ratio"),
    )


def summaries(rows: Rows, steps: int) -> list[dict[str, Any]]:
    """One mapping per law: means over seeds, and half a 95 % interval of the measured R^2."""
    trained = [row for row in rows if row["part"] == "trained" and row["steps"] == steps]
    summary_rows = []
    for law in dict.fromkeys(row["law"] for row in trained):
        subset = [row for row in trained if row["law"] == law]
        values = np.array([row["r2"] for row in subset])
        n = len(values)
        half = float(student.ppf(0.975, n - 1) * values.std(ddof=1) / math.sqrt(n)) if n > 1 else 0.0
        # one run's own interval, of its finite sample, is part of the doubt too
        half = math.hypot(half, fmean((row["r2_interval"][1] - row["r2_interval"][0]) / 2 for row in subset))
        predicted, phi = subset[0]["predicted"], fmean(row["r2_phi"] for row in subset)
        middle = math.sqrt(phi * predicted)
        reach = math.sqrt(max(0.0, (1 - phi) * (1 - predicted)))
        summary_rows.append(
            {
                "law": law,
                "alpha": subset[0]["alpha"],
                "predicted": predicted,
                "r2": float(values.mean()),
                "half": half,
                "gap": float(values.mean()) - predicted,
                "r2_phi": phi,
                "open": ((middle - reach) ** 2, (middle + reach) ** 2),
            }
        )
    return summary_rows


def _cells(one: Mapping[str, Any]) -> list[str]:
    return [
        one["law"],
        f"{one['predicted']:.4f}",
        f"{one['r2']:.4f} ± {one['half']:.4f}",
        f"{one['gap']:+.4f}",
        f"{one['r2_phi']:.4f}",
        f"{one['open'][0]:.4f} to {one['open'][1]:.4f}",
    ]


def _apart(apart: Sequence[Mapping[str, Any]]) -> str:
    if not apart:
        return ""
    names = ", ".join(f"{one['law']} ({one['gap']:+.4f})" for one in apart)
    above = all(one["gap"] > 0 for one in apart)
    why = (
        "There the encoder is still more linear than φ₁, which bends where few samples are."
        if above
        else "There training has not found all of φ₁."
    )
    return f" Not:\n  {names}. {why}"


def _long_table(rows: Rows, steps: int) -> str:
    cells = [
        [
            long["law"],
            f"{long['predicted']:.4f}",
            *(f"{row['r2']:.4f} ({row['r2_phi']:.4f})" for row in (short, long)),
        ]
        for short, long in _pairs(rows, steps)
    ]
    header = ["seed 0: R² (against φ₁)", "predicted", f"{steps} steps", f"{3 * steps} steps"]
    return markdown_table(header, cells) if cells else ""


def _trained_longer(rows: Rows, steps: int) -> str:
    pairs = _pairs(rows, steps)
    nearer = sum(
        abs(long["r2"] - long["predicted"]) < abs(short["r2"] - short["predicted"]) for short, long in pairs
    )
    if not pairs:
        return ""
    return f" Trained three times as long,\n  {nearer} of {len(pairs)} laws come nearer to the prediction."


def _pairs(rows: Rows, steps: int) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Runs of the usual length and their longer twins."""
    trained = {(row["law"], row["seed"], row["steps"]): row for row in rows if row["part"] == "trained"}
    return [(trained[law, seed, steps], row) for (law, seed, n), row in trained.items() if n > steps]


def _break_words(rates: Rows) -> str:
    before = [row for row in rates if row["ratio"] < 2]
    after = [row for row in rates if row["ratio"] > 2]
    if not before or not after:
        return "The break was not looked for."
    lowest, lost = min(row["fast"] for row in before), max(row["fast"] for row in after)
    if lowest <= lost:
        return (
            "There is no clear break: some run below ratio 2 reads the fast latent worse than one above it."
        )
    last, first = max(row["ratio"] for row in before), min(row["ratio"] for row in after)
    second = min(row["second"] for row in after)
    return (
        f"Up to ratio {last:g} the fast latent is read off with R² {lowest:.4f} or more, from {first:g} on "
        f"with {lost:.4f} or less;\n  the second harmonic of the slow one takes its place, with "
        f"{second:.4f} or more."
    )


def _rate_table(rates: Rows) -> str:
    cells = []
    for ratio in dict.fromkeys(row["ratio"] for row in rates):
        subset = [row for row in rates if row["ratio"] == ratio]
        means = [f"{fmean(row[key] for row in subset):.4f}" for key in ("slow", "fast", "second")]
        cells.append([f"{ratio:g}", f"{subset[0]['predicted_fast']:.0f}", means[1], means[0], means[2]])
    return markdown_table(
        ["ratio", "fast z₂, predicted", "fast z₂", "slow z₁", "second harmonic of z₁"], cells
    )


def _at(curve: Rows, alpha: float, key: str) -> float:
    """The predicted number at an alpha, between its neighbors if it is not on the curve."""
    return float(np.interp(alpha, [row["alpha"] for row in curve], [row[key] for row in curve]))


def draw(rows: Rows, functions: Mapping[str, tuple[list[float], list[float]]]) -> Figure:
    """1 - R^2 over alpha, predicted and measured; the first eigenfunctions; R^2 over the ratio of rates."""
    figure = Figure(figsize=(13.5, 4.3), dpi=90, layout="constrained")
    panels = figure.subplots(1, 3)
    _draw_curve(panels[0], rows)
    names = [name for name in ("alpha 1.5", "alpha 2", "alpha 8", "uniform", "bimodal") if name in functions]
    for name, color in zip(names, COLORS, strict=False):
        z, phi = functions[name]
        panels[1].plot(z, phi, color=QUIET if name == "alpha 2" else color, linewidth=1.6, label=name)
    plain_axes(panels[1], "First eigenfunction, where 99.9 % of the mass is", "z", "φ₁(z)")
    panels[1].legend(fontsize=8, frameon=False, labelcolor=INK, loc="upper left")
    rates = [row for row in rows if row["part"] == "anisotropy"]
    last = max((row["ratio"] for row in rates), default=4.0)
    panels[2].plot([1, 2, 2, last], [1, 1, 0, 0], color=COLORS[0], linewidth=1, label="fast z₂, predicted")
    panels[2].plot([1, 2, 2, last], [0, 0, 1, 1], color=COLORS[1], linewidth=1, linestyle=":")
    for key, label, color, marker in (
        ("fast", "fast z₂", COLORS[0], "o"),
        ("second", "second harmonic of z₁", COLORS[1], "s"),
        ("slow", "slow z₁", COLORS[2], "^"),
    ):
        at, values = [row["ratio"] for row in rates], [row[key] for row in rates]
        panels[2].plot(at, values, marker, color=color, markersize=5, alpha=0.8, label=label)
    plain_axes(panels[2], "Two Gaussian latents of different rates", "rate of z₂ / rate of z₁", "held-out R²")
    panels[2].legend(fontsize=8, frameon=False, labelcolor=INK, loc="center right")
    return figure


def _draw_curve(axes: Any, rows: Rows) -> None:
    curve = [row for row in rows if row["part"] == "curve"]
    trained = [row for row in rows if row["part"] == "trained"]
    usual = min((row["steps"] for row in trained), default=0)
    axes.loglog(
        [row["alpha"] for row in curve],
        [max(1 - row["r2"], 1e-9) for row in curve],
        color=COLORS[0],
        linewidth=1.2,
        label="predicted, generalised normal",
    )
    places = {"uniform": 160.0, "bimodal": 260.0}
    for name, at in places.items():
        predicted = [row["predicted"] for row in trained if row["law"] == name]
        if predicted:
            axes.plot([at / 1.15, at * 1.15], [1 - predicted[0]] * 2, color=COLORS[0], linewidth=1.6)
    for longer, color, marker, label in (
        (False, COLORS[1], "o", "trained, each seed"),
        (True, COLORS[3], "D", "trained three times as long"),
    ):
        subset = [row for row in trained if (row["steps"] > usual) == longer]
        across = [row["alpha"] or places.get(row["law"], 100.0) for row in subset]
        axes.loglog(
            across, [1 - row["r2"] for row in subset], marker, color=color, markersize=4.5, label=label
        )
    plain_axes(axes, "What linear recovery loses to the law", "alpha", "1 − R²")
    ticks = [1.5, 2, 3, 4, 8, 32, *places.values()]
    axes.set_xticks(ticks, labels=["1.5", "2", "3", "4", "8", "32", "uniform", "bimodal"], rotation=30)
    axes.minorticks_off()
    axes.set_ylim(1e-4, 1)
    axes.legend(fontsize=8, frameon=False, labelcolor=INK, loc="upper right")
