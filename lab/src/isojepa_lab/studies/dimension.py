"""Embeddings with fewer and with more dimensions than there are latents.

Claims: with m < n dimensions for n equally fast latents every m-dimensional projection of them is equally
good and nothing nonlinear is: the embedding is linear, mean R^2 m / n. Which projection is left to chance;
with unequal rates it is that of the m slowest. With m > n a white embedding keeps all latents and fills up
with the next eigenfunctions, squares and products: R^2 of the latents 1, linear share n / m. No smooth
map makes it Gaussian then: n latents do not fill m dimensions, and SIGReg has to give up something.

    isojepa sweep dimension && isojepa study report dimension

Beside: "What if the dimension is wrong?", an open question in Klindt, LeCun & Balestriero (2026),
Limitations.
"""

from collections.abc import Sequence
from dataclasses import replace

from isojepa.config import Config
from isojepa.encoders.mlp import MLPSpec
from isojepa.objectives.lejepa import LeJEPASpec, WhiteningSpec
from isojepa.registry import build_spec
from isojepa.training.recipe import Recipe
from isojepa_lab.studies.findings import Findings
from isojepa_lab.studies.settings import shortened
from isojepa_lab.studies.study import Cell, Label, ReportStudy, Row

OBJECTIVES = {
    "whitening": WhiteningSpec(weight=0.5),
    "SIGReg": LeJEPASpec(weight=2e-3),
    "SIGReg, 4 λ": LeJEPASpec(weight=8e-3),
}
RHO = 0.9
EQUAL, UNEQUAL = "equal", "unequal"
RATIOS = (
    1.0,
    1.25,
    1.5,
    1.75,
)  # unequal rates, all below twice the slowest: every square is faster than they
SLOW = (0.7, RHO)  # correlations of the slowest of them
DIMENSIONS = {4: (1, 2, 3, 4, 5, 6, 8, 10, 12), 2: (1, 2, 3, 4, 6)}

_ENCODER = MLPSpec(width=64, layers=3)
_RECIPE = Recipe(steps=1000, batch=1024, batch_start=256, eval_every=1000)
_WORLDS = {
    (4, EQUAL, RHO): build_spec("world", dim=4, rho=RHO, mixing="affine-coupling"),
    (2, EQUAL, RHO): build_spec("world", dim=2, rho=RHO, mixing="sinusoid"),
    **{
        (4, UNEQUAL, slow): build_spec(
            "world", dim=4, rho=tuple(slow**ratio for ratio in RATIOS), mixing="affine-coupling"
        )
        for slow in SLOW
    },
}


def cells(scale: str) -> list[Cell]:
    """Embedding dimensions below, at and above the number of latents; more seeds at paper."""
    if scale == "quick":
        quick = [_cell(2, EQUAL, m, "whitening", 0) for m in (1, 2, 4)] + [_cell(2, EQUAL, 4, "SIGReg", 0)]
        return [Cell(shortened(cell.trained, 250), cell.labels) for cell in quick]
    seeds = range(5 if scale == "paper" else 2)
    cells = [
        _cell(latents, EQUAL, m, name, seed)
        for latents, dimensions in DIMENSIONS.items()
        for m in dimensions
        for name in OBJECTIVES
        for seed in seeds
    ]
    cells += [
        _cell(4, UNEQUAL, m, name, seed, slow)
        for slow in SLOW
        for m in (1, 2, 3)
        for name in ("whitening", "SIGReg")
        for seed in seeds
    ]
    return cells


def _cell(latents: int, rates: str, m: int, objective: str, seed: int, slow: float = RHO) -> Cell:
    config = Config(
        world=_WORLDS[latents, rates, slow],
        encoder=replace(_ENCODER, dim=m),
        objective=OBJECTIVES[objective],
        training=_RECIPE,
        seed=seed,
    )
    labels: dict[str, Label] = {"latents": latents, "rates": rates, "slow": slow, "dim": m}
    return Cell(config, labels | {"objective": objective, "seed": seed})


def report(rows: Sequence[Row]) -> Findings:
    """What the runs say of the claims."""
    from isojepa_lab.studies.dimension_page import findings

    return findings(rows)


STUDY = ReportStudy(
    name="dimension",
    title="Fewer and more dimensions than latents",
    claim=(
        "With fewer dimensions than latents the embedding is a linear projection of them, of the slowest if "
        "rates differ. With more, a white embedding keeps the latents and adds squares and products; no "
        "smooth map makes it Gaussian, and SIGReg pays for asking."
    ),
    source='"What if the dimension is wrong?", an open question in Klindt, LeCun & Balestriero (2026).',
    cells=cells,
    report=report,
)
