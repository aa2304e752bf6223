"""How encoders relate: maps between them, numbers that compare them, and what a map is good for."""

from isojepa.align.heads import LinearHead
from isojepa.align.maps import AlignmentMap
from isojepa.align.pairs import Split, folds, match, split_states
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
    "Sharing",
    "Split",
    "StepCost",
    "folds",
    "match",
    "race",
    "reach",
    "share_probe",
    "split_states",
    "step_cost",
    "transfer_head",
]
