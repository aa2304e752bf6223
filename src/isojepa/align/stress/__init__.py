"""Stress tests of a map: few, mismatched or shifted pairs, other widths and seeds; predicted by theory."""

from isojepa.align.stress.curves import Curve, Plan, Point
from isojepa.align.stress.draws import mismatched, pair_budget, pair_noise
from isojepa.align.stress.groups import capacity, narrowed, neighbourhoods, seeds, shift
from isojepa.align.stress.model import PairModel, Setting
from isojepa.align.stress.quality import Quality, measure
from isojepa.align.stress.regression import Task, equivalent
from isojepa.align.stress.spectrum import MapSpectrum, UnrelatedLaw, map_spectrum

__all__ = [
    "Curve",
    "MapSpectrum",
    "PairModel",
    "Plan",
    "Point",
    "Quality",
    "Setting",
    "Task",
    "UnrelatedLaw",
    "capacity",
    "equivalent",
    "map_spectrum",
    "measure",
    "mismatched",
    "narrowed",
    "neighbourhoods",
    "pair_budget",
    "pair_noise",
    "seeds",
    "shift",
]
