"""Worlds: where batches come from. A world is a latent process seen through a mixing; others are recorded."""

from isojepa.worlds.arrays import Arrays
from isojepa.worlds.batch import Batch
from isojepa.worlds.brought import as_source
from isojepa.worlds.copula import Copula
from isojepa.worlds.episodes import Episodes, read_episodes, write_episodes
from isojepa.worlds.goals import GoalReaching
from isojepa.worlds.langevin import Langevin
from isojepa.worlds.lift import Lift, Perceptron
from isojepa.worlds.mixings import (
    AdditiveCoupling,
    AffineCoupling,
    Identity,
    Mixing,
    Parabola,
    Sinusoid,
    Spiral,
)
from isojepa.worlds.observed import Observed
from isojepa.worlds.observers import Observers, Pairs, environment
from isojepa.worlds.paired import Paired, Pairing
from isojepa.worlds.processes import NoisyCopies, OrnsteinUhlenbeck, Process
from isojepa.worlds.reacher import Reacher
from isojepa.worlds.recorded import Recorded, RecordedWorld, Standardiser
from isojepa.worlds.source import Facts, Path, Source, Streams
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
