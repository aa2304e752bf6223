"""Worlds: where batches come from. A world is a latent process seen through a mixing; others are recorded."""

from isojepa.worlds.as_source import Arrays, as_source
from isojepa.worlds.batch import Batch
from isojepa.worlds.episodes import Episodes, read_episodes, write_episodes
from isojepa.worlds.goals import GoalReaching
from isojepa.worlds.mixings import (
    AdditiveCoupling,
    AffineCoupling,
    Identity,
    Lift,
    Mixing,
    Parabola,
    Perceptron,
    Sinusoid,
    Spiral,
)
from isojepa.worlds.observers import Observers, Paired, Pairing, Pairs, environment
from isojepa.worlds.processes import Copula, Langevin, NoisyCopies, OrnsteinUhlenbeck, Process
from isojepa.worlds.reacher import Reacher
from isojepa.worlds.source import Facts, Path, Source, Streams
from isojepa.worlds.trajectories import Observed, Recorded, RecordedWorld, Standardiser
from isojepa.worlds.windows import Windows
from isojepa.worlds.world import World

__all__ = [
    "AdditiveCoupling",
    "AffineCoupling",
    "Arrays",
    "Batch",
    "Copula",
    "Episodes",
    "Facts",
    "GoalReaching",
    "Identity",
    "Langevin",
    "Lift",
    "Mixing",
    "NoisyCopies",
    "Observed",
    "Observers",
    "OrnsteinUhlenbeck",
    "Paired",
    "Pairing",
    "Pairs",
    "Parabola",
    "Path",
    "Perceptron",
    "Process",
    "Reacher",
    "Recorded",
    "RecordedWorld",
    "Sinusoid",
    "Source",
    "Spiral",
    "Standardiser",
    "Streams",
    "Windows",
    "World",
    "as_source",
    "environment",
    "read_episodes",
    "write_episodes",
]
