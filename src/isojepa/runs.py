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
from isojepa.training.checkpoints import weights_so_far
from isojepa.training.finding import find_record
from isojepa.training.identity import record_id
from isojepa.training.loggers import Logger
from isojepa.training.loop import fit
from isojepa.training.model_files import load_model
from isojepa.training.rebuilding import rebuild
from isojepa.training.records import Record
from isojepa.training.run import Run
from isojepa.worlds import Paired, Source


def context_of(config: Config, source: Source) -> Context:
    """What the components of a config may ask about its source."""
    facts = source.facts
    context = Context(
        facts.dim,
        facts.shapes,
        facts.correlation,
        seed=config.seed,
        classes=facts.classes,
        actions=facts.actions,
        pairing=source.pairing if isinstance(source, Paired) else None,
        opened=load,
    )
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
    record: str | Path | Record,
    model: nn.Module | None = None,
    *,
    name: str | None = None,
    unfinished: bool = False,
) -> nn.Module:
    """The trained model of a finished record, in evaluation mode.

    Args:
        record: the record or its folder, or a safetensors file that `isojepa export` wrote.
        model: a module to put the weights into, for a run that was made from Python objects which cannot be
            made again from their class.
        name: which model, where the run trained several; the first by default.
        unfinished: take a run that is not finished too, as its checkpoint has it.

    Raises:
        ValueError: not a record, not finished, or nobody knows how to make the model again.

    Example:
        >>> import isojepa as ij
        >>> model = ij.load("runs/demo")  # doctest: +SKIP
    """
    if not isinstance(record, Record):
        if Path(record).is_file():
            return load_model(Path(record), model)[0]
        record = Record.open(record)
    begun = unfinished and record.result is None and record.checkpoint.is_file()
    if record.result is None and not begun:
        raise ValueError(
            f"record {record.path} is not finished; run the same training command to go on with it"
        )
    name = record.models[0] if name is None else name
    if model is None:
        model = _rebuilt(record, name)
    if begun:
        _load_begun(record, name, model)
    else:
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
        config = config_from(record.config)
        seen = _seen(record)
        if seen is None:
            source = config.world.build(Context(seed=config.seed))
            alone: nn.Module = config.encoder.build(context_of(config, source))  # a teacher may be gone too
            return alone
        # the data may be gone: shapes are all that backbones ask for
        made: nn.Module = config.encoder.build(config.around(Context(shapes=seen, seed=config.seed)))
        return made
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


def _seen(record: Record) -> tuple[tuple[int, ...], ...] | None:
    """Shapes of the views of a record of pictures, as its result tells them; None if it does not."""
    told = (record.result or {}).get("source") or {}
    shapes = told.get("shapes") if told.get("kind") == "pictures" else None
    if not isinstance(shapes, list) or not shapes or not all(isinstance(shape, list) for shape in shapes):
        return None
    sides = [side for shape in shapes for side in shape]
    if not all(type(side) is int and side > 0 for side in sides):
        return None
    return tuple(tuple(shape) for shape in shapes)


def _load_begun(record: Record, name: str, model: nn.Module) -> None:
    weights, _ = weights_so_far(record.checkpoint, name, record.id)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"{record.checkpoint} does not fit the {name} of its config: {error}") from error
