"""Looking at a model of pictures: colors of its maps, attention, nearest neighbors, features as a map."""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names
from isojepa.report.looking.components import components
from isojepa.report.looking.look import look
from isojepa.report.looking.neighbor_map import neighbor_map

if TYPE_CHECKING:
    from isojepa.report.looking.components import ColorMaps, Components, color_maps
    from isojepa.report.looking.look import MOST, Attention, Look
    from isojepa.report.looking.masks import kept_mass
    from isojepa.report.looking.neighbors import Agreement, Nearest, agreement, nearest_others
    from isojepa.report.looking.page import write_look
    from isojepa.report.looking.placement import spread_order
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "MOST",
    "Agreement",
    "Attention",
    "ColorMaps",
    "Components",
    "Look",
    "Nearest",
    "agreement",
    "color_maps",
    "components",
    "kept_mass",
    "look",
    "nearest_others",
    "neighbor_map",
    "spread_order",
    "write_look",
]
