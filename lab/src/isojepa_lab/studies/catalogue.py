"""The studies by name: those of `isojepa_lab.papers`, and in this folder those that have the form before."""

from collections.abc import Callable, Sequence
from importlib import import_module

from isojepa.config import Config
from isojepa.names import choose
from isojepa_lab.studies.study import AnyStudy, Cell, unique

STUDIES = {
    "mixings": "four mixings of the plane under four objectives",
    "grid": "weight against correlation on the spiral",
    "latent_law": "the latents' law, from heavy tails to flat, in three kinds of world",
    "scaling": "2 to 1,024 latents under six objectives",
    "published_infonce": "InfoNCE at the published settings, 2 to 64 latents",
    "training_dynamics": "how the latents are learned, degree by degree and direction by direction",
    "superposition": "sparse and heavy-tailed latents in fewer dimensions",
    "generic_encoder": "residual perceptrons on three mixings, 8 to 128 latents",
    "ceiling": "what R² frames of an arm allow whose angles wind; trains nothing",
    "reacher_ou": "joint angles from pixels of an arm: Gaussian pairs",
    "reacher_trajectory": "joint angles from pixels of an arm: a policy's trajectories",
    "planning": "plans in the latents of those encoders, carried out by the arm; trains what is missing",
    "bound": "Theorem 3 on every run in a Gaussian world",
    "loss_predicts": "which loss tells how much was recovered",
    "anisotropy": "latents of unequal rates, and whether AnInfoNCE repairs them",
    "dimension": "embeddings with fewer and with more dimensions than latents",
    "sample_size": "a finite training set",
    "slices": "directions of SIGReg: how many, fixed or resampled, drawn how; trains nothing",
    "directions": "level and power of tests along random directions; trains nothing",
    "selection": "which of many runs on pictures to keep, without labels",
    "architectures": "ten networks of timm by one recipe",
    "fashion": "Fashion-MNIST without labels: LeJEPA beside three other methods",
    "apart": "encoders trained apart: what relates them, and whether it is a rotation",
    "cross_view": "agents that see one set of pictures under two recipes, apart, and what relates them",
    "others": "encoders that others trained on photographs, map by map; trains nothing",
    "adversaries": "maps and worlds that try to fool the certificate; trains nothing",
    "dynamics": "transitions, regret and excitation in made-up linear worlds; trains nothing",
    "axes": "latents by name, of five laws with a discrete spectrum, 2 to 16 of them, by InfoNCE",
    "objectives": "whitening, SIGReg and InfoNCE as ways to latents with names",
    "refusals": "axes that must have no name, and axes that must; trains nothing",
    "recordings": "recorded, goal-directed paths: which angles have an axis of their own, and a name",
    "pixel_axes": "joint angles from pixels of an arm: which have an axis of their own, and a name",
    "peers": "slow features, VAMPNets and contrastive learning beside the white embedding, each unmixed",
}
_PAPERS = {  # folders in isojepa_lab.papers
    "grid": "world_model",
    "scaling": "world_model",
    "published_infonce": "world_model",
    "training_dynamics": "world_model",
    "superposition": "world_model",
    "generic_encoder": "world_model",
    "ceiling": "world_model",
    "reacher_ou": "world_model",
    "reacher_trajectory": "world_model",
    "planning": "world_model",
    "slices": "lejepa",
    "selection": "lejepa",
    "directions": "lejepa",
    "architectures": "lejepa",
    "fashion": "lejepa",
    "apart": "social",
    "cross_view": "social",
    "others": "social",
    "adversaries": "own",
    "dynamics": "own",
    "axes": "own",
    "objectives": "own",
    "refusals": "own",
    "recordings": "own",
    "pixel_axes": "own",
    "peers": "own",
}


def find_study(name: str) -> AnyStudy:
    """The study of a name.

    Raises:
        ValueError: there is no such study; the message lists those there are.
    """
    choose("study", name, STUDIES)
    folder = f"papers.{_PAPERS[name]}" if name in _PAPERS else "studies"
    study: AnyStudy = import_module(f"isojepa_lab.{folder}.{name}").STUDY
    return study


def cells_of(
    names: Sequence[str], scale: str, quick: int, keep: Callable[[Config], bool] = lambda config: True
) -> list[Cell]:
    """The runs of several studies, each once, with the label "study" of the first that has it.

    Args:
        names: of the studies.
        scale: theirs.
        quick: runs of each study at quick scale.
        keep: which runs.
    """
    found: list[Cell] = []
    for name in names:
        own = [cell for cell in find_study(name).plan(scale) if keep(cell.trained)]
        own = own[:quick] if scale == "quick" else own
        found += [Cell(cell.config, {**cell.labels, "study": name}) for cell in own]
    return unique(found)
