"""How encoders relate: maps between them, numbers that compare them, and what a map is good for."""

from isojepa.align.heads import LinearHead
from isojepa.align.maps import AlignmentMap
from isojepa.align.pairs import Split, folds, match, split_states
from isojepa.align.robust import RobustFit, fit_robust
from isojepa.align.sameness import Sameness, pairs_required, same
from isojepa.align.sharing import HeadScore, Sharing, share_probe
from isojepa.align.teaching import ForModel, Method, Reach, StepCost, race, reach, step_cost
from isojepa.align.transfer import transfer_head

__all__ = [
    "AlignmentMap",
    "ForModel",
    "HeadScore",
    "LinearHead",
    "Method",
    "Reach",
    "RobustFit",
    "Sameness",
    "Sharing",
    "Split",
    "StepCost",
    "fit_robust",
    "folds",
    "match",
    "pairs_required",
    "race",
    "reach",
    "same",
    "share_probe",
    "split_states",
    "step_cost",
    "transfer_head",
]
