"""Flags of components: those of the chosen ones, and no others.

Which settings a section has depends on the component that is chosen in it, by a flag or by a config file.
So the choices are read first, and the command is then parsed with just the settings of what was chosen:
`--help` after `--objective.name infonce` shows the options of infonce.
"""

import dataclasses
import typing
from collections.abc import Callable, Collection, Iterator
from typing import Annotated, Any

import tyro

from isojepa.config import SECTIONS, Config, read_config, stray
from isojepa.registry import Setting, Spec, assemble, components, find, settings
from isojepa.training.recipe import SYNONYMS, Recipe


def parse(command: type, prog: str, arguments: list[str]) -> Any:
    """A command with its flags filled in; fields that are a Config or a Spec take the flags of components.

    Raises:
        ValueError: a component does not exist, or has no such setting.
        SystemExit: help was requested, or a flag is wrong; printed.
    """
    common = getattr(command, "common", None) if {"-h", "--help"} & {*arguments} else None
    arguments = ["--help" if argument == "--help-all" else argument for argument in arguments]
    hints = typing.get_type_hints(command)
    config_fields = {name: hint for name, hint in hints.items() if hint in (Config, Spec)}
    if not config_fields:
        return tyro.cli(command, prog=prog, args=arguments)
    if Config in config_fields.values():
        arguments = _expanded(arguments, "data" in hints)
    _check_flags(arguments, {name.replace("_", "-") for name in hints})
    start = _config_file(arguments, vars(command).get("start", Config))
    fields: list[Any] = []
    for name, hint in config_fields.items():
        if hint is Config:
            kind: Any = Annotated[_config_flags(start, arguments, common), tyro.conf.arg(name="")]
        else:
            kind = _section_flags(name, name, getattr(start, name), arguments)
        flags = typing.get_args(kind)[0] if hint is Config else kind
        fields.append((name, kind, dataclasses.field(default_factory=flags)))
    if common is not None:
        fields += _hidden(command, common | {*config_fields})
    flagged = dataclasses.make_dataclass(command.__name__, fields, bases=(command,))
    flagged.__doc__ = command.__doc__
    parsed: Any = tyro.cli(flagged, prog=prog, args=arguments)
    values = {item.name: getattr(parsed, item.name) for item in dataclasses.fields(command) if item.init}
    for name, hint in config_fields.items():
        values[name] = _config(values[name]) if hint is Config else _spec(name, values[name])
    return command(**values)


def _expanded(arguments: list[str], data: bool) -> list[str]:
    """Arguments with short forms written out.

    `--objective NAME` is `--objective.name NAME`, likewise --encoder and --world. With a flag `data`,
    `--data FILE` is the world "episodes" of that file with the encoder "world-model", unless one is named.
    """
    expanded: list[str] = []
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        section = flag.removeprefix("--") in SECTIONS and flag.startswith("--")
        expanded.append(f"{flag}.name{equals}{value}" if section else argument)
    values = dict(_flag_values("--data", expanded)) if data else {}
    if "--data" in values:
        expanded += ["--world.name", "episodes", "--world.path", values["--data"]]
        if not any(one.startswith("--encoder.name") for one in expanded):
            expanded += ["--encoder.name", "world-model"]
    return expanded


def _check_flags(arguments: list[str], flags: set[str]) -> None:
    """Name the setting of training that is meant by a flag without a section.

    Raises:
        ValueError: there is one.
    """
    names = [item.name for item in dataclasses.fields(Recipe)]
    for argument in arguments:
        flag = argument.removeprefix("--").partition("=")[0]
        name = SYNONYMS.get(flag.replace("-", "_"), flag.replace("-", "_"))
        if argument.startswith("--") and flag not in flags and name in names:
            raise ValueError(
                f"there is no option --{flag}; did you mean --training.{name.replace('_', '-')}?"
            )


def _hidden(kind: Any, common: Collection[str]) -> list[Any]:
    """The fields of a dataclass that are not common, as fields of a subclass that help leaves out."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return [
        (item.name, Annotated[hints[item.name], tyro.conf.Suppress], dataclasses.field(default=item.default))
        for item in dataclasses.fields(kind)
        if item.name not in common and item.default is not dataclasses.MISSING
    ]


def _config_flags(start: Config, arguments: list[str], common: Collection[str] | None = None) -> type:
    """A dataclass whose fields are the flags of a config; help shows the common ones, or all."""
    sections = [
        (name, flags, dataclasses.field(default_factory=flags))
        for name, kind in SECTIONS.items()
        for flags in (_section_flags(name, kind, getattr(start, name), arguments, common),)
    ]
    recipe: Any = Recipe
    if common is not None:
        common_keys = {key.removeprefix("training.") for key in common if key.startswith("training.")}
        recipe = dataclasses.make_dataclass(
            "Recipe", _hidden(Recipe, common_keys), bases=(Recipe,), frozen=True
        )
    help_of_seed = "Random seed of initial weights, data, slices and the held-out set."
    seed = ("seed", Annotated[int, tyro.conf.arg(help=help_of_seed)], dataclasses.field(default=start.seed))
    default = dataclasses.field(default_factory=lambda: recipe(**vars(start.training)))
    training = ("training", recipe, default)
    return dataclasses.make_dataclass("Settings", [*sections, training, seed])


def _section_flags(
    section: str, kind: str, start: Spec, arguments: list[str], common: Collection[str] | None = None
) -> type:
    """A dataclass whose fields are the settings of the component that is chosen in a section."""
    requested = dict(_given(section, arguments))
    cls = find(kind, requested.get("name", start.name))
    default = start if type(start) is cls else None
    known_settings = settings(cls, requested, default)
    for key in requested:
        if key not in known_settings and key != "name":
            raise ValueError(stray(section, key, cls, known_settings, requested))
    names = ", ".join(components(kind))
    name = Setting("name", str, typing.cast(Any, cls).name, f"One of {names}; `isojepa list`.")
    fields: list[Any] = [
        (
            one.key,
            Annotated[one.type, tyro.conf.FlagConversionOff, tyro.conf.arg(help=one.help)]
            if common is None or f"{section}.{one.key}" in common
            else Annotated[one.type, tyro.conf.Suppress],
            dataclasses.field(default=one.default),
        )
        for one in (name, *known_settings.values())
    ]
    flags = dataclasses.make_dataclass(section.capitalize(), fields)
    flags.__doc__ = (cls.__doc__ or "").partition("\n")[0]
    return flags


def _given(section: str, arguments: list[str]) -> Iterator[tuple[str, str]]:
    """The flags of a section and what follows them."""
    for flag, value in _flag_values(f"--{section}.", arguments):
        yield flag.removeprefix(f"--{section}.").replace("-", "_"), value


def _flag_values(prefix: str, arguments: list[str]) -> Iterator[tuple[str, str]]:
    """Flags that begin with a prefix, and their values."""
    for index, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag.startswith(prefix):
            yield flag, value if equals else (arguments[index + 1] if index + 1 < len(arguments) else "")


def _config(flags: Any) -> Config:
    sections = {name: _spec(kind, getattr(flags, name)) for name, kind in SECTIONS.items()}
    return Config(**sections, training=flags.training, seed=flags.seed)


def _spec(kind: str, flags: Any) -> Spec:
    return assemble(find(kind, flags.name), vars(flags))


def _config_file(arguments: list[str], start: Callable[[], Config]) -> Config:
    """The config that `--config FILE` names, or where the command starts: flags override its values."""
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == "--config":
            return read_config(value if equals else (arguments[index + 1 :] or [""])[0])
    return start()
