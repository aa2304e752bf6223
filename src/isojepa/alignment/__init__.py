"""How encoders relate: maps between them, numbers that compare them, and what a map is good for."""

from typing import TYPE_CHECKING

from isojepa.alignment.pairwise import cycles
from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.alignment.comparing import Comparisons, ScoreComparison, compare, measure
    from isojepa.alignment.layers import LayerCKA, layer_cka
    from isojepa.alignment.maps import AlignmentMap, RobustFit, fit_robust
    from isojepa.alignment.pairs import EncoderRows, folds, gather, match, split_states
    from isojepa.alignment.pairwise import Cycle, Pairwise, cycle, cycle_defect, fit_pairwise
    from isojepa.alignment.probe_transfer import (
        LinearHead,
        ProbeScore,
        ProbeTransfer,
        share_probe,
        transfer_head,
    )
    from isojepa.alignment.sameness import EncoderComparison, align, pairs_required, same
    from isojepa.alignment.scores import nearest, value_of
    from isojepa.alignment.shared_space import EncoderMap, SharedSpace
    from isojepa.statistics.splits import Split
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "AlignmentMap",
    "Comparisons",
    "Cycle",
    "EncoderComparison",
    "EncoderMap",
    "EncoderRows",
    "LayerCKA",
    "LinearHead",
    "Pairwise",
    "ProbeScore",
    "ProbeTransfer",
    "RobustFit",
    "ScoreComparison",
    "SharedSpace",
    "Split",
    "align",
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
