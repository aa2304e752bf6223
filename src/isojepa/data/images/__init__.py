"""Pictures: folders, arrays and shards of images, and the views that are cut from them."""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.data.images.cache import BadImage, Cached, ImagesWarning, decode, default_cache
    from isojepa.data.images.formats import dataset_images
    from isojepa.data.images.image_sets import ImageSet, ImageSubset, Stack, divide, fingerprint
    from isojepa.data.images.source import CamerasSpec, ImageObservers, Images, Observer, open_images, splits
    from isojepa.data.images.views import Views
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "BadImage",
    "Cached",
    "CamerasSpec",
    "ImageObservers",
    "ImageSet",
    "ImageSubset",
    "Images",
    "ImagesWarning",
    "Observer",
    "Stack",
    "Views",
    "dataset_images",
    "decode",
    "default_cache",
    "divide",
    "fingerprint",
    "open_images",
    "splits",
]
