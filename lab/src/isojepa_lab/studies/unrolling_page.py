"""The page of the study of unrolling."""

import math
from collections.abc import Mapping, Sequence
from statistics import correlation, fmean
from typing import Any

from isojepa_lab.studies.results import markdown_table

Rows = Sequence[Mapping[str, Any]]

PAGE = """\
# Unrolling the X

Made by `python -m isojepa_lab.studies.unrolling`; numbers, settings and versions are in `unrolling.json`.

![Half circle, before and after, table of cells, long runs](unrolling.png)

The X is (z, s z) with a random sign s: Gaussian marginals, covariance I, not Gaussian. Claims (Figures 5,
6 and 16 of the paper): every direction near a diagonal shows it, and gradient descent on the samples with
few random directions a step unrolls it, among up to 1024 dimensions.

## The half circle

Statistic of {circle} samples of the X by angle, in units of its mean for Gaussian samples:

{half_circle}

## Among many dimensions

{samples} samples, {steps} steps of Adam, directions resampled at each. The learning rate of each
statistic, of {rates}, is the one that leaves the smallest BHEP statistic of the two coordinates in
{cell_dim} dimensions with {cell_slices} directions; it falls to zero over the run. Correlation of the
squares of the two coordinates at the end, 1 for the X and 0 ± {noise:.1f} for {samples} Gaussian samples:

{squares}

Summary over the {kinds} cells of each statistic. ρ is the correlation of start and end of the other
coordinates, which were Gaussian all along; an X that is merely blurred as much as they were moved has a
correlation of squares of ρ⁴. Gaussian: cells whose two coordinates pass the BHEP test at 5 %. Fresh:
largest Epps-Pulley statistic over fresh directions, 1.06 for Gaussian samples.

{summary}

## Long runs at a small rate

{long} steps at a rate of {long_rate}, 16 directions a step. Mean-variance cannot see the X: what it does
to it is blur.

{long_table}

## What we saw

- The spike is there for every statistic but mean-variance, which asks for mean 0 and covariance I and has
  {mv45:.1f} at 45°. It is a broad hump rather than a spike, but for entropy.
- In {cell_dim} dimensions with {cell_slices} directions the X disappears for {gone} of the {sighted}
  statistics that see it, as Figure 6 shows. But so does everything else: their mean ρ⁴ is {blur:.2f}, so
  that the coordinates that were right have been drawn anew with those that were wrong. Over all cells the
  correlation of squares is what blur predicts, with a mean difference of {difference:+.2f} and a
  correlation of {agreement:.2f}; mean-variance, which cannot see the X, brings it down to {mv_low:.2f} in
  one cell. So pictures before and after, as in Figure 6, do not show that a statistic found the two
  coordinates.
- With a small rate the two can be told apart. In {small_dim} dimensions Epps-Pulley unrolls the X:
  squares at {ep_small:.2f}, where blur would leave {ep_small_blur:.2f} and mean-variance leaves
  {mv_small:.2f}. In {large_dim} dimensions it ends at {ep_large:.2f}, blur alone at {ep_large_blur:.2f},
  mean-variance at {mv_large:.2f}: {large_verdict}. A random
  direction has 2/{large_dim} of its square in the plane of the X.
- The paper does not name its optimizer; this is Adam. In an encoder the coordinates do not move one by
  one, so that blur may matter less there; this was not tried here.
- Stability: {stability}
"""


def page(rows: Rows, settings: Mapping[str, Any]) -> str:
    """The study's rows as Markdown."""
    cells = [row for row in rows if row["part"] == "cell"]
    circle = {row["test"]: row for row in rows if row["part"] == "half circle"}
    tests = list(circle)
    kinds = list(dict.fromkeys((row["dim"], row["slices"]) for row in cells))
    by = {(row["test"], row["dim"], row["slices"]): row for row in cells}
    hardest = max(settings["dims"]), min(settings["slices"])
    sighted = [name for name in tests if name != "mean-variance"]
    long = {(row["test"], row["dim"]): row for row in rows if row["part"] == "long"}
    done = [row for row in cells if row["status"] == "done"]
    small, large = min(settings["long_dims"]), max(settings["long_dims"])

    def last(name: str, dim: int, key: str) -> float:
        return float(long[name, dim][key][-1])

    at = {angle: circle[tests[0]]["angles"].index(angle) for angle in (0, 45, 90, 135)}
    return PAGE.format(
        **{key: value for key, value in settings.items() if key not in ("slices", "rates")},
        half_circle=markdown_table(
            ["statistic", *(f"{angle}°" for angle in at)],
            [[name, *(f"{circle[name]['ratio'][k]:.3g}" for k in at.values())] for name in tests],
        ),
        rates=", ".join(f"{rate:g}" for rate in settings["rates"]),
        cell_dim=hardest[0],
        cell_slices=hardest[1],
        noise=settings["samples"] ** -0.5,
        squares=markdown_table(
            ["statistic", *(f"{dim} / {slices}" for dim, slices in kinds)],
            [[name, *(_number(by[name, *kind]["squares"]) for kind in kinds)] for name in tests],
        ),
        kinds=len(kinds),
        summary=markdown_table(
            ["statistic", "rate", "squares", "ρ⁴", "Gaussian", "fresh", "diverged", "ms a step"],
            [_summary(name, [by[name, *kind] for kind in kinds]) for name in tests],
        ),
        long_table=markdown_table(
            ["d", "statistic", "squares", "ρ⁴", "p of BHEP", "squares below 0.2 from step"],
            [_long(row) for row in long.values()],
        ),
        mv45=circle["mean-variance"]["ratio"][at[45]],
        gone=sum(by[name, *hardest]["squares"] < 0.3 for name in sighted),
        sighted=len(sighted),
        blur=_mean([by[name, *hardest]["blur"] for name in sighted if by[name, *hardest]["squares"] < 0.3]),
        difference=_mean([row["squares"] - row["blur"] for row in done]),
        agreement=correlation([row["squares"] for row in done], [row["blur"] for row in done]),
        mv_low=min(row["squares"] for row in cells if row["test"] == "mean-variance"),
        small_dim=small,
        large_dim=large,
        ep_small=last("epps-pulley", small, "squares"),
        ep_small_blur=last("epps-pulley", small, "blur"),
        mv_small=last("mean-variance", small, "squares"),
        ep_large=last("epps-pulley", large, "squares"),
        ep_large_blur=last("epps-pulley", large, "blur"),
        mv_large=last("mean-variance", large, "squares"),
        large_verdict=_large_verdict(long["epps-pulley", large]),
        stability=_stability(cells),
    )


def _summary(name: str, own: Rows) -> list[Any]:
    done = [row for row in own if row["status"] == "done"]
    return [
        name,
        f"{own[0]['rate']:g}",
        _number(_mean([row["squares"] for row in done])),
        _number(_mean([row["blur"] for row in done])),
        f"{sum(row['p'] > 0.05 for row in done)} of {len(own)}",
        f"{max((row['fresh'] for row in done), default=math.nan):.2f}",
        len(own) - len(done),
        f"{fmean(row['milliseconds'] for row in own):.2f}",
    ]


def _long(row: Mapping[str, Any]) -> list[Any]:
    ends = [f"{row[key][-1]:.2f}" for key in ("squares", "blur")]
    return [row["dim"], row["test"], *ends, f"{row['p'][-1]:.2f}", _below(row) or "never"]


def _below(row: Mapping[str, Any]) -> int | None:
    """First look at which the correlation of squares is below 0.2, two standard errors of a Gaussian's."""
    return next((step for step, value in zip(row["step"], row["squares"], strict=True) if value < 0.2), None)


def _large_verdict(row: Mapping[str, Any]) -> str:
    """Whether a long run unrolled the X, or blurred it."""
    unrolled = row["blur"][-1] - row["squares"][-1] > 0.2
    text = "some of it was unrolled" if unrolled else "nothing beyond noise was unrolled"
    text += f" in {row['step'][-1]} steps; "
    if (step := _below(row)) is None:
        return text + "the squares never fell below 0.2"
    return (
        text
        + f"the squares fell below 0.2 at step {step}, where blur alone left "
        + (f"{row['blur'][row['step'].index(step)]:.2f}")
    )


def _stability(cells: Rows) -> str:
    diverged = [row for row in cells if row["status"] != "done"]
    worse = sorted({row["test"] for row in cells if row["status"] == "done" and row["fresh"] > 2})
    text = f"{len(diverged)} of {len(cells)} cells diverged"
    text += f" ({', '.join(sorted({row['test'] for row in diverged}))})." if diverged else "."
    if worse:
        text += f" Some cell of these ended further from Gaussian than it began: {', '.join(worse)}."
    return text


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else math.nan


def _number(value: float) -> str:
    return "diverged" if math.isnan(value) else f"{value:.2f}"
