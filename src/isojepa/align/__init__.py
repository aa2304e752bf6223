"""How encoders relate: maps between them, numbers that compare them, and what a map is good for."""

from isojepa.align.heads import LinearHead
from isojepa.align.maps import AlignmentMap
from isojepa.align.pairs import Split, folds, match, split_states
from isojepa.align.sharing import HeadScore, Sharing, share_probe
from isojepa.align.transfer import transfer_head

__all__ = [
    "AlignmentMap",
    "HeadScore",
    "LinearHead",
    "Sharing",
    "Split",
    "folds",
    "match",
    "share_probe",
    "split_states",
    "transfer_head",
]
