"""Unmix: which axis of an embedding is which, where the world allows it, and the values on each."""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.unmixing.axes import Axis
    from isojepa.unmixing.matching import Matching, Partner, match_latents
    from isojepa.unmixing.unmixing import Unmixing, unmix
    from isojepa.unmixing.warps import Warp, dewarp
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["Axis", "Matching", "Partner", "Unmixing", "Warp", "dewarp", "match_latents", "unmix"]
