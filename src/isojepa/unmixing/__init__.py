"""Unmixing: identify the components of an embedding where the world allows it, and linearize them."""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.unmixing.matching import Matching, Partner, match_latents
    from isojepa.unmixing.monotone import MonotoneMap, invert_warp
    from isojepa.unmixing.unmixing import Component, Unmixing, unmix
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Component",
    "Matching",
    "MonotoneMap",
    "Partner",
    "Unmixing",
    "invert_warp",
    "match_latents",
    "unmix",
]
