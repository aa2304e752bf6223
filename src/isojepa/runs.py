"""From a config to live objects and back: build, train, load."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from isojepa.arguments import checked
from isojepa.config import Config, config_from
from isojepa.evaluations import Evaluation
from isojepa.names import unknown
from isojepa.registry import Context
from isojepa.training.finding import find_record
from isojepa.training.identity import record_id
from isojepa.training.loggers import Logger
from isojepa.training.loop import fit
from isojepa.training.rebuilding import rebuild
from isojepa.training.records import Record
from isojepa.training.run import Run
from isojepa.worlds import Source


def context_of(config: Config, source: Source) -> Context:
    """What the components of a config may ask about its source."""
    facts = source.facts
    context = Context(facts.dim, facts.shapes, facts.correlation, seed=config.seed, classes=facts.classes)
    return config.around(context)


@checked
def build_all(config: Config) -> tuple[nn.Module, Source, Any]:
    """Build encoder, source and objective of a config.

    Raises:
        ValueError: settings contradict each other, or a value is out of range.
    """
    config.training.checked()
    source = config.world.build(Context(seed=config.seed))
    context = context_of(config, source)
    return config.encoder.build(context), source, config.objective.build(context)


@checked
def train(
    config: Config,
    folder: str | Path = "runs",
    *,
    record: str | Path | None = None,
    evaluations: Sequence[Evaluation] | None = None,
    progress: bool | None = None,
    loggers: Sequence[Logger] = (),
) -> Run:
    """Train what a config describes; going on with, or returning, the record it already has.

    Args:
        config: what to train.
        folder: where records live; this one's name is the hash of its config.
        record: the record's own folder, in place of a name made from the config.
        evaluations: what is measured while it trains; by default as of `fit`.
        progress: draw a progress bar; by default when standard error is a terminal.
        loggers: receive every row of metrics.
    """
    encoder, source, objective = build_all(config)
    return fit(
        encoder,
        source,
        objective,
        recipe=config.training,
        seed=config.seed,
        record=Path(record) if record is not None else record_path(config, folder),
        config=config.to_dict(),
        evaluations=evaluations,
        progress=progress,
        loggers=loggers,
    )


def record_path(config: Config, folder: str | Path = "runs") -> Path:
    """The folder of a config's record: the one it has, by whatever name, or the one it will have."""
    return find_record(folder, record_id(config.to_dict()))


@checked
def load(
    record: str | Path | Record, model: nn.Module | None = None, *, name: str | None = None
) -> nn.Module:
    """The trained model of a finished record, in evaluation mode.

    Args:
        record: the record or its folder.
        model: a module to put the weights into, for a run that was made from Python objects which cannot be
            made again from their class.
        name: which model, where the run trained several; the first by default.

    Raises:
        ValueError: not a record, not finished, or nobody knows how to make the model again.

    Example:
        >>> import isojepa as ij
        >>> model = ij.load("runs/demo")  # doctest: +SKIP
    """
    record = record if isinstance(record, Record) else Record.open(record)
    if record.result is None:
        raise ValueError(
            f"record {record.path} is not finished; run the same training command to go on with it"
        )
    name = record.models[0] if name is None else name
    if model is None:
        model = _rebuilt(record, name)
    record.load_weights(name, model)
    return model.eval()


def load_run(path: str | Path) -> tuple[nn.Module, Source, Record]:
    """The trained encoder, the source and the record of a finished run that a config describes.

    Raises:
        ValueError: not a record, not finished, or made from Python objects that no config describes.
    """
    record = Record.open(path)
    if record.config.get("made_from") == "python":
        raise ValueError(
            f"record {path} was made from Python objects; rebuild them and call certify(encoder, world)"
        )
    config = config_from(record.config)
    return load(record), config.world.build(Context(seed=config.seed)), record


def _rebuilt(record: Record, name: str) -> nn.Module:
    if record.config.get("made_from") != "python":
        if name != "encoder":
            raise ValueError(f"record {record.path} has one model, 'encoder', got name {name!r}")
        return build_all(config_from(record.config))[0]
    kept = {path.stem for path in record.path.glob("*.safetensors")} - {"objective"}
    if kept and name not in kept:
        raise ValueError(unknown(f"name of a model of record {record.path}", name, kept))
    recipes = record.config.get("models")
    if not isinstance(recipes, dict) or name not in recipes:
        raise ValueError(
            f"record {record.path} was made from Python objects, and its {name!r} cannot be made again from "
            f"its class: hand a module in, load(record, model=MyModel(...))"
        )
    return rebuild(recipes[name])
