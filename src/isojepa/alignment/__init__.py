"""How encoders relate: maps between them, numbers that compare them, and what a map is good for."""

from typing import TYPE_CHECKING

from isojepa.alignment.cycles import cycles
from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.alignment.comparing import Comparisons, ScoreComparison, compare, measure
    from isojepa.alignment.cycles import Cycle, cycle, cycle_defect
    from isojepa.alignment.gathering import Gathered, gather
    from isojepa.alignment.heads import LinearHead
    from isojepa.alignment.hub import Hub, Spoke
    from isojepa.alignment.layers import LayerCKA, layer_cka
    from isojepa.alignment.maps import AlignmentMap
    from isojepa.alignment.pairs import Split, folds, match, split_states
    from isojepa.alignment.pairwise import Pairwise, fit_pairwise
    from isojepa.alignment.robust import RobustFit, fit_robust
    from isojepa.alignment.sameness import Sameness, pairs_required, same
    from isojepa.alignment.scores import value_of
    from isojepa.alignment.search import nearest
    from isojepa.alignment.sharing import HeadScore, Sharing, share_probe
    from isojepa.alignment.transfer import transfer_head
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "AlignmentMap",
    "Comparisons",
    "Cycle",
    "Gathered",
    "HeadScore",
    "Hub",
    "LayerCKA",
    "LinearHead",
    "Pairwise",
    "RobustFit",
    "Sameness",
    "ScoreComparison",
    "Sharing",
    "Split",
    "Spoke",
    "compare",
    "cycle",
    "cycle_defect",
    "cycles",
    "fit_pairwise",
    "fit_robust",
    "folds",
    "gather",
    "layer_cka",
    "match",
    "measure",
    "nearest",
    "pairs_required",
    "same",
    "share_probe",
    "split_states",
    "transfer_head",
    "value_of",
]
