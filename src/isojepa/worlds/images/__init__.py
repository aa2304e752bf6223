"""Pictures: folders, arrays and shards of images, and the views that are cut from them."""

from isojepa.worlds.images.cache import BadPicture, Cached, PicturesWarning, decode, default_cache
from isojepa.worlds.images.formats import dataset_pictures
from isojepa.worlds.images.opening import open_pictures, splits
from isojepa.worlds.images.pictures import Part, Pictures, Stack, divide, fingerprint
from isojepa.worlds.images.source import Images
from isojepa.worlds.images.views import Views

__all__ = [
    "BadPicture",
    "Cached",
    "Images",
    "Part",
    "Pictures",
    "PicturesWarning",
    "Stack",
    "Views",
    "dataset_pictures",
    "decode",
    "default_cache",
    "divide",
    "fingerprint",
    "open_pictures",
    "splits",
]
