"""The commands, each a dataclass: its fields are the flags and their docstrings the help."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tyro
from torch import nn

from isojepa import registry, runs
from isojepa.certificates import Certificate, certify
from isojepa.cli.certify import print_certificate
from isojepa.cli.printing import out, print_json
from isojepa.cli.tables import Column, print_table
from isojepa.cli.training import loggers_of, make_run, summary, tell_run
from isojepa.config import Config, config_from
from isojepa.encoders.world_model import WorldModel
from isojepa.files import plain
from isojepa.importing import program
from isojepa.names import choose
from isojepa.objectives.directions import SAMPLERS
from isojepa.objectives.gaussianity import MULTIVARIATE, UNIVARIATE
from isojepa.places import place
from isojepa.registry import flatten
from isojepa.terminal import typed
from isojepa.training import SCHEDULES, Record
from isojepa.worlds.source import Source


@dataclass
class Demo:
    """Train on the spiral world and certify the result (half a minute).

    A two-dimensional Gaussian is wound into a spiral; LeJEPA sees only the spiral, in pairs of nearby
    points, and unwinds it. The certificate says how far the result is from a rotation of the truth.
    """

    out: Path = Path("runs/demo")
    """Folder of the record, the report and the picture; an earlier demo there is replaced."""
    seed: int = 0
    """Draws initial weights and data."""

    def run(self) -> int:
        config = Config(seed=self.seed)
        self._clear(config)
        out.print("Latents: a 2D Gaussian. Observations: the same points wound into a spiral.")
        out.print(f"Training {summary(config)} ...")
        built = runs.build_all(config)
        run = make_run(built, config, self.out)
        code = tell_run(run)
        page, record = self.out / "report.html", Record.open(self.out)
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
        found = Record.open(self.out).config  # told if it is no record
        if {**found, "seed": 0} != plain(Config().to_dict()):
            raise ValueError(f"{self.out} holds the record of another run: choose another --out")
        if found["seed"] == self.seed and Record(self.out).result is None:
            return  # a demo that was stopped goes on
        with Record(self.out).locked():
            Record(self.out).replace(config.to_dict())


@dataclass
class Train:
    """Train an encoder in a synthetic world, or a world model.

    The record's folder is named by a hash of the settings: the same command goes on with a run that was
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
    """Folder of records."""
    record: Path | None = None
    """The record's own folder, in place of a name made from the settings."""
    tensorboard: bool = False
    """Also write TensorBoard events into the record's folder."""
    wandb: str | None = None
    """Also log to this Weights & Biases project."""
    trust: tuple[str, ...] = ()
    """Python modules that may be imported to make a teacher: those that define classes of your own."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        if self.devices is not None:
            training = replace(self.settings.training, devices=self.devices)
            self.settings = replace(self.settings, training=training)
        built = runs.build_all(self.settings, self.trust)  # what is wrong with them is told first
        path = self.record or runs.record_path(self.settings, self.out, built.source)
        if not place().first:  # ranks beside the first have nothing to say
            return 0 if make_run(built, self.settings, path).status == "done" else 1
        if not self.json:
            done = Record(path).result is not None
            verb = "Already trained:" if done else "Training"
            out.print(f"{verb} {summary(self.settings)}\nRecord: {path}")
        loggers = loggers_of(self.settings, built.source, path, self.tensorboard, self.wandb)
        run = make_run(built, self.settings, path, loggers)
        if self.json:
            print_json({"record": str(path), "status": run.status, "reason": run.reason, "r2": run.r2})
            return 0 if run.status == "done" else 1
        code = tell_run(run)
        isojepa = program("isojepa")
        other = f"{isojepa} report {typed(path)}"
        if isinstance(built.encoder, WorldModel):
            other = f"{isojepa} evaluate {typed(path)} --env ENVIRONMENT --tolerance 0.2"
        out.print(f"Next: {isojepa} certify {typed(path)}   or   {other}")
        return code


@dataclass
class Report:
    """Write the page of a finished run."""

    record: tyro.conf.Positional[Path]
    """Record folder."""
    out: Path | None = None
    """The page; report.html in the record by default. The picture goes beside it, under the page's name."""

    def run(self) -> int:
        path = self.out or self.record / "report.html"
        _write_report(*runs.load_run(self.record), path, lambda certificate: out.print(certificate.verdict))
        out.print(f"Wrote {path} and {_picture_of(path)}")
        return 0


@dataclass
class List:
    """List the components that flags and configs accept."""

    kind: tyro.conf.Positional[str] = "all"
    """One of worlds, environments, processes, mixings, laws, encoders, objectives, tests, multivariate
    (tests), samplers, schedules; or all. Those of other installed packages are listed too."""
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
    encoder: nn.Module, world: Source, record: Record, page: Path, tell: Callable[[Certificate], None]
) -> Certificate:
    """Certify a run, tell it, and only then write its page and picture: a disk may be full."""
    from isojepa.report import write_page, write_picture  # matplotlib: only for those who draw
    from isojepa.report.points import points_in_world

    certificate = certify(encoder, world)
    tell(certificate)
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
    """Where the picture of a page goes: picture.png in a record; elsewhere that may be somebody's own."""
    name = "picture" if page.name == "report.html" else page.name.removesuffix(".html")
    return page.with_name(f"{name}.png")


def _first_line(thing: Callable[..., Any]) -> str:
    options = getattr(thing, "keywords", {})  # of a partial, which has no words of its own
    line = (inspect.getdoc(getattr(thing, "func", thing)) or "").partition("\n")[0]
    return line + "".join(f" [{key} {value}]" for key, value in options.items())
