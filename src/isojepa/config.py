"""The config of a run: typed, frozen, and the same in flags, YAML, JSON and records.

An option left at None takes the default of the thing it belongs to. An option that the chosen world,
encoder or objective does not have is an error, so nothing that was asked for is silently ignored.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from isojepa.files import read_json
from isojepa.names import unknown
from isojepa.training.recipe import Recipe

T = TypeVar("T")


@dataclass(frozen=True)
class WorldConfig:
    """Where pairs come from."""

    process: str = "ornstein-uhlenbeck"
    """Latent process; `isojepa list processes`."""
    dim: int = 2
    """Number of latents."""
    rho: float | tuple[float, ...] = 0.95
    """Correlation parameter in (0, 1): one for all latents, or one each."""
    lag: float | None = None
    """Time between the views of an ornstein-uhlenbeck, langevin or copula pair."""
    law: str | None = None
    """Law of langevin, copula or noisy-copies; `isojepa list laws`."""
    shape: float | None = None
    """Shape of the law: alpha of generalized-normal, df of student-t, separation of bimodal."""
    mixing: str = "spiral"
    """How latents become observations; `isojepa list mixings`."""
    mixing_layers: int | None = None
    """Layers of a coupling or lift."""
    mixing_hidden: int | None = None
    """Width of the random networks of affine-coupling and lift."""
    mixing_seed: int | None = None
    """Draws the random parts of a mixing."""
    observed_dim: int | None = None
    """Observed dimension of lift."""


@dataclass(frozen=True)
class EncoderConfig:
    """What is learned."""

    name: str = "mlp"
    """Encoder; `isojepa list encoders`."""
    dim: int | None = None
    """Embedding dimension of mlp; the number of latents by default."""
    width: int | None = None
    """Hidden width of mlp."""
    layers: int | None = None
    """Number of layers."""


@dataclass(frozen=True)
class ObjectiveConfig:
    """What is minimised: weight * regularizer + (1 - weight) * alignment."""

    name: str = "lejepa"
    """Objective; `isojepa list objectives`."""
    weight: float | None = None
    """Lambda, the share of the regularizer, in [0, 1]."""
    alignment: str | None = None
    """Alignment of lejepa and whitening: centre or pairwise."""
    slices: int | None = None
    """Random directions of lejepa (by default 8 per dimension, 16 to 1024), subspaces of sliced-infonce."""
    knots: int | None = None
    """Quadrature points of lejepa's statistic."""
    t_max: float | None = None
    """End of lejepa's quadrature."""
    pooled: bool | None = None
    """Test all views as one sample instead of one by one."""
    unbiased: bool | None = None
    """Remove the O(1/batch) bias of lejepa's statistic."""
    test: str | None = None
    """Univariate test that lejepa averages over slices, in place of Epps-Pulley; `isojepa list tests`."""
    sampler: str | None = None
    """How lejepa draws its directions: gaussian, sobol or orthogonal."""
    resample: bool | None = None
    """Draw new directions at every step (the default) or keep those of the seed."""
    sigma: float | str | None = None
    """Kernel width of the InfoNCE family: a number, `matched` to the world, or `learned`."""
    k: int | None = None
    """Subspace dimension of sliced-infonce."""
    covariance_weight: float | None = None
    """Covariance against variance in vicreg."""


@dataclass(frozen=True)
class Config:
    """Everything that determines a run."""

    world: WorldConfig = field(default_factory=WorldConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    training: Recipe = field(default_factory=Recipe)
    seed: int = 0
    """Draws initial weights, data, slices and the held-out set."""

    def to_dict(self) -> dict[str, Any]:
        """Plain nested values."""
        return dataclasses.asdict(self)


def read_config(path: str | Path) -> Config:
    """Read a config from a YAML or JSON file; what it leaves out takes the defaults.

    Raises:
        ValueError: the file is missing or damaged, or has an unknown key or a value of the wrong type.
    """
    path = Path(path)
    if path.suffix == ".json":
        data = read_json(path)
    elif path.suffix in (".yaml", ".yml"):
        data = _read_yaml(path)
    else:
        raise ValueError(f"config must be a .yaml, .yml or .json file, got {path}")
    if isinstance(data, dict):  # a record's config.json says more than a config
        data = {key: value for key, value in data.items() if key not in ("format", "isojepa")}
    try:
        return config_from(data)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def config_from(data: Any) -> Config:
    """Build a config from plain nested values; all that is wrong is told at once.

    Raises:
        ValueError: an unknown key or a value of the wrong type.
    """
    problems: list[str] = []
    config = _build(Config, data, "", problems)
    if problems:
        raise ValueError("; ".join(problems))
    return config


def _read_yaml(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"{path} does not exist") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a YAML file: {error}") from error


def _build(cls: type[T], data: Any, where: str, problems: list[str]) -> T:
    """Build one dataclass, adding to `problems` what does not fit."""
    data = {} if data is None else data  # a section with nothing in it
    if not isinstance(data, Mapping):
        problems.append(f"{where or 'config'} must be a mapping, got {data!r}")
        return cls()
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{where}.{key}" if where else str(key)
        if key not in hints:
            problems.append(unknown(f"config key {name!r}", key, hints))
        elif dataclasses.is_dataclass(hints[key]):
            values[key] = _build(typing.cast(type, hints[key]), value, name, problems)
        else:
            try:
                values[key] = _coerce(hints[key], value)
            except (TypeError, ValueError):
                problems.append(f"{name} must be {_spell(hints[key])}, got {value!r}")
    try:
        return cls(**values)
    except ValueError as error:
        problems.append(f"{where}: {error}" if where else str(error))
        return cls()


def _coerce(kind: Any, value: Any) -> Any:
    """Return the value as its type, taking what JSON and YAML write for it (lists, 1e-3 as text)."""
    options = typing.get_args(kind) if typing.get_origin(kind) in (types.UnionType, typing.Union) else (kind,)
    for option in options:
        if option is type(None) and value is None:
            return None
        if option is bool and isinstance(value, bool):
            return value
        if option is int and isinstance(value, int) and not isinstance(value, bool):
            return value
        if option is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if typing.get_origin(option) is tuple and isinstance(value, list | tuple):
            return tuple(_coerce(float, entry) for entry in value)
    if isinstance(value, str):
        if float in options:
            try:
                return float(value)  # YAML 1.1 reads 1e-3, without a dot, as text
            except ValueError:
                pass
        if str in options:
            return value
    raise TypeError(kind)


def _spell(kind: Any) -> str:
    text = kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
    return text.replace(" | ", " or ").replace("NoneType", "None")
