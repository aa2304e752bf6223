"""Features of pictures as probes read them: whole pictures, in evaluation mode, one row each.

A picture is resized so that its shorter side fits, cut to the square in its center and normalized. Where the
backbone says so (`Layered`), the row is what it recommends for probes, for a ViT the [CLS] tokens of the last
two blocks, each after a LayerNorm; else the features.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from isojepa.data.images.augmentations import whole
from isojepa.data.images.image_sets import ImageSet, ImageSubset
from isojepa.encoders.model import Encoder, Headed, Model, as_model, device_of, evaluating, module_of
from isojepa.validation import check_count, choose


@runtime_checkable
class Layered(Protocol):
    """A backbone whose probes read more than its last features."""

    def layers_features(self, x: Tensor) -> Tensor:
        """Observations (batch, ...) to what probes read, (batch, dim)."""
        ...


def features_of(
    model: Encoder | Model,
    pictures: ImageSet,
    size: int | None = None,
    batch: int = 256,
    *,
    ids: Tensor | None = None,
    channels: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    what: str = "probe",
    progress: Callable[[int, int, str], None] = lambda done, total, name: None,
) -> np.ndarray:
    """Features of pictures by a model.

    Args:
        model: a `Model`, any module, or a function of images (batch, channels, size, size).
        pictures: what it sees.
        size: side of the square that it sees; by default the shorter side of the pictures.
        batch: pictures at once.
        ids: numbers of the pictures; by default all of them.
        channels: that the model takes, 1 or 3, to which pictures are turned; by default those they have.
        mean, std: of each channel, that pictures are normalized by; by default the pictures' own.
        what: "probe" for what the backbone recommends to probes, "features" or "embedding".
        progress: is called with done, total and what is next.

    Returns:
        (pictures, dim) float32.

    Raises:
        ValueError: pictures differ in size and none is given, the model does not take them, or gives
            something else than a row for each.

    Example:
        >>> from isojepa.data.images.image_sets import Stack
        >>> pictures = Stack(np.zeros((10, 8, 8), dtype=np.uint8))
        >>> features_of(torch.nn.Flatten(), pictures).shape
        (10, 64)
    """
    if channels not in (None, pictures.channels):
        pictures = ImageSubset(pictures, channels=channels)
    size = _size(pictures) if size is None else check_count("size", size)
    batch = check_count("batch", batch)
    ids = torch.arange(len(pictures)) if ids is None else ids
    mean, std = pictures.mean if mean is None else mean, pictures.std if std is None else std
    read, device = reading(model, what), device_of(model)
    feature_rows: np.ndarray | None = None
    with evaluating(model), torch.no_grad():
        for start in range(0, len(ids), batch):
            progress(start, len(ids), "pictures")
            part = ids[start : start + batch]
            x = whole(pictures.read(part), size, mean, std)
            rows = _rows(read, x.to(device))
            if feature_rows is None:
                feature_rows = np.empty((len(ids), rows.shape[1]), dtype=np.float32)
            feature_rows[start : start + len(part)] = rows.float().cpu().numpy()
    if feature_rows is None:
        raise ValueError("ids must be one at least, got none")
    progress(len(ids), len(ids), "pictures")
    return feature_rows


def reading(model: Encoder | Model, what: str = "probe") -> Callable[[Tensor], Any]:
    """What is called of a model: what its backbone recommends to probes, its features or its embedding."""
    choose("what", what, dict.fromkeys(("probe", "features", "embedding")))
    if what != "probe":
        return as_model(model).features if what == "features" else as_model(model).embed
    module = module_of(model)
    for part in (module, module.backbone if isinstance(module, Headed) else None):
        if isinstance(part, Layered):
            return part.layers_features
    return as_model(model).features


def _size(pictures: ImageSet) -> int:
    if pictures.shape is None:
        raise ValueError("size must be given for pictures that differ in size, got None")
    return min(pictures.shape[1:])


def _rows(read: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    try:
        embeddings = read(x)
    except (RuntimeError, AssertionError) as error:  # timm asserts the size of images
        raise ValueError(f"the model does not take images of shape {tuple(x.shape)}: {error}") from error
    if not isinstance(embeddings, Tensor) or embeddings.ndim != 2 or len(embeddings) != len(x):
        got = tuple(embeddings.shape) if isinstance(embeddings, Tensor) else type(embeddings).__name__
        raise ValueError(f"the model must give features ({len(x)}, dim) for {len(x)} images, got {got}")
    return embeddings
