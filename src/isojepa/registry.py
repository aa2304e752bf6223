"""Components by name: the one place where worlds, encoders, objectives and their parts are named.

A component is described by its spec: a frozen dataclass, registered beside the thing it builds,

    @register("objective", "lejepa")
    @dataclass(frozen=True)
    class LeJEPASpec(Spec):
        weight: float = 2e-3
        '''Weight λ of the regularizer, in [0, 1].'''

        def build(self, context: Context) -> LeJEPA: ...

Its fields are the settings of the component; their docstrings are the help of the flags. Flags, YAML,
records, `isojepa list`, error messages and cost estimates all read the spec. A field of `chosen(kind)` is
itself a component: the settings of the chosen one stand beside it.

Other packages bring components of their own through the entry point group "isojepa.components": each entry
point names a module, whose import registers them.
"""

import dataclasses
import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any, ClassVar, Self, TypeVar

from isojepa.names import choose, unknown
from isojepa.settings import Setting, default_of, own_settings

GROUP = "isojepa.components"
ROOMS = ("laws", "worlds", "isotropise", "encoders", "objectives")  # whose modules register components
# of every spec, besides `build`
_ANSWERS = ("costless", "resolve", "operations", "around", "embedding", "feature_dim", "transformer")
_RESERVED = ("kind", "name", "build", *_ANSWERS)
T = TypeVar("T", bound=type)
_specs: dict[str, dict[str, "type[Spec]"]] = {}
_defaults: dict[str, str] = {}  # the first of each kind that asks to be it


class ComponentWarning(UserWarning):
    """A package that brings components could not be loaded."""


@dataclass(frozen=True)
class Context:
    """What a component may ask about the run it is built for; None where it is not known yet.

    Attributes:
        dim: number of latents.
        shapes: of one observation in each view.
        correlation: of the latents across a pair.
        embedding: dimension of the embedding.
        seed: of the run.
        feature_dim: dimension of the features, which probes and supervised heads read.
        classes: number of classes of the labels.
        transformer: whether the encoder is a vision transformer.
        pairing: which views of a batch are whose, where it holds those of two observers
            (`isojepa.worlds.observers.Pairing`).
        opened: gives the trained model of a record or an exported file, by its path.
        actions: dimensions of an action, where the source brings actions.
        source: the source itself, where it is built already.
    """

    dim: int | None = None
    shapes: tuple[tuple[int, ...], ...] | None = None
    correlation: float | tuple[float, ...] | None = None
    embedding: int | None = None
    seed: int = 0
    feature_dim: int | None = None
    classes: int | None = None
    transformer: bool | None = None
    pairing: Any = None
    opened: Callable[[str], Any] | None = None
    actions: int | None = None
    source: Any = None

    @classmethod
    def of(cls, source: Any, seed: int = 0) -> Self:
        """What is known of a source."""
        facts = source.facts
        return cls(
            facts.dim,
            facts.shapes,
            facts.correlation,
            seed=seed,
            classes=facts.classes,
            actions=facts.actions,
            source=source,
        )

    def trained(self, path: str) -> Any:
        """The trained model of a record, or of a file that was exported.

        Raises:
            ValueError: there is none, or nobody can open one here.
        """
        if not path:
            raise ValueError("a trained model must be named: the path of its record, or of an exported file")
        if self.opened is None:
            raise ValueError(f"{path} cannot be opened here: build the component through a run's config")
        return self.opened(path)

    @property
    def observed(self) -> int:
        """Number of observed coordinates.

        Raises:
            ValueError: observations are not vectors.
        """
        if self.shapes is None or len(self.shapes[0]) != 1:
            raise ValueError(f"observations must be vectors for this component, got shapes {self.shapes}")
        return self.shapes[0][0]

    @property
    def latents(self) -> int:
        """Number of latents.

        Raises:
            ValueError: nobody knows it.
        """
        if self.dim is None:
            raise ValueError("the number of latents is not known in this world: set the dimension")
        return self.dim


@dataclass(frozen=True)
class Spec:
    """What every spec answers. `register` gives these answers to a dataclass that has none of its own."""

    kind: ClassVar[str]
    name: ClassVar[str]
    costless: ClassVar[tuple[str, ...]] = ()
    """Settings that do not change the price of a step, unless they are words."""

    def resolve(self, context: Context) -> Self:
        """The same with every setting that follows from others written out."""
        return self

    def build(self, context: Context) -> Any:
        """The component."""
        raise NotImplementedError(f"{type(self).__name__} must define build(context)")

    def operations(self, batch: float, dim: int) -> float:
        """Rough number of operations that one step of an objective takes on embeddings (batch, dim)."""
        return 12.0 * batch * dim**2

    def around(self, seed: int) -> Context:
        """What a source's spec tells other components, by building it unless the spec knows better."""
        return Context.of(self.build(Context(seed=seed)), seed)

    def embedding(self, context: Context) -> int | None:
        """Dimension of an encoder's embedding: the setting `dim`, unless the spec knows better."""
        return vars(self).get("dim", context.dim)

    def feature_dim(self, context: Context) -> int | None:
        """Dimension of an encoder's features: that of the embedding, unless the spec knows better."""
        return self.embedding(context)

    def transformer(self, context: Context) -> bool | None:
        """Whether an encoder is a vision transformer, where the spec knows."""
        return None


def register(kind: str, name: str, *, default: bool = False) -> Callable[[T], T]:
    """Name a component.

    Args:
        kind: what it is, e.g. "objective".
        name: what people type, e.g. "lejepa".
        default: whether it is the one taken where nothing is said.

    Raises:
        ValueError: the class is no frozen dataclass with `build`, has a name or a setting that means
            something else, or the component's name is taken.
    """

    def decorate(cls: T) -> T:
        frozen = dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
        if not frozen or "build" not in dir(cls):
            raise ValueError(f"{kind} {name!r} must be a frozen dataclass with `build`, got {cls.__name__}")
        table = _specs.setdefault(kind, {})
        before = table.get(name)
        if before is not None and _address(before) != _address(cls):
            raise ValueError(f"{kind} {name!r} is taken by {_address(before)}, got {_address(cls)} too")
        for item in dataclasses.fields(cls):
            if item.name in _RESERVED:
                raise ValueError(
                    f"a setting of {_address(cls)} must not be called {', '.join(_RESERVED)}, "
                    f"got {item.name!r}"
                )
            if default_of(item) is dataclasses.MISSING:
                raise ValueError(
                    f"every setting of {_address(cls)} must have a default, got none for {item.name!r}"
                )
        for other, other_name in (
            (k, n) for k, named in _specs.items() for n, one in named.items() if one is cls
        ):
            if (other, other_name) != (kind, name):
                raise ValueError(
                    f"{_address(cls)} is {other} {other_name!r} already, got the name {name!r} too"
                )
        for answer in _ANSWERS:
            if answer not in dir(cls):  # a plain dataclass of somebody's own
                setattr(cls, answer, vars(Spec)[answer])
        cls.kind, cls.name = kind, name  # type: ignore[attr-defined]
        table[name] = cls
        if default:
            _defaults[kind] = name
        return cls

    return decorate


def chosen(kind: str, default: Callable[[], Any]) -> Any:
    """A field of a spec that is itself a component, of the given default."""
    return dataclasses.field(default_factory=default, metadata={"kind": kind})


def components(kind: str) -> dict[str, type[Spec]]:
    """The specs of a kind by name, those of other packages too."""
    _load()
    return choose("kind of component", kind, _specs)


def kinds() -> list[str]:
    """The kinds of components there are."""
    _load()
    return list(_specs)


def find(kind: str, name: str | None = None) -> type[Spec]:
    """The spec of a name; without a name, of the kind's default.

    Raises:
        ValueError: there is no such component; the message lists the choices and the nearest.
    """
    table = components(kind)
    return choose(kind, _defaults.get(kind, next(iter(table))) if name is None else name, table)


def is_spec(thing: Any, kind: str) -> bool:
    """Whether something is the spec of a component of a kind."""
    return type(thing) in components(kind).values()


def summary(cls: type) -> str:
    """What a component is, in one line."""
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def settings(cls: type, values: Mapping[str, Any], default: Any = None) -> dict[str, Setting]:
    """The settings of a spec by key, with those of the components that `values` choose within it.

    Args:
        cls: the spec.
        values: settings by key, which may name chosen components.
        default: a spec of the class whose values are the defaults, in place of the class's own.

    Raises:
        ValueError: two settings have one key, or a chosen component does not exist.
    """
    found: dict[str, Setting] = {}

    def add(one: Setting) -> None:
        if one.key in found or one.key == "name":
            raise ValueError(f"{cls.__name__} has two settings {one.key!r}")
        found[one.key] = one

    for own, value in own_settings(cls):
        if default is not None:
            value = getattr(default, own.key)
            own = Setting(own.key, own.type, value.name if own.choice else value, own.help, own.choice)
        add(own)
        if own.choice:
            inner = find(own.choice, values.get(own.key, value.name))
            for one in settings(inner, values, value if type(value) is inner else None).values():
                add(one)
    return found


def assemble(cls: type[Spec], values: Mapping[str, Any]) -> Spec:
    """The spec of some settings by key; the rest take their defaults. Keys of others are ignored."""
    parts: dict[str, Any] = {}
    for item in dataclasses.fields(cls):
        kind = item.metadata.get("kind", "")
        if kind:
            parts[item.name] = assemble(find(kind, values.get(item.name, default_of(item).name)), values)
        elif item.name in values:
            parts[item.name] = values[item.name]
    return cls(**parts)


def make(kind: str, name: str | None = None, **values: Any) -> Any:
    """The spec of a component and some of its settings, by name.

    Raises:
        ValueError: there is no such component or setting.

    Example:
        >>> make("world", process="langevin", law="laplace", mixing="identity").process.law.name
        'laplace'
    """
    cls = find(kind, name)
    known = settings(cls, values)
    for key in values:
        if key not in known:
            raise ValueError(unknown(f"setting {key!r} of {kind} {cls.name!r}", key, known))
    return assemble(cls, values)


def changed(spec: Any, **values: Any) -> Any:
    """The same component with other settings, those of the components within it too.

    Where another component is chosen within it, settings that both have keep their values.

    Example:
        >>> changed(make("world"), rho=0.9).process.rho
        0.9
        >>> changed(make("world", rho=0.9), process="langevin", mixing="identity").process.rho
        0.9
    """
    before = flatten(spec)
    known = settings(type(spec), before | values)
    return make(spec.kind, spec.name, **{key: before[key] for key in before if key in known} | values)


def flatten(spec: Any) -> dict[str, Any]:
    """The settings of a spec by key, those of the components within it beside its own."""
    found: dict[str, Any] = {}
    for item in dataclasses.fields(spec):
        value = getattr(spec, item.name)
        found |= {item.name: value.name, **flatten(value)} if "kind" in item.metadata else {item.name: value}
    return found


def price(spec: Any) -> dict[str, Any]:
    """The settings of a spec that decide what a step costs."""
    found: dict[str, Any] = {"name": spec.name}
    for item in dataclasses.fields(spec):
        value = getattr(spec, item.name)
        if "kind" in item.metadata:
            found[item.name] = price(value)
        elif isinstance(value, str) or item.name not in spec.costless:
            found[item.name] = value
    return found


@cache
def _load() -> None:
    """Import the package's own rooms and what other packages bring."""
    for room in ROOMS:
        package = importlib.import_module(f"isojepa.{room}")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"isojepa.{room}.{module.name}")
    for entry in metadata.entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:  # one broken package must not take the others along
            warnings.warn(
                f"the components of {entry.value} could not be loaded: {type(error).__name__}: {error}",
                ComponentWarning,
                stacklevel=2,
            )


def _address(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
