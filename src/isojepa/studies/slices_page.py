"""Page and figure of the study of directions."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from isojepa.report.colors import INK, QUIET
from isojepa.studies.results import COLORS, markdown_table, plain_axes

Rows = Sequence[Mapping[str, Any]]

NULL = 1.0594  # expectation of the statistic for samples that are N(0, 1): sqrt(2 pi) (1 - 3^{-1/2})
SAMPLER_NAMES = ("gaussian", "sobol", "orthogonal")

PAGE = """\
# Directions: how many, fixed or resampled, drawn how

Made by `python -m isojepa.studies.slices`; numbers, settings and versions are in `slices.json`.

![Statistic at the end by number of directions, and the samplers](slices.png)

Claim (Figure 7 and Section 4.3 of the paper): more directions are better, and 16 resampled at every step
do better than thousands that stay fixed.

{samples} samples of a Gaussian with variances falling like 1/k are moved by {steps} steps of Adam on
SIGReg. The table has the Epps-Pulley statistic averaged over {fresh} fresh directions at the end. Samples
of N(0, I) have 1.06; less means that samples are spread more evenly than chance.

{figure7}

{answers}

With {longer} times the steps:

{longer_table}

## Samplers

As estimators: standard deviation of the mean statistic of the samples at the start over {sets} sets of
directions, relative to independent Gaussian ones.

{estimators}

In optimisation, with resampling: the statistic over fresh directions at the end.

{trained}

## What we saw

- At equal numbers, resampled directions end far below fixed ones everywhere, as claimed, and it costs
  nothing.
- "16 resampled beat thousands fixed" depends on dimension and patience. After {steps} steps: {summary}.
  After {longer} times as many, 16 resampled end at {shares} of the statistic of the largest fixed set.
  Fixed directions are enough only once they determine the covariance, which has d(d+1)/2 entries; until
  then they leave most directions where they were, and more steps do not help.
- As estimators Sobol's directions have {sobol_low:.2f} to {sobol_high:.2f} of the standard deviation of
  independent ones, orthogonal ones {orthogonal_low:.2f} to {orthogonal_high:.2f} (each ratio is known to
  about {ratio_error:.0%}). In optimisation the two change the end by {trained_low:+.0%} to
  {trained_high:+.0%}: noise of the directions is not what holds it back.
"""


def page(rows: Rows, settings: Mapping[str, Any]) -> str:
    """The study's rows as Markdown."""
    main = {(row["dim"], row["count"], row["resample"]): row for row in rows if row["part"] == "figure 7"}
    dims = sorted({key[0] for key in main})
    counts = sorted({key[1] for key in main})
    header = ["directions", *(f"d = {d}, {kind}" for d in dims for kind in ("fixed", "resampled"))]

    def cell(key: tuple[int, int, bool]) -> str:
        return f"{main[key]['after']:.3f}" if key in main else ""

    before = ["none", *(f"{main[d, counts[0], False]['before']:.3f}" for d in dims for _ in range(2))]
    figure7 = [before, *([c, *(cell((d, c, r)) for d in dims for r in (False, True))] for c in counts)]
    found = {d: _answer(main, d, counts) for d in dims}
    estimators = [
        [row["dim"], row["count"], "1", *(f"{row[s] / row['gaussian']:.2f}" for s in SAMPLER_NAMES[1:])]
        for row in rows
        if row["part"] == "estimators"
    ]
    trained = {
        (row["dim"], row["count"], row["sampler"]): row["after"] for row in rows if row["part"] == "samplers"
    }
    pairs = list(dict.fromkeys((d, c) for d, c, _ in trained))
    ratios = {
        name: [row[name] / row["gaussian"] for row in rows if row["part"] == "estimators"]
        for name in SAMPLER_NAMES[1:]
    }
    changes = [trained[d, c, s] / trained[d, c, "gaussian"] - 1 for d, c in pairs for s in SAMPLER_NAMES[1:]]
    ends = {(row["dim"], row["resample"]): row["after"] for row in rows if row["part"] == "longer"}
    shares = {d: ends[d, True] / ends[d, False] for d in dims}
    longer = [
        [
            row["dim"],
            f"{row['count']} {'resampled' if row['resample'] else 'fixed'}",
            cell((row["dim"], row["count"], row["resample"])),
            f"{row['after']:.3f}",
        ]
        for row in rows
        if row["part"] == "longer"
    ]
    return PAGE.format(
        **settings,
        figure7=markdown_table(header, figure7),
        answers="\n".join(f"- {text}" for text, _ in found.values()),
        estimators=markdown_table(["d", "directions", *SAMPLER_NAMES], estimators),
        trained=markdown_table(
            ["d", "directions", *SAMPLER_NAMES],
            [[d, c, *(f"{trained[d, c, s]:.3f}" for s in SAMPLER_NAMES)] for d, c in pairs],
        ),
        longer_table=markdown_table(["d", "directions", f"{settings['steps']} steps", "longer"], longer),
        shares=", ".join(f"{share:.0%} (d = {d})" for d, share in shares.items()),
        **{f"{name}_low": min(values) for name, values in ratios.items()},
        **{f"{name}_high": max(values) for name, values in ratios.items()},
        ratio_error=settings["sets"] ** -0.5,  # each deviation to 1/sqrt(2 sets)
        trained_low=min(changes),
        trained_high=max(changes),
        summary="; ".join(f"for d = {d}, {short}" for d, (_, short) in found.items()),
    )


def _answer(main: Mapping[Any, Mapping[str, Any]], dim: int, counts: Sequence[int]) -> tuple[str, str]:
    """How 16 resampled directions compare with fixed ones, in a sentence and in short."""
    few = 16 if (dim, 16, True) in main else counts[0]
    own = main[dim, few, True]
    better = [c for c in counts if main[dim, c, False]["after"] < own["after"]]
    most = main[dim, counts[-1], False]
    costs = (
        f"{own['milliseconds']:.1f} ms against {most['milliseconds']:.1f} ms a step for {counts[-1]} fixed"
    )
    if better:
        text = f"d = {dim}: {few} resampled ({own['after']:.3f}) are beaten by fixed ones from {better[0]} on"
        return f"{text}; {costs}.", f"{better[0]} fixed ones are already better"
    text = f"d = {dim}: {few} resampled ({own['after']:.3f}) beat all fixed sets up to {counts[-1]}"
    return f"{text} ({most['after']:.3f}); {costs}.", f"not even {counts[-1]} are"


def draw(rows: Rows) -> Figure:
    """Statistic at the end by number of directions; samplers as estimators."""
    main = [row for row in rows if row["part"] == "figure 7"]
    dims = sorted({row["dim"] for row in main})
    figure = Figure(figsize=(13, 4.4), dpi=90, layout="constrained")
    panels = figure.subplots(1, 3)
    for dim, color in zip(dims, COLORS, strict=False):
        for resample, style, marker in ((False, "--", "s"), (True, "-", "o")):
            own = [row for row in main if row["dim"] == dim and row["resample"] == resample]
            name = f"d = {dim}, {'resampled' if resample else 'fixed'}"
            at = [row["count"] for row in own]
            for axes, key in ((panels[0], "after"), (panels[1], "worst")):
                values = [row[key] for row in own]
                axes.loglog(at, values, style, marker=marker, color=color, markersize=4, label=name)
        own = [row for row in rows if row["part"] == "estimators" and row["dim"] == dim]
        for sampler, style in (("sobol", ":"), ("orthogonal", "-")):
            ratio = [row[sampler] / row["gaussian"] for row in own]
            at = [row["count"] for row in own]
            panels[2].semilogx(
                at, ratio, style, marker="o", color=color, markersize=4, label=f"d = {dim}, {sampler}"
            )
    panels[0].axhline(NULL, color=QUIET, linewidth=0.8, linestyle=":")
    panels[2].axhline(1, color=QUIET, linewidth=0.8, linestyle=":")
    panels[0].set_yticks([0.2, 0.5, 1, 2, 4], labels=["0.2", "0.5", "1", "2", "4"])
    panels[1].set_yticks([1, 2, 5, 10, 20, 50], labels=["1", "2", "5", "10", "20", "50"])
    plain_axes(panels[0], "Mean over fresh directions (dotted: N(0, I))", "directions |A|", "statistic")
    plain_axes(panels[1], "Worst of the fresh directions", "directions |A|", "statistic")
    plain_axes(panels[2], "Error of the mean, relative to gaussian", "directions |A|", "standard deviation")
    panels[2].set_ylim(0, None)
    for axes in panels[:2]:
        axes.minorticks_off()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside left center", fontsize=8, frameon=False, labelcolor=INK)
    panels[2].legend(fontsize=8, frameon=False, labelcolor=INK, loc="lower left")
    return figure
