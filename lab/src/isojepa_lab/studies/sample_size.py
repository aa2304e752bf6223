"""A finite training set: how many pairs does recovery take, and does the bound still hold on fresh ones?

Claims: with a matched encoder 1 - R^2 falls about as 1 / N in the number N of training pairs, down to what
the optimizer leaves; a free multilayer perceptron needs more pairs and learns small sets by heart. The
bound of Theorem 3, computed on fresh pairs, holds whatever the encoder has overfitted: it speaks of the
encoder, not of how it came about.

    isojepa sweep sample_size && isojepa study report sample_size

Beside: "Finite samples and optimization", an open question in Klindt, LeCun & Balestriero (2026),
Limitations.
"""

from collections.abc import Sequence

from isojepa.config import Config
from isojepa.encoders.coupling import CouplingSpec
from isojepa.encoders.mlp import MLPSpec
from isojepa.objectives.lejepa import LeJEPASpec, WhiteningSpec
from isojepa.registry import build_spec
from isojepa.training.recipe import Recipe
from isojepa_lab.studies.findings import Findings
from isojepa_lab.studies.settings import shortened
from isojepa_lab.studies.study import Cell, Label, ReportStudy, Row

OBJECTIVES = {
    "SIGReg": LeJEPASpec(weight=2e-3),
    "whitening": WhiteningSpec(weight=0.5),
}
SPIRAL, COUPLING, WIDE = "spiral, MLP", "coupling of 8, matched", "coupling of 16, matched"
WORLDS = {
    SPIRAL: (build_spec("world", mixing="spiral"), MLPSpec()),
    COUPLING: (build_spec("world", mixing="additive-coupling", dim=8), CouplingSpec()),
    WIDE: (build_spec("world", mixing="additive-coupling", dim=16), CouplingSpec()),
}
SIZES = tuple(2**k for k in range(6, 18))
ENDLESS = 0  # label of runs on fresh pairs at every step

_STEPS = {SPIRAL: 2000, COUPLING: 1000, WIDE: 1000}  # what endless data needs to pass R^2 0.99 with a margin


def cells(scale: str) -> list[Cell]:
    """Training sets of 64 to 131,072 pairs, and fresh pairs; four times the steps and more seeds at paper."""
    if scale == "quick":
        quick = [_cell(COUPLING, name, 64, 0) for name in OBJECTIVES]
        quick += [_cell(COUPLING, "SIGReg", pairs, 0) for pairs in (1024, ENDLESS)]
        return [Cell(shortened(cell.trained, 400), cell.labels) for cell in quick]
    whole = scale == "paper"
    cells = []
    for world in WORLDS:
        for name in OBJECTIVES if world != WIDE else ("SIGReg",):
            for pairs in (*SIZES, ENDLESS):
                seeds = range((5 if whole else 2) if world != WIDE else (3 if whole else 1))
                cells += [_cell(world, name, pairs, seed, 4 if whole else 1) for seed in seeds]
    return cells


def _cell(world: str, objective: str, pairs: int, seed: int, longer: int = 1) -> Cell:
    mixed, encoder = WORLDS[world]
    steps = longer * _STEPS[world]
    recipe = Recipe(steps=steps, batch=1024, eval_every=steps // 10, pairs=pairs or None)
    config = Config(world=mixed, encoder=encoder, objective=OBJECTIVES[objective], training=recipe, seed=seed)
    labels: dict[str, Label] = {"world": world, "objective": objective, "pairs": pairs, "seed": seed}
    return Cell(config, labels)


def report(rows: Sequence[Row]) -> Findings:
    """What the runs say of the claims."""
    from isojepa_lab.studies.sample_size_page import findings

    return findings(rows)


STUDY = ReportStudy(
    name="sample_size",
    title="Recovery from a finite training set",
    claim=(
        "With a matched encoder 1 - R² falls about as one over the number of training pairs; a multilayer "
        "perceptron needs more and learns small sets by heart. On fresh pairs the bound of Theorem 3 holds "
        "all the same."
    ),
    source='"Finite samples and optimization", an open question in Klindt, LeCun & Balestriero (2026).',
    cells=cells,
    report=report,
)
