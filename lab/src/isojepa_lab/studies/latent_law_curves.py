"""Curves over alpha out of rows: means, where they peak, how far they stay high."""

from collections.abc import Mapping, Sequence

from isojepa_lab.studies.measured import mean, measured
from isojepa_lab.studies.settings import PUBLISHED
from isojepa_lab.studies.study import Row

PLATEAU = 0.9  # R^2 that counts as recovered
GAUSSIAN = 2.0  # alpha
LOST = 0.55  # share of the R^2 of a Gaussian embedding below which a direction was not learned
SCORES = {"r2": "on samples of the law", "r2_grid": "on the grid"}

Lines = Mapping[str, Sequence[Row]]  # a world, told apart by settings -> its rows


def lines_of(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by world; published settings are a world of their own."""
    lines: dict[str, list[Row]] = {}
    for row in rows:
        name = str(row.labels["world"])
        if row.labels.get("settings") == PUBLISHED:
            name += ", published settings"
        lines.setdefault(name, []).append(row)
    return lines


def alphas_of(rows: Sequence[Row]) -> list[float]:
    """The laws of some rows."""
    return sorted({float(row.labels["alpha"]) for row in rows})


def of_objective(rows: Sequence[Row], objective: str) -> list[Row]:
    """The rows of one objective."""
    return [row for row in rows if row.labels["objective"] == objective]


def curve_of(rows: Sequence[Row], score: str) -> dict[float, float]:
    """alpha -> mean of a score over mixings and seeds."""
    by_alpha = {
        alpha: mean([row for row in rows if row.labels["alpha"] == alpha], score) for alpha in alphas_of(rows)
    }
    return {alpha: value for alpha, value in by_alpha.items() if value is not None}


def peak(rows: Sequence[Row], score: str) -> float | None:
    """The alpha of the highest mean; None without laws on both sides of the Gaussian to compare it with."""
    curve = curve_of(rows, score)
    if GAUSSIAN not in curve or min(curve) == GAUSSIAN or max(curve) == GAUSSIAN:
        return None
    return max(curve, key=lambda alpha: curve[alpha])


def plateau(rows: Sequence[Row], score: str) -> tuple[float, float] | None:
    """The unbroken range of alphas around the peak with at least PLATEAU."""
    curve = curve_of(rows, score)
    alphas = sorted(curve)
    if not curve or max(curve.values()) < PLATEAU:
        return None
    low = high = alphas.index(max(curve, key=lambda alpha: curve[alpha]))
    while low > 0 and curve[alphas[low - 1]] >= PLATEAU:
        low -= 1
    while high + 1 < len(alphas) and curve[alphas[high + 1]] >= PLATEAU:
        high += 1
    return alphas[low], alphas[high]


def lost_latent(row: Row, gaussian: float) -> bool:
    """Whether a direction of the plane is not in the embedding: half of the R^2 of a Gaussian one, or less.

    The direction need not be a latent's own, so the R^2 of single latents is not enough.
    """
    r2 = measured(row, "r2")
    return r2 is not None and r2 < LOST * gaussian
