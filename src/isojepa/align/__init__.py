"""How encoders relate: maps between them, numbers that compare them, and what a map is good for."""

from isojepa.align.cycles import Cycle, cycle, cycle_defect, cycles
from isojepa.align.gathering import Gathered, gather
from isojepa.align.heads import LinearHead
from isojepa.align.hub import Hub, Spoke
from isojepa.align.maps import AlignmentMap
from isojepa.align.pairs import Split, folds, match, split_states
from isojepa.align.pairwise import Pairwise, fit_pairwise
from isojepa.align.robust import RobustFit, fit_robust
from isojepa.align.sameness import Sameness, pairs_required, same
from isojepa.align.sharing import HeadScore, Sharing, share_probe
from isojepa.align.teaching import Reach, StepCost, reach, step_cost
from isojepa.align.transfer import transfer_head

__all__ = [
    "AlignmentMap",
    "Cycle",
    "Gathered",
    "HeadScore",
    "Hub",
    "LinearHead",
    "Pairwise",
    "Reach",
    "RobustFit",
    "Sameness",
    "Sharing",
    "Split",
    "Spoke",
    "StepCost",
    "cycle",
    "cycle_defect",
    "cycles",
    "fit_pairwise",
    "fit_robust",
    "folds",
    "gather",
    "match",
    "pairs_required",
    "reach",
    "same",
    "share_probe",
    "split_states",
    "step_cost",
    "transfer_head",
]
