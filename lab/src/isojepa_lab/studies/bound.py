"""Theorem 3 on every run in a Gaussian world.

Claims: the Procrustes error of an embedding is at most D + (epsilon + D)^2, whatever trained it, well or
badly; and over the runs that did not collapse the error follows the alignment gap delta more closely than the
distance epsilon from white.

    isojepa sweep bound && isojepa study report bound

No run is made for this study alone: it reads those of all studies that Theorem 3 speaks of, Gaussian latents
of one correlation and as many embedding dimensions. None is dropped, collapsed and diverged ones included;
those without a score are counted and named.

Published: Figure 4a and Appendix H, "Approximate Bound Decomposition", of Klindt, LeCun & Balestriero (2026).
"""

from collections.abc import Sequence

from isojepa_lab.studies.bound_worlds import speaks_of
from isojepa_lab.studies.catalogue import cells_of
from isojepa_lab.studies.findings import Findings
from isojepa_lab.studies.study import Cell, ReportStudy, Row

SOURCES = ("mixings", "grid", "latent_law", "scaling", "anisotropy", "dimension", "sample_size")


def cells(scale: str) -> list[Cell]:
    """Every run that Theorem 3 speaks of, once; at quick scale one of each study."""
    return cells_of(SOURCES, scale, quick=1, keep=speaks_of)


def report(rows: Sequence[Row]) -> Findings:
    """Whether the bound holds, how tight it is, and what the error follows."""
    from isojepa_lab.studies.bound_page import findings

    return findings(rows)


STUDY = ReportStudy(
    name="bound",
    title="Theorem 3 on every run",
    claim=(
        "The Procrustes error of an embedding of a Gaussian world is at most D + (ε + D)², whatever trained "
        "it. Over the runs that did not collapse it follows the alignment gap δ more closely than ε, the "
        "distance from white."
    ),
    source="Klindt, LeCun & Balestriero (2026), Figure 4a, Appendix H, bound decomposition",
    cells=cells,
    report=report,
    sources=SOURCES,
)
