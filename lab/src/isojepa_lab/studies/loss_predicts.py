"""Which loss predicts how much was recovered?

Claim: which of the held-out losses orders encoders by R^2 depends on the experiment: alignment among
converged runs of the plane, as published, whitening over dimensions. Alignment depends on the correlation of
the pairs by itself, so runs of different rho cannot be compared by it; what Theorem 3 makes of it, the gap
above 2 (1 - rho) tr Cov(h), can.

    isojepa sweep loss_predicts && isojepa study report loss_predicts

No run is made for this study alone: it reads those of mixings, grid and scaling.

Published: Appendix H, "Loss Predictivity", of Klindt, LeCun & Balestriero (2026).
"""

from collections.abc import Sequence

from isojepa_lab.studies.catalogue import cells_of
from isojepa_lab.studies.findings import Findings
from isojepa_lab.studies.study import Cell, ReportStudy, Row

SOURCES = ("mixings", "grid", "scaling")


def cells(scale: str) -> list[Cell]:
    """Every run of the three studies, once; at quick scale two of each."""
    return cells_of(SOURCES, scale, quick=2)


def report(rows: Sequence[Row]) -> Findings:
    """Rank correlations of losses and R^2."""
    from isojepa_lab.studies.loss_predicts_page import findings

    return findings(rows)


STUDY = ReportStudy(
    name="loss_predicts",
    title="Which loss predicts recovery",
    claim=(
        "Which held-out loss orders encoders by the R² of the latents depends on the experiment: alignment "
        "among converged runs of the plane, as published, whitening over dimensions. The nonlinear share, "
        "which Theorem 3 makes of alignment, orders runs of all experiments together."
    ),
    source="Klindt, LeCun & Balestriero (2026), Appendix H, loss predictivity",
    cells=cells,
    report=report,
    sources=SOURCES,
)
