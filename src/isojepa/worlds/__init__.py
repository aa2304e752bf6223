"""Worlds: a latent process seen through a mixing."""

from isojepa.worlds.copula import Copula
from isojepa.worlds.goals import GoalReaching
from isojepa.worlds.langevin import Langevin
from isojepa.worlds.mixings import (
    MIXINGS,
    AdditiveCoupling,
    AffineCoupling,
    Identity,
    Lift,
    Mixing,
    Parabola,
    Sinusoid,
    Spiral,
)
from isojepa.worlds.processes import PROCESSES, NoisyCopies, OrnsteinUhlenbeck, Process
from isojepa.worlds.recorded import Recorded, RecordedWorld, Standardiser
from isojepa.worlds.world import Pairs, World

__all__ = [
    "MIXINGS",
    "PROCESSES",
    "AdditiveCoupling",
    "AffineCoupling",
    "Copula",
    "GoalReaching",
    "Identity",
    "Langevin",
    "Lift",
    "Mixing",
    "NoisyCopies",
    "OrnsteinUhlenbeck",
    "Pairs",
    "Parabola",
    "Process",
    "Recorded",
    "RecordedWorld",
    "Sinusoid",
    "Spiral",
    "Standardiser",
    "World",
]
