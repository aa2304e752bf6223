"""Isotropise: weigh recorded pairs towards what the theorems assume."""

from isojepa.isotropise.isotropise import Effect, Isotropised, isotropise
from isojepa.isotropise.weighing import PairLaw, measure_pairs, principal_components, project

__all__ = [
    "Effect",
    "Isotropised",
    "PairLaw",
    "isotropise",
    "measure_pairs",
    "principal_components",
    "project",
]
