"""What commands that train share: threads, loggers, and words for a run."""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from isojepa import runs, threads
from isojepa.cli.printing import out
from isojepa.config import Config
from isojepa.evaluations import Evaluation
from isojepa.places import place
from isojepa.registry import flatten
from isojepa.training import Run, TensorBoard, WeightsAndBiases
from isojepa.training.health import MIN_STEPS
from isojepa.training.loggers import Logger
from isojepa.worlds.source import Source


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
    size = max(recipe.devices, place().size)
    ranks = "" if size == 1 else f" on {size} ranks"
    return (
        f"{config.encoder.name} with {config.objective.name} in a world of {world}; "
        f"{recipe.steps} steps of up to {recipe.batch} states{ranks}, seed {config.seed}"
    )


def tell_run(run: Run) -> int:
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
