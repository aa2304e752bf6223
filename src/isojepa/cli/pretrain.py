"""The command `pretrain`: LeJEPA, or a baseline, on pictures of the user's own."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar

import torch
import tyro
from torch import nn

from isojepa import runs
from isojepa.cli.models import MIN_PER_CLASS, probe_sets
from isojepa.cli.printing import out, print_json
from isojepa.cli.training import loggers_of, make_run, tell_run
from isojepa.config import Config
from isojepa.encoders.backbones import BackboneSpec
from isojepa.encoders.model import as_model, evaluating
from isojepa.evaluations import Evaluation, LinearProbe, Neighbors, Rank, Spread
from isojepa.importing import program
from isojepa.objectives.gaussianity.statistic import AxisWarning
from isojepa.objectives.lejepa import ImageLeJEPASpec
from isojepa.objectives.objective import embed_views
from isojepa.places import place
from isojepa.registry import changed, flatten
from isojepa.seeds import generator
from isojepa.terminal import typed
from isojepa.training import Recipe, Record, Run, fit
from isojepa.worlds.images.opening import splits
from isojepa.worlds.images.pictures import Pictures
from isojepa.worlds.images.source import Images, ImagesSpec

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
_TIMED = (2, 8, 64)  # pictures that the duration of a run is measured on
_PATIENCE = 5  # minutes of a run, from which on shorter settings are named
_TRIED = 4  # pictures of a dry run, for each rank


def start() -> Config:
    """The settings that `pretrain` begins with."""
    return Config(ImagesSpec(), BackboneSpec(), ImageLeJEPASpec(), RECIPE)


@dataclass
class Pretrain:
    """Pretrain a backbone on images, without labels.

    DATA is a folder of pictures, with a folder for each class or without, or a file of them: npy, npz, IDX,
    Parquet, tar shards. Look at `isojepa views DATA` first. Where there are labels, probes tell while it
    trains what the features are worth; the objective does not see them.

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
    """Folder or file of pictures."""
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
    """Pictures with labels that probes are scored on; by default the data's own split test or val, else a
    fifth of each class."""
    probe: bool = True
    """Probe the features while it trains, where there are labels."""
    devices: int | None = None
    """Number of ranks that share every batch; the same as --training.devices."""
    out: Path = Path("runs")
    """Folder of records."""
    record: Path | None = None
    """The record's own folder, in place of a name made from the settings."""
    tensorboard: bool = False
    """Also write TensorBoard events into the record's folder."""
    wandb: str | None = None
    """Also log to this Weights & Biases project."""
    trust: tuple[str, ...] = ()
    """Python modules that may be imported to make a teacher: those that define classes of your own."""
    dry_run: bool = False
    """Build everything, take one step with a few pictures, tell what would be done, and write nothing."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        config = self._config()
        encoder, source, objective = built = runs.build_all(config, self.trust)
        if not isinstance(source, Images):
            raise ValueError(f"pretrain needs a world of images, got {config.world.name!r}")
        config, pictures = self._paced(config, source.pictures), source.pictures
        if self.dry_run:
            few = replace(config.training, steps=1, batch=_TRIED * config.training.devices, accumulate=1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AxisWarning)  # a few pictures of many dimensions
                fit(encoder, source, objective, recipe=few, seed=config.seed, evaluations=(), progress=False)
            _tell(config, source, "Would train")
            return 0
        path = self.record or runs.record_path(config, self.out, source)
        evaluations = self._evaluations(source, pictures)
        if not place().first:  # ranks beside the first have nothing to say
            return 0 if make_run(built, config, path, (), evaluations).status == "done" else 1
        if not self.json:
            _tell(config, source, "Already trained" if Record(path).result else "Training")
            if Record(path).result is None and (duration := _duration(encoder, source, config.training)):
                out.print(duration)
            out.print(f"Record: {path}")
        loggers = loggers_of(config, source, path, self.tensorboard, self.wandb)
        run = make_run(built, config, path, loggers, evaluations)
        if self.json:
            numbers = run.metrics[-1] if run.metrics else {}
            print_json({"record": str(path), "status": run.status, "reason": run.reason, "metrics": numbers})
            return 0 if run.status == "done" else 1
        code = tell_run(run)
        probes = [one for one in evaluations if isinstance(one, LinearProbe)]
        out.print(_scores(run, probes))
        isojepa = program("isojepa")
        probe = f"{isojepa} probe {typed(path)} --data {typed(self.data)}"
        if self.test is not None:
            probe += f" --test {typed(self.test)}"
        for one in probes:
            probe += f" --samples {one.samples}" * (len(one.train) > one.samples)
            probe += f" --test-samples {one.test_samples}" * (len(one.test) > one.test_samples)
        out.print(f"Next: {isojepa} look {typed(path)}   or   {probe}")
        return code

    def _config(self) -> Config:
        """The settings with what short flags say of them."""
        config = replace(self.settings, world=changed(self.settings.world, data=str(self.data)))
        if self.backbone is not None:
            config = replace(config, encoder=changed(config.encoder, backbone=self.backbone))
        if self.views is not None:
            config = replace(config, world=changed(config.world, views=self.views))
        if self.devices is not None:
            config = replace(config, training=replace(config.training, devices=self.devices))
        return config

    def _paced(self, config: Config, pictures: Pictures) -> Config:
        """The same with the steps that the epochs are, where they were asked for."""
        if self.epochs is None:
            return config
        if not 0 < self.epochs < float("inf"):
            raise ValueError(f"epochs must be positive, got {self.epochs}")
        steps = max(1, round(self.epochs * len(pictures) / config.training.batch))
        return replace(config, training=replace(config.training, steps=steps))

    def _evaluations(self, source: Images, pictures: Pictures) -> Sequence[Evaluation]:
        """The spread of the embedding, its rank and, where there are labels, probes of the features."""
        samples = min(self.settings.training.eval_samples, max(8, len(pictures)))
        found: list[Evaluation] = [Spread(source, samples), Rank(source, samples=min(1000, samples))]
        if not self.probe or pictures.labels is None:
            return found
        if (
            self.test is None
            and not splits(self.data)
            and int(pictures.labels.bincount().max()) < MIN_PER_CLASS
        ):
            return found
        train, test = probe_sets(self.data, pictures, test=self.test)
        if test.labels is None or len(train) < 2 * Neighbors.k:
            return found
        views = source.normalised_views
        size, mean, std = views.global_size, views.mean, views.std
        return [
            *found,
            Neighbors(train, test, size=size, mean=mean, std=std),
            LinearProbe(train, test, size=size, mean=mean, std=std),
        ]


def _tell(config: Config, source: Images, verb: str) -> None:
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
    """Minutes that a run takes, measured on a few pictures, and shorter settings for small sets.

    Empty for a short run, and where something else than this processor may train.
    """
    if recipe.devices > 1 or torch.accelerator.is_available():
        return ""
    model = as_model(encoder)
    with evaluating(encoder):  # a pass in training mode would move the statistics of batch norms
        for count in _TIMED:  # the first compiles
            began = time.perf_counter()
            embed_views(model, source.sample(count, generator(0, "duration")).views).sum().backward()
            seconds = time.perf_counter() - began
            minutes = seconds / count / 60
            if count > _TIMED[0] and seconds > 1:
                break
    encoder.zero_grad()
    whole, total = minutes * recipe.steps * recipe.batch, len(source.pictures)
    if whole < _PATIENCE:
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
