"""From a config to live objects and back: build, train, load."""

import functools
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from isojepa.config import Config, config_from
from isojepa.data import Paired, Source
from isojepa.data.episodes import Episodes
from isojepa.data.files import EpisodesSpec
from isojepa.encoders.world_model import Dynamics
from isojepa.probes import Evaluation
from isojepa.registry import Context
from isojepa.training.checkpoints import weights_so_far
from isojepa.training.loggers import Logger
from isojepa.training.loop import fit
from isojepa.training.rebuilding import Bounded, load_model, rebuild
from isojepa.training.run import Run
from isojepa.training.run_directory import RunDirectory, record_id
from isojepa.validation import unknown, validate_types


class Parts(NamedTuple):
    """What a config describes, built."""

    encoder: nn.Module
    source: Source
    objective: Any


def context_of(config: Config, source: Source, trust: Collection[str] = ()) -> Context:
    """What the components of a config may ask about its source; `trust` as of `load`."""
    pairing = source.pairing if isinstance(source, Paired) else None
    context = Context.of(source, config.seed)
    return config.around(replace(context, pairing=pairing, opened=functools.partial(load, trust=trust)))


@validate_types
def build_all(config: Config, trust: Collection[str] = ()) -> Parts:
    """Build encoder, source and objective of a config.

    Args:
        config: what to build.
        trust: Python modules that may be imported to make a teacher, as of `load`.

    Raises:
        ValueError: settings contradict each other, or a value is out of range.
    """
    config.training.checked()
    source = config.world.build(Context(seed=config.seed))
    context = context_of(config, source, trust)
    return Parts(config.encoder.build(context), source, config.objective.build(context))


@validate_types
def train(
    config: Config,
    folder: str | Path = "runs",
    *,
    record: str | Path | None = None,
    evaluations: Sequence[Evaluation] | None = None,
    progress: bool | None = None,
    loggers: Sequence[Logger] = (),
    built: Parts | None = None,
) -> Run:
    """Train what a config describes; going on with, or returning, the record it already has.

    Args:
        config: what to train.
        folder: where records live; this one's name is the hash of its config.
        record: the record's own folder, in place of a name made from the config.
        evaluations: what is measured while it trains; by default as of `fit`.
        progress: draw a progress bar; by default when standard error is a terminal.
        loggers: receive every row of metrics.
        built: what `build_all` made of the config, to be trained; by default it is built here.
    """
    encoder, source, objective = build_all(config) if built is None else built
    return fit(
        encoder,
        source,
        objective,
        recipe=config.training,
        seed=config.seed,
        record=Path(record) if record is not None else record_path(config, folder, source),
        config=config.to_dict(source),
        evaluations=evaluations,
        progress=progress,
        loggers=loggers,
    )


def record_path(config: Config, folder: str | Path = "runs", source: Source | None = None) -> Path:
    """The folder of a config's record.

    Args:
        config: of the run.
        folder: where records live.
        source: what the config's world built, if it was built already.
    """
    return Path(folder) / record_id(config.to_dict(source))


@validate_types
def load(
    record: str | Path | RunDirectory,
    model: nn.Module | None = None,
    *,
    name: str | None = None,
    unfinished: bool = False,
    trust: Collection[str] = (),
) -> nn.Module:
    """The trained model of a finished record, in evaluation mode.

    Args:
        record: the record or its folder, or a safetensors file that `isojepa export` wrote.
        model: a module to put the weights into, for a run that was made from Python objects which cannot be
            made again from their class.
        name: which model, where the run trained several; the first by default.
        unfinished: take a run that is not finished too, as its checkpoint has it.
        trust: Python modules that may be imported to make the model, e.g. ["my_module"]; those of isojepa,
            torch.nn, timm and registered components always may.

    Raises:
        ValueError: not a run directory, not finished, of a module that is not trusted, or unknown how to make
            the model again.

    Example:
        >>> import isojepa as ij
        >>> model = ij.load("runs/demo")  # doctest: +SKIP
    """
    if not isinstance(record, RunDirectory):
        if Path(record).is_file():
            return load_model(Path(record), model, trust)[0]
        record = RunDirectory.open(record)
    begun = unfinished and record.result is None and record.checkpoint.is_file()
    if record.result is None and not begun:
        raise ValueError(f"record {record.path} is not finished; run the same training command to resume it")
    name = record.models[0] if name is None else name
    if model is None:
        model = _rebuilt(record, name, trust)
    if begun:
        _load_begun(record, name, model)
    else:
        record.load_weights(name, model)
    return model.eval()


def load_run(path: str | Path) -> tuple[nn.Module, Source, RunDirectory]:
    """The trained encoder, the source and the record of a finished run that a config describes.

    Raises:
        ValueError: not a record, not finished, or made from Python objects that no config describes.
    """
    record = RunDirectory.open(path)
    if record.config.get("made_from") == "python":
        raise ValueError(
            f"record {path} was made from Python objects; rebuild them and call certify(encoder, world)"
        )
    config = config_from(record.config)
    source = config.world.build(Context(seed=config.seed))
    return load(record, _encoder(record, config, context_of(config, source))), source, record


def load_world_model(
    path: str | Path, data: str | Path | None = None, *, trust: Collection[str] = ()
) -> tuple[Run, Episodes]:
    """The finished run of a world model, and episodes: those of a file, else those that the run held out.

    Args:
        path: the run directory.
        data: file with the same columns as that of the run.
        trust: as of `load`.

    Raises:
        ValueError: the run is not finished, not of a world model, or does not name its episodes.
    """
    record = RunDirectory.open(path)
    model = load(record, trust=trust)
    if not isinstance(model, Dynamics):
        raise ValueError(f"{path} must be the run of a world model, got {type(model).__name__}")
    world = None if record.config.get("made_from") == "python" else config_from(record.config).world
    result = record.result or {}
    status, reason, seconds = (result[name] for name in ("status", "reason", "seconds"))
    facts = result.get("source") or {}
    run = Run({record.models[0]: model}, status, reason, record.metrics, seconds, record, facts)
    spec = world if isinstance(world, EpisodesSpec) else EpisodesSpec()
    if data is None and not spec.path:
        raise ValueError(f"{path} does not name its episodes: pass a file of held-out ones")
    return run, spec.open()[1] if data is None else spec.read(Path(data))


def _rebuilt(record: RunDirectory, name: str, trust: Collection[str]) -> nn.Module:
    if record.config.get("made_from") != "python":
        if name != "encoder":
            raise ValueError(f"record {record.path} has one model, 'encoder', got name {name!r}")
        config = config_from(record.config)
        facts = _seen(record, config.seed)
        if facts is None:
            context = context_of(config, config.world.build(Context(seed=config.seed)))
        else:  # the data may be gone: shapes are all that backbones and world models ask for
            context = config.around(facts)
        return _encoder(record, config, context)  # a teacher may be gone too
    saved = {path.stem for path in record.path.glob("*.safetensors")} - {"objective"}
    if saved and name not in saved:
        raise ValueError(unknown(f"name of a model of record {record.path}", name, saved))
    recipes = record.config.get("models")
    if not isinstance(recipes, dict) or name not in recipes:
        raise ValueError(
            f"record {record.path} was made from Python objects, and its {name!r} cannot be made again from "
            f"its class: hand a module in, load(record, model=MyModel(...))"
        )
    with Bounded(record.weights(name)):
        return rebuild(recipes[name], trust)


def _encoder(record: RunDirectory, config: Config, context: Context) -> nn.Module:
    """The encoder of a record's config, for the weights of the record."""
    with Bounded(record.weights("encoder")):
        encoder: nn.Module = config.encoder.build(context)
    return encoder


def _seen(record: RunDirectory, seed: int) -> Context | None:
    """Shapes of views and actions of a run on images or episodes, as its result has them; else None."""
    facts = (record.result or {}).get("source") or {}
    shapes, actions = facts.get("shapes"), facts.get("actions")
    if facts.get("kind") not in ("pictures", "episodes") or not (actions is None or type(actions) is int):
        return None
    if not isinstance(shapes, list) or not shapes or not all(isinstance(shape, list) for shape in shapes):
        return None
    sides = [side for shape in shapes for side in shape]
    if not all(type(side) is int and side > 0 for side in sides):
        return None
    return Context(shapes=tuple(tuple(shape) for shape in shapes), actions=actions, seed=seed)


def _load_begun(record: RunDirectory, name: str, model: nn.Module) -> None:
    weights, _ = weights_so_far(record.checkpoint, name, record.id)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"{record.checkpoint} does not fit the {name} of its config: {error}") from error
