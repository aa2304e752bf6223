"""A look at a model: everything that its page shows, computed from the model and pictures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from isojepa.data.images.augmentations import whole
from isojepa.data.images.cache import Cached
from isojepa.data.images.image_sets import ImageSet, ImageSubset
from isojepa.data.images.views import shorter_side
from isojepa.encoders.backbones import NoAttention
from isojepa.encoders.model import Encoder, Headed, Model, device_of, evaluating, module_of
from isojepa.probes.features import features_of
from isojepa.report.looking.components import ColorMaps, Components, color_maps, components
from isojepa.report.looking.masks import kept_mass
from isojepa.report.looking.neighbor_map import neighbor_map
from isojepa.report.looking.neighbors import Agreement, Nearest, agreement, nearest_others
from isojepa.report.looking.placement import spread_order
from isojepa.report.looking.thumbnails import squares
from isojepa.seeds import generator
from isojepa.validation import check_count, check_number, validate_types

MOST = 4_000  # pictures of a map, whose making takes time with their square
_THUMB, _LARGE = 56, 192  # sides of pictures in the page, at most
_FINE = 14  # positions across a map that are worth enlarging pictures for
_TIMES = 4  # how much they are enlarged at most
_AT_ONCE = 8  # large pictures
_COLLAPSED = 1e-3  # std of features relative to their length
Progress = Callable[[int, int, str], None]


@runtime_checkable
class Mapped(Protocol):
    """A backbone that has features for each position."""

    def maps(self, x: Tensor) -> Tensor:
        """Pictures to (batch, channels, height, width)."""
        ...


@runtime_checkable
class Attending(Protocol):
    """A backbone whose [CLS] token attends to patches."""

    def attention(self, x: Tensor) -> Tensor:
        """Pictures to (batch, head, height, width)."""
        ...


@dataclass(frozen=True)
class Attention:
    """Where [CLS] attends to.

    Attributes:
        masks: (pictures, 1 + heads, height, width), the fewest patches that hold the share: of the mean of
            all heads, then of each.
        share: of the attention that they hold.
        covered: (1 + heads,) the share of all patches that they are, over all pictures.
    """

    masks: np.ndarray
    share: float
    covered: np.ndarray


@dataclass(frozen=True)
class Look:
    """What there is to see of a model.

    Attributes:
        total: pictures of the data, of which some were taken.
        size, map_size: side of the squares that features and maps were computed from.
        dim: of the features.
        spread: standard deviation (std) of the features relative to their length; NaN for one picture.
        names: of the pictures taken.
        labels: (pictures,) of them, and `classes` their names; None where there are none.
        thumbnails: uint8 (pictures, side, side, 3).
        nearest: the nearest others of each.
        agreement: of their labels; None where there are not two classes and two pictures.
        plane: the first two principal components of the features.
        places: (pictures, 2), by t-SNE.
        order: in which thumbnails are drawn on the map.
        shown: numbers of those pictures that are looked at one by one.
        large: uint8 (shown, side, side, 3).
        frames: uint8 (frames, side, side, 3) of a clip; none without one.
        maps: colors of the positions of what is shown, then of the frames; or None, and `no_maps` why.
        attention: over the frames, or over what is shown; or None, and `no_attention` why.
    """

    total: int
    size: int
    map_size: int
    dim: int
    spread: float
    names: tuple[str, ...]
    labels: np.ndarray | None
    classes: tuple[str, ...]
    thumbnails: np.ndarray
    nearest: Nearest
    agreement: Agreement | None
    plane: Components
    places: np.ndarray
    order: np.ndarray
    shown: np.ndarray
    large: np.ndarray
    frames: np.ndarray
    maps: ColorMaps | None
    no_maps: str
    attention: Attention | None
    no_attention: str

    @property
    def collapsed(self) -> bool:
        """Whether the features of all pictures are the same, but for a thousandth of their length."""
        return self.spread < _COLLAPSED


@validate_types
def look(
    model: Encoder | Model,
    pictures: ImageSet,
    *,
    clip: ImageSet | None = None,
    count: int = 600,
    shown: int = 12,
    neighbors: int = 8,
    size: int | None = None,
    map_size: int | None = None,
    share: float = 0.6,
    channels: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    batch: int = 256,
    seed: int = 0,
    progress: Progress = lambda done, total, name: None,
) -> Look:
    """Look at a model of pictures.

    Args:
        model: a `Model`, any module, or a function of images (batch, channels, size, size). There are maps
            and attention where it, or the backbone of a `Headed` model, has methods `maps` and `attention`.
        pictures: what it sees.
        clip: frames in their order, for attention.
        count: pictures of the map and of neighbors, drawn at random; 4,000 at most.
        shown: of them, pictures that are looked at one by one, of each class in turn where there are labels.
        neighbors: of each of those.
        size: side of the square that the model sees; by default the shorter side of the pictures.
        map_size: the same for maps and attention; by default a multiple of `size` that gives 14 positions
            across or more, four times at most, where the backbone takes it.
        share: of the attention that masks hold, in (0, 1].
        channels: that the model takes, 1 or 3; by default those of the pictures.
        mean, std: of each channel, that pictures are normalized by; by default the pictures' own.
        batch: pictures at once.
        seed: draws the pictures.
        progress: is called with done, total and what is next.

    Raises:
        ValueError: an argument is out of its range, or the model does not take the pictures or gives
            features that are not finite.
    """
    check_count("count", count, most=MOST)
    check_count("neighbors", neighbors)
    share = check_number("share", share, "lie in (0, 1]", lambda value: 0 < value <= 1)
    check_count("shown", shown)
    size = shorter_side(pictures) if size is None else check_count("size", size)
    channels = pictures.channels if channels is None else channels
    images = ImageSubset(pictures, channels=channels)
    mean, std = images.mean if mean is None else mean, images.std if std is None else std
    ids = torch.randperm(len(pictures), generator=generator(seed, "look"))[:count]
    labels = None if pictures.labels is None else pictures.labels[ids].numpy()
    chosen = in_turn(labels, len(ids))[:shown]
    x = features_of(model, images, size, batch, ids=ids, mean=mean, std=std, progress=progress)
    bad = int((~np.isfinite(x).all(1)).sum())
    if bad:
        raise ValueError(f"features must be finite, got NaN or Inf for {bad} of {len(x)} pictures")
    progress(0, 1, "maps")
    sets = [whole_at(images, ids[torch.from_numpy(chosen)], mean, std)]
    if clip is not None:
        frames = ImageSubset(clip, channels=channels)
        sets.append(whole_at(frames, torch.arange(len(frames)), mean, std))
    maps, no_maps, found_size = _maps(model, sets, size, map_size)
    attention, no_attention = _attention(model, sets[-1], found_size, share)
    progress(0, 1, "neighbors")
    nearest = nearest_others(x, neighbors)
    classed = labels is not None and len(np.unique(labels)) > 1
    places = neighbor_map(x)
    return Look(
        total=len(pictures),
        size=size,
        map_size=found_size,
        dim=x.shape[1],
        spread=_spread(x),
        names=_names(pictures, ids),
        labels=labels,
        classes=tuple(map(str, pictures.classes)),
        thumbnails=squares(pictures, ids, _side(pictures, _THUMB)),
        nearest=nearest,
        agreement=agreement(nearest.ids, labels) if classed and labels is not None else None,
        plane=components(x),
        places=places,
        order=spread_order(places),
        shown=chosen,
        large=squares(pictures, ids[torch.from_numpy(chosen)], _side(pictures, _LARGE)),
        frames=np.zeros((0, 1, 1, 3), dtype=np.uint8)
        if clip is None
        else squares(clip, torch.arange(len(clip)), _side(clip, _LARGE)),
        maps=maps,
        no_maps=no_maps,
        attention=attention,
        no_attention=no_attention,
    )


def in_turn(labels: np.ndarray | None, count: int) -> np.ndarray:
    """Numbers of rows, one of each class in turn; as they come where there are no labels.

    Example:
        >>> in_turn(np.array([0, 0, 0, 1, 1, 2]), 6).tolist()
        [0, 3, 5, 1, 4, 2]
    """
    if labels is None:
        return np.arange(count)
    turn = np.zeros(count, dtype=np.int64)
    for label in np.unique(labels):
        turn[labels == label] = np.arange((labels == label).sum())
    return np.lexsort((labels, turn))


def whole_at(
    pictures: ImageSet, ids: Tensor, mean: Sequence[float], std: Sequence[float]
) -> Callable[[int], Tensor]:
    """What gives the pictures as a model sees them, at a size."""
    return lambda size: whole(pictures.read(ids), size, mean, std)


def _parts(model: Any) -> tuple[Any, ...]:
    """The model itself, and its backbone where it is one with a head."""
    module = module_of(model)
    return (model, module.backbone) if isinstance(module, Headed) else (model,)


def _maps(
    model: Any, sets: Sequence[Callable[[int], Tensor]], size: int, wanted: int | None
) -> tuple[ColorMaps | None, str, int]:
    """Colors of the maps, or why there are none; and the size of pictures that they are of."""
    part = next((one for one in _parts(model) if isinstance(one, Mapped)), None)
    if part is None:
        return None, "This model has no method maps(x), so nothing is known of single positions.", size
    try:
        if wanted is None:
            wanted = _finer(part, model, sets[0], size)
        feature_maps = np.concatenate([_run(model, part.maps, made(wanted)) for made in sets])
    except ValueError as error:
        if wanted not in (None, size):
            raise  # the size was asked for
        return None, f"This model has no maps: {error}.", size
    return color_maps(feature_maps), "", wanted


def _finer(part: Mapped, model: Any, made: Callable[[int], Tensor], size: int) -> int:
    """A multiple of the size that gives fine maps, if the backbone takes it."""
    across = _run(model, part.maps, made(size)[:1]).shape[-1]
    times = min(_TIMES, -(-_FINE // across))
    if times == 1:
        return size
    try:
        finer = _run(model, part.maps, made(times * size)[:1]).shape[-1]
    except ValueError:
        return size  # it keeps to the one that it was built for
    return times * size if finer > across else size


def _attention(
    model: Any, made: Callable[[int], Tensor], size: int, share: float
) -> tuple[Attention | None, str]:
    part = next((one for one in _parts(model) if isinstance(one, Attending)), None)
    if part is None:
        return (
            None,
            "This model has no method attention(x), so nothing is known of a [CLS] token's attention.",
        )
    try:
        weights = _run(model, part.attention, made(size))
    except NoAttention as error:
        return None, f"This backbone has no [CLS] attention to show: {error}."
    every = np.concatenate((weights.mean(1, keepdims=True), weights), 1)
    masks = kept_mass(every, share)
    return Attention(masks, share, masks.mean((0, 2, 3))), ""


def _run(model: Any, method: Callable[[Tensor], Tensor], x: Tensor) -> np.ndarray:
    device = device_of(model)
    with evaluating(model), torch.no_grad():
        outputs = [_checked(method(part.to(device)), part) for part in x.split(_AT_ONCE)]
    return torch.cat(outputs).numpy()


def _checked(found: Any, x: Tensor) -> Tensor:
    if not isinstance(found, Tensor) or found.ndim != 4 or len(found) != len(x):
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(f"maps must be ({len(x)}, channels, height, width), got {got}")
    return found.float().cpu()


def _spread(x: np.ndarray) -> float:
    rows = x.astype(np.float64)
    if len(rows) < 2:
        return float("nan")
    length = np.square(rows).sum(1).mean()
    return float(np.sqrt(np.square(rows - rows.mean(0)).sum(1).mean() / length)) if length else 0.0


def _names(pictures: ImageSet, ids: Tensor) -> tuple[str, ...]:
    """Names of the files, or the numbers of pictures that have none."""
    if isinstance(pictures, Cached):
        available = pictures.names
        return tuple(available[number] for number in ids.tolist())
    return tuple(f"picture {number}" for number in ids.tolist())


def _side(pictures: ImageSet, most: int) -> int:
    return max(16, min(most, shorter_side(pictures)))
