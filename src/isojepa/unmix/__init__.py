"""Axes of an embedding: undo the warp of each, and match them with true latents."""

from isojepa.unmix.warps import Warp, dewarp

__all__ = ["Warp", "dewarp"]
