"""The page of the study of gradients."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from isojepa_lab.studies.results import markdown_table

PAGE = """\
# Gradients of the tests

Made by `python -m isojepa_lab.studies.gradients`; numbers, settings and versions are in `gradients.json`.

![Largest gradient by magnitude, and moments](gradients.png)

Claims: the Epps-Pulley statistic has a bounded gradient and curvature whatever the samples are (Theorem
4), and the gradients of moments explode (Section 4.2.1).

## The bound

With T = n ∫|φ_n - φ|² e^(-t²/(2σ²)) dt the bound is |dT/dx_i| ≤ 4 ∫|t| w dt = 8σ². The paper leaves out
the factor n and has e^(-t²/σ²), for which it is 4σ²/n. As |φ_n - φ| ≤ 1 + φ and not only ≤ 2, it is also
at most 4σ² + 4σ²/(1 + σ²); and the closed form gives the supremum exactly, 2√(2π/e) (σ² + σ²/(1 + σ²)).
Largest found by gradient ascent from {searches} starts of {samples} samples, in the closed form and then
with 17 knots:

{search}

{verdict}

## One outlier, and all samples scaled

Largest |dT/dx_i| of {samples} Gaussian samples, of which one is moved to the magnitude, {repeats} times:

{outlier}

All samples multiplied by the magnitude:

{scale}

The last two columns are the exponent of growth from 10^3 to 10^4 and gradients that were NaN or Inf.

## Moments

Variance of n d mean(x^k)/dx_i over Gaussian samples, which is k² (m_(2k-2) - m_(k-1)²), and the largest of
{draws:,}:

{moments}

## What we saw

- The gradient of the Epps-Pulley statistic is bounded, as claimed. The paper's constant is {slack:.2f}
  times the supremum for σ = 1; no search passes the supremum.
- Bounded also means weak. In the closed form the pull on an outlier at 10 or beyond is at most
  {pull_exact:.0e}: it is not brought back. With 17 knots it is up to {pull_17:.2f} in size, of either
  sign: the sample seen modulo 10.05, an effect of the quadrature. Cramér-von Mises and Watson lose the
  outlier too (at most {pull_cvm:.0e}).
- Anderson-Darling grows linearly with the outlier and pulls it back: unbounded, but tame. So do
  mean-variance, entropy and the likelihoods.
- Moments up to order K grow with the power 2K - 1: {growth_2:.1f}, {growth_4:.1f}, {growth_6:.1f} and
  {growth_8:.1f} for orders 2, 4, 6 and 8. The variance that grows like k² m_(2k-2) is confirmed. The
  paper's gradient norm "of order k" leaves out the factor x^(k-1), which is the larger part.
- Jarque-Bera and Shapiro-Francia divide by the sample's spread: their gradients vanish as samples move
  out.
"""


def page(rows: Sequence[dict[str, Any]], settings: Mapping[str, Any]) -> str:
    """The study's rows as Markdown."""
    searches = [row for row in rows if row["part"] == "search"]
    search = [
        [
            row["kind"],
            f"{row['sigma']:g}",
            "" if row["plain"] is None else f"{row['plain']:.3f}",
            f"{row['bound']:.3f}",
            f"{row['supremum']:.3f}",
            f"{row['largest']:.3f}",
            f"{row['largest_17_knots']:.3f}",
        ]
        for row in searches
    ]
    header = ["", "σ", "8σ²", "with 1 + φ", "supremum", "largest found", "there, 17 knots"]
    broken = [row for row in searches if row["violated"]]
    reached = min(row["largest"] / row["supremum"] for row in searches)
    verdict = (
        f"The bound is broken in {len(broken)} of {len(searches)} searches. They come to {reached:.1%} of "
        "the supremum or closer; the rest is the sample itself, which is no pair of its own."
    )
    by_test = {(row["part"], row["test"]): row for row in rows if "test" in row}

    magnitudes = by_test["outlier", "epps-pulley"]["magnitudes"]
    far = [k for k, magnitude in enumerate(magnitudes) if magnitude >= 10]

    def pull(name: str) -> float:
        largest: float = max(abs(by_test["outlier", name]["pull"][k]) for k in far)
        return largest

    def table(kind: str) -> str:
        columns = ["test", *(f"{m:g}" for m in magnitudes), "growth", "not finite"]
        cells = [
            [
                name,
                *(f"{value:.2g}" for value in row["largest"]),
                f"{row['growth']:.1f}",
                row["not_finite"],
            ]
            for (part, name), row in by_test.items()
            if part == kind
        ]
        return markdown_table(columns, cells)

    moments = [
        [row["order"], f"{row['variance']:.4g}", f"{row['predicted']:.4g}", f"{row['largest']:.3g}"]
        for row in rows
        if row["part"] == "moments"
    ]
    return PAGE.format(
        searches=settings["searches"],
        samples=settings["samples"],
        repeats=settings["repeats"],
        draws=settings["draws"],
        search=markdown_table(header, search),
        verdict=verdict,
        outlier=table("outlier"),
        scale=table("scale"),
        moments=markdown_table(["k", "variance", "predicted", "largest"], moments),
        slack=next((row["plain"] / row["supremum"] for row in searches if row["sigma"] == 1), math.nan),
        pull_exact=pull("epps-pulley-exact"),
        pull_17=pull("epps-pulley"),
        pull_cvm=max(pull("cramer-von-mises"), pull("watson")),
        growth_4=by_test["outlier", "moments"]["growth"],
        **{f"growth_{k}": by_test["outlier", f"moments, order {k}"]["growth"] for k in (2, 6, 8)},
    )
