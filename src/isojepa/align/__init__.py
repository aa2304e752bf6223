"""How encoders relate: maps between them, numbers that compare them, and what a map is good for."""

from isojepa.align.maps import AlignmentMap
from isojepa.align.pairs import Split, folds, match, split_states
from isojepa.align.robust import RobustFit, fit_robust
from isojepa.align.sameness import Sameness, pairs_required, same

__all__ = [
    "AlignmentMap",
    "RobustFit",
    "Sameness",
    "Split",
    "fit_robust",
    "folds",
    "match",
    "pairs_required",
    "same",
    "split_states",
]
