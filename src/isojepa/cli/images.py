"""Commands of images: `pretrain`, `views` (a sheet of augmentations), `look` (a page on a model)."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
import tyro
from torch import nn

from isojepa import runs
from isojepa.cli.printing import out, print_json, print_notes, progress_bar
from isojepa.cli.sources import (
    MIN_PER_CLASS,
    NORMALS,
    check_exists,
    normals,
    open_model,
    probe_sets,
    trained_on,
)
from isojepa.cli.train import loggers_of, make_run, print_run
from isojepa.config import Config, config_from
from isojepa.data.images.image_sets import ImageSet, ImageSubset
from isojepa.data.images.source import Images, ImagesSpec, open_clip, open_images, splits
from isojepa.data.images.views import AugmentationOverrides, shorter_side
from isojepa.data.source import Streams
from isojepa.encoders.backbones import BackboneSpec
from isojepa.encoders.model import as_model, evaluating
from isojepa.importing import program
from isojepa.io import make_folder
from isojepa.launch_env import rank_info
from isojepa.objectives.gaussianity.statistic import AxisWarning
from isojepa.objectives.lejepa import ImageLeJEPASpec
from isojepa.objectives.objective import embed_views
from isojepa.probes import Evaluation, LinearProbe, Neighbors, Rank, Spread
from isojepa.registry import flatten, replace_settings
from isojepa.seeds import generator
from isojepa.terminal import shell_quote
from isojepa.training import Recipe, Run, RunDirectory, fit
from isojepa.validation import check_count, choose

RECIPE = Recipe(
    steps=3000,
    batch=256,
    batch_start=None,
    learning_rate=2e-3,
    weight_decay=0.05,
    warmup=0.05,
    beta2=0.999,
    sync_norms=True,
    eval_every=500,
    eval_samples=2000,
    checkpoint_seconds=60.0,
)
COMMON = {  # settings that help shows; --help-all shows all
    *(
        "config",
        "backbone",
        "views",
        "epochs",
        "devices",
        "out",
        "seed",
        "objective.name",
        "objective.weight",
    ),
    *("training.batch", "training.learning_rate", "training.precision"),
}
_TIMING_BATCHES = (2, 8, 64)  # pictures that the duration of a run is measured on
_LONG_RUN_MINUTES = 5  # from which shorter settings are suggested
_DRY_RUN_IMAGES = 4  # pictures of a dry run, for each rank


def start() -> Config:
    """Default settings of `pretrain`."""
    return Config(ImagesSpec(), BackboneSpec(), ImageLeJEPASpec(), RECIPE)


@dataclass
class Pretrain:
    """Pretrain a backbone on images, without labels.

    DATA is a folder of images, with a folder for each class or without, or a file of them: npy, npz, IDX,
    Parquet, tar shards. Look at `isojepa views DATA` first. With labels, probes score the features during
    training; the objective does not see the labels.

    isojepa pretrain photos/ --backbone resnet50 --epochs 100

    isojepa pretrain photos/ --backbone vit_small_patch16_224 --views released --training.precision bfloat16

    isojepa pretrain photos/ --config recipes/imagenette-vit-s.yaml --devices 8

    isojepa pretrain fashion-mnist/ --objective.name simclr

    The same command resumes a run that was stopped. --dry-run takes one step on a few images and prints what
    would be done. `isojepa export RECORD --to timm`, safetensors or onnx exports the result. --help shows the
    settings that are changed most, --help-all all of them.
    """

    start = staticmethod(start)
    common: ClassVar = COMMON
    data: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DATA")]]
    """Folder or file of images."""
    settings: Config = field(default_factory=start)
    """What to train; the flags are those of the components that are chosen."""
    config: Path | None = None
    """YAML or JSON file with settings, e.g. one of recipes/."""
    backbone: str | None = None
    """convnet, gridnet, resnet18-small or a model of timm by its name; the same as --encoder.backbone."""
    views: str | None = None
    """Augmentation preset; the same as --world.views."""
    epochs: float | None = None
    """Epochs; overrides --training.steps."""
    test: Path | None = None
    """Images with labels that probes are scored on; by default the data's own split test or val, else a
    fifth of each class."""
    probe: bool = True
    """Probe the features while it trains, where there are labels."""
    devices: int | None = None
    """Number of ranks that share every batch; the same as --training.devices."""
    out: Path = Path("runs")
    """Folder of run directories."""
    record: Path | None = None
    """The run directory, in place of a name made from the settings."""
    tensorboard: bool = False
    """Also write TensorBoard events into the run directory."""
    wandb: str | None = None
    """Also log to this Weights & Biases project."""
    trust: tuple[str, ...] = ()
    """Python modules that may be imported to make a teacher: those that define your own classes."""
    dry_run: bool = False
    """Build everything, take one step with a few images, print the plan, and write nothing."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        config = self._config()
        encoder, source, objective = built = runs.build_all(config, self.trust)
        if not isinstance(source, Images):
            raise ValueError(f"pretrain needs a world of images, got {config.world.name!r}")
        config, pictures = self._paced(config, source.pictures), source.pictures
        if self.dry_run:
            few = replace(
                config.training, steps=1, batch=_DRY_RUN_IMAGES * config.training.devices, accumulate=1
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AxisWarning)  # a few pictures of many dimensions
                fit(encoder, source, objective, recipe=few, seed=config.seed, evaluations=(), progress=False)
            _print_plan(config, source, "Would train")
            return 0
        path = self.record or runs.record_path(config, self.out, source)
        evaluations = self._evaluations(source, pictures)
        if not rank_info().first:  # ranks beside the first have nothing to say
            return 0 if make_run(built, config, path, (), evaluations).status == "done" else 1
        if not self.json:
            _print_plan(config, source, "Already trained" if RunDirectory(path).result else "Training")
            if RunDirectory(path).result is None and (
                duration := _duration(encoder, source, config.training)
            ):
                out.print(duration)
            out.print(f"Record: {path}")
        loggers = loggers_of(config, source, path, self.tensorboard, self.wandb)
        run = make_run(built, config, path, loggers, evaluations)
        if self.json:
            numbers = run.metrics[-1] if run.metrics else {}
            print_json({"record": str(path), "status": run.status, "reason": run.reason, "metrics": numbers})
            return 0 if run.status == "done" else 1
        code = print_run(run)
        probes = [one for one in evaluations if isinstance(one, LinearProbe)]
        out.print(_scores(run, probes))
        isojepa = program("isojepa")
        probe = f"{isojepa} probe {shell_quote(path)} --data {shell_quote(self.data)}"
        if self.test is not None:
            probe += f" --test {shell_quote(self.test)}"
        for one in probes:
            probe += f" --samples {one.samples}" * (len(one.train) > one.samples)
            probe += f" --test-samples {one.test_samples}" * (len(one.test) > one.test_samples)
        out.print(f"Next: {isojepa} look {shell_quote(path)}   or   {probe}")
        return code

    def _config(self) -> Config:
        """The settings with what short flags say of them."""
        config = replace(self.settings, world=replace_settings(self.settings.world, data=str(self.data)))
        if self.backbone is not None:
            config = replace(config, encoder=replace_settings(config.encoder, backbone=self.backbone))
        if self.views is not None:
            config = replace(config, world=replace_settings(config.world, views=self.views))
        if self.devices is not None:
            config = replace(config, training=replace(config.training, devices=self.devices))
        return config

    def _paced(self, config: Config, pictures: ImageSet) -> Config:
        """The config with --epochs converted to steps."""
        if self.epochs is None:
            return config
        if not 0 < self.epochs < float("inf"):
            raise ValueError(f"epochs must be positive, got {self.epochs}")
        steps = max(1, round(self.epochs * len(pictures) / config.training.batch))
        return replace(config, training=replace(config.training, steps=steps))

    def _evaluations(self, source: Images, pictures: ImageSet) -> Sequence[Evaluation]:
        """The spread of the embedding, its rank and, where there are labels, probes of the features."""
        samples = min(self.settings.training.eval_samples, max(8, len(pictures)))
        evaluations: list[Evaluation] = [Spread(source, samples), Rank(source, samples=min(1000, samples))]
        if not self.probe or pictures.labels is None:
            return evaluations
        if (
            self.test is None
            and not splits(self.data)
            and int(pictures.labels.bincount().max()) < MIN_PER_CLASS
        ):
            return evaluations
        train, test = probe_sets(self.data, pictures, test=self.test)
        if test.labels is None or len(train) < 2 * Neighbors.k:
            return evaluations
        views = source.normalized_views
        size, mean, std = views.global_size, views.mean, views.std
        return [
            *evaluations,
            Neighbors(train, test, size=size, mean=mean, std=std),
            LinearProbe(train, test, size=size, mean=mean, std=std),
        ]


def _print_plan(config: Config, source: Images, verb: str) -> None:
    """A run in a line, before it begins."""
    recipe, views, pictures = config.training, source.views, source.pictures
    labels = f"{len(pictures.classes)} classes" if pictures.labels is not None else "no labels"
    passes = recipe.steps * recipe.batch / len(pictures)
    backbone = flatten(config.encoder).get("backbone", config.encoder.name)
    skipped = f", {pictures.skipped} skipped" if pictures.skipped else ""
    out.print(
        f"{verb} {backbone} with {config.objective.name} on {len(pictures):,} pictures "
        f"({labels}{skipped}); views {', '.join(map(str, views.sizes))} pixels, the first "
        f"{views.global_views} global; {recipe.steps:,} steps of {recipe.batch}, {passes:.3g} epochs; "
        f"seed {config.seed}"
    )


def _duration(encoder: nn.Module, source: Images, recipe: Recipe) -> str:
    """Minutes that a run takes, measured on a few images, and shorter settings for small sets.

    Empty for a short run, and where something else than this processor may train.
    """
    if recipe.devices > 1 or torch.accelerator.is_available():
        return ""
    model = as_model(encoder)
    with evaluating(encoder):  # a pass in training mode would move the statistics of batch norms
        for count in _TIMING_BATCHES:  # the first compiles
            began = time.perf_counter()
            embed_views(model, source.sample(count, generator(0, "duration")).views).sum().backward()
            seconds = time.perf_counter() - began
            minutes = seconds / count / 60
            if count > _TIMING_BATCHES[0] and seconds > 1:
                break
    encoder.zero_grad()
    whole, total = minutes * recipe.steps * recipe.batch, len(source.pictures)
    if whole < _LONG_RUN_MINUTES:
        return ""
    text = f"This takes about {whole:.0f} minutes."
    few, steps = max(16, total // 4 // 16 * 16), 1000
    if few < recipe.batch:
        shorter = max(1, round(minutes * few * steps))
        text += (
            f" For {total} pictures, --training.batch {few} --training.steps {steps} take about {shorter}; "
            "a probe may then still be near that of random weights."
        )
    return text


def _scores(run: Run, probes: Sequence[LinearProbe]) -> str:
    """What was last measured, in a line; accuracies with their intervals and what chance gives."""
    last = run.metrics[-1] if run.metrics else {}
    named = {"probe": "linear probe", "knn": "20-NN", "rankme": "RankMe", "loss": "loss"}
    numbers = {name: f"{words} {last[name]:.4g}" for name, words in named.items() if name in last}
    for probe in probes:
        for name in numbers.keys() & {"probe", "knn"}:
            numbers[name] += (
                f" ({last[name + '_low']:.3f} to {last[name + '_high']:.3f}, {probe.chance:.2f} by chance)"
            )
    return ", ".join(numbers.values()) or "nothing was measured"


@dataclass(frozen=True, kw_only=True)
class ShowViews(AugmentationOverrides):
    """Show the augmented views that training would see.

    DATA is a folder of images, with a folder for each class or without, or a file of them: npy, npz, IDX,
    Parquet, tar shards. The sheet has a row for each image: the image with its boxes, dashed for global
    views, then each view as the encoder gets it. They are the ones of that seed and epoch, to the pixel.

    isojepa views photos/

    isojepa views photos/ --views paper --rows 12 --out views.png

    isojepa views train-images-idx3-ubyte.gz --views 28 --flip 0    # digits are not mirrored

    isojepa views photos/ --local-scale 0.1 0.4 --blur 0 --epoch 3
    """

    data: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="DATA")]]
    """Folder or file of images."""
    split: str | None = None
    """Part of the data, where it has parts, e.g. train."""
    out: Path = Path("views.png")
    """The image to write: png, pdf or svg."""
    rows: int = 6
    """Images to show, drawn at random."""
    seed: int = 0
    """Of the run whose views are shown; it also draws the images."""
    epoch: int = 0
    """Of the run whose views are shown."""

    def run(self) -> int:
        from isojepa.data.images.source import open_images
        from isojepa.report.sheet import draw_sheet

        check_count("rows", self.rows, most=100)
        check_count("epoch", self.epoch, least=0)
        pictures = open_images(self.data, split=self.split)
        source = Images(pictures, self.settings(pictures))
        ids = torch.randperm(len(pictures), generator=generator(self.seed, "sheet"))[: self.rows]
        batch = source.defer(ids, Streams(self.seed, torch.full_like(ids, self.epoch), ids))
        title = f"{Path(self.data).name}   views {self.views}   seed {self.seed}, epoch {self.epoch}"
        figure = draw_sheet(batch, title, tuple(pictures.classes))
        make_folder(self.out.parent)
        figure.savefig(self.out)
        settings = source.views
        sizes = f"{settings.global_views} global of {settings.global_size} pixels"
        if settings.local_views:
            sizes += f" and {settings.local_views} local of {settings.local_size}"
        out.print(f"Wrote {self.out}: {len(ids)} of {len(pictures)} pictures, {sizes}.", markup=False)
        if pictures.skipped:
            out.print(f"{pictures.skipped} files could not be read and were left out.")
        return 0


@dataclass
class LookAtModel:
    """Write a page that shows what an image model sees.

    SOURCE is one of

    a record:  isojepa look runs/mine

    a backbone of timm:  isojepa look vit_small_patch16_224 --weights model.safetensors --data photos/;
    without --weights its random ones

    an encoder:  file.py:function, from images (batch, channels, size, size) to features

    DATA is a folder of images or a file of them, as pretraining takes them; of a record by default its own.
    Where it has a split "test", that is shown. The page is one file that needs no network.

    isojepa look runs/mine --data other-photos/ --pictures 2000

    isojepa look runs/mine --clip frames/ --out clip.html    # frames in order, an npy array or a GIF
    """

    source: tyro.conf.Positional[Path]
    """Run directory, timm model name, or file.py:function."""
    data: Path | None = None
    """Images, with labels or without; of a record by default what it was trained on."""
    out: Path | None = None
    """The page; look.html in the record by default, else here."""
    clip: Path | None = None
    """Frames in their order for attention: a folder, an npy array or an animated GIF."""
    split: str | None = None
    """Part of the data; by default test where there is one."""
    pictures: int = 600
    """Images of the map, drawn at random; at most 4000, which takes minutes."""
    shown: int = 12
    """Images that are looked at one by one, each class in turn."""
    neighbors: int = 8
    """Nearest others of each of those."""
    frames: int = 16
    """Frames of the clip, evenly over its length."""
    share: float = 0.6
    """Share of the attention that masks hold."""
    weights: Path | None = None
    """For a backbone of timm: safetensors, or what torch.save wrote with tensors by name."""
    size: int | None = None
    """Side of the square that images are resized and cut to; by default that of a record's global views,
    else the images' shorter side."""
    map_size: int | None = None
    """The same for maps and attention; by default a multiple of it that gives 14 positions across or more,
    four times at most, where the backbone takes it."""
    normalize: str = "auto"
    """Mean and standard deviation for normalization: data, imagenet, or auto: those the run was trained with,
    else the data's."""
    channels: int | None = None
    """1 or 3, to which images are turned; by default 3 with --weights, those of a record, else as they
    are."""
    batch: int = 256
    """Images that the model sees at once."""
    seed: int = 0
    """Draws images, and random weights."""
    trust: tuple[str, ...] = ()
    """Python modules that may be imported to make a record's model: those that define your own classes."""
    json: bool = False
    """Print numbers of what is shown as JSON."""

    def run(self) -> int:
        from isojepa.report.looking import MOST, look, write_look  # with Pillow: imported to draw only

        choose("normalize", self.normalize, NORMALS)
        check_count("pictures", self.pictures, most=MOST)
        check_exists(self.source)
        record = RunDirectory.open(self.source) if self.source.is_dir() else None
        made = {} if record is None else _settings(record.config)
        with print_notes(), progress_bar("looking") as progress:
            data, split = self._data(made)
            pictures = open_images(data, split=split)
            clip = None if self.clip is None else open_clip(self.clip, self.frames)
            size = self.size or made.get("global_size") or shorter_side(pictures)
            trained = trained_on(self.source)
            default_channels = pictures.channels if trained is None else trained.shape[0]
            channels = self.channels or (3 if self.weights is not None else default_channels)
            model = open_model(
                self.source,
                channels=channels,
                size=size,
                weights=self.weights,
                seed=self.seed,
                quiet=self.json,
                trust=self.trust,
            )
            mean, std = normals(self.normalize, ImageSubset(pictures, channels=channels), trained)
            content = look(
                model,
                pictures,
                clip=clip,
                count=self.pictures,
                shown=self.shown,
                neighbors=self.neighbors,
                size=size,
                map_size=self.map_size,
                share=self.share,
                channels=channels,
                mean=mean,
                std=std,
                batch=self.batch,
                seed=self.seed,
                progress=progress,
            )
        result = {} if record is None else record.result or {}
        path = self.out or (Path("look.html") if record is None else record.path / "look.html")
        make_folder(path.parent)
        written = write_look(
            path,
            content,
            model=str(made.get("backbone", self.source.name)),
            data=data.name + (f" ({split})" if split else ""),
            config=self._told() if record is None else record.config,
            metrics=record.metrics[-1] if record is not None and record.metrics else {},
            status=str(result.get("status", "")),
            reason=str(result.get("reason", "")),
        )
        numbers = {
            "page": str(path),
            "bytes": written,
            "pictures": len(content.names),
            "collapsed": content.collapsed,
            "same_class": None if content.agreement is None else content.agreement.share,
            "same_class_by_chance": None if content.agreement is None else content.agreement.chance,
            "maps": None if content.maps is None else list(content.maps.first.shape[1:]),
            "attention": None if content.attention is None else content.attention.covered.tolist(),
        }
        if self.json:
            print_json(numbers)
            return 0
        if content.collapsed:
            out.print(
                "All pictures have nearly the same features: this model has collapsed or was not trained."
            )
        out.print(f"Wrote {path}, {written / 1e6:.1f} MB: {len(content.names):,} pictures.", markup=False)
        for reason in filter(None, (content.no_maps, content.no_attention)):
            out.print(reason, markup=False)
        return 0

    def _data(self, made: dict[str, Any]) -> tuple[Path, str | None]:
        """Where the images are, and which split of them."""
        named = self.data or (Path(made["data"]) if made.get("data") else None)
        if named is None:
            raise ValueError("data must be given: pictures to look at, --data FOLDER")
        if self.split is not None:
            return named, self.split
        if "test" in splits(named):
            return named, "test"
        return named, made.get("split") if self.data is None else None

    def _told(self) -> dict[str, Any]:
        weights = "random" if self.weights is None else str(self.weights)
        return {"source": str(self.source), "weights": weights, "seed": self.seed}


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    """Settings of world and encoder of a run; empty for a run from Python."""
    if config.get("made_from") == "python":
        return {}
    config_object = config_from(config)
    world = flatten(config_object.world) if config_object.world.name == "images" else {}
    return {**world, **flatten(config_object.encoder)}
