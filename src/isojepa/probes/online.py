"""Metrics measured while a run trains: recovery, probes, ranks.

Probes while a model trains: linear, nearest neighbors, rank, on as many pictures as one can afford.

They read pictures as a user of the model would, whole and unaugmented, but for the rank, which reads views.
Of several models the first has the plain names; those of the others begin with the model's name. Features
that are not finite give NaN, never an error: the loop reports a run that breaks.

Evaluations on held-out states of a source: how far they are spread, and whether they show the latents.

    smallest_variance, mean_variance   over the principal directions of the embedding
    dead_fraction                      of these directions: collapse shows here
    r2                                 held-out R^2 of the latents regressed on the embeddings

Of several models the first has these names; those of the others begin with the model's name.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from isojepa.data.batch import Batch
from isojepa.data.images.image_sets import ImageSet
from isojepa.data.source import Source, held_out
from isojepa.encoders.model import Model, as_model, device_of, embed, evaluating
from isojepa.linear import held_out_r2, spread
from isojepa.probes.features import features_of
from isojepa.probes.few_shot import common_labels
from isojepa.probes.linear import (
    PENALTIES,
    TEMPERATURE,
    Score,
    chance_level,
    linear_probe,
    neighbors_probe,
)
from isojepa.probes.rank import lidar, rankme
from isojepa.seeds import generator as make_generator
from isojepa.validation import check_count, validate_fields, validate_types

_CHUNK = 256  # states at once


@dataclass(frozen=True)
class LinearProbe:
    """Accuracy of a linear classifier of the features, fitted anew at each call: `probe`, with its interval.

    Args:
        train: pictures with labels that it is fitted to.
        test: pictures with labels of the same classes, that it is scored on.
        every: steps between two calls; None for the recipe's own pace.
        samples: training pictures, drawn once for the run; all where there are not more.
        test_samples: the same of test pictures.
        size: side of the square that models see; by default the shorter side of the pictures.
        mean, std: of each channel, that pictures are normalized by; by default those of `train`.
        penalties: to choose from; one alone costs a fraction of several.
    """

    train: ImageSet
    test: ImageSet
    every: int | None = None
    samples: int = 5_000
    test_samples: int = 2_000
    size: int | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    penalties: tuple[float, ...] = PENALTIES
    _labels: tuple[np.ndarray, np.ndarray] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _prepare(self)

    @property
    def name(self) -> str:
        return "linear probe"

    @property
    def primary(self) -> str:
        return "probe"

    @property
    def chance(self) -> float:
        """Accuracy of always answering the most common test label."""
        return chance_level(self._labels[1])

    def __call__(self, models: Mapping[str, Model], generator: torch.Generator) -> dict[str, float]:
        """Numbers by name."""

        def judge(x: np.ndarray, y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray) -> Score:
            return linear_probe(x, y, test_x, test_y, penalties=self.penalties)

        return _judged("probe", self, models, judge)


@dataclass(frozen=True)
class Neighbors:
    """Accuracy of weighted k-NN on the cosines of the features: `knn`, with its interval.

    Args:
        train: pictures with labels that vote.
        test: pictures with labels of the same classes.
        every: steps between two calls; None for the recipe's own pace.
        samples: training pictures, drawn once for the run; all where there are not more.
        test_samples: the same of test pictures.
        size: side of the square that models see; by default the shorter side of the pictures.
        mean, std: of each channel, that pictures are normalized by; by default those of `train`.
        k: neighbors that vote.
        temperature: of their weights.
    """

    train: ImageSet
    test: ImageSet
    every: int | None = None
    samples: int = 5_000
    test_samples: int = 2_000
    size: int | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    k: int = 20
    temperature: float = TEMPERATURE
    _labels: tuple[np.ndarray, np.ndarray] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _prepare(self)
        check_count("k", self.k, 1, min(self.samples, len(self.train)))

    @property
    def name(self) -> str:
        return "neighbors"

    @property
    def primary(self) -> str:
        return "knn"

    def __call__(self, models: Mapping[str, Model], generator: torch.Generator) -> dict[str, float]:
        """Numbers by name."""

        def judge(x: np.ndarray, y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray) -> Score:
            scores = neighbors_probe(x, y, test_x, test_y, k=(self.k,), temperature=self.temperature)
            return scores[0]

        return _judged("knn", self, models, judge)


@dataclass(frozen=True)
class Rank:
    """RankMe of the features, and where batches have two global views LiDAR: `rankme`, `lidar`.

    Args:
        source: where views come from, e.g. the source that is trained on: no label is needed.
        every: steps between two calls; None for the recipe's own pace.
        samples: states.
        embedding: measure the embedding, behind the projector, in place of the features.
    """

    source: Source
    every: int | None = None
    samples: int = 1_000
    embedding: bool = False

    def __post_init__(self) -> None:
        validate_fields(self)
        check_count("samples", self.samples, 2)

    @property
    def name(self) -> str:
        return "rank"

    @property
    def primary(self) -> str:
        return "rankme"

    def __call__(self, models: Mapping[str, Model], generator: torch.Generator) -> dict[str, float]:
        """Numbers by name."""
        parts: dict[str, list[Tensor]] = {name: [] for name in models}
        for start in range(0, self.samples, _CHUNK):
            batch = self.source.sample(min(_CHUNK, self.samples - start), generator)
            views = batch.views[: max(1, batch.global_views)]
            alike = [view for view in views if view.shape == views[0].shape]
            for name, encoder in models.items():
                model = as_model(encoder)
                read = model.embed if self.embedding else model.features
                with evaluating(encoder), torch.no_grad():
                    embeddings = [read(view.to(device_of(encoder))).float().cpu() for view in alike]
                parts[name].append(torch.stack(embeddings))
        row: dict[str, float] = {}
        for index, (name, stacked) in enumerate(parts.items()):
            views_of = torch.cat(stacked, 1).numpy()
            prefix = "" if index == 0 else f"{name}."
            row[f"{prefix}rankme"] = rankme(views_of[0])
            if len(views_of) > 1:
                row[f"{prefix}lidar"] = lidar(views_of)
        return row


def _prepare(evaluation: LinearProbe | Neighbors) -> None:
    """Look at the settings, and match the labels once."""
    if evaluation.every is not None:
        check_count("every", evaluation.every)
    check_count("samples", evaluation.samples, 2)
    check_count("test_samples", evaluation.test_samples)
    object.__setattr__(evaluation, "_labels", common_labels(evaluation.train, evaluation.test))


def _judged(
    key: str,
    evaluation: LinearProbe | Neighbors,
    models: Mapping[str, Model],
    judge: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Score],
) -> dict[str, float]:
    """A probe's accuracy and interval for each model, on the pictures that `isojepa probe` reads."""
    train, test = evaluation.train, evaluation.test
    labels, test_labels = evaluation._labels
    mean, std = evaluation.mean or train.mean, evaluation.std or train.std
    ids, test_ids = subsample(len(train), evaluation.samples), subsample(len(test), evaluation.test_samples)
    test_ids = test_ids[np.isin(test_labels[test_ids.numpy()], labels[ids.numpy()])]
    row: dict[str, float] = {}
    for index, (name, model) in enumerate(models.items()):
        x, test_x = (
            features_of(model, pictures, evaluation.size, ids=some, mean=mean, std=std)
            for pictures, some in ((train, ids), (test, test_ids))
        )
        numbers = (float("nan"),) * 3
        if np.isfinite(x).all() and np.isfinite(test_x).all():
            score = judge(x, labels[ids.numpy()], test_x, test_labels[test_ids.numpy()])
            numbers = (score.accuracy, *score.interval)
        prefix = "" if index == 0 else f"{name}."
        row |= {
            f"{prefix}{part}": value
            for part, value in zip((key, f"{key}_low", f"{key}_high"), numbers, strict=True)
        }
    return row


def subsample(count: int, size: int | None, seed: int = 0) -> Tensor:
    """At most `size` of the numbers below `count`, in rising order; all of them for None."""
    return torch.randperm(count, generator=make_generator(seed, "subsample"))[:size].sort().values


_MAX_NUMBERS = 1 << 25  # numbers of vectors, in all views, that are drawn at once
_PIXELS = 1 << 21  # the same of pictures, which are never kept
_MIN_STATES = 16  # states that are drawn at once, however large they are


@dataclass
class Spread:
    """Smallest and mean variance of the embedding of held-out states, and the fraction of dead directions.

    Pictures, and vectors of very many numbers, are drawn anew in parts at each call, so that they are never
    all in memory; other vectors once.

    Args:
        source: where states come from.
        samples: how many.
        every: steps between two calls; None for the recipe's own pace.
    """

    source: Source
    samples: int = 10_000
    every: int | None = None
    _kept: tuple[bytes, Batch] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        return "spread"

    @property
    def primary(self) -> str:
        return "smallest_variance"

    def __call__(self, models: Mapping[str, Model], generator: torch.Generator) -> dict[str, float]:
        """Numbers by name."""
        parts: dict[str, list[Tensor]] = {name: [] for name in models}
        latents: list[Tensor] = []
        for batch in self._batches(generator):
            for name, model in models.items():
                parts[name].append(embed(model, batch.views[0]))
            if batch.z is not None:
                latents.append(batch.z[0])
        z = torch.cat(latents).double().numpy() if latents else None
        row: dict[str, float] = {}
        for index, (name, embedded) in enumerate(parts.items()):
            numbers = self._numbers(torch.cat(embedded).double().numpy(), z)
            row |= {key if index == 0 else f"{name}.{key}": value for key, value in numbers.items()}
        return row

    def _numbers(self, h: np.ndarray, z: np.ndarray | None) -> dict[str, float]:
        names = ("smallest_variance", "mean_variance", "dead_fraction")
        if not np.isfinite(h).all():
            return dict.fromkeys(names, float("nan"))
        return dict(zip(names, spread(h), strict=True))

    def _batches(self, generator: torch.Generator) -> Iterator[Batch]:
        state = generator.get_state().numpy().tobytes()
        if self._kept is not None and self._kept[0] == state:
            yield self._kept[1]
            return
        shapes = self.source.facts.shapes
        if shapes is None:  # the size of a state is unknown: draw one
            one = self.source.sample(1, make_generator(0, "probe"))
            shapes = tuple(tuple(view.shape[1:]) for view in one.views)
        vectors = all(len(shape) == 1 for shape in shapes)
        most = (_MAX_NUMBERS if vectors else _PIXELS) // max(1, sum(math.prod(shape) for shape in shapes))
        rows = min(self.samples, max(_MIN_STATES, most))
        for start in range(0, self.samples, rows):
            batch = self.source.sample(min(rows, self.samples - start), generator)
            batch = Batch(batch.views[:1], z=None if batch.z is None else batch.z[:1])
            if vectors and rows == self.samples:
                self._kept = state, batch
            yield batch


class Recovery(Spread):
    """Held-out R^2 of the latents regressed on the embeddings, and the embedding's spread.

    Args:
        source: where states come from; it must know its latents.
        samples: how many; half of them fit the regression.
        every: steps between two calls; None for the recipe's own pace.
    """

    @validate_types
    def __init__(self, source: Source, samples: int = 10_000, every: int | None = None) -> None:
        if source.facts.dim is None:
            raise ValueError(
                "recovery needs a source that knows its latents; see Spread for one that does not"
            )
        super().__init__(source, samples, every)

    @property
    def name(self) -> str:
        return "recovery"

    @property
    def primary(self) -> str:
        return "r2"

    def _numbers(self, h: np.ndarray, z: np.ndarray | None) -> dict[str, float]:
        variances = super()._numbers(h, z)
        if z is None or not np.isfinite(h).all():
            return {"r2": float("nan"), **variances}
        return {"r2": held_out_r2(h, z), **variances}


def default_evaluations(source: Source, samples: int) -> tuple[Spread, ...]:
    """What is measured where nothing is asked for: recovery if the source knows its latents, else spread.

    On states that the source holds out from training, where it does.
    """
    kind = Spread if source.facts.dim is None else Recovery
    return (kind(held_out(source), samples),)
