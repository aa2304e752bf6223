"""Sources of embeddings on the command line: run directories, timm backbones, file.py:function, and array
files.

Rows that are compared must be the same states in the same order. Files hold rows, and ids where their order
differs; image models see the same images, or each the images of its own observer of an environment; models
of worlds with known latents see the same latents, each through its own mixing.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from isojepa import runs
from isojepa.alignment.pairs import as_array, match
from isojepa.cli.printing import out
from isojepa.data.array_files import read_array, read_embeddings, split_name
from isojepa.data.images.augmentations import whole
from isojepa.data.images.image_sets import ImageSet, ImageSubset
from isojepa.data.images.source import open_images, splits
from isojepa.data.images.views import shorter_side
from isojepa.data.observers import environment
from isojepa.data.source import observable
from isojepa.encoders.backbones import NoAttention
from isojepa.encoders.depth import layer_rows
from isojepa.encoders.model import embed
from isojepa.exports.subject import Input, input_of, known_of
from isojepa.importing import import_object, is_callable_name
from isojepa.probes.features import features_of
from isojepa.probes.linear import held_out
from isojepa.seeds import generator
from isojepa.training.run_directory import RunDirectory
from isojepa.validation import check_count, choose

_ROWS = 65_536  # read from a file at once


def load_callable(source: str) -> Callable[[Any], Any]:
    """Import what file.py:name names.

    A class is called without arguments to make the encoder.

    Raises:
        ValueError: the file cannot be imported, has no such name, or the object cannot be called.
    """
    loaded = import_object(source)
    if isinstance(loaded, type):
        try:
            loaded = loaded()
        except Exception as error:  # whatever the user's class raises
            raise ValueError(f"{source}() cannot be made: {_error_text(error)}") from error
    if not callable(loaded):
        raise ValueError(f"{source} must be callable, got {type(loaded).__name__}")
    return (UserBackbone if hasattr(loaded, "maps") else UserEncoder)(source, loaded)


def embed_array(encoder: Callable[[Any], Any], x: Any) -> np.ndarray:
    """Embed observations (n, ...) of any array or file, in pieces.

    Raises:
        ValueError: x has no rows, or does not hold numbers.
    """
    if not len(x.shape) or not len(x):
        raise ValueError(f"x must have rows of observations to embed, got shape {tuple(x.shape)}")
    if not isinstance(x, torch.Tensor) and x.dtype.kind not in "fiub":
        raise ValueError(f"x must hold real numbers, got {x.dtype}")
    parts = (_tensor(x[i : i + _ROWS]) for i in range(0, len(x), _ROWS))
    h = torch.cat([embed(encoder, part) for part in parts])
    return (h.float() if h.dtype == torch.bfloat16 else h).numpy()


def _tensor(x: Any) -> torch.Tensor:
    """A tensor; float64 becomes float32, integers such as pixels stay."""
    if not isinstance(x, torch.Tensor):
        x = torch.as_tensor(np.array(x, dtype=x.dtype.newbyteorder("=")))
    tensor: torch.Tensor = x
    return tensor.float() if tensor.dtype == torch.float64 else tensor


class UserEncoder(nn.Module):
    """A module or function of the user; its errors become one-line ValueErrors."""

    def __init__(self, name: str, inner: Callable[[Any], Any]) -> None:
        super().__init__()
        self._name, self.inner = name, inner

    def forward(self, x: torch.Tensor) -> Any:
        return self._called(self.inner, x)

    def _called(self, method: Callable[[Any], Any], x: torch.Tensor) -> Any:
        shape = f"observations {tuple(x.shape)} of {x.dtype}"
        try:
            return method(x)
        except NoAttention:
            raise
        except Exception as error:  # whatever the user's code raises
            raise ValueError(f"{self._name} cannot embed {shape}: {_error_text(error)}") from error


class UserBackbone(UserEncoder):
    """A module of the user with feature maps, and perhaps attention."""

    def maps(self, x: torch.Tensor) -> Any:
        """Result of its method `maps`."""
        inner: Any = self.inner
        return self._called(inner.maps, x)

    def attention(self, x: torch.Tensor) -> Any:
        """Result of its method `attention`."""
        method = getattr(self.inner, "attention", None)
        if method is None:
            raise NoAttention(f"{self._name} has no method attention(x)")
        return self._called(method, x)


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


NORMALS = {  # mean and standard deviation; most published backbones are trained with ImageNet's
    "auto": None,
    "data": None,
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
FILES = (".npz", ".safetensors", ".pt", ".pth", ".h5", ".hdf5")  # array files, never models
_HELD_OUT_FRACTION = 0.2  # of each class, to score probes without test images
MIN_PER_CLASS = 5  # images of the largest class, so that the held-out fraction has at least one
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")  # as names of backbones are


def open_model(
    source: Path,
    *,
    channels: int,
    size: int | None = None,
    weights: Path | None = None,
    seed: int = 0,
    quiet: bool = False,
    trust: tuple[str, ...] = (),
) -> Any:
    """Load a model named on the command line.

    Args:
        source: a run directory, file.py:function, or the name of a backbone.
        channels: of the input images.
        size: of the input images, for backbones with a fixed size; by default their own.
        weights: weights file of a backbone; random weights by default.
        seed: draws random weights.
        quiet: do not print how weights were matched.
        trust: see `runs.load`.

    Raises:
        ValueError: there is no such model, or weights are given for a model that has its own.
    """
    text = str(source)
    made = is_callable_name(text) or source.is_dir()
    if made and weights is not None:
        raise ValueError("weights go with a backbone of timm, got a source that has its own")
    if is_callable_name(text):
        return load_callable(text)
    if source.is_dir():
        return runs.load(source, trust=trust)
    check_exists(source)
    return _backbone(text, channels, size, weights, seed, quiet)


def check_exists(source: Path) -> None:
    """Check that a source is a folder, file.py:function, or a possible backbone name.

    Raises:
        ValueError: it is a path that does not exist.
    """
    text = str(source)
    if source.is_dir() or is_callable_name(text):
        return
    if not _NAME.fullmatch(text) or source.suffix in (*FILES, ".npy", ".py"):
        raise ValueError(
            f"{text} does not exist: give a record's folder, a backbone of timm or file.py:function"
        )


@dataclass(frozen=True)
class ImageModel:
    """A model and its image preprocessing.

    Attributes:
        model: result of `open_model`.
        channels, size: of its input.
        mean, std: of the normalization.
    """

    model: Any
    channels: int
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def to_channels(self, pictures: ImageSet) -> ImageSet:
        """Images with the channels of the model's input."""
        return (
            pictures if pictures.channels == self.channels else ImageSubset(pictures, channels=self.channels)
        )


def load_image_model(
    source: Path,
    pictures: ImageSet,
    *,
    size: int | None = None,
    channels: int | None = None,
    normalize: str = "auto",
    weights: Path | None = None,
    seed: int = 0,
    quiet: bool = False,
    trust: tuple[str, ...] = (),
) -> ImageModel:
    """Load a model with the preprocessing of its run, or else that of the images.

    Args:
        source, weights, seed, quiet, trust: see `open_model`.
        pictures: images whose size, channels and statistics are the defaults.
        size: side of the square crop.
        channels: 1 or 3.
        normalize: one of `NORMALS`.
    """
    trained = trained_on(source)
    default_channels = pictures.channels if trained is None else trained.shape[0]
    channels = channels or (3 if weights is not None else default_channels)
    images = pictures if pictures.channels == channels else ImageSubset(pictures, channels=channels)
    mean, std = normals(normalize, images, trained)
    size = size or (shorter_side(images) if trained is None else trained.shape[-1])
    model = open_model(
        source, channels=channels, size=size, weights=weights, seed=seed, quiet=quiet, trust=trust
    )
    return ImageModel(model, channels, size, mean, std)


def trained_on(source: Path) -> Input | None:
    """Model input of a run on images; None for other models or if the run does not record it.

    Raises:
        ValueError: the recorded metadata is damaged.
    """
    if not source.is_dir():
        return None
    record = RunDirectory.open(source)
    facts = known_of((record.result or {}).get("source") or {}, record.path)
    shape = input_of(facts, None) if facts.get("shapes") else None
    return shape if shape is not None and shape.pictures else None


def normals(
    name: str, pictures: ImageSet, given: Input | None = None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation for normalization: one of `NORMALS`.

    Args:
        name: "auto" for those the run was trained with, if it records them, else the data's.
        pictures: with the channels that the model takes.
        given: what the record was trained on.

    Raises:
        ValueError: they are of color images, and the images are gray.
    """
    if name == "auto" and given is not None and given.mean is not None and given.std is not None:
        mean, std = given.mean, given.std
    else:
        mean, std = NORMALS[name] or (pictures.mean, pictures.std)
    if len(mean) != pictures.channels:
        took = "imagenet needs colors" if name == "imagenet" else f"the record's needs {len(mean)} channels"
        raise ValueError(
            f"normalize by {took}, got pictures of {pictures.channels}: add --channels {len(mean)}"
        )
    return mean, std


def probe_sets(
    data: Path, train: ImageSet | None = None, *, test: Path | None = None, seed: int = 0
) -> tuple[ImageSet, ImageSet]:
    """Images with labels that probes are fitted to, and those that they are scored on.

    Args:
        data: of the first; its split test or val is scored, else a fifth of each class.
        train: the images of `data`, if they are open.
        test: the images that are scored, in place of a part of `data`.
        seed: draws the fifth.

    Raises:
        ValueError: there are no labels, or no class has five images.
    """
    train = open_images(data) if train is None else train
    if test is not None:
        return train, open_images(test, split="test" if "test" in splits(test) else None)
    parts = splits(data)
    held = [name for name in ("test", "val") if name in parts and len(parts) > 1]
    if held:
        return train, open_images(data, split=held[0])
    if train.labels is None:
        raise ValueError(f"a probe needs labels, got {data} without any")
    aside = held_out(train.labels.numpy(), _HELD_OUT_FRACTION, generator(seed, "aside"))
    if not aside.any():
        raise ValueError(f"{data} must have {MIN_PER_CLASS} pictures of some class at least, or give --test")
    fit, score = (ImageSubset(train, torch.from_numpy(np.flatnonzero(rows))) for rows in (~aside, aside))
    return fit, score


def _backbone(
    name: str, channels: int, size: int | None, weights: Path | None, seed: int, quiet: bool
) -> nn.Module:
    from isojepa.encoders.backbones import Backbone
    from isojepa.encoders.weights import load_weights

    backbone = Backbone(name, in_channels=channels, image_size=size, seed=seed)
    if weights is not None:
        matched = load_weights(backbone.body, weights)
        if not quiet:
            remainder = f", {len(matched.left_out)} of the file left out" if matched.left_out else ""
            out.print(f"Weights of {weights} matched by {matched.by}{remainder}.", markup=False)
    return backbone


_WORLD_STATES = 5000  # states that are drawn in a world
_ARRAY_SUFFIXES = (
    ".npy",
    ".npz",
    ".safetensors",
    ".pt",
    ".pth",
    ".h5",
    ".hdf5",
    ".parquet",
    ".csv",
    ".tsv",
    ".txt",
)
_ANSWERS = {"features": "what probes and users read", "embedding": "what the loss saw"}


@dataclass(frozen=True)
class Embedded:
    """Rows of several encoders for the same states.

    Attributes:
        names: of the encoders.
        rows: of each, (n, dim).
        ids: (n,) of the states, where rows of one belong together.
        labels: (n,), where they are known.
        pictures: what the first of them saw, where it is images.
    """

    names: tuple[str, ...]
    rows: tuple[np.ndarray, ...]
    ids: np.ndarray | None = None
    labels: np.ndarray | None = None
    pictures: ImageSet | None = field(default=None, repr=False)


@dataclass(kw_only=True)
class EmbeddingSource:
    """Flags that say what encoders are shown, of the commands that compare them."""

    data: tuple[Path, ...] = ()
    """Images for models: one folder or file for all of them. For --environment, where it lies."""
    environment: str | None = None
    """States that several observers see, each encoder one of them: emoji, toys, rig, ..."""
    observers: tuple[str, ...] = ()
    """Of the environment, one for each encoder; by default its first ones."""
    split: str | None = None
    """Part of the data; by default test where there is one."""
    ids: tuple[Path, ...] = ()
    """Files with the id of the state of each row: one for all files of embeddings, or one for each, which
    are then matched."""
    partial: bool = False
    """Leave out states that only some files have."""
    what: str = "features"
    """Of models: features, or embedding, which the loss saw."""
    weights: tuple[Path, ...] = ()
    """For backbones of timm, in their order: safetensors, or what torch.save wrote with tensors by name."""
    samples: int | None = None
    """States at most, drawn at random; by default all, of a world 5,000."""
    size: int | None = None
    """Side of the square that images are cut to; by default as a record was trained, else their shorter
    side."""
    normalize: str = "auto"
    """Mean and standard deviation of images: data, imagenet, or auto: those of the run, else the data's."""
    channels: int | None = None
    """1 or 3, to which images are turned."""
    batch: int = 256
    """Images that a model sees at once."""
    seed: int = 0
    """Draws folds, states and random weights."""
    trust: tuple[str, ...] = ()
    """Python modules that may be imported to make a record's model: those that define your own classes."""
    json: bool = False
    """Print every number as JSON."""

    def embedded(self, sources: Sequence[Path], progress: Callable[[int, int, str], None]) -> Embedded:
        """Rows of all encoders.

        Raises:
            ValueError: a source is no encoder and no file, or it is not clear what they are shown.
        """
        choose("what", self.what, _ANSWERS)
        choose("normalize", self.normalize, NORMALS)
        if self.samples is not None:
            check_count("samples", self.samples)
        names = _names(sources)
        files = [_is_file(source) for source in sources]
        if all(files):
            return self._of_files(sources, names)
        if any(files):
            models = ", ".join(str(source) for source, file in zip(sources, files, strict=True) if not file)
            raise ValueError(f"either all sources are files of embeddings or none, got models {models}")
        if self.ids:
            raise ValueError("ids go with files of embeddings; models are shown the same states")
        if self.environment is not None:
            return self._of_observers(sources, names, progress)
        if self.data:
            return self._of_pictures(sources, names, progress)
        return self._of_worlds(sources, names)

    def _of_files(self, sources: Sequence[Path], names: tuple[str, ...]) -> Embedded:
        if self.data or self.environment is not None:
            raise ValueError("data and environment go with models, got files of embeddings")
        rows = [
            as_array(name, np.asarray(read_embeddings(one))) for name, one in zip(names, sources, strict=True)
        ]
        if len(self.ids) not in (0, 1, len(sources)):
            raise ValueError(f"ids must be one file, or one for each of {len(sources)}, got {len(self.ids)}")
        ids = [np.asarray(read_array(path)) for path in self.ids]
        for name, one, given in zip(names, rows, ids * (len(rows) if len(ids) == 1 else 1), strict=False):
            if len(one) != len(given):
                raise ValueError(f"ids of {name} must be as many as its rows, {len(one)}, got {len(given)}")
        if len(ids) > 1:
            common = ids[0]
            for other in ids[1:]:
                common = common[match(common, other, self.partial)[0]]
            rows = [one[match(common, given, True)[1]] for one, given in zip(rows, ids, strict=True)]
            ids = [common]
        counts = {name: len(one) for name, one in zip(names, rows, strict=True)}
        if len(set(counts.values())) > 1:
            raise ValueError(f"files must have a row for each state, got {counts}: give --ids to match them")
        chosen = self._some(len(rows[0]))
        return Embedded(
            names, tuple(one[chosen.numpy()] for one in rows), ids[0][chosen.numpy()] if ids else None
        )

    def _of_pictures(
        self, sources: Sequence[Path], names: tuple[str, ...], progress: Callable[[int, int, str], None]
    ) -> Embedded:
        if len(self.data) != 1:
            raise ValueError(
                f"data must be one set of pictures that all models see, got {len(self.data)}: what each sees "
                "of the same states in its own way is an --environment"
            )
        split = self.split or ("test" if "test" in splits(self.data[0]) else None)
        pictures = self._reduced(open_images(self.data[0], split=split))
        rows = self._shown(sources, [pictures] * len(sources), progress)
        labels = None if pictures.labels is None else pictures.labels.numpy()
        return Embedded(names, rows, None, labels, pictures)

    def _of_observers(
        self, sources: Sequence[Path], names: tuple[str, ...], progress: Callable[[int, int, str], None]
    ) -> Embedded:
        if len(sources) != 2:
            raise ValueError(f"an environment shows two encoders the same states, got {len(sources)}")
        observers = environment(str(self.environment), self.data[0] if self.data else None)
        chosen = self.observers or observers.names[:2]
        if len(chosen) != 2:
            raise ValueError(f"observers must be two of {', '.join(observers.names)}, got {len(chosen)}")
        pairs = observers.pairs(*chosen, split=self.split or "test")
        order = self._some(len(pairs))
        names = (f"{names[0]} ({chosen[0]})", f"{names[1]} ({chosen[1]})")
        labels = None if pairs.labels is None else pairs.labels[order].numpy()
        ids = pairs.ids[order].numpy()
        if isinstance(pairs.first, torch.Tensor):
            rows = tuple(
                self._embed(runs.load(source, trust=self.trust), parts[order])
                for source, parts in zip(sources, (pairs.first, pairs.second), strict=True)
            )
            return Embedded(names, rows, ids, labels)
        parts = [ImageSubset(one, order) for one in (pairs.first, pairs.second)]
        return Embedded(names, self._shown(sources, parts, progress), ids, labels, parts[0])

    def _of_worlds(self, sources: Sequence[Path], names: tuple[str, ...]) -> Embedded:
        """Of records of worlds with known latents: the first draws states, each sees them through its own."""
        loaded = []
        for source in sources:
            if not source.is_dir():
                raise ValueError(f"data must be given, pictures that {source} is shown: --data FOLDER")
            encoder, world, _ = runs.load_run(source)
            if not observable(world) or world.facts.dim is None:
                raise ValueError(
                    f"data must be given for {source}, which was not trained in a world of known latents: "
                    "--data FOLDER, or --environment"
                )
            loaded.append((encoder, world))
        dims = [world.facts.dim for _, world in loaded]
        if len(set(dims)) > 1:
            raise ValueError(f"records must be of worlds of the same latents, got {dims} of them")
        z = loaded[0][1].sample(self.samples or _WORLD_STATES, generator(self.seed, "states")).latents[0]
        return Embedded(names, tuple(self._embed(encoder, world.observe(z)) for encoder, world in loaded))

    def _embed(self, encoder: Any, x: torch.Tensor) -> np.ndarray:
        return np.asarray(embed(encoder, x, features=self.what == "features").float())

    def layer_rows(
        self,
        sources: Sequence[Path],
        pictures: ImageSet,
        most: int,
        progress: Callable[[int, int, str], None],
    ) -> list[dict[str, np.ndarray]]:
        """Rows behind each layer of models of images, of the first so many states."""
        collected = []
        for seen in self._seen(sources, [pictures] * len(sources)):
            parts: dict[str, list[np.ndarray]] = {}
            shown, count = seen.to_channels(pictures), min(most, len(pictures))
            for start in range(0, count, self.batch):
                progress(start, count, "layers")
                ids = torch.arange(start, min(start + self.batch, count))
                x = whole(shown.read(ids), seen.size, seen.mean, seen.std)
                for name, rows in layer_rows(seen.model, x).items():
                    parts.setdefault(name, []).append(rows.numpy())
            collected.append({name: np.concatenate(rows) for name, rows in parts.items()})
        return collected

    def _shown(
        self,
        sources: Sequence[Path],
        pictures: Sequence[ImageSet],
        progress: Callable[[int, int, str], None],
    ) -> tuple[np.ndarray, ...]:
        """Rows of models of images."""
        return tuple(
            features_of(
                seen.model,
                seen.to_channels(given),
                seen.size,
                self.batch,
                mean=seen.mean,
                std=seen.std,
                what=self.what,
                progress=progress,
            )
            for seen, given in zip(self._seen(sources, pictures), pictures, strict=True)
        )

    def _seen(self, sources: Sequence[Path], pictures: Sequence[ImageSet]) -> Iterator[ImageModel]:
        """Models of images one by one, each with the weights that are its own."""
        backbones = [not source.is_dir() and ":" not in str(source) for source in sources]
        if len(self.weights) > sum(backbones):
            raise ValueError(
                f"weights must be at most one for each of {sum(backbones)} backbones, got {len(self.weights)}"
            )
        weights = iter(self.weights)
        for source, given, backbone in zip(sources, pictures, backbones, strict=True):
            yield load_image_model(
                source,
                given,
                size=self.size,
                channels=self.channels,
                normalize=self.normalize,
                weights=next(weights, None) if backbone else None,
                seed=self.seed,
                quiet=self.json,
                trust=self.trust,
            )

    def _some(self, count: int) -> torch.Tensor:
        """Numbers of the states that are used, in order."""
        if self.samples is None or self.samples >= count:
            return torch.arange(count)
        return torch.randperm(count, generator=generator(self.seed, "states"))[: self.samples].sort().values

    def _reduced(self, pictures: ImageSet) -> ImageSet:
        chosen = self._some(len(pictures))
        return pictures if len(chosen) == len(pictures) else ImageSubset(pictures, chosen)


def _is_file(source: Path) -> bool:
    file, name = split_name(source)
    return name is not None or (file.suffix.lower() in _ARRAY_SUFFIXES and not file.is_dir())


def _names(sources: Sequence[Path]) -> tuple[str, ...]:
    """Names of the encoders: the shortest distinct ends of their paths."""
    for parts in range(1, 1 + max(len(source.parts) for source in sources)):
        names = ["/".join(source.parts[-parts:]) for source in sources]
        if len(set(names)) == len(names):
            return tuple(names)
    return tuple(f"{source} ({number + 1})" for number, source in enumerate(sources))
