"""What the study of recordings measures of an embedding of recorded angles, one cell at a time.

    pairs, paths    scores of `isojepa_lab.papers.own.axis_scores`, of axes found on pairs of training paths
                    that are the stride apart, and on those paths as recorded, step by step; besides:
                    cue_each    what names the axis of each latent, "none" where nothing does
                    reasons     why the axes without a name have none
                    refused     why there are no axes, and nothing else
    rho             correlation of each angle across the pairs that were trained on, as weighed
    effective       share of the recorded pairs that count in training
    ceiling         largest R^2 of each angle from an embedding that is exactly Gaussian, as weighed
    uneven          of the angles themselves: largest over smallest mean square of what they move in a pair,
                    over ten ranges that are visited equally often; 1 for constant diffusion and near pairs

Axes are always found on the data as they are, also where an encoder was trained on weighed pairs: weights
that make rates equal would take away what identifies axes.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import nn

from isojepa.data.reweighting import isotropize, measure_pairs
from isojepa.data.trajectories import Recorded
from isojepa.objectives import LeJEPA, Whitening
from isojepa.seeds import generator
from isojepa.unmixing import Unmixing, match_latents, unmix
from isojepa_lab.papers.own.axis_scores import measure_axes
from isojepa_lab.studies.cells import Cell
from isojepa_lab.studies.goal_paths import FITTED, OBJECTIVES, draw_paths, sampled, train_encoder
from isojepa_lab.studies.isotropise_theory import ceiling, slow_features

ANGLES, SLOWEST = "angles, turned", "slowest functions"  # embeddings that nothing trained
LOW = "whitening, low"
TRAINED: Mapping[str, Callable[[], nn.Module]] = {
    **OBJECTIVES,
    LOW: lambda: LeJEPA(weight=0.03, regularizer=Whitening()),
}
WAYS = ("pairs", "paths")
_SCORED = 20_000  # states of held-out paths
_RANGES = 10  # of an angle, visited equally often
_TURN = 0.7  # radians, by which the angles themselves are turned
_DEGREE = 8  # of the polynomials of which the slowest functions are made

Embed = Callable[[np.ndarray], np.ndarray]  # angles (n, dim) -> embeddings (n, dim)


def measure(cell: Cell) -> dict[str, Any]:
    """Train or make an embedding, find its axes in both ways, and score them on held-out paths."""
    settings = cell.settings
    train, held_out = draw_paths(settings["paths"], settings["length"], settings["seed"])
    plain = train.strided(settings["stride"])
    try:
        pairs = _weighed(plain, settings["method"], settings["strength"])
    except ValueError as error:  # too few pairs count
        return {"refused": str(error)}
    embed = _embedding(pairs, settings)
    h = embed(_states(train)).reshape(train.paths, -1, train.dim)
    z = held_out.sample(_SCORED, generator(settings["seed"], "score", "data"))[0].double().numpy()
    first, second = (part.reshape(-1, train.dim) for part in (h[:, : -plain.stride], h[:, plain.stride :]))
    ways = {"pairs": (first, second, None), "paths": (None, None, list(h))}
    law, (states, _, weights) = measure_pairs(pairs), sampled(pairs)
    steps = {"uneven": uneven(*plain.states_at(np.arange(plain.pairs)))} if embed is turned else {}
    return {
        **steps,
        **{way: score_way(embeddings, embed(z), z) for way, embeddings in ways.items()},
        "rho": list(law.rho),
        "effective": law.effective_pairs / plain.pairs,
        "ceiling": ceiling(states, weights).tolist(),
    }


def score_way(given: tuple[Any, Any, Any], scored: np.ndarray, z: np.ndarray) -> dict[str, Any]:
    """Find axes on what is given, h and h_next or paths, and score them; or say why there are none.

    Args:
        given: as `isojepa.unmixing.unmix` takes them.
        scored: (n, dim) embeddings of other states.
        z: (n, dim) latents of those.
    """
    try:
        unmixing = unmix(*given)
    except ValueError as error:  # an embedding that collapsed
        return {"refused": str(error)}
    return score_found(unmixing, scored, z)


def score_found(found: Unmixing, scored: np.ndarray, z: np.ndarray) -> dict[str, Any]:
    """Score axes that were found, with the cue of each latent's axis and the reasons of axes without a name.

    Args:
        found: the axes.
        scored: (n, dim) embeddings of states.
        z: (n, latents) of those.
    """
    partners = match_latents(found.transform(scored), z).partners
    cues = [
        "none" if one.component is None else found.components_[one.component].identified_by
        for one in partners
    ]
    return {
        **measure_axes(found, scored, z),
        "cue_each": cues,
        "reasons": [axis.reason for axis in found.components_ if not axis.identified],
    }


def turned(z: np.ndarray) -> np.ndarray:
    """Angles (n, 2) as the best encoder has them, up to a rotation."""
    cos, sin = math.cos(_TURN), math.sin(_TURN)
    return np.asarray(z @ np.array([[cos, -sin], [sin, cos]]))


def uneven(z: np.ndarray, z_next: np.ndarray) -> list[float]:
    """Largest over smallest mean square of the increments of coordinates (n, dim), by where they begin."""
    ratios = []
    for first, second in zip(z.T, z_next.T, strict=True):
        order = np.argsort(first, kind="stable")
        squares = [part.mean() for part in np.array_split(((second - first) ** 2)[order], _RANGES)]
        ratios.append(float(max(squares) / min(squares)))
    return ratios


def _weighed(plain: Recorded, method: str, strength: float) -> Recorded:
    return isotropize(plain, strength, method, samples=FITTED).recorded if strength else plain


def _embedding(pairs: Recorded, asked: Mapping[str, Any]) -> Embed:
    name = asked["embedding"]
    if name == ANGLES:
        return turned
    if name == SLOWEST:
        return slow_features(*sampled(pairs), pairs.dim, _DEGREE)[1]
    return train_encoder(pairs, TRAINED[name](), asked["seed"], asked["steps"], asked["batch"])


def _states(recorded: Recorded) -> np.ndarray:
    """All states of all paths, path after path: (paths * length, dim)."""
    path, step = np.indices((recorded.paths, recorded.states.longest)).reshape(2, -1)
    return np.asarray(recorded.latents(path, step).double().numpy())
