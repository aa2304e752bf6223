"""What the runs on isotropised pairs say, in sentences with numbers from the rows.

The words were written after looking at the default settings' results; other settings get tables only.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

Rows = Sequence[Mapping[str, Any]]
_STRONG, _WEAK, _WHITE = "SIGReg 2e-3", "SIGReg 2e-4", "whitening"

FINDINGS = """\
- **The weight comes first**, at stride 8. In the ideal world it hardly matters: wrist {ideal_strong:.3f} at
  weight 2e-3 and {ideal_weak:.3f} at 2e-4. On the data as they are it is {data_strong:.3f} and
  {data_weak:.3f}. With latents that are not Gaussian, regularizer and alignment want different embeddings
  (an exactly Gaussian one cannot pass {ceiling:.2f} for the wrist), and the weight decides between them. At
  stride 8 a smaller weight costs nothing; at strides 32 and 64 it loses the wrist.
- **Moments** helps at the large weight: wrist {moments_strong} at strengths 0, 0.25, ..., 1, with
  {moments_left} % of the pairs left. ρ goes from {rho_data} to {rho_moments} at 0.5, so this is not a
  longer stride in disguise. The full dose runs out of pairs. At the small weight there is nothing left to
  gain, and the dose only costs: {moments_weak}.
- **Rates** is nearly free ({rates_left:.0f} % of the pairs left, ratio {ratio:.2f} to {rates_ratio:.2f})
  and buys less: {rates_strong} at the large weight, {rates_weak} at the small one.
- **Marginals** alone is a trap. The wrist is in the middle only while it moves, so that choosing such pairs
  makes it faster: the ratio of rates goes from {ratio:.2f} to {marginals_ratio:.2f}. At the large weight
  the wrist goes {marginals_strong}, part of which a longer stride gives too; at the small one it is lost:
  {marginals_weak}.
- **Reweight** brings the pairs nearest to the Gaussian process (transition {transition:.2f} to
  {reweight_transition:.2f} at 0.75) and recovers no more than moments: {reweight_strong} and
  {reweight_weak}. So that distance is not what decides: the wrist stays bimodal (ceiling
  {reweight_ceiling:.2f} at 0.75, where moments has {moments_ceiling:.2f}).
- **Strides.** The best for the wrist is {best_strong} at weight 2e-3 and {best_weak} at 2e-4. A longer
  stride raises the alignment loss, 1 - ρ, against the regularizer, like a smaller weight; and it lets
  second harmonics of the slow latent overtake the fast one.
- **Theory.** The first eigenfunctions say that the wrist is lost at stride 8 ({lost_base:.2f}) and at
  stride 64 ({lost_long:.2f}). At stride 64 training at weight 2e-4 does lose it ({long_weak:.2f}),
  whitening in part ({long_white:.2f}), and weight 2e-3 does not ({long_strong:.2f}): two functions of one
  latent are not jointly Gaussian, which a strong SIGReg forbids. At stride 8 a small weight keeps it
  ({data_weak:.2f}), against the prediction. The rates of the second and third eigenfunction are in the
  ratio {gap_base:.2f} there and {gap_long:.2f} at stride 64: with so little between them, keeping the wrist
  costs next to nothing.
- **Equal rates bring it back** at stride 64: with rates {long_rates_weak} (weight 2e-4) and
  {long_rates_white} (whitening), with moments {long_moments_weak} and {long_moments_white} at strengths 0,
  0.5 and 1. The shoulder pays: {shoulder_weak:.2f} to {shoulder_rates_weak:.2f} and {shoulder_white:.2f} to
  {shoulder_rates_white:.2f} with the full dose of rates.
- **On a Gaussian within the support** the wrist scores lower than on the data ({gaussian_strong:.2f}
  against {data_strong:.2f}, as they are, weight 2e-3): the middle, where the data are thin, is where
  embeddings bend.
- Seeds differ by up to {spread:.2f} (standard deviation, of either joint) within a cell at weight 2e-3.
  Steps of those curves that are smaller than their bars mean nothing.
"""


def findings(rows: Rows, settings: Mapping[str, Any]) -> str:
    """What the default settings showed, or that these are others."""
    needed = [("data", 0.0, 8), ("data", 0.0, 64), ("ideal", 1.0, 8), ("moments", 1.0, 8), ("rates", 1.0, 64)]
    if (
        settings["source"] != "goals"
        or settings["seeds"] < 3
        or not all(select(rows, *cell) for cell in needed)
    ):
        return "The findings in words belong to the default settings; these are others."
    return FINDINGS.format(**_numbers(rows)).rstrip()


def _numbers(rows: Rows) -> dict[str, Any]:
    def r2(method: str, strength: float, objective: str, latent: int = 1, stride: int = 8) -> float:
        return score(select(rows, method, strength, stride), objective, "data", latent)[0]

    def curve(method: str, objective: str, stride: int = 8) -> str:
        strengths = [strength for name, strength in cells(rows, stride) if name == method]
        values = [r2("data", 0.0, objective, stride=stride)]
        values += [r2(method, strength, objective, stride=stride) for strength in strengths]
        return " → ".join(f"{value:.2f}" for value in values)

    def left(method: str, strength: float) -> float:
        cell_strides = [row for row in select(rows, method, strength, 8) if "effective_pairs" in row]
        return (
            100 * fmean(row["effective_pairs"] / row["pairs"] for row in cell_strides)
            if cell_strides
            else math.nan
        )

    def measure(method: str, strength: float, key: str) -> float:
        return average(select(rows, method, strength, 8), key)

    def wrist_ceiling(method: str, strength: float) -> float:
        return fmean(row["ceiling"][1] for row in select(rows, method, strength, 8) if "ceiling" in row)

    def told_rho(method: str, strength: float) -> str:
        cell_strides = [row["rho"] for row in select(rows, method, strength, 8) if "rho" in row]
        return " / ".join(f"{fmean(rho[i] for rho in cell_strides):.3f}" for i in (0, -1))

    def predicted(stride: int) -> float:
        return fmean(row["predicted"]["data"][1] for row in select(rows, "data", 0.0, stride))

    def gap(stride: int) -> float:
        """Rate of the third eigenfunction over that of the second."""
        values = [row["eigenvalues"] for row in select(rows, "data", 0.0, stride)]
        return fmean(math.log(cell_strides[2]) / math.log(cell_strides[1]) for cell_strides in values)

    strides = sorted({row["stride"] for row in rows if row["method"] == "data"})
    start = select(rows, "data", 0.0, 8)
    doses = [strength for method, strength in cells(rows, 8) if method == "moments"]
    cell_strides = [(cell, stride) for stride in strides for cell in cells(rows, stride)]
    spreads = [
        score(select(rows, *cell, s), _STRONG, "data", k)[1] for cell, s in cell_strides for k in (0, 1)
    ]
    numbers: dict[str, Any] = {
        "ceiling": wrist_ceiling("data", 0.0),
        "moments_left": ", ".join(f"{left('moments', strength):.2g}" for strength in doses),
        "reweight_ceiling": wrist_ceiling("reweight", 0.75),
        "moments_ceiling": wrist_ceiling("moments", 0.75),
        "rho_data": told_rho("data", 0.0),
        "rho_moments": told_rho("moments", 0.5),
        "rates_left": left("rates", 1.0),
        "ratio": measure("data", 0.0, "isotropy"),
        "rates_ratio": measure("rates", 1.0, "isotropy"),
        "marginals_ratio": measure("marginals", 1.0, "isotropy"),
        "transition": 1000 * measure("data", 0.0, "transition"),
        "reweight_transition": 1000 * measure("reweight", 0.75, "transition"),
        "lost_base": predicted(8),
        "lost_long": predicted(64),
        "gap_base": gap(8),
        "gap_long": gap(64),
        "gaussian_strong": score(start, _STRONG, "gaussian", 1)[0],
        "spread": max(value for value in spreads if not math.isnan(value)),
    }
    for name, objective in (("strong", _STRONG), ("weak", _WEAK), ("white", _WHITE)):
        numbers[f"data_{name}"] = r2("data", 0.0, objective)
        numbers[f"ideal_{name}"] = r2("ideal", 1.0, objective)
        numbers[f"best_{name}"] = _best(strides, [r2("data", 0.0, objective, stride=at) for at in strides])
        numbers[f"long_{name}"] = r2("data", 0.0, objective, stride=64)
        numbers[f"shoulder_{name}"] = r2("data", 0.0, objective, 0, 64)
        numbers[f"shoulder_rates_{name}"] = r2("rates", 1.0, objective, 0, 64)
        for method in ("rates", "moments", "marginals", "reweight"):
            numbers[f"{method}_{name}"] = curve(method, objective)
            numbers[f"long_{method}_{name}"] = curve(method, objective, 64)
    return numbers


def _best(strides: Sequence[int], values: Sequence[float]) -> int:
    return strides[max(range(len(strides)), key=lambda i: -1.0 if math.isnan(values[i]) else values[i])]


def select(rows: Rows, method: str, strength: float, stride: int) -> Rows:
    """Rows of all seeds of one cell."""
    return [
        row
        for row in rows
        if (row["method"], row["stride"]) == (method, stride) and math.isclose(row["strength"], strength)
    ]


def cells(rows: Rows, stride: int) -> list[tuple[str, float]]:
    """Methods and strengths at a stride, in the order they were run, the data first and the ideal last."""
    settings_seen = dict.fromkeys((row["method"], row["strength"]) for row in rows if row["stride"] == stride)
    return sorted(settings_seen, key=lambda cell: (cell[0] != "data", cell[0] == "ideal"))


def average(rows: Rows, key: str) -> float:
    """Mean of a measure over seeds; NaN if none has it."""
    values = [float(row[key]) for row in rows if key in row]
    return fmean(values) if values else math.nan


def score(rows: Rows, objective: str, law: str, latent: int) -> tuple[float, float]:
    """Mean and standard deviation over seeds of an R²; NaN if none was trained."""
    values = [float(row["r2"][objective][law][latent]) for row in rows if objective in row["r2"]]
    if not values:
        return math.nan, math.nan
    return fmean(values), stdev(values) if len(values) > 1 else 0.0
