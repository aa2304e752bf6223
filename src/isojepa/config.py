"""The config of a run: typed, frozen, resolved, and the same in flags, YAML, JSON and records.

A section chooses a component by name and holds its settings, which its spec declares (`isojepa.registry`).
A setting that the chosen component does not have is an error, so nothing that was asked for is silently
ignored. Before a config is written or hashed it is resolved: what follows from other settings is written
out, so that no record depends on a default of the day.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from isojepa.data.source import Source
from isojepa.data.world import WorldSpec
from isojepa.encoders.mlp import MLPSpec
from isojepa.io import MAX_CONFIG_BYTES, parse_yaml, read_bytes, read_json
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.registry import Context, Setting, Spec, assemble, find, flatten, is_spec, settings
from isojepa.training.recipe import Recipe
from isojepa.training.run_directory import without_header
from isojepa.validation import short_repr, unknown, validate_type, validate_types

SECTIONS = {"world": "world", "encoder": "encoder", "objective": "objective"}  # of a config -> kind


@dataclass(frozen=True)
class Config:
    """Everything that determines a run.

    Attributes:
        world: spec of the source of batches, e.g. `WorldSpec`.
        encoder: spec of what is learned, e.g. `MLPSpec`.
        objective: spec of what is minimised, e.g. `LeJEPASpec`.
        training: how.
        seed: draws initial weights, data, slices and the held-out set.
    """

    world: Spec = field(default_factory=WorldSpec)
    encoder: Spec = field(default_factory=MLPSpec)
    objective: Spec = field(default_factory=LeJEPASpec)
    training: Recipe = field(default_factory=Recipe)
    seed: int = 0

    def __post_init__(self) -> None:
        for name, kind in SECTIONS.items():
            spec = getattr(self, name)
            if not is_spec(spec, kind):
                raise ValueError(
                    f"{name} must be the spec of a component of kind {kind}, got {short_repr(spec)}"
                )
        validate_type("training", self.training, Recipe)
        object.__setattr__(self, "seed", validate_type("seed", self.seed, int))

    def resolved(self, source: Source | None = None) -> "Config":
        """The same with every setting that follows from others written out.

        Args:
            source: what the world's spec built, if it was built already; else the spec may build it.

        Raises:
            ValueError: settings contradict each other.
        """
        context = self.world.around(self.seed) if source is None else Context.of(source, self.seed)
        # dimensions and shapes alone decide: a spec may know no more before the source is built
        context = replace(context, correlation=None, classes=None, actions=None)
        encoder = self.encoder.resolve(context)
        config = replace(self, world=self.world.resolve(context), encoder=encoder)
        return replace(config, objective=self.objective.resolve(config.around(context)))

    @property
    def context(self) -> Context:
        """What is known of the run before anything is built: dimensions and shapes."""
        return self.around(self.world.around(self.seed))

    def around(self, context: Context) -> Context:
        """What is known of a source, with what the encoder adds to it."""
        return replace(
            context,
            embedding=self.encoder.embedding(context),
            feature_dim=self.encoder.feature_dim(context),
            transformer=self.encoder.transformer(context),
        )

    def to_dict(self, source: Source | None = None) -> dict[str, Any]:
        """Plain values, resolved: what records hold and what ids are made from; `source` as of `resolved`."""
        config = self.resolved(source)
        sections = {name: section_values(getattr(config, name)) for name in SECTIONS}
        return {**sections, "training": flatten(config.training), "seed": config.seed}


def section_values(spec: Spec) -> dict[str, Any]:
    """A section as plain values: the component's name and its settings."""
    return {"name": spec.name, **flatten(spec)}


@validate_types
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
    try:
        if isinstance(data, dict) and "format" in data:  # a record's own config.json
            data = without_header(data)
        return config_from(data)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def config_from(data: Any) -> Config:
    """Build a config from plain nested values; all errors are reported at once.

    Raises:
        ValueError: an unknown key or component, or a value of the wrong type.
    """
    problems: list[str] = []
    data = {} if data is None else data
    if not isinstance(data, Mapping):
        raise ValueError(f"config must be a mapping, got {short_repr(data)}")
    keys = [item.name for item in dataclasses.fields(Config)]
    for key in data:
        if key not in keys:
            problems.append(unknown(f"config key {short_repr(key)}", key, keys))
    parts: dict[str, Any] = {}
    for name, kind in SECTIONS.items():
        if name in data:
            parts[name] = section_from(kind, data[name], name, problems)
    if "training" in data:
        parts["training"] = _recipe(data["training"], problems)
    if "seed" in data:
        parts["seed"] = _value(Setting("seed", int, 0, ""), data["seed"], "seed", problems)
    if problems:
        raise ValueError("; ".join(problems))
    return Config(**parts)


def section_from(kind: str, data: Any, where: str, problems: list[str]) -> Spec:
    """Build one section; a name alone stands for the component with its defaults."""
    data = {"name": data} if isinstance(data, str) else {} if data is None else data
    if not isinstance(data, Mapping):
        problems.append(f"{where} must be a mapping, got {short_repr(data)}")
        return find(kind)()
    try:
        cls = find(kind, data.get("name"))
        known_settings = settings(cls, data)
    except (ValueError, TypeError) as error:
        problems.append(f"{where}: {error}")
        return find(kind)()
    values = {}
    for key, value in data.items():
        if key == "name":
            continue
        if key in known_settings:
            values[key] = _value(known_settings[key], value, f"{where}.{key}", problems)
        else:
            problems.append(stray(where, key, cls, known_settings, data))
    try:
        return assemble(cls, values)
    except ValueError as error:
        problems.append(f"{where}: {error}")
        return cls()


def stray(where: str, key: str, cls: Any, known: Mapping[str, Setting], given: Mapping[str, Any]) -> str:
    """Say that the chosen component has no such setting."""
    inner = [f"{one.key} {given.get(one.key, one.default)!r}" for one in known.values() if one.choice]
    chosen = f"{cls.kind} {cls.name!r}" + (f" with {', '.join(inner)}" if inner else "")
    message = unknown(f"config key '{where}.{key}'", key, ["name", *known])
    return f"{chosen} takes no option {key!r}: {message}"


def _recipe(data: Any, problems: list[str]) -> Recipe:
    data = {} if data is None else data
    if not isinstance(data, Mapping):
        problems.append(f"training must be a mapping, got {short_repr(data)}")
        return Recipe()
    known_settings = settings(Recipe, data)
    values = {}
    for key, value in data.items():
        if key in known_settings:
            values[key] = _value(known_settings[key], value, f"training.{key}", problems)
        else:
            problems.append(unknown(f"config key 'training.{key}'", key, known_settings))
    return Recipe(**values)


def _read_yaml(path: Path) -> Any:
    content = read_bytes(path, MAX_CONFIG_BYTES)
    try:
        return parse_yaml(content)
    except ValueError as error:
        raise ValueError(f"{path} is not a YAML file: {error}") from error


def _value(setting: Setting, value: Any, where: str, problems: list[str]) -> Any:
    try:
        return _coerce(setting.type, value)
    except (TypeError, ValueError, OverflowError):
        problems.append(f"{where} must be {_spell(setting.type)}, got {short_repr(value)}")
        return setting.default


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
            return _finite(value)
        if typing.get_origin(option) is tuple and isinstance(value, list | tuple):
            return tuple(_coerce(typing.get_args(option)[0], entry) for entry in value)
    if isinstance(value, str):
        if float in options:
            try:
                return _finite(value)  # YAML 1.1 reads 1e-3, without a dot, as text
            except ValueError:
                pass
        if str in options:
            return value
    raise TypeError(kind)


def _finite(value: Any) -> float:
    """No setting is NaN or Inf, and none is a number that a float cannot hold."""
    number = float(value)
    if not math.isfinite(number):
        raise OverflowError(number)
    return number


def _spell(kind: Any) -> str:
    text = kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
    return text.replace(" | ", " or ").replace("NoneType", "None")
