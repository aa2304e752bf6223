"""From 2 to 1,024 latents: does recovery hold as worlds grow?

Claims: with SIGReg or whitening the latents are recovered in every dimension, at least as well as published
and from fewer pairs; InfoNCE fails where its kernel does not fit the world (few latents, published
width) and where a batch cannot show the information of a pair (many latents), and scoring random subspaces
repairs both.

    isojepa sweep scaling && isojepa study report scaling

Published: Table 1 and the three tables of Appendix H of Klindt, LeCun & Balestriero (2026). Worlds are noisy
copies, as published, seen through an additive coupling that the encoder can undo exactly. A world is a seed
of the mixing; where several encoders are trained in one world, the one of lowest training loss is taken, and
encoders of different worlds are never compared.

Couplings preserve volume: such an encoder cannot collapse, and alignment alone finds the inverse. That is why
the published weight of 1e-6 worked. Two controls say so: alignment without any regularizer, and an encoder
that ends with a linear map, whose scale only the regularizer can hold.
"""

from collections.abc import Sequence
from dataclasses import replace

from isojepa.config import Config
from isojepa.encoders.coupling import CouplingSpec, FreeCouplingSpec
from isojepa.objectives.infonce import InfoNCESpec, SlicedInfoNCESpec
from isojepa.objectives.lejepa import LeJEPASpec, WhiteningSpec
from isojepa.objectives.vicreg import VICRegSpec
from isojepa.registry import Spec, changed, flatten, make
from isojepa.studies.findings import Findings
from isojepa.studies.settings import OURS, PUBLISHED, PUBLISHED_RECIPE, PUBLISHED_SIGMA, shortened
from isojepa.studies.study import Cell, Label, Row, Study
from isojepa.training.recipe import Recipe

DIMS = tuple(2**power for power in range(1, 11))
RHO = 0.95  # of each copy: the copies correlate by its square
LAYERS = 4
PUBLISHED_DIMS = 256  # up to which the published settings are run at standard scale, in one world
ATTEMPTS = 3  # encoders per world up to 32 latents, as published

SUBSPACE = 4  # dimension of the slices of InfoNCE: their information is below the logarithm of the batch
METHODS = {
    "SIGReg": LeJEPASpec(weight=1e-4, slices=64),
    "whitening": WhiteningSpec(weight=1e-3),
    "VICReg": VICRegSpec(weight=1e-2),
    "InfoNCE, published width": InfoNCESpec(sigma=PUBLISHED_SIGMA),
    "InfoNCE, matched width": InfoNCESpec(sigma="matched"),
    # at 0.5, the usual InfoNCE, the noise of random subspaces costs R^2 from 128 latents on
    "InfoNCE, sliced": SlicedInfoNCESpec(sigma="matched", k=SUBSPACE, weight=0.2),
}
CONTROL = "alignment alone"
CONTROL_DIMS = (2, 8, 64, 256)
FREE = "free encoder"
FREE_DIMS = (2, 8, 64)
FREE_METHODS = {
    f"SIGReg at the published weight, {FREE}": LeJEPASpec(weight=1e-6, slices=64),
    f"SIGReg, {FREE}": LeJEPASpec(weight=1e-3, slices=512),
    f"whitening, {FREE}": WhiteningSpec(weight=0.1),
}
PUBLISHED_METHODS = {
    "SIGReg": LeJEPASpec(weight=1e-6, slices=256),
    "whitening": WhiteningSpec(weight=1e-6),
    "InfoNCE, published width": InfoNCESpec(sigma=PUBLISHED_SIGMA),
}


def learning_rate(dim: int) -> float:
    """Ours: 1e-2 up to 16 latents, from there on falling with the third root of the dimension."""
    return 1e-2 * min(1.0, (16 / dim) ** (1 / 3))


def cells(scale: str) -> list[Cell]:
    """All dimensions and methods; at paper scale the published settings beside ours, each in five worlds."""
    if scale == "quick":
        quick = [_ours("SIGReg", dim, 0) for dim in (2, 8)] + [_ours("InfoNCE, matched width", 2, 0)]
        return [Cell(shortened(cell.config, 60), cell.labels) for cell in quick]
    whole = scale == "paper"
    ours = [
        _ours(method, dim, world)
        for dim in DIMS
        for method in METHODS
        for world in range(5 if whole else _worlds(dim))
    ]
    control = [_control(dim, world) for dim in CONTROL_DIMS for world in range(1 if dim > 64 else 3)]
    free = [_free(method, dim) for dim in FREE_DIMS for method in FREE_METHODS]
    published = [
        _published(method, dim, world, attempt)
        for dim in DIMS
        if whole or dim <= PUBLISHED_DIMS
        for method in (PUBLISHED_METHODS if whole else ("SIGReg",))
        for world in range(5 if whole else 1)
        for attempt in range(ATTEMPTS if whole and dim <= 32 else 1)
    ]
    return ours + control + free + published


def _worlds(dim: int) -> int:
    """Worlds per dimension at standard scale: R^2 varies less between worlds the more latents they have."""
    return 3 if dim <= 128 else 2 if dim <= 256 else 1


def _ours(method: str, dim: int, world: int) -> Cell:
    recipe = Recipe(
        steps=2500,
        learning_rate=learning_rate(dim),
        eval_every=2500,
        eval_samples=max(2000, 4 * dim),
    )
    objective = METHODS[method]
    if objective.name == "infonce":
        recipe = replace(recipe, batch=512)  # similarities grow with the square of it
    if objective.name == "sliced-infonce":
        # subspaces that fill the space, or most directions are not seen in a step
        objective = changed(objective, slices=max(8, dim // SUBSPACE))
        recipe = replace(recipe, batch=256 if dim <= 128 else 128, learning_rate=2 * learning_rate(dim))
        if dim > 512:  # still rising after 2,500 steps of so small a batch
            recipe = replace(recipe, steps=2 * recipe.steps, eval_every=2 * recipe.steps)
    return _cell(method, OURS, objective, recipe, dim, world, 0)


def _control(dim: int, world: int) -> Cell:
    cell = _ours("SIGReg", dim, world)
    config = replace(cell.config, objective=changed(cell.config.objective, weight=0.0))
    return Cell(config, {**cell.labels, "method": CONTROL})


def _free(method: str, dim: int) -> Cell:
    cell = _ours("SIGReg", dim, 0)
    encoder = FreeCouplingSpec(layers=flatten(cell.config.encoder)["layers"])
    config = replace(cell.config, encoder=encoder, objective=FREE_METHODS[method])
    return Cell(config, {**cell.labels, "method": method})


def _published(method: str, dim: int, world: int, attempt: int) -> Cell:
    recipe = replace(PUBLISHED_RECIPE, eval_every=5000, eval_samples=max(2000, 4 * dim))
    return _cell(method, PUBLISHED, PUBLISHED_METHODS[method], recipe, dim, world, attempt)


def _cell(
    method: str, settings: str, objective: Spec, recipe: Recipe, dim: int, world: int, attempt: int
) -> Cell:
    config = Config(
        world=make(
            "world",
            process="noisy-copies",
            dim=dim,
            rho=RHO,
            mixing="additive-coupling",
            mixing_layers=LAYERS,
            mixing_seed=world,
        ),
        encoder=CouplingSpec(layers=LAYERS),
        objective=objective,
        training=recipe,
        seed=1000 * attempt + world,
    )
    labels: dict[str, Label] = {
        "settings": settings,
        "method": method,
        "dim": dim,
        "world": world,
        "attempt": attempt,
    }
    return Cell(config, labels)


def report(rows: Sequence[Row]) -> Findings:
    """What the runs say of the claims."""
    from isojepa.studies.scaling_page import findings

    return findings(rows)


STUDY = Study(
    name="scaling",
    title="From 2 to 1,024 latents",
    claim=(
        "With SIGReg or whitening the latents are recovered in every dimension from 2 to 1,024. InfoNCE "
        "fails where its kernel does not fit the world and where a batch cannot show the information of a "
        "pair; random subspaces repair both."
    ),
    source="Klindt, LeCun & Balestriero (2026), Table 1 and Appendix H, scaling",
    cells=cells,
    report=report,
)
