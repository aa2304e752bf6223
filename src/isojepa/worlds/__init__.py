"""Worlds: a latent process seen through a mixing."""

from isojepa.worlds.laws import LAWS, GeneralizedNormal, Law, Normal, StudentT, Uniform
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
from isojepa.worlds.world import Pairs, World

__all__ = [
    "LAWS",
    "MIXINGS",
    "PROCESSES",
    "AdditiveCoupling",
    "AffineCoupling",
    "GeneralizedNormal",
    "Identity",
    "Law",
    "Lift",
    "Mixing",
    "NoisyCopies",
    "Normal",
    "OrnsteinUhlenbeck",
    "Pairs",
    "Parabola",
    "Process",
    "Sinusoid",
    "Spiral",
    "StudentT",
    "Uniform",
    "World",
]
