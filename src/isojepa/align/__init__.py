"""How encoders relate: maps between them, numbers that compare them, and what a map is good for."""

from isojepa.align.cycles import Cycle, cycle, cycle_defect, cycles
from isojepa.align.gathering import Gathered, gather
from isojepa.align.hub import Hub, Spoke
from isojepa.align.maps import AlignmentMap
from isojepa.align.pairs import Split, folds, match, split_states
from isojepa.align.pairwise import Pairwise, fit_pairwise
from isojepa.align.robust import RobustFit, fit_robust
from isojepa.align.sameness import Sameness, pairs_required, same

__all__ = [
    "AlignmentMap",
    "Cycle",
    "Gathered",
    "Hub",
    "Pairwise",
    "RobustFit",
    "Sameness",
    "Split",
    "Spoke",
    "cycle",
    "cycle_defect",
    "cycles",
    "fit_pairwise",
    "fit_robust",
    "folds",
    "gather",
    "match",
    "pairs_required",
    "same",
    "split_states",
]
