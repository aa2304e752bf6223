"""Looking at a model of pictures: colours of its maps, attention, nearest neighbours, features as a map."""

from isojepa.report.looking.components import ColourMaps, Components, colour_maps, components
from isojepa.report.looking.look import MOST, Attention, Look, look
from isojepa.report.looking.masks import kept_mass
from isojepa.report.looking.neighbor_map import neighbor_map
from isojepa.report.looking.neighbors import Agreement, Nearest, agreement, nearest_others
from isojepa.report.looking.page import write_look
from isojepa.report.looking.placement import spread_order

__all__ = [
    "MOST",
    "Agreement",
    "Attention",
    "ColourMaps",
    "Components",
    "Look",
    "Nearest",
    "agreement",
    "colour_maps",
    "components",
    "kept_mass",
    "look",
    "nearest_others",
    "neighbor_map",
    "spread_order",
    "write_look",
]
