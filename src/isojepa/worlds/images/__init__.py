"""Pictures: folders, arrays and shards of images, and the views that are cut from them."""

from isojepa.worlds.images.pictures import Pictures, Stack

__all__ = ["Pictures", "Stack"]
