"""Unmix: which axis of an embedding is which, where the world allows it, and the values on each.

The room is named after its function and may be called as it: `isojepa.unmix(h, h_next)`.
"""

import sys
from types import ModuleType
from typing import Any

from isojepa.unmix.axes import Axis
from isojepa.unmix.matching import Matching, Partner, match_latents
from isojepa.unmix.unmixing import Unmixing, unmix
from isojepa.unmix.warps import Warp, dewarp

__all__ = ["Axis", "Matching", "Partner", "Unmixing", "Warp", "dewarp", "match_latents", "unmix"]


class _Room(ModuleType):
    """The room itself as its function."""

    def __call__(self, *args: Any, **named: Any) -> Unmixing:
        return unmix(*args, **named)


sys.modules[__name__].__class__ = _Room
