"""Charts of episodes per stride: how normal and how correlated the differences of states are.

After figure rho_vs_sigreg of Klindt, LeCun & Balestriero (2026).
"""

from collections.abc import Sequence

from isojepa.certificates.strides import StrideRow
from isojepa.report.charts import Chart, Reference, Series

_POINTS = 2000  # of a panel
_BAND = (0.005, 0.995)  # quantiles that a panel shows
_CELL = 1.75  # inches of a panel
_DECADES = 100.0  # largest over smallest value up to which 2 and 5 are ticks too
_SHOWN = 4  # dimensions of charts at most


def stride_charts(rows: Sequence[StrideRow]) -> list[Chart]:
    """The same numbers over the stride, for a page."""
    places = [float(row.stride) for row in rows]
    dims = range(min(len(rows[0].rho), _SHOWN))
    correlations = [Series(f"dimension {dim}", [row.rho[dim] for row in rows], bridged=True) for dim in dims]
    normality = [Series(f"dimension {dim}", [row.sigreg[dim] for row in rows], bridged=True) for dim in dims]
    normality.append(Series("all together", [row.joint for row in rows], dashed=True, bridged=True))
    return [
        Chart(
            "stride-rho", "Correlation per stride", "", places, "stride", correlations, across_scale="log"
        ),
        Chart(
            "stride-sigreg", "SIGReg of the differences", "", places, "stride", normality, scale="log",
            across_scale="log", references=(Reference(rows[0].floor, "normal samples"),),
        ),
    ]  # fmt: skip
