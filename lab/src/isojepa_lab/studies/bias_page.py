"""Page and figure of the study of the bias."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from isojepa.report.colors import INK, QUIET
from isojepa_lab.studies.results import COLORS, markdown_table, plain_axes

Rows = Sequence[Mapping[str, Any]]

PAGE = """\
# The bias on minibatches

Made by `python -m isojepa_lab.studies.bias`; numbers, settings and versions are in `bias.json`.

![Bias by n, the scale that training finds, and the spiral](bias.png)

Claim (Theorem 6 of the paper): E[T/n] is the distance of laws D plus (1/n) ∫(1 - |φ_X|²) w dt, a bias
said not to matter, down to minibatches of 16.

## The formula

n times the bias, T/n - D averaged over {draws:,} numbers in samples of n, ± one standard error:

{formula}

Over all {cells} cells the biased statistic is off the formula by {z_biased:.1f} standard errors at most,
and the unbiased one off zero by {z_unbiased:.1f}; of so many cells the largest is expected at about 2.5.

## What it does to training

Gradient descent, {steps} steps of fresh minibatches. One scale: x = s z, {replicas} trainings. Matrix: x
= A z in {dim} dimensions with 16 slices; root mean square of the singular values of A, and their range.
Spiral: LeJEPA in the two-dimensional world, {seeds} seeds, held-out R² ± standard deviation over seeds,
and the standard deviation of the embedding, which the alignment shrinks too.

{training}

## What we saw

- The formula is right, and `unbiased=True` removes the bias.
- The bias shrinks embeddings, since that of N(0, s²) grows with s. At batch 16 the biased scale ends at
  {std16:.3f} (theory {theory16:.3f}; to first order it is 1 - 1/n), at 64 at {std64:.3f} and at 256 at
  {std256:.3f}; the unbiased one within {off_unbiased:.3f} of 1. So at batch 16 it takes {loss16:.0%} off
  the standard deviation, which matters where the scale of the embedding does; a linear map afterwards
  undoes it.
- On the spiral the unbiased statistic changes R² by {gain16:+.3f}, {gain64:+.3f} and {gain256:+.3f} at
  batch 16, 64 and 256, where the standard deviation over seeds is {noise16:.3f}, {noise64:.3f} and
  {noise256:.3f}. {verdict}
"""


def page(rows: Rows, settings: Mapping[str, Any]) -> str:
    """The study's rows as Markdown."""
    bias = [row for row in rows if row["part"] == "bias"]
    laws = list(dict.fromkeys(row["law"] for row in bias))
    sizes = sorted({row["n"] for row in bias})
    selected_sizes = sizes[:: max(1, len(sizes) // 4)]
    formula = []
    for law in laws:
        by_size = {row["n"]: row for row in bias if row["law"] == law}
        for name in ("biased", "unbiased"):
            cells = [
                f"{n * by_size[n][name]:.3f} ± {n * by_size[n][f'{name}_error']:.3f}" for n in selected_sizes
            ]
            truth = by_size[sizes[0]]["formula"] * sizes[0] if name == "biased" else 0.0
            formula.append([law, name, f"{truth:.4f}", *cells])
    by = {(row["part"], row["batch"], row["unbiased"]): row for row in rows if "batch" in row}
    batches = sorted({key[1] for key in by})
    training = [_training_cells(by, n, unbiased) for n in batches for unbiased in (False, True)]

    def cell(part: str, n: int, unbiased: bool, key: str) -> float:
        return float(by[part, n, unbiased][key]) if (part, n, unbiased) in by else math.nan

    gains = {n: cell("spiral", n, True, "r2") - cell("spiral", n, False, "r2") for n in (16, 64, 256)}
    noise = {
        n: max(cell("spiral", n, unbiased, "r2_spread") for unbiased in (False, True)) for n in (16, 64, 256)
    }
    clear = [n for n in gains if gains[n] > noise[n]]
    return PAGE.format(
        **settings,
        formula=markdown_table(
            ["law", "statistic", "formula", *(f"n = {n}" for n in selected_sizes)], formula
        ),
        cells=len(bias),
        z_biased=max(abs(row["biased"] - row["formula"]) / row["biased_error"] for row in bias),
        z_unbiased=max(abs(row["unbiased"]) / row["unbiased_error"] for row in bias),
        training=markdown_table(
            ["batch", "statistic", "one scale", "theory", "matrix", "range", "spiral R²", "spiral std"],
            training,
        ),
        **{f"std{n}": cell("scale", n, False, "std") for n in gains},
        theory16=cell("scale", 16, False, "fixed_point"),
        off_unbiased=max(abs(by["scale", n, True]["std"] - 1) for n in batches),
        loss16=1 - cell("scale", 16, False, "std"),
        **{f"gain{n}": gain for n, gain in gains.items()},
        **{f"noise{n}": value for n, value in noise.items()},
        verdict=(
            f"The gain is above that at batch {', '.join(map(str, clear))}."
            if clear
            else "No gain is above that."
        ),
    )


def _training_cells(
    by: Mapping[tuple[str, int, bool], Mapping[str, Any]], n: int, unbiased: bool
) -> list[Any]:
    scale, matrix, spiral = (by[part, n, unbiased] for part in ("scale", "matrix", "spiral"))
    return [
        n,
        "unbiased" if unbiased else "biased",
        f"{scale['std']:.4f} ± {scale['std_error']:.4f}",
        f"{scale['fixed_point']:.4f}",
        f"{matrix['std']:.4f}",
        f"{matrix['smallest']:.3f} to {matrix['largest']:.3f}",
        f"{spiral['r2']:.3f} ± {spiral['r2_spread']:.3f}",
        f"{spiral['std']:.3f}",
    ]


def draw(rows: Rows) -> Figure:
    """Bias by n; the scale that training finds; R^2 on the spiral."""
    figure = Figure(figsize=(13, 4.2), dpi=90, layout="constrained")
    panels = figure.subplots(1, 3)
    bias = [row for row in rows if row["part"] == "bias"]
    for law, color in zip(dict.fromkeys(row["law"] for row in bias), COLORS, strict=False):
        subset = [row for row in bias if row["law"] == law]
        sizes = [row["n"] for row in subset]
        panels[0].loglog(sizes, [row["formula"] for row in subset], color=color, linewidth=1, label=law)
        panels[0].loglog(sizes, [row["biased"] for row in subset], "o", color=color, markersize=4)
    plain_axes(panels[0], "Bias of T/n: formula (lines), measured (dots)", "n", "E[T/n] − D")
    panels[0].legend(fontsize=8, frameon=False, labelcolor=INK)
    for unbiased, color in ((False, COLORS[1]), (True, COLORS[0])):
        name = "unbiased" if unbiased else "biased"
        for part, marker, shift in (("scale", "o", 0.97), ("matrix", "s", 1.03)):
            subset = [row for row in rows if row["part"] == part and row["unbiased"] == unbiased]
            label = f"{name}, " + ("one scale" if part == "scale" else "matrix")
            at = np.array([row["batch"] for row in subset]) * shift
            panels[1].semilogx(
                at, [row["std"] for row in subset], marker, color=color, markersize=6, label=label
            )
        subset = [row for row in rows if row["part"] == "scale" and row["unbiased"] == unbiased]
        theory = [row["fixed_point"] for row in subset]
        panels[1].semilogx([row["batch"] for row in subset], theory, color=color, linewidth=1)
        subset = [row for row in rows if row["part"] == "spiral" and row["unbiased"] == unbiased]
        for row in subset:
            at = np.full(len(row["r2_each"]), row["batch"] * (1.06 if unbiased else 0.94))
            panels[2].semilogx(
                at, row["r2_each"], "o", color=color, alpha=0.8, label=name if row is subset[0] else None
            )
    panels[1].axhline(1, color=QUIET, linewidth=0.8, linestyle=":")
    plain_axes(panels[1], "Scale at the end of training (lines: theory)", "batch", "standard deviation")
    plain_axes(panels[2], "LeJEPA on the spiral, each seed", "batch", "held-out R²")
    batches = sorted({row["batch"] for row in rows if "batch" in row})
    for axes in panels[1:]:
        axes.set_xticks(batches, labels=[str(n) for n in batches])
        axes.minorticks_off()
        axes.legend(fontsize=8, frameon=False, labelcolor=INK, loc="lower right")
    return figure
