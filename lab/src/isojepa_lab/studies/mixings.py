"""Four mixings of the plane under four objectives: is the embedding a rotation of the latents?

Claims: whatever mixes two Gaussian latents, alignment with Gaussianity, or with whitening alone, unmixes them
up to a rotation. The spiral is the hardest: its observations are Gaussian before anything is learned, so only
alignment can distinguish them from the latents.

    isojepa sweep mixings && isojepa study report mixings

Published: Figures 1 and 3 and Appendix H of Klindt, LeCun & Balestriero (2026). Its coupling is unmixed there
by a matched encoder, here by the same multilayer perceptron as the others.
"""

from collections.abc import Sequence

from isojepa.config import Config
from isojepa.objectives.vicreg import VICRegSpec
from isojepa.registry import build_spec
from isojepa.training.recipe import Recipe
from isojepa_lab.studies.findings import Findings
from isojepa_lab.studies.settings import (
    OBJECTIVES,
    OURS,
    PUBLISHED,
    PUBLISHED_OBJECTIVES,
    published_plane,
    shortened,
)
from isojepa_lab.studies.study import Cell, ReportStudy, Row

RELEASED = "VICReg, released ratios"
MIXINGS = ("spiral", "sinusoid", "parabola", "affine-coupling")
RHO = 0.95

_OBJECTIVES = {**OBJECTIVES, RELEASED: VICRegSpec()}
_RECIPES = {"InfoNCE": Recipe(batch=512)}  # its cost grows with the square of the batch


def cells(scale: str) -> list[Cell]:
    """Ours on every mixing and objective; the published settings for SIGReg at standard, for all at paper."""
    if scale == "quick":
        quick = [_ours(mixing, "SIGReg", 0) for mixing in MIXINGS[:2]] + [_ours(MIXINGS[1], "whitening", 0)]
        return [Cell(shortened(cell.trained, 100), cell.labels) for cell in quick]
    whole = scale == "paper"
    ours = [
        _ours(mixing, name, seed)
        for mixing in MIXINGS
        for name in _OBJECTIVES
        for seed in range(5 if whole else 3)
    ]
    published = [
        _published(mixing, name, seed)
        for mixing in MIXINGS
        for name in (PUBLISHED_OBJECTIVES if whole else ("SIGReg",))
        for seed in range(5 if whole else 1)
    ]
    return ours + published


def _ours(mixing: str, name: str, seed: int) -> Cell:
    world = build_spec("world", rho=RHO, mixing=mixing)
    config = Config(
        world=world, objective=_OBJECTIVES[name], training=_RECIPES.get(name, Recipe()), seed=seed
    )
    return Cell(config, {"settings": OURS, "mixing": mixing, "objective": name, "seed": seed})


def _published(mixing: str, name: str, seed: int) -> Cell:
    world = build_spec("world", process="noisy-copies", rho=RHO, mixing=mixing)
    config = published_plane(world, PUBLISHED_OBJECTIVES[name], seed)
    return Cell(config, {"settings": PUBLISHED, "mixing": mixing, "objective": name, "seed": seed})


def report(rows: Sequence[Row]) -> Findings:
    """What the runs say of the claims."""
    from isojepa_lab.studies.mixings_page import findings

    return findings(rows)


STUDY = ReportStudy(
    name="mixings",
    title="Four mixings of the plane",
    claim=(
        "Whatever mixes two Gaussian latents, alignment with Gaussianity, or with whitening alone, unmixes "
        "them up to a rotation: a spiral, a sinusoid, a parabola, a coupling."
    ),
    source="Klindt, LeCun & Balestriero (2026), Figures 1 and 3, Appendix H",
    cells=cells,
    report=report,
)
