"""From a config to live objects and back: build, train, load."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from isojepa.config import Config, EncoderConfig, ObjectiveConfig, WorldConfig, config_from
from isojepa.encoders import ENCODERS
from isojepa.laws import LAWS, Law
from isojepa.names import build, choose
from isojepa.objectives import (
    AnInfoNCE,
    InfoNCE,
    LeJEPA,
    SIGReg,
    SlicedInfoNCE,
    VICReg,
    Whitening,
    matched_sigma,
)
from isojepa.training.loggers import Logger
from isojepa.training.loop import Run, fit
from isojepa.training.records import Record, record_id
from isojepa.worlds import MIXINGS, PROCESSES, World


def build_world(config: WorldConfig) -> World:
    """Build the world of a config.

    Raises:
        ValueError: an unknown name, an option the choice does not have, or a value out of range.
    """
    law: Law | None = None
    if config.law is not None:
        shapes = {"generalized-normal": "alpha", "student-t": "df", "bimodal": "separation"}
        shape = shapes.get(config.law, "shape")
        law = build("law", config.law, LAWS, {shape: config.shape})
    elif config.shape is not None:
        raise ValueError(f"shape belongs to a law, and none was chosen, got shape {config.shape}")
    process = build(
        "process",
        config.process,
        PROCESSES,
        {"dim": config.dim, "rho": config.rho, "lag": config.lag, "law": law},
    )
    options: dict[str, Any] = {
        "layers": config.mixing_layers,
        "hidden": config.mixing_hidden,
        "seed": config.mixing_seed,
        "out_dim": config.observed_dim,
    }
    if config.mixing in ("additive-coupling", "affine-coupling", "lift"):
        options["dim"] = config.dim
        if config.mixing == "lift" and config.observed_dim is None:
            options["out_dim"] = 2 * config.dim
    return World(process, build("mixing", config.mixing, MIXINGS, options))


def build_encoder(config: EncoderConfig, world: World, seed: int) -> nn.Module:
    """Build the encoder of a config for a world's observations."""
    options: dict[str, Any] = {"width": config.width, "layers": config.layers, "seed": seed}
    if config.name in ("coupling", "free-coupling"):
        options["dim"] = world.observed_dim
        if config.dim not in (None, world.observed_dim):
            raise ValueError(
                f"encoder {config.name!r} keeps the observed dimension {world.observed_dim}, "
                f"got dim {config.dim}"
            )
    else:
        options |= {"in_dim": world.observed_dim, "out_dim": world.dim if config.dim is None else config.dim}
    return build("encoder", config.name, ENCODERS, options)


def build_objective(config: ObjectiveConfig, world: World, dim: int, seed: int = 0) -> nn.Module:
    """Build the objective of a config.

    Args:
        config: the objective's config.
        world: gives the correlation that a matched kernel width needs.
        dim: embedding dimension.
        seed: of the run; draws directions that stay fixed.
    """
    choose("objective", config.name, OBJECTIVES)
    options: dict[str, Any] = {k: v for k, v in vars(config).items() if k != "name"}
    sigma = options.pop("sigma")
    if isinstance(sigma, str):
        if sigma not in ("matched", "learned"):
            raise ValueError(f"sigma must be a number, 'matched' or 'learned', got {sigma!r}")
        if sigma == "learned" and config.name == "infonce":
            options["learned"] = True
        rho = world.correlation
        if isinstance(rho, tuple):
            if sigma == "matched":
                raise ValueError(f"sigma 'matched' needs one correlation for all latents, got {rho}")
            rho = sum(rho) / len(rho)  # only where a learned width starts
        sigma = matched_sigma(rho)
    options["sigma"] = sigma
    if config.name == "aninfonce":
        options["dim"] = dim
    if config.resample is False:
        options["seed"] = seed
    return build("objective", config.name, OBJECTIVES, options)


def build_all(config: Config) -> tuple[nn.Module, World, nn.Module]:
    """Build encoder, world and objective of a config."""
    config.training.checked()
    world = build_world(config.world)
    encoder = build_encoder(config.encoder, world, config.seed)
    dim = world.dim if config.encoder.dim is None else config.encoder.dim
    return encoder, world, build_objective(config.objective, world, dim, config.seed)


def train(
    config: Config,
    folder: str | Path = "runs",
    *,
    record: str | Path | None = None,
    progress: bool | None = None,
    loggers: Sequence[Logger] = (),
) -> Run:
    """Train what a config describes; going on with, or returning, the record it already has.

    Args:
        config: what to train.
        folder: where records live; this one's name is the hash of its config.
        record: the record's own folder, in place of a name made from the config.
        progress: draw a progress bar; by default when standard error is a terminal.
        loggers: receive every row of metrics.
    """
    encoder, world, objective = build_all(config)
    path = Path(record) if record is not None else record_path(config, folder)
    return fit(
        encoder,
        world,
        objective,
        **vars(config.training),
        seed=config.seed,
        record=path,
        config=config.to_dict(),
        progress=progress,
        loggers=loggers,
    )


def record_path(config: Config, folder: str | Path = "runs") -> Path:
    """The folder of a config's record."""
    return Path(folder) / record_id(config.to_dict())


def load(path: str | Path) -> tuple[nn.Module, World, Record]:
    """Rebuild the trained encoder and the world of a finished record.

    Raises:
        ValueError: not a record, not finished, or made from Python objects that no config describes.
    """
    record = Record.open(path)
    if record.config.get("made_from") == "python":
        raise ValueError(
            f"record {path} was made from Python objects; rebuild them and call certify(encoder, world)"
        )
    if record.result is None:
        raise ValueError(f"record {path} is not finished; run the same training command to go on with it")
    config = config_from(record.config)
    encoder, world, _ = build_all(config)
    record.load_weights("encoder", encoder)
    return encoder.eval(), world, record


def _with(regularizer: Callable[..., Any], **defaults: Any) -> Callable[..., nn.Module]:
    """LeJEPA with a regularizer, its options side by side with the regularizer's own."""
    own = inspect.signature(regularizer).parameters
    outer = inspect.signature(LeJEPA).parameters

    def make(**options: Any) -> nn.Module:
        inner = {name: value for name, value in options.items() if name in own}
        rest = defaults | {name: value for name, value in options.items() if name not in own}
        return LeJEPA(regularizer=regularizer(**inner), **rest)

    make.__doc__ = f"LeJEPA with {regularizer.__name__}. {regularizer.__doc__}"
    merged = [*outer.values(), *own.values()]
    make.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [p.replace(kind=p.KEYWORD_ONLY) for p in merged if p.name != "regularizer"]
    )
    return make


OBJECTIVES: dict[str, Callable[..., nn.Module]] = {
    "lejepa": _with(SIGReg),
    "whitening": _with(Whitening, weight=0.1),  # unlike SIGReg's, its value does not grow with the batch
    "vicreg": VICReg,
    "infonce": InfoNCE,
    "aninfonce": AnInfoNCE,
    "sliced-infonce": SlicedInfoNCE,
}
