"""How encoders relate: maps between them, numbers that compare them, and what a map is good for."""

from isojepa.align.maps import AlignmentMap
from isojepa.align.pairs import Split, folds, match, split_states

__all__ = ["AlignmentMap", "Split", "folds", "match", "split_states"]
