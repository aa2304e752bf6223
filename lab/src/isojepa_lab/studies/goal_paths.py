"""Trajectories of a goal-directed arm, and encoders trained on their pairs: what studies of them share.

Paths of `GoalReaching` are split into those that are trained on and those that are held out. Angles are seen
through a nonlinear lift into four times as many dimensions; the encoder is a small MLP with as many outputs
as there are angles.
"""

import warnings
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from isojepa.data import Lift, World
from isojepa.data.processes import GoalReaching, Process
from isojepa.data.trajectories import Recorded
from isojepa.encoders import MLP
from isojepa.encoders.model import embed
from isojepa.objectives import LeJEPA, Whitening
from isojepa.seeds import generator
from isojepa.training import fit
from isojepa.training.run import RunWarning
from isojepa.validation import choose

STRIDE = 8  # at which paths are split
FITTED = 50_000  # pairs that weights are fitted on
SOURCES: Mapping[str, Callable[[int, int, torch.Generator], Tensor]] = {
    "goals": lambda paths, steps, source: GoalReaching().trajectory(paths, steps, source),
}
OBJECTIVES: Mapping[str, Callable[[], nn.Module]] = {
    "SIGReg 2e-3": lambda: LeJEPA(weight=2e-3),
    "SIGReg 2e-4": lambda: LeJEPA(weight=2e-4),
    "whitening": lambda: LeJEPA(weight=0.3, regularizer=Whitening()),
}


def draw_paths(paths: int, length: int, seed: int, source: str = "goals") -> tuple[Recorded, Recorded]:
    """Paths to train on, and a fifth of them that is held out.

    Args:
        paths: how many.
        length: steps of each.
        seed: of the paths and of the split.
        source: where they come from.
    """
    paths_drawn = choose("source", source, SOURCES)(paths, length, generator(seed, "study"))
    return Recorded(paths_drawn, stride=STRIDE).split(0.2, seed)


def train_encoder(
    process: Process, objective: nn.Module, seed: int, steps: int, batch: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Train an encoder on pairs of a process, and return it as a function of angles (n, dim) float64."""
    mixing = Lift(process.dim, 4 * process.dim)
    encoder = MLP(4 * process.dim, process.dim, width=64, layers=4, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)  # a run that collapsed scores low, and is kept
        fit(
            encoder,
            World(process, mixing),
            objective,
            steps=steps,
            batch=batch,
            learning_rate=1e-2,
            eval_every=steps,
            eval_samples=1000,
            seed=seed,
            progress=False,
        )

    def embedded(z: np.ndarray) -> np.ndarray:
        return np.asarray(embed(encoder, mixing(torch.from_numpy(z).float())).double().numpy())

    return embedded


def sampled(recorded: Recorded, count: int = 40_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends and weights of pairs that stand for the law: evenly spaced in what they weigh."""
    if recorded.weights is None:
        index = np.linspace(0, recorded.pairs - 1, min(count, recorded.pairs)).astype(np.int64)
        return (*recorded.states_at(index), np.ones(len(index)))
    places = (np.arange(count) + 0.5) / count
    indices = np.searchsorted(np.cumsum(recorded.weights), places).clip(max=recorded.pairs - 1)
    index, weights = np.unique(indices, return_counts=True)
    return (*recorded.states_at(index), weights.astype(np.float64))
