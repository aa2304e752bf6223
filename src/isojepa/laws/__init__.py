"""Laws of one latent: densities, their diffusions and eigenfunctions, and the map to a normal variable."""

from isojepa.laws.densities import (
    Density,
    GeneralizedNormal,
    Law,
    Mixture,
    Normal,
    StudentT,
    Uniform,
    bimodal,
)
from isojepa.laws.domains import SpectrumWarning
from isojepa.laws.empirical import Empirical
from isojepa.laws.normal_scores import NormalScores
from isojepa.laws.sturm_liouville import Eigensystem, eigensystem

__all__ = [
    "Density",
    "Eigensystem",
    "Empirical",
    "GeneralizedNormal",
    "Law",
    "Mixture",
    "Normal",
    "NormalScores",
    "SpectrumWarning",
    "StudentT",
    "Uniform",
    "bimodal",
    "eigensystem",
]
