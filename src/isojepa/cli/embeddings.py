"""Embeddings of the same states by several encoders, as people name these: files, records, backbones.

Rows that are compared must be the same states in the same order. Files bring rows, and ids where they are in
another order; models are shown the same pictures, or each the pictures of its own observer of an environment;
records of worlds with known latents are shown the same latents, each through its own mixing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isojepa import runs
from isojepa.align.pairs import match
from isojepa.align.rows import as_array
from isojepa.arguments import check_count
from isojepa.certificates import read_array
from isojepa.certificates.reading import read_embeddings, split_name
from isojepa.cli.models import NORMALS, Seen, see
from isojepa.encoders.depth import layer_rows
from isojepa.encoders.model import embed
from isojepa.evaluations.features import features_of
from isojepa.names import choose
from isojepa.seeds import generator
from isojepa.worlds.images.augmentations import whole
from isojepa.worlds.images.opening import open_pictures, splits
from isojepa.worlds.images.pictures import Part, Pictures
from isojepa.worlds.observers import environment
from isojepa.worlds.source import observable

_DRAWN = 5000  # states that are drawn in a world
_FILES = (".npy", ".npz", ".safetensors", ".pt", ".pth", ".h5", ".hdf5", ".parquet", ".csv", ".tsv", ".txt")
_ANSWERS = {"features": "what probes and users read", "embedding": "what the loss saw"}


@dataclass(frozen=True)
class Embedded:
    """Rows of several encoders for the same states.

    Attributes:
        names: of the encoders.
        rows: of each, (n, dim).
        ids: (n,) of the states, where rows of one belong together.
        labels: (n,), where they are known.
        pictures: what the first of them saw, where it is pictures.
    """

    names: tuple[str, ...]
    rows: tuple[np.ndarray, ...]
    ids: np.ndarray | None = None
    labels: np.ndarray | None = None
    pictures: Pictures | None = field(default=None, repr=False)


@dataclass(kw_only=True)
class Shown:
    """Flags that say what encoders are shown, of the commands that compare them."""

    data: tuple[Path, ...] = ()
    """Pictures for models: one folder or file for all of them. For --environment, where it lies."""
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
    """Side of the square that pictures are cut to; by default as a record was trained, else their shorter
    side."""
    normalize: str = "auto"
    """Mean and deviation of pictures: data, imagenet, or auto, those of a record, else the data's."""
    channels: int | None = None
    """1 or 3, to which pictures are turned."""
    batch: int = 256
    """Pictures that a model sees at once."""
    seed: int = 0
    """Draws folds, states and random weights."""
    trust: tuple[str, ...] = ()
    """Python modules that may be imported to make a record's model: those that define classes of your own."""
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
            told = ", ".join(str(source) for source, file in zip(sources, files, strict=True) if not file)
            raise ValueError(f"either all sources are files of embeddings or none, got models {told}")
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
        pictures = self._reduced(open_pictures(self.data[0], split=split))
        rows = self._shown(sources, [pictures] * len(sources), progress)
        labels = None if pictures.labels is None else pictures.labels.numpy()
        return Embedded(names, rows, None, labels, pictures)

    def _of_observers(
        self, sources: Sequence[Path], names: tuple[str, ...], progress: Callable[[int, int, str], None]
    ) -> Embedded:
        if len(sources) != 2:
            raise ValueError(f"an environment shows two encoders the same states, got {len(sources)}")
        seen = environment(str(self.environment), self.data[0] if self.data else None)
        chosen = self.observers or seen.names[:2]
        if len(chosen) != 2:
            raise ValueError(f"observers must be two of {', '.join(seen.names)}, got {len(chosen)}")
        pairs = seen.pairs(*chosen, split=self.split or "test")
        order = self._some(len(pairs))
        names = (f"{names[0]} ({chosen[0]})", f"{names[1]} ({chosen[1]})")
        labels = None if pairs.labels is None else pairs.labels[order].numpy()
        ids = pairs.ids[order].numpy()
        if isinstance(pairs.first, torch.Tensor):
            rows = tuple(
                self._embed(runs.load(source, trust=self.trust), shown[order])
                for source, shown in zip(sources, (pairs.first, pairs.second), strict=True)
            )
            return Embedded(names, rows, ids, labels)
        shown = [Part(one, order) for one in (pairs.first, pairs.second)]
        return Embedded(names, self._shown(sources, shown, progress), ids, labels, shown[0])

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
        z = loaded[0][1].sample(self.samples or _DRAWN, generator(self.seed, "states")).latents[0]
        return Embedded(names, tuple(self._embed(encoder, world.observe(z)) for encoder, world in loaded))

    def _embed(self, encoder: Any, x: torch.Tensor) -> np.ndarray:
        return np.asarray(embed(encoder, x, features=self.what == "features").float())

    def layer_rows(
        self,
        sources: Sequence[Path],
        pictures: Pictures,
        most: int,
        progress: Callable[[int, int, str], None],
    ) -> list[dict[str, np.ndarray]]:
        """Rows behind each layer of models of pictures, of the first so many states."""
        found = []
        for seen in self._seen(sources, [pictures] * len(sources)):
            parts: dict[str, list[np.ndarray]] = {}
            shown, count = seen.takes(pictures), min(most, len(pictures))
            for start in range(0, count, self.batch):
                progress(start, count, "layers")
                ids = torch.arange(start, min(start + self.batch, count))
                x = whole(shown.read(ids), seen.size, seen.mean, seen.std)
                for name, rows in layer_rows(seen.model, x).items():
                    parts.setdefault(name, []).append(rows.numpy())
            found.append({name: np.concatenate(rows) for name, rows in parts.items()})
        return found

    def _shown(
        self,
        sources: Sequence[Path],
        pictures: Sequence[Pictures],
        progress: Callable[[int, int, str], None],
    ) -> tuple[np.ndarray, ...]:
        """Rows of models of pictures."""
        return tuple(
            features_of(
                seen.model,
                seen.takes(given),
                seen.size,
                self.batch,
                mean=seen.mean,
                std=seen.std,
                what=self.what,
                progress=progress,
            )
            for seen, given in zip(self._seen(sources, pictures), pictures, strict=True)
        )

    def _seen(self, sources: Sequence[Path], pictures: Sequence[Pictures]) -> Iterator[Seen]:
        """Models of pictures one by one, each with the weights that are its own."""
        backbones = [not source.is_dir() and ":" not in str(source) for source in sources]
        if len(self.weights) > sum(backbones):
            raise ValueError(
                f"weights must be at most one for each of {sum(backbones)} backbones, got {len(self.weights)}"
            )
        weights = iter(self.weights)
        for source, given, backbone in zip(sources, pictures, backbones, strict=True):
            yield see(
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

    def _reduced(self, pictures: Pictures) -> Pictures:
        chosen = self._some(len(pictures))
        return pictures if len(chosen) == len(pictures) else Part(pictures, chosen)


def _is_file(source: Path) -> bool:
    file, name = split_name(source)
    return name is not None or (file.suffix.lower() in _FILES and not file.is_dir())


def _names(sources: Sequence[Path]) -> tuple[str, ...]:
    """Of the encoders: the last parts of their paths, as many as tell them apart."""
    for parts in range(1, 1 + max(len(source.parts) for source in sources)):
        names = ["/".join(source.parts[-parts:]) for source in sources]
        if len(set(names)) == len(names):
            return tuple(names)
    return tuple(f"{source} ({number + 1})" for number, source in enumerate(sources))
