"""Axes of an embedding: undo the warp of each, and match them with true latents."""

from isojepa.unmix.matching import Matching, Partner, match_latents
from isojepa.unmix.warps import Warp, dewarp

__all__ = ["Matching", "Partner", "Warp", "dewarp", "match_latents"]
