"""Laws of one latent: densities, their diffusions and eigenfunctions, and the map to a normal variable."""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.distributions.densities import (
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
    from isojepa.distributions.normal_scores import NormalScores
    from isojepa.distributions.sturm_liouville import Eigensystem, SpectrumWarning, eigensystem
else:
    __getattr__, __dir__ = lazy_names(__name__)

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
