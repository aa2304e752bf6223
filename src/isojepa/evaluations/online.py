"""Probes while a model trains: linear, nearest neighbours, rank, on as many pictures as one can afford.

They read pictures as a user of the model would, whole and unaugmented, but for the rank, which reads views.
Of several models the first has the plain names; those of the others begin with the model's name. Features
that are not finite give NaN, never an error: a run that breaks is told by the loop.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from isojepa.arguments import check_count, check_fields
from isojepa.encoders.model import Model, as_model, device_of
from isojepa.encoders.modes import evaluating
from isojepa.evaluations.features import features_of
from isojepa.evaluations.linear import PENALTIES, linear_probe
from isojepa.evaluations.neighbors import TEMPERATURE, neighbors_probe
from isojepa.evaluations.rank import lidar, rankme
from isojepa.evaluations.scores import Score, chance_level
from isojepa.evaluations.transfer import common_labels
from isojepa.seeds import generator as make_generator
from isojepa.worlds.images.pictures import Pictures
from isojepa.worlds.source import Source

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
        mean, std: of each channel, that pictures are normalised by; by default those of `train`.
        penalties: to choose from; one alone costs a fraction of several.
    """

    train: Pictures
    test: Pictures
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
        mean, std: of each channel, that pictures are normalised by; by default those of `train`.
        k: neighbours that vote.
        temperature: of their weights.
    """

    train: Pictures
    test: Pictures
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
            found = neighbors_probe(x, y, test_x, test_y, k=(self.k,), temperature=self.temperature)
            return found[0]

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
        check_fields(self)
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
                    found = [read(view.to(device_of(encoder))).float().cpu() for view in alike]
                parts[name].append(torch.stack(found))
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
