"""Commands `probe` (frozen features), `select` (which run to keep) and `export` (model files)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro
from torch import nn

from isojepa.cli.printing import Column, out, print_json, print_notes, print_table, progress_bar
from isojepa.cli.sources import FILES, NORMALS, ImageModel, load_image_model, probe_sets
from isojepa.data.array_files import read_array
from isojepa.data.images.image_sets import ImageSet, ImageSubset
from isojepa.probes.features import features_of
from isojepa.probes.few_shot import FewShot, common_labels, few_shot
from isojepa.probes.linear import (
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
from isojepa.probes.online import subsample
from isojepa.probes.rank import rankme
from isojepa.seeds import generator
from isojepa.terminal import shell_quote
from isojepa.validation import check_count, check_number, choose

if TYPE_CHECKING:
    from isojepa.selection import SelectedRun, Selection


_HELD_OUT_FRACTION = 0.2  # of each class, where there are no test pictures


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

    a record:  isojepa probe runs/mine --data images/

    a backbone of timm:  isojepa probe resnet50 --weights model.safetensors --data images/; without
    --weights its random ones, which is what others should be compared with

    an encoder:  file.py:function, from images (batch, channels, size, size) to features

    features:  npz, safetensors, pt or HDF5 with arrays features and labels, and test_features and test_labels

    DATA is a folder with one folder for each class, npz, IDX, Parquet or tar shards, as pretraining takes
    them. Its split "test" is scored, or what --test names; where there is neither, a fifth of each class.

    isojepa probe mobilenetv2_100 --weights wts.pt --data photos/ --size 224 --normalize imagenet

    isojepa probe runs/mine --data fashion-mnist/ --shots 1 10 100 --json

    isojepa probe runs/mine --data flowers/ --fine-tune 10

    isojepa probe runs/mine --data flowers/ --save-probe head.safetensors
    """

    source: tyro.conf.Positional[Path]
    """Run directory, timm model name, file.py:function, or file of features."""
    data: Path | None = None
    """Images with labels that probes are fitted to."""
    test: Path | None = None
    """Images with labels that they are scored on."""
    weights: Path | None = None
    """For a backbone of timm: safetensors, or what torch.save wrote with tensors by name."""
    size: int | None = None
    """Side of the square that images are resized and cut to; by default that of a record's global views,
    else the images' shorter side."""
    normalize: str = "auto"
    """Mean and standard deviation for normalization: data, imagenet, or auto: those the run was trained with,
    else the data's."""
    channels: int | None = None
    """1 or 3, to which images are turned; by default 3 with --weights, those of a record, else as they
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
    """Training images at most, drawn at random; by default all."""
    test_samples: int | None = None
    """The same of test images."""
    batch: int = 256
    """Images that the model sees at once."""
    save_probe: Path | None = None
    """Also write the linear probe to this safetensors file, which `isojepa transfer` carries to another
    encoder."""
    seed: int = 0
    """Draws random weights, what is put aside, and examples."""
    trust: tuple[str, ...] = ()
    """Python modules that may be imported to make a record's model: those that define your own classes."""
    json: bool = False
    """Print the numbers as JSON."""

    def run(self) -> int:
        self._seen: tuple[ImageModel, ImageSet, ImageSet] | None = None  # nothing of a file of features
        for name in self.probes:
            choose("probe", name, _PROBES)  # reject an unknown probe before the work
        if self.save_probe is not None and "linear" not in self.probes:
            raise ValueError(f"save_probe writes the linear probe, got probes {', '.join(self.probes)}")
        choose("normalize", self.normalize, NORMALS)
        with print_notes(), progress_bar("probing") as self._progress:
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
            _print_scores(result, scores, rows)
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
        image_model = load_image_model(
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
        train, test = image_model.to_channels(train), image_model.to_channels(test)
        self._seen = image_model, train, test
        x, test_x = (
            features_of(
                image_model.model,
                one,
                image_model.size,
                self.batch,
                mean=image_model.mean,
                std=image_model.std,
                progress=self._progress,
            )
            for one in (train, test)
        )
        examples(x, y, test_x, test_y)  # reject invalid features before any probe
        return x, y, test_x, test_y, tuple(train.classes)

    def _some(self, pictures: ImageSet, most: int | None, name: str) -> ImageSet:
        """At most so many of the images."""
        if most is None or check_count(name, most) >= len(pictures):
            return pictures
        return ImageSubset(pictures, subsample(len(pictures), most, self.seed))

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
        tuned = fine_tune(seen.model, train, test, views=views, seed=self.seed, steps=steps, batch=batch)
        return tuned.score

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
            aside = held_out(y, _HELD_OUT_FRACTION, generator(self.seed, "aside"))
            if not aside.any():
                raise
            x, y, test_x, test_y = x[~aside], y[~aside], x[aside], y[aside]
        data = examples(x, y, test_x, test_y)
        return data.x, data.y, data.test_x, data.test_y, tuple(map(str, range(data.classes)))


def _saved(path: Path, *data: Any) -> Score:
    """The linear probe's score; the probe itself goes to a file."""
    from isojepa.alignment.probe_transfer import LinearHead

    *parts, classes = data
    labelled = examples(*parts)
    penalty, classifier = choose_logistic(labelled)
    LinearHead.of(classifier, classes[: labelled.classes] if len(classes) >= labelled.classes else ()).save(
        path
    )
    answers = classifier(labelled.test_x)
    return score_of("linear", answers, labelled.test_y, labelled.classes, chosen={"penalty": penalty})


def _print_scores(result: dict[str, Any], scores: list[Score], rows: tuple[FewShot, ...]) -> None:
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
    scored = [
        (value, name)
        for score in scores[:1]
        for value, name in zip(score.per_class, classes, strict=False)
        if value == value
    ]
    if not scored:
        return ""
    value, name = min(scored)
    return f"Hardest class of the {scores[0].probe} probe: {name}, {value:.3f}."


def _interval(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.4f} to {interval[1]:.4f}"


_TITLES = {
    "scaled": "loss/λ^α",
    "loss": "loss",
    "rankme": "RankMe",
    "lidar": "LiDAR",
    "gaussianity": "Gaussianity",
}


@dataclass
class Select:
    """Choose the run to keep from training losses, without labels.

    Runs are compared by loss / lambda^alpha, as published for LeJEPA; RankMe, LiDAR and a test of Gaussianity
    stand beside it. No label is looked at. Runs that collapsed, diverged or are not finished are left out,
    and runs of different worlds, objectives or batches are not compared. The exit code is 0 if one run is
    named, 1 if none or more than one had to be.

    isojepa select runs

    isojepa select runs/a runs/b --by loss

    isojepa select runs --json --no-models    # from the metrics alone
    """

    sweep: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of records, or records."""
    by: str = "scaled"
    """What decides: scaled (loss / lambda^alpha), loss, rankme, lidar or gaussianity."""
    alpha: float = 0.4
    """Exponent of lambda; fix it before looking at results."""
    models: bool = True
    """Open the trained models for RankMe, LiDAR and Gaussianity."""
    against: str = "r2"
    """A score in the metrics with which criteria are compared, where it is there; it decides nothing."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        from isojepa.selection import select

        if not self.sweep:
            raise ValueError("sweep must be a folder of records at least, got none")
        with progress_bar("measuring") as progress:
            selection = select(
                self.sweep,
                by=self.by,
                alpha=self.alpha,
                models=self.models,
                against=self.against,
                progress=progress,
            )
        if self.json:
            print_json(selection.to_dict())
        else:
            _print_selection(selection)
        return 0 if len(selection.choices) == 1 else 1


def _print_selection(found: "Selection") -> None:
    for choice in found.choices:
        _print_choice(choice)
    if found.apart:
        out.print("These groups cannot be compared by their losses: they differ in", style="bold yellow")
        for told in found.apart:
            out.print(f"   {told}")
    if not found.choices:
        out.print("No run can be chosen.", style="bold red")
        if all(one.reason.startswith("collapsed") for one in found.left_out):
            out.print(
                "All runs collapsed: train again with a larger --objective.weight, for longer, or both."
            )
    for one in found.left_out:
        out.print(f"Left out {one.path}: {one.reason}", style="dim")


def _print_choice(choice: "SelectedRun") -> None:
    measures = [name for name, values in choice.values.items() if any(map(math.isfinite, values))]
    columns = [Column("run"), Column("weight", right=True), Column("seed", right=True)]
    columns += [Column(_TITLES[name], right=True) for name in measures]
    columns += [Column("p", right=True)] * ("gaussianity" in measures)
    columns += [Column(choice.against, right=True)] * bool(choice.against)
    rows = []
    for place, one in enumerate(choice.candidates):
        cells = [one.path.name, _number(one.weight), "" if one.seed is None else str(one.seed)]
        cells += [_number(choice.values[name][place]) for name in measures]
        cells += [_number(one.measures.get("gaussianity_p"))] * ("gaussianity" in measures)
        cells += [_number(one.metrics.get(choice.against))] * bool(choice.against)
        rows.append(cells)
    print_table(columns, rows)
    out.print(f"\nKeep {shell_quote(choice.run.path)}", style="bold green" if choice.sure else "bold yellow")
    out.print(f"{_sureness(choice)} Chosen by {_TITLES[choice.by]}.")
    for name, other in choice.others.items():
        same = "the same setting" if other.setting == choice.run.setting else other.path.name
        ranks = f", rank correlation {choice.agreement[name]:+.2f}" if name in choice.agreement else ""
        out.print(f"   {_TITLES[name]} would keep {same}{ranks}", style="dim")
    if choice.truth:
        correlations = ", ".join(f"{_TITLES[name]} {value:+.2f}" for name, value in choice.truth.items())
        out.print(f"Looking back, rank correlation with {choice.against}: {correlations}")
    for note in choice.notes:
        out.print(f"note: {note}")
    out.print()


def _sureness(choice: "SelectedRun") -> str:
    if len({one.setting for one in choice.candidates}) == 1:
        return "There is one setting only: nothing was compared."
    if choice.noise == "none":
        return "How sure: unknown; too few evaluations and no repeated seeds."
    margin = f"best with probability {choice.probability:.2f}, {choice.margin:.1f} standard errors ahead"
    if choice.noise == "seeds":
        return f"{'Sure' if choice.sure else 'Not sure'}: {margin}, by the spread between seeds."
    return (
        f"Not sure: {margin}, but by the noise of its last windows alone; repeat settings with other seeds "
        "to learn how runs differ by luck."
    )


def _number(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.4g}"


@dataclass
class Export:
    """Export a trained model as timm, safetensors or ONNX.

    timm:  weights that timm.create_model(NAME, checkpoint_path=FILE, ...) loads; README.md has the line

    safetensors:  weights with all that makes the model again; ij.load(FILE) does

    onnx:  a graph for any batch size, which takes pixels in [0, 1] and normalizes them itself

    isojepa export runs/mine --to onnx

    isojepa export runs/mine --to timm --out backbone --data photos/

    isojepa export runs/mine --to safetensors --what embedding

    The file is read back and compared with the trained model, and not left there if it gives something else.
    The card says what the record says, of data, settings and probes, and how Gaussian the embeddings are. A
    run that collapsed or is not finished is exported too; the card says so.
    """

    record: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="RECORD")]]
    """Run directory."""
    to: str
    """timm, safetensors or onnx."""
    out: Path | None = None
    """Folder to write; export-FORMAT in the record by default."""
    what: str = "features"
    """features, or embedding, which the loss saw behind the projector."""
    data: Path | None = None
    """Where the record's images are, if not where they were."""
    normalize: bool = True
    """Include the normalization in the ONNX graph, whose input is then pixels in [0, 1]."""
    measure: bool = True
    """Test embeddings of the data for Gaussianity, where they can be opened."""
    model: str | None = None
    """Which model, where the run trained several; the first by default."""
    shape: tuple[int, ...] = ()
    """Shape of one observation, if the run does not record it, e.g. 3 224 224."""
    trust: tuple[str, ...] = ()
    """Python modules that may be imported to make a record's model: those that define your own classes."""
    again: bool = False
    """Replace an earlier export."""
    json: bool = False
    """Print what the card is made from as JSON."""

    def run(self) -> int:
        from isojepa.exports import export

        with print_notes():
            exported = export(
                self.record,
                self.to,
                self.out,
                what=self.what,
                data=self.data,
                normalize=self.normalize,
                measure=self.measure,
                name=self.model,
                shape=self.shape or None,
                trust=self.trust,
                again=self.again,
            )
        if self.json:
            print_json({"folder": str(exported.folder), **exported.facts})
            return 0
        if exported.status != "done":
            out.print(f"warning: the run is {exported.status}, which the card says too.", style="bold yellow")
        check = f"read back with {exported.reader}, largest difference {exported.difference:.2g}"
        out.print(f"Wrote {exported.file}: {check if exported.reader else 'not read back'}.")
        out.print(f"Its card is {exported.folder / 'README.md'}; the licence is yours to fill in.\n")
        out.print(exported.facts["loading"])
        return 0
