"""Pictures: folders, arrays and shards of images, and the views that are cut from them."""

from isojepa.worlds.images.pictures import Pictures, Stack
from isojepa.worlds.images.source import Images
from isojepa.worlds.images.views import Views

__all__ = ["Images", "Pictures", "Stack", "Views"]
