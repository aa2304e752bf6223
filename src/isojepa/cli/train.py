"""Commands `demo`, `train`, `report` and `list`, and what all training commands share."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import tyro
from torch import nn

from isojepa import registry, runs, threads
from isojepa.certificates import Certificate, certify
from isojepa.cli.certify import print_certificate
from isojepa.cli.printing import Column, out, print_json, print_table
from isojepa.config import Config, config_from
from isojepa.data.source import Source
from isojepa.encoders.world_model import WorldModel
from isojepa.importing import program
from isojepa.io import to_jsonable
from isojepa.launch_env import rank_info
from isojepa.objectives.directions import SAMPLERS
from isojepa.objectives.gaussianity import MULTIVARIATE, UNIVARIATE
from isojepa.probes import Evaluation
from isojepa.registry import flatten
from isojepa.terminal import shell_quote
from isojepa.training import SCHEDULES, Run, RunDirectory, TensorBoard, WeightsAndBiases
from isojepa.training.loggers import Logger
from isojepa.training.loop import MIN_STEPS
from isojepa.validation import choose


def make_run(
    built: runs.Parts,
    config: Config,
    path: Path,
    loggers: Sequence[Logger] = (),
    evaluations: Sequence[Evaluation] | None = None,
) -> Run:
    """Train what was built, with as many threads as a step is worth; both views of a pair are rows of it."""
    recipe = config.training
    batch = fmean(recipe.batch_at(step) for step in range(0, recipe.steps, 1 + recipe.steps // 100))
    with threads.suited(built.encoder, 2 * batch):
        return runs.train(config, record=path, loggers=loggers, evaluations=evaluations, built=built)


def loggers_of(
    config: Config, source: Source, path: Path, tensorboard: bool, wandb: str | None
) -> list[Logger]:
    """Where metrics go besides the record."""
    loggers: list[Logger] = []
    if tensorboard:
        loggers.append(TensorBoard(path / "tensorboard"))
    if wandb:
        loggers.append(WeightsAndBiases(wandb, path, config.to_dict(source)))
    return loggers


def summary(config: Config) -> str:
    """A run in a line, before it begins."""
    recipe = config.training
    world = ", ".join(f"{key} {value}" for key, value in flatten(config.world).items() if value != "")
    size = max(recipe.devices, rank_info().size)
    ranks = "" if size == 1 else f" on {size} ranks"
    return (
        f"{config.encoder.name} with {config.objective.name} in a world of {world}; "
        f"{recipe.steps} steps of up to {recipe.batch} states{ranks}, seed {config.seed}"
    )


def print_run(run: Run) -> int:
    """Say how a run ended; the exit code is 1 when it did not end well."""
    steps = int(run.metrics[-1]["step"]) if run.metrics else 0
    if run.status == "done":
        score = "" if math.isnan(run.r2) else f": held-out R2 {run.r2:.4f}"
        out.print(f"Trained in {run.seconds:.1f} s{score}")
        if 0 < steps < MIN_STEPS:
            length = "1 step" if steps == 1 else f"{steps} steps"
            out.print(f"Trained for {length}: train longer or use a smaller batch.", style="bold yellow")
        return 0
    out.print(f"The run {run.status}: {run.reason}. Its record is kept.", style="bold red")
    return 1


@dataclass
class Demo:
    """Train on the spiral world and certify the result (half a minute).

    A two-dimensional Gaussian is wound into a spiral; LeJEPA sees only the spiral, in pairs of nearby
    points, and unwinds it. The certificate says how far the result is from a rotation of the truth.
    """

    out: Path = Path("runs/demo")
    """Folder of the record, the report and the image; an earlier demo there is replaced."""
    seed: int = 0
    """Draws initial weights and data."""

    def run(self) -> int:
        config = Config(seed=self.seed)
        self._clear(config)
        out.print("Latents: a 2D Gaussian. Observations: the same points wound into a spiral.")
        out.print(f"Training {summary(config)} ...")
        built = runs.build_all(config)
        run = make_run(built, config, self.out)
        code = print_run(run)
        page, record = self.out / "report.html", RunDirectory.open(self.out)
        certificate = _write_report(run.encoder, built.source, record, page, print_certificate)
        if certificate.recovery is not None and not math.isnan(run.r2):
            out.print(
                f"\nTwo R2: {run.r2:.4f} was measured while it trained, on {config.training.eval_samples:,} "
                f"samples, the certificate's {certificate.recovery.r2_h_to_z.estimate:.4f} on "
                f"{certificate.samples:,} fresh ones. Both are held out; they differ by the samples."
            )
        out.print(f"\nOpen {self.out / 'report.html'} in a browser. Next: {program('isojepa')} train --help")
        return code

    def _clear(self, config: Config) -> None:
        """Remove an earlier demo, and nothing else."""
        if not self.out.exists() or not any(self.out.iterdir()):
            return
        existing = RunDirectory.open(self.out).config  # raises if it is no run directory
        if {**existing, "seed": 0} != to_jsonable(Config().to_dict()):
            raise ValueError(f"{self.out} holds the record of another run: choose another --out")
        if existing["seed"] == self.seed and RunDirectory(self.out).result is None:
            return  # a stopped demo resumes
        with RunDirectory(self.out).locked():
            RunDirectory(self.out).replace(config.to_dict())


@dataclass
class Train:
    """Train an encoder in a synthetic world, or a world model.

    The run directory is named by a hash of the settings: the same command resumes a run that was
    stopped, even by SIGKILL, and ends with the same bits. Settings come from flags, or from a YAML or JSON
    file whose values the flags override.

    isojepa train --world.mixing parabola --seed 3

    isojepa train --world.dim 16 --world.mixing additive-coupling --encoder.name coupling

    isojepa train --data pendulum.h5 --objective latent-dynamics --encoder.context 2

    isojepa train --config run.yaml --training.steps 500

    isojepa train --devices 2
    """

    settings: Config = field(default_factory=Config)
    """What to train; the flags are those of the components that are chosen."""
    data: Path | None = None
    """Episodes with actions to train a world model on, as `isojepa collect` writes them: short for
    --world.name episodes --world.path FILE --encoder.name world-model."""
    config: Path | None = None
    """YAML or JSON file with settings; its keys are the flags' names: world, encoder, objective, ..."""
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
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        if self.devices is not None:
            training = replace(self.settings.training, devices=self.devices)
            self.settings = replace(self.settings, training=training)
        built = runs.build_all(self.settings, self.trust)  # raises errors first
        path = self.record or runs.record_path(self.settings, self.out, built.source)
        if not rank_info().first:  # ranks beside the first have nothing to say
            return 0 if make_run(built, self.settings, path).status == "done" else 1
        if not self.json:
            done = RunDirectory(path).result is not None
            verb = "Already trained:" if done else "Training"
            out.print(f"{verb} {summary(self.settings)}\nRecord: {path}")
        loggers = loggers_of(self.settings, built.source, path, self.tensorboard, self.wandb)
        run = make_run(built, self.settings, path, loggers)
        if self.json:
            print_json({"record": str(path), "status": run.status, "reason": run.reason, "r2": run.r2})
            return 0 if run.status == "done" else 1
        code = print_run(run)
        isojepa = program("isojepa")
        other = f"{isojepa} report {shell_quote(path)}"
        if isinstance(built.encoder, WorldModel):
            other = f"{isojepa} evaluate {shell_quote(path)} --env ENVIRONMENT --tolerance 0.2"
        out.print(f"Next: {isojepa} certify {shell_quote(path)}   or   {other}")
        return code


@dataclass
class Report:
    """Write the page of a finished run."""

    record: tyro.conf.Positional[Path]
    """Run directory."""
    out: Path | None = None
    """The page; report.html in the record by default. The image goes beside it, under the page's name."""

    def run(self) -> int:
        path = self.out or self.record / "report.html"
        _write_report(*runs.load_run(self.record), path, lambda certificate: out.print(certificate.verdict))
        out.print(f"Wrote {path} and {_picture_of(path)}")
        return 0


@dataclass
class List:
    """List the components that flags and configs accept."""

    kind: tyro.conf.Positional[str] = "all"
    """One of worlds, environments, processes, mixings, laws, encoders, backbones, objectives, tests,
    multivariate (tests), samplers, schedules; or all. Those of other installed packages are listed too."""
    json: bool = False
    """Print as JSON."""

    def run(self) -> int:
        kinds = {f"{kind}es" if kind.endswith("s") else f"{kind}s": kind for kind in registry.kinds()}
        tables: dict[str, Mapping[str, Any]] = {
            **{plural: registry.components(kind) for plural, kind in kinds.items()},
            "tests": UNIVARIATE,
            "multivariate": MULTIVARIATE,
            "samplers": SAMPLERS,
            "schedules": SCHEDULES,
        }
        chosen = tables if self.kind == "all" else {self.kind: choose("kind", self.kind, tables)}
        described = {
            kind: {name: _first_line(thing) for name, thing in table.items()}
            for kind, table in chosen.items()
        }
        if self.json:
            print_json(described)
            return 0
        for kind, rows in described.items():
            print_table((Column(), Column(prose=True)), list(rows.items()), title=kind, indent=3)
        return 0


def _write_report(
    encoder: nn.Module, world: Source, record: RunDirectory, page: Path, show: Callable[[Certificate], None]
) -> Certificate:
    """Certify a run, print the certificate, and only then write page and image: a disk may be full."""
    from isojepa.report import write_page, write_picture  # matplotlib: only for those who draw
    from isojepa.report.points import points_in_world

    certificate = certify(encoder, world)
    show(certificate)
    points = points_in_world(encoder, world)
    result = record.result or {}
    config = config_from(record.config)  # a config made by hand may leave names out
    mixing = flatten(config.world).get("mixing", config.world.name)
    title = f"{config.objective.name} on the {mixing} world"
    write_page(
        page,
        title=title,
        config=record.config,
        metrics=record.metrics,
        certificate=certificate,
        seconds=result["seconds"],
        status=result["status"],
        reason=result["reason"],
        **points,
    )
    write_picture(_picture_of(page), title=title, **points)
    return certificate


def _picture_of(page: Path) -> Path:
    """Path of a page's image: picture.png in a run directory, else named after the page."""
    name = "picture" if page.name == "report.html" else page.name.removesuffix(".html")
    return page.with_name(f"{name}.png")


def _first_line(thing: Callable[..., Any]) -> str:
    options = getattr(thing, "keywords", {})  # of a partial, which has no words of its own
    line = (inspect.getdoc(getattr(thing, "func", thing)) or "").partition("\n")[0]
    return line + "".join(f" [{key} {value}]" for key, value in options.items())
