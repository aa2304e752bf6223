"""The page of the study of isotropised pairs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from isojepa_lab.studies.isotropise_findings import average, cells, findings, score, select
from isojepa_lab.studies.results import markdown_table

Rows = Sequence[Mapping[str, Any]]
_NAMES = {"data": "data", "gaussian": "Gaussian"}

PAGE = """\
# Isotropise: dose and response

Made by `python -m isojepa_lab.studies.isotropise`; numbers, settings and versions are in `isotropise.json`.

![Recovery against the dose, its cost, strides, and theory](isotropise.png)

The theorems ask for Gaussian latents that all move at one rate. A goal-directed agent gives neither. How
much of the world is still recovered, and how much more when recorded pairs are chosen so that they come
nearer to what the theorems ask for?

{paths} trajectories of {length} steps of a simulated two-joint arm (`GoalReaching`, in the likeness of a
trained policy on Reacher), a fifth of them held out, seen through a nonlinear lift into 8 dimensions;
{seeds} seeds, each with data and encoder of its own; {steps} steps of training. Entries are held-out R² of
shoulder / wrist, mean over seeds, ± the larger standard deviation of the two. *Data*: scored on held-out
paths, drawn alike. *Gaussian*: scored on a Gaussian within the data's support, which is where the full dose
aims. The linear map is fitted within the law it is scored on.

## The data as they are

{by_stride}

At stride 8 the rates differ by {ratio:.2f}, where the theorems' argument needs less than 2.

## The knob at stride 8

What each dose does to the pairs. Effective pairs are a share of the recorded ones; distances are in
thousandths (see `isojepa.data.reweighting`); the ceiling is the largest R² of the wrist that an exactly
Gaussian embedding can have under the weighted law; the prediction is the R² of the best whitened embedding
(first eigenfunctions, no training), scored on the data; from few effective pairs it is noise.

{doses}

What training on them reaches:

{trained}

The ideal is an Ornstein–Uhlenbeck process of the same mean rate in the same lift.

## The knob at stride 64

{long}

## What we saw

{findings}
"""


def page(rows: Rows, settings: Mapping[str, Any]) -> str:
    """The study's rows as Markdown."""
    return PAGE.format(
        **settings,
        by_stride=_stride_table(rows),
        ratio=average(select(rows, "data", 0.0, 8), "isotropy"),
        doses=_dose_table(rows),
        trained=_trained_table(rows, 8),
        long=_trained_table(rows, 64),
        findings=findings(rows, settings),
    )


def told(rows: Rows, objective: str, law: str) -> str:
    """R² of both latents as a cell of a table."""
    parts = [score(rows, objective, law, latent) for latent in (0, 1)]
    if math.isnan(parts[0][0]):
        return "–"
    return f"{parts[0][0]:.3f} / {parts[1][0]:.3f} ± {max(part[1] for part in parts):.3f}"


def named(method: str, strength: float) -> str:
    """A cell's name."""
    if method in ("data", "ideal"):
        return {"data": "data as they are", "ideal": "ideal"}[method]
    return f"{method} {strength:g}"


def objectives(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Names of the objectives that any row was trained with."""
    return list(dict.fromkeys(name for row in rows for name in row["r2"]))


def _stride_table(rows: Rows) -> str:
    strides = sorted({row["stride"] for row in rows if row["method"] == "data"})
    trained = objectives(row for row in rows if row["method"] == "data")[:2]
    header = ["stride", "ρ, slow / fast", "rates, ratio", "Gaussianity", "transition", "predicted"]
    lines = []
    for stride in strides:
        subset = select(rows, "data", 0.0, stride)
        lines.append(
            [
                stride,
                _rho(subset),
                f"{average(subset, 'isotropy'):.2f}",
                f"{1000 * average(subset, 'gaussianity'):.2f}",
                f"{1000 * average(subset, 'transition'):.2f}",
                _predicted(subset),
                *(told(subset, name, "data") for name in trained),
            ]
        )
    return markdown_table([*header, *trained], lines)


def _rho(own: Rows) -> str:
    return " / ".join(f"{fmean(row['rho'][i] for row in own):.4f}" for i in (0, -1))


def _predicted(own: Rows) -> str:
    values = [fmean(row["predicted"]["data"][latent] for row in own) for latent in (0, 1)]
    return f"{values[0]:.2f} / {values[1]:.2f}"


def _dose_table(rows: Rows) -> str:
    header = [
        "dose",
        "effective pairs",
        "paths",
        "ρ, slow / fast",
        "rates, ratio",
        "Gaussianity",
        "transition",
    ]
    lines = []
    for method, strength in cells(rows, 8):
        subset = [row for row in select(rows, method, strength, 8) if "effective_pairs" in row]
        refused = len(select(rows, method, strength, 8)) - len(subset)
        if method == "ideal":
            continue
        if not subset:
            lines.append([named(method, strength), "too few", *["–"] * 7])
            continue
        share = fmean(row["effective_pairs"] / row["pairs"] for row in subset)
        note = f" ({refused} of {refused + len(subset)} seeds: too few)" if refused else ""
        lines.append(
            [
                named(method, strength),
                f"{100 * share:.1f} %{note}",
                f"{average(subset, 'effective_paths'):.0f}",
                _rho(subset),
                f"{average(subset, 'isotropy'):.2f}",
                f"{1000 * average(subset, 'gaussianity'):.2f}",
                f"{1000 * average(subset, 'transition'):.2f}",
                f"{fmean(row['ceiling'][1] for row in subset):.2f}",
                _predicted(subset),
            ]
        )
    return markdown_table([*header, "ceiling, wrist", "predicted"], lines)


def _trained_table(rows: Rows, stride: int) -> str:
    names = objectives(row for row in rows if row["stride"] == stride and row["method"] != "data") or ["–"]
    header = ["dose", *(f"{name}, {_NAMES[law]}" for name in names for law in _NAMES)]
    lines = []
    for method, strength in cells(rows, stride):
        subset = select(rows, method, strength, stride)
        entries = [told(subset, name, law) for name in names for law in _NAMES]
        if any(entry != "–" for entry in entries):
            lines.append([named(method, strength), *entries])
    return markdown_table(header, lines)
