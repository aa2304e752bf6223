"""Worlds: a latent process seen through a mixing."""

from isojepa.worlds.copula import Copula
from isojepa.worlds.domains import SpectrumWarning
from isojepa.worlds.dose import Dose
from isojepa.worlds.empirical import Empirical
from isojepa.worlds.goals import GoalReaching
from isojepa.worlds.isotropising import Isotropised, isotropise
from isojepa.worlds.langevin import Langevin
from isojepa.worlds.laws import (
    LAWS,
    Density,
    GeneralizedNormal,
    Law,
    Mixture,
    Normal,
    StudentT,
    Uniform,
    bimodal,
)
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
from isojepa.worlds.normal_scores import NormalScores
from isojepa.worlds.pair_law import PairLaw, measure_pairs
from isojepa.worlds.processes import PROCESSES, NoisyCopies, OrnsteinUhlenbeck, Process
from isojepa.worlds.proxy import principal_components, project
from isojepa.worlds.recorded import Recorded, RecordedWorld, Standardiser
from isojepa.worlds.sturm_liouville import Eigensystem, eigensystem
from isojepa.worlds.world import Pairs, World

__all__ = [
    "LAWS",
    "MIXINGS",
    "PROCESSES",
    "AdditiveCoupling",
    "AffineCoupling",
    "Copula",
    "Density",
    "Dose",
    "Eigensystem",
    "Empirical",
    "GeneralizedNormal",
    "GoalReaching",
    "Identity",
    "Isotropised",
    "Langevin",
    "Law",
    "Lift",
    "Mixing",
    "Mixture",
    "NoisyCopies",
    "Normal",
    "NormalScores",
    "OrnsteinUhlenbeck",
    "PairLaw",
    "Pairs",
    "Parabola",
    "Process",
    "Recorded",
    "RecordedWorld",
    "Sinusoid",
    "SpectrumWarning",
    "Spiral",
    "Standardiser",
    "StudentT",
    "Uniform",
    "World",
    "bimodal",
    "eigensystem",
    "isotropise",
    "measure_pairs",
    "principal_components",
    "project",
]
