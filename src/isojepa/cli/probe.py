"""The command `probe`: how good frozen features are, of a record, a backbone of timm or one's own encoder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from torch import nn

from isojepa.arguments import check_count, check_number
from isojepa.certificates import read_array
from isojepa.cli.models import FILES, NORMALS, Seen, probe_sets, see
from isojepa.cli.printing import notes_told, out, print_json, progress_bar
from isojepa.cli.tables import Column, print_table
from isojepa.evaluations.features import features_of
from isojepa.evaluations.few_shot import FewShot, common_labels, few_shot
from isojepa.evaluations.online import subsample
from isojepa.evaluations.probes import (
    K,
    Score,
    chance_level,
    choose_logistic,
    examples,
    held_out,
    kernel_probe,
    linear_probe,
    neighbors_probe,
    radius_probe,
    score_of,
)
from isojepa.evaluations.rank import rankme
from isojepa.names import choose
from isojepa.seeds import generator
from isojepa.worlds.images.pictures import Part, Pictures

_ASIDE = 0.2  # of each class, where there are no test pictures


def _neighbors(*data: np.ndarray) -> tuple[Score, ...]:
    """k-NN for the usual numbers that there are examples for."""
    fit = tuple(k for k in K if k <= len(data[0])) or (1,)
    return neighbors_probe(*data, k=fit)


_PROBES: dict[str, Callable[..., tuple[Score, ...]]] = {
    "linear": lambda *data: (linear_probe(*data),),
    "knn": _neighbors,
    "radius": lambda *data: (radius_probe(*data),),
    "kernel": lambda *data: (kernel_probe(*data),),
}


@dataclass
class Probe:
    """Probe frozen features: linear, k-NN, kernel, few-shot.

    SOURCE is one of

    a record:  isojepa probe runs/mine --data pictures/

    a backbone of timm:  isojepa probe resnet50 --weights model.safetensors --data pictures/; without
    --weights its random ones, which is what others should be compared with

    an encoder:  file.py:function, from pictures (batch, channels, size, size) to features

    features:  npz, safetensors, pt or HDF5 with arrays features and labels, and test_features and test_labels

    DATA is a folder with one folder for each class, npz, IDX, Parquet or tar shards, as pretraining takes
    them. Its split "test" is scored, or what --test names; where there is neither, a fifth of each class.

    isojepa probe mobilenetv2_100 --weights wts.pt --data photos/ --size 224 --normalize imagenet

    isojepa probe runs/mine --data fashion-mnist/ --shots 1 10 100 --json

    isojepa probe runs/mine --data flowers/ --fine-tune 10

    isojepa probe runs/mine --data flowers/ --save-probe head.safetensors
    """

    source: tyro.conf.Positional[Path]
    """Record folder, name of timm's, file.py:function, or file of features."""
    data: Path | None = None
    """Pictures with labels that probes are fitted to."""
    test: Path | None = None
    """Pictures with labels that they are scored on."""
    weights: Path | None = None
    """For a backbone of timm: safetensors, or what torch.save wrote with tensors by name."""
    size: int | None = None
    """Side of the square that pictures are resized and cut to; by default that of a record's global views,
    else the pictures' shorter side."""
    normalize: str = "auto"
    """Mean and deviation that pictures are normalised by: those of the data, or of imagenet; auto, those that
    a record was trained with, else the data's."""
    channels: int | None = None
    """1 or 3, to which pictures are turned; by default 3 with --weights, those of a record, else as they
    are."""
    probes: tuple[str, ...] = ("linear", "knn")
    """Which: linear, knn, radius, kernel."""
    shots: tuple[int, ...] = ()
    """Also the linear probe from so many examples of each class."""
    draws: int = 5
    """How many times those are drawn."""
    fine_tune: float | None = None
    """Also train all weights on the labels, for so many epochs, early layers slower than late ones."""
    samples: int | None = None
    """Training pictures at most, drawn at random; by default all."""
    test_samples: int | None = None
    """The same of test pictures."""
    batch: int = 256
    """Pictures that the model sees at once."""
    save_probe: Path | None = None
    """Also write the linear probe to this safetensors file, which `isojepa transfer` carries to another
    encoder."""
    seed: int = 0
    """Draws random weights, what is put aside, and examples."""
    trust: tuple[str, ...] = ()
    """Python modules that may be imported to make a record's model: those that define classes of your own."""
    json: bool = False
    """Print the numbers as JSON."""

    def run(self) -> int:
        self._seen: tuple[Seen, Pictures, Pictures] | None = None  # nothing of a file of features
        for name in self.probes:
            choose("probe", name, _PROBES)  # what cannot be asked for is told before the work
        if self.save_probe is not None and "linear" not in self.probes:
            raise ValueError(f"save_probe writes the linear probe, got probes {', '.join(self.probes)}")
        choose("normalize", self.normalize, NORMALS)
        with notes_told(), progress_bar("probing") as self._progress:
            x, y, test_x, test_y, classes = self._features()
            scores: list[Score] = []
            for index, name in enumerate(self.probes):
                self._progress(index, len(self.probes), name)
                if name == "linear" and self.save_probe is not None:
                    scores.append(_saved(self.save_probe, x, y, test_x, test_y, classes))
                else:
                    scores.extend(_PROBES[name](x, y, test_x, test_y))
            rows: tuple[FewShot, ...] = ()
            if self.shots:
                rows = few_shot(
                    x,
                    y,
                    test_x,
                    test_y,
                    shots=self.shots,
                    draws=self.draws,
                    seed=self.seed,
                    progress=self._progress,
                )
            rank = rankme(x)
        if self.fine_tune is not None:
            scores.append(self._fine_tuned(self.fine_tune))
        result = {
            "source": str(self.source),
            "examples": len(y),
            "test_examples": len(test_y),
            "dim": x.shape[1],
            "classes": list(classes),
            "chance": chance_level(np.asarray(test_y)),
            "rankme": rank,
            "probes": [score.to_dict() for score in scores],
            "few_shot": [row.to_dict() for row in rows],
        }
        if self.save_probe is not None:
            result["saved_probe"] = str(self.save_probe)
        if self.json:
            print_json(result)
        else:
            _print(result, scores, rows)
            if self.save_probe is not None:
                out.print(f"Wrote the linear probe to {self.save_probe}.", markup=False)
        return 0

    def _features(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]]:
        """Features and labels to fit, those to score, and the names of classes."""
        if self.source.suffix in FILES and self.source.is_file():
            return self._of_file()
        if self.data is None:
            raise ValueError("data must be given: pictures with labels to probe on, --data FOLDER")
        train, test = probe_sets(self.data, test=self.test, seed=self.seed)
        train = self._some(train, self.samples, "samples")
        test = self._some(test, self.test_samples, "test_samples")
        y, test_y = common_labels(train, test)
        if len(np.unique(y)) < 2:
            raise ValueError(f"{self.data} must have pictures of two classes at least, got {train.classes}")
        seen = see(
            self.source,
            train,
            size=self.size,
            channels=self.channels,
            normalize=self.normalize,
            weights=self.weights,
            seed=self.seed,
            quiet=self.json,
            trust=self.trust,
        )
        train, test = seen.takes(train), seen.takes(test)
        self._seen = seen, train, test
        x, test_x = (
            features_of(
                seen.model,
                one,
                seen.size,
                self.batch,
                mean=seen.mean,
                std=seen.std,
                progress=self._progress,
            )
            for one in (train, test)
        )
        examples(x, y, test_x, test_y)  # what is wrong with features is told before any probe
        return x, y, test_x, test_y, tuple(train.classes)

    def _some(self, pictures: Pictures, most: int | None, name: str) -> Pictures:
        """At most so many of the pictures."""
        if most is None or check_count(name, most) >= len(pictures):
            return pictures
        return Part(pictures, subsample(len(pictures), most, self.seed))

    def _fine_tuned(self, epochs: float) -> Score:
        """Accuracy of the model when all of it has learned from labels."""
        from isojepa.training.fine_tuning import fine_tune, plain_crops

        if self._seen is None or not isinstance(self._seen[0].model, nn.Module):
            raise ValueError("fine_tune needs a model: a record, a backbone or a module, got features alone")
        check_number("fine_tune", epochs, "be a positive number of epochs", lambda value: value > 0)
        seen, train, test = self._seen
        batch = min(128, len(train))
        views = plain_crops(seen.size, seen.mean, seen.std)
        steps = max(1, round(epochs * len(train) / batch))
        found = fine_tune(seen.model, train, test, views=views, seed=self.seed, steps=steps, batch=batch)
        return found.score

    def _of_file(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]]:
        """Features and labels of a file; where it has none to score, a fifth of each class is put aside."""
        if self.data is not None:
            raise ValueError("a file of features brings its own labels: leave --data out")
        x, y = (np.asarray(read_array(f"{self.source}::{name}")) for name in ("features", "labels"))
        try:
            test_x, test_y = (
                np.asarray(read_array(f"{self.source}::{name}")) for name in ("test_features", "test_labels")
            )
        except ValueError:
            aside = held_out(y, _ASIDE, generator(self.seed, "aside"))
            if not aside.any():
                raise
            x, y, test_x, test_y = x[~aside], y[~aside], x[aside], y[aside]
        data = examples(x, y, test_x, test_y)
        return data.x, data.y, data.test_x, data.test_y, tuple(map(str, range(data.classes)))


def _saved(path: Path, *data: Any) -> Score:
    """The linear probe's score; the probe itself goes to a file."""
    from isojepa.align.heads import LinearHead

    *parts, classes = data
    given = examples(*parts)
    penalty, classifier = choose_logistic(given)
    LinearHead.of(classifier, classes[: given.classes] if len(classes) >= given.classes else ()).save(path)
    answers = classifier(given.test_x)
    return score_of("linear", answers, given.test_y, given.classes, chosen={"penalty": penalty})


def _print(result: dict[str, Any], scores: list[Score], rows: tuple[FewShot, ...]) -> None:
    out.print(
        f"\n{result['examples']} examples of {len(result['classes'])} classes, {result['dim']} features, "
        f"scored on {result['test_examples']}. RankMe {result['rankme']:.1f}."
    )
    by_chance = f"{result['chance']:.2f} by chance"
    columns = (
        Column("probe"),
        Column("accuracy", right=True),
        Column("95 % interval"),
        Column(),
        Column(prose=True),
    )
    print_table(
        columns,
        [
            (
                score.probe,
                f"{score.accuracy:.4f}",
                _interval(score.interval),
                by_chance,
                ", ".join(f"{name} {value:.3g}" for name, value in score.chosen.items()),
            )
            for score in scores
        ],
        indent=1,
    )
    if rows:
        print_table(
            (Column("shots", right=True), *columns[1:]),
            [
                (
                    "all" if row.shots is None else str(row.shots),
                    "" if row.reason else f"{row.accuracy:.4f}",
                    "" if row.reason else _interval(row.interval),
                    by_chance,
                    row.reason or f"mean of {len(row.accuracies)} draws",
                )
                for row in rows
            ],
            title="Linear probe from few examples of each class",
            indent=1,
        )
    out.print(
        f"Intervals are those of {result['test_examples']} test examples; another split into training and "
        "test examples moves the accuracy besides.",
        style="dim",
        markup=False,
    )
    worst = _worst(scores, result["classes"])
    if worst:
        out.print(worst, style="dim", markup=False)


def _worst(scores: list[Score], classes: list[str]) -> str:
    """The class that the first probe has most trouble with."""
    known = [
        (value, name)
        for score in scores[:1]
        for value, name in zip(score.per_class, classes, strict=False)
        if value == value
    ]
    if not known:
        return ""
    value, name = min(known)
    return f"Hardest class of the {scores[0].probe} probe: {name}, {value:.3f}."


def _interval(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.4f} to {interval[1]:.4f}"
