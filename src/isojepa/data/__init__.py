"""Worlds: where batches come from. A world is a latent process seen through a mixing; others are recorded."""

from typing import TYPE_CHECKING

from isojepa.data.as_source import as_source
from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.data.array_files import DataWarning, read_actions, read_array, read_embeddings, read_named
    from isojepa.data.as_source import Arrays
    from isojepa.data.batch import Batch
    from isojepa.data.episodes import Episodes, Windows
    from isojepa.data.files import read_episodes, write_episodes
    from isojepa.data.observers import Observers, Paired, Pairing, Pairs, environment
    from isojepa.data.processes import Copula, GoalReaching, Langevin, NoisyCopies, OrnsteinUhlenbeck, Process
    from isojepa.data.reweighting import Isotropized, isotropize, measure_pairs, principal_components, project
    from isojepa.data.source import Facts, Path, Source, Streams
    from isojepa.data.trajectories import Observed, Recorded, RecordedWorld, Standardizer
    from isojepa.data.world import (
        AdditiveCoupling,
        AffineCoupling,
        Identity,
        Lift,
        Mixing,
        Parabola,
        Perceptron,
        Sinusoid,
        Spiral,
        World,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "AdditiveCoupling",
    "AffineCoupling",
    "Arrays",
    "Batch",
    "Copula",
    "DataWarning",
    "Episodes",
    "Facts",
    "GoalReaching",
    "Identity",
    "Isotropized",
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
    "Recorded",
    "RecordedWorld",
    "Sinusoid",
    "Source",
    "Spiral",
    "Standardizer",
    "Streams",
    "Windows",
    "World",
    "as_source",
    "environment",
    "isotropize",
    "measure_pairs",
    "principal_components",
    "project",
    "read_actions",
    "read_array",
    "read_embeddings",
    "read_episodes",
    "read_named",
    "write_episodes",
]
