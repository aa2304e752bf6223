"""Isotropise: weigh recorded pairs towards what the theorems assume."""

from isojepa.isotropise.effect import Effect
from isojepa.isotropise.isotropise import Isotropised, isotropise
from isojepa.isotropise.pair_law import PairLaw, measure_pairs
from isojepa.isotropise.proxy import principal_components, project

__all__ = [
    "Effect",
    "Isotropised",
    "PairLaw",
    "isotropise",
    "measure_pairs",
    "principal_components",
    "project",
]
