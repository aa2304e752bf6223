"""Latents of unequal rates: when is the fastest one lost, and does AnInfoNCE repair it?

Claims: a white, aligned embedding takes the slowest functions there are. With rates K_i = -log rho_i the
second Hermite polynomial of the slowest latent, of rate 2 min K, is slower than the fastest latent once
max K > 2 min K: from there on whitening takes the square in its place. A square is not Gaussian, so SIGReg
pays for it, and takes it only where the rates are far apart; and it gives a contrastive loss nothing that the
slow latent has not told already.

    isojepa sweep anisotropy && isojepa study report anisotropy

Beside: Appendix F of Klindt, LeCun & Balestriero (2026), "The role of isotropic transitions", which says so
in words, without numbers.
"""

from collections.abc import Sequence
from dataclasses import replace

from isojepa.config import Config
from isojepa.encoders.mlp import MLPSpec
from isojepa.objectives.infonce import AnInfoNCESpec, InfoNCESpec
from isojepa.objectives.lejepa import LeJEPASpec, WhiteningSpec
from isojepa.registry import build_spec
from isojepa.training.recipe import Recipe
from isojepa_lab.studies.findings import Findings
from isojepa_lab.studies.settings import shortened
from isojepa_lab.studies.study import Cell, Label, ReportStudy, Row

# The last layer of the encoder sets the scale of every dimension, and so the width of the kernel: InfoNCE of
# width 1 has a learned width here, whatever it is called.
OBJECTIVES = {
    "SIGReg": LeJEPASpec(weight=2e-3),
    "whitening": WhiteningSpec(weight=0.2),
    "InfoNCE": InfoNCESpec(sigma=1.0),
    "AnInfoNCE": AnInfoNCESpec(sigma=1.0),
}
CONTRASTIVE = ("InfoNCE", "AnInfoNCE")
PLANE = {0.7: (1.0, 1.5, 1.75, 2.25, 2.5, 3.0, 4.0), 0.95: (1.0, 1.5, 2.5, 4.0, 6.0, 8.0)}
FOUR = {0.7: (1.0, 1.5, 2.5, 4.0)}

_PLANE_ENCODER = MLPSpec(width=32, layers=4)
_PLANE_RECIPE = Recipe(steps=600, batch=2048, batch_start=512, eval_every=600)
_FOUR_ENCODER = MLPSpec(width=64, layers=3)
_FOUR_RECIPE = Recipe(steps=1000, batch=1024, batch_start=256, eval_every=1000)
_CONTRASTIVE_BATCH = 512  # their cost grows with its square


def cells(scale: str) -> list[Cell]:
    """Ratios of rates in the plane and among four latents; a finer grid and more seeds at paper."""
    if scale == "quick":
        quick = [_cell(2, 0.7, ratio, "whitening", 0) for ratio in (1.5, 3.0)]
        quick += [_cell(2, 0.7, 3.0, name, 0) for name in ("SIGReg", "InfoNCE")]
        return [Cell(shortened(cell.trained, 120), cell.labels) for cell in quick]
    whole = scale == "paper"
    cells = []
    for dim, worlds in ((2, PLANE), (4, FOUR)):
        for slow, ratios in worlds.items():
            seeds = range((5 if whole else 2) if dim == 2 else (3 if whole else 1))
            between = {1.25, 2.0, 5.0} if whole and dim == 2 else set()
            for ratio in sorted({*ratios, *between}):
                cells += [_cell(dim, slow, ratio, name, seed) for name in OBJECTIVES for seed in seeds]
    return cells


def _cell(dim: int, slow: float, ratio: float, objective: str, seed: int) -> Cell:
    """One latent is `ratio` times as fast as all others, which correlate by `slow` across a pair."""
    plane = dim == 2
    recipe = _PLANE_RECIPE if plane else _FOUR_RECIPE
    if objective in CONTRASTIVE:
        recipe = replace(recipe, batch=_CONTRASTIVE_BATCH, batch_start=256)
    config = Config(
        world=build_spec(
            "world",
            dim=dim,
            rho=(*(slow,) * (dim - 1), slow**ratio),
            mixing="sinusoid" if plane else "affine-coupling",
        ),
        encoder=_PLANE_ENCODER if plane else _FOUR_ENCODER,
        objective=OBJECTIVES[objective],
        training=recipe,
        seed=seed,
    )
    labels: dict[str, Label] = {"latents": dim, "slow": slow, "ratio": ratio}
    return Cell(config, labels | {"objective": objective, "seed": seed})


def report(rows: Sequence[Row]) -> Findings:
    """What the runs say of the claims."""
    from isojepa_lab.studies.anisotropy_page import findings

    return findings(rows)


STUDY = ReportStudy(
    name="anisotropy",
    title="Latents of unequal rates",
    claim=(
        "A latent that is more than twice as fast as the slowest is lost to whitening, which takes the "
        "square of the slow one in its place. SIGReg pays for the square, which is not Gaussian, and keeps "
        "the fast latent unless the rates are far apart; contrast has no use for the square."
    ),
    source=(
        "Appendix F of Klindt, LeCun & Balestriero (2026): max K < 2 min K, and AnInfoNCE as a remedy; "
        "no numbers are given there."
    ),
    cells=cells,
    report=report,
)
