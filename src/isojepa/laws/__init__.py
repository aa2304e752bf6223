"""Laws of one latent: densities, their diffusions and eigenfunctions, and the map to a normal variable."""

from isojepa.laws.densities import (
    Density,
    Empirical,
    GeneralizedNormal,
    Law,
    Mixture,
    Normal,
    StudentT,
    Uniform,
    bimodal,
)
from isojepa.laws.normal_scores import NormalScores
from isojepa.laws.sturm_liouville import Eigensystem, SpectrumWarning, eigensystem

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
