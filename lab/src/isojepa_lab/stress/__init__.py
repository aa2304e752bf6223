"""Stress tests of a map: few, mismatched or shifted pairs, other widths and seeds; predicted by theory."""

from isojepa_lab.stress.curves import StressCurve, StressPlan, StressPoint
from isojepa_lab.stress.draws import mismatched, pair_budget, pair_noise
from isojepa_lab.stress.groups import capacity, narrowed, neighborhoods, seeds, shift
from isojepa_lab.stress.model import PairModel, StressSetting
from isojepa_lab.stress.quality import Quality, measure
from isojepa_lab.stress.regression import RegressionTask, equivalent
from isojepa_lab.stress.spectrum import MapSpectrum, UnrelatedLaw, map_spectrum

__all__ = [
    "MapSpectrum",
    "PairModel",
    "Quality",
    "RegressionTask",
    "StressCurve",
    "StressPlan",
    "StressPoint",
    "StressSetting",
    "UnrelatedLaw",
    "capacity",
    "equivalent",
    "map_spectrum",
    "measure",
    "mismatched",
    "narrowed",
    "neighborhoods",
    "pair_budget",
    "pair_noise",
    "seeds",
    "shift",
]
