"""Weight against correlation on the spiral: when does LeJEPA recover the latents?

Claims: recovery needs both terms. With most of the weight on Gaussianity the spiral, which is Gaussian
already, is left as it is (R^2 near 0); with next to none nothing keeps the embedding from shrinking; between
the two, the range of good weights is wide, and recovery grows with the correlation of the pairs until
alignment becomes too small beside the regularizer.

    isojepa sweep grid && isojepa study report grid

Published: Appendix H of Klindt, LeCun & Balestriero (2026), 9 weights x 7 correlations. Its pairs are noisy
copies, so that its rho stands for a correlation of rho^2; ours correlate by rho. SIGReg is n times a
distance, so a weight means the same only at the same batch, 256 here as there. What the loss itself prefers
at each point, without any training, is in `isojepa.studies.grid_theory`.
"""

from collections.abc import Sequence

from isojepa.config import Config
from isojepa.encoders.mlp import MLPSpec
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.registry import changed, make
from isojepa.studies.findings import Findings
from isojepa.studies.settings import (
    OURS,
    PUBLISHED,
    PUBLISHED_OBJECTIVES,
    published_plane,
    shortened,
)
from isojepa.studies.study import Cell, Row, Study
from isojepa.training.recipe import Recipe

WEIGHTS = (1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1, 5e-1)
RHOS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
BATCH = 256
SEEDS = 2
PAPER_SEEDS = 3
SPOTS = ((1e-3, 0.95), (5e-1, 0.95))  # where the published settings are run too: the best, the collapsed

# At small weights the embedding first shrinks, and must find what the views share before nothing is left of
# it: a narrower or deeper encoder, or half the learning rate, often does not.
_ENCODER = MLPSpec(width=128, layers=4)
_RECIPE = Recipe(
    steps=3000, batch=BATCH, batch_start=None, learning_rate=6e-3, eval_every=1000, eval_samples=2000
)


def cells(scale: str) -> list[Cell]:
    """Ours on the whole grid; the published settings at a few points, at paper scale on the whole grid."""
    if scale == "quick":
        quick = [_ours(weight, rho, 0) for weight in (1e-3, 5e-1) for rho in (0.5, 0.95)]
        return [Cell(shortened(cell.config, 200), cell.labels) for cell in quick]
    grid = [(weight, rho) for weight in WEIGHTS for rho in RHOS]
    seeds = PAPER_SEEDS if scale == "paper" else SEEDS
    ours = [_ours(weight, rho, seed) for weight, rho in grid for seed in range(seeds)]
    if scale == "standard":
        return ours + [_published(weight, rho, 0) for weight, rho in SPOTS]
    return ours + [_published(weight, rho, seed) for weight, rho in grid for seed in range(seeds)]


def _ours(weight: float, rho: float, seed: int) -> Cell:
    config = Config(
        world=make("world", rho=rho),
        encoder=_ENCODER,
        objective=LeJEPASpec(weight=weight, slices=16),
        training=_RECIPE,
        seed=seed,
    )
    return Cell(config, {"settings": OURS, "weight": weight, "rho": rho, "seed": seed})


def _published(weight: float, rho: float, seed: int) -> Cell:
    objective = changed(PUBLISHED_OBJECTIVES["SIGReg"], weight=weight)
    config = published_plane(make("world", process="noisy-copies", rho=rho), objective, seed)
    return Cell(config, {"settings": PUBLISHED, "weight": weight, "rho": rho, "seed": seed})


def report(rows: Sequence[Row]) -> Findings:
    """What the runs say of the published statements, and of the loss itself."""
    from isojepa.studies.grid_page import findings

    return findings(rows)


STUDY = Study(
    name="grid",
    title="Weight against correlation",
    claim=(
        "Recovery needs both terms of the loss. Too much weight on Gaussianity leaves the spiral as it is, "
        "too little lets the embedding shrink; in between the range of good weights is wide."
    ),
    source="Klindt, LeCun & Balestriero (2026), Appendix H, grid search",
    cells=cells,
    report=report,
)
