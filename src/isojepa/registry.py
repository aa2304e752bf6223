"""Registry of components: the only place where worlds, encoders, objectives and their parts have names.

A component is described by its spec: a frozen dataclass, registered beside the class it builds,

    @register("objective", "lejepa")
    @dataclass(frozen=True)
    class LeJEPASpec(Spec):
        weight: float = 2e-3
        '''Weight λ of the regularizer, in [0, 1].'''

        def build(self, context: Context) -> LeJEPA: ...

Its fields are the settings of the component; their docstrings are the help of the flags. Flags, YAML, run
directories, `isojepa list`, error messages and cost estimates all read the spec. A field made by
`component_field(kind)` is itself a component: the settings of the selected one stand beside it.

Other packages add components through the entry point group "isojepa.components": each entry point names a
module whose import registers them.
"""

import ast
import dataclasses
import importlib
import inspect
import itertools
import textwrap
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any, ClassVar, Self, TypeVar

from isojepa.importing import lab_hint
from isojepa.validation import choose, unknown


@dataclass(frozen=True)
class Setting:
    """One setting of a component.

    Attributes:
        key: its name in flags, YAML and records.
        type: of its values.
        default: its value where nothing is said.
        help: one sentence.
        choice: the kind of component that the setting chooses; else empty.
    """

    key: str
    type: Any
    default: Any
    help: str
    choice: str = ""


def default_of(item: "dataclasses.Field[Any]") -> Any:
    """The value of a field where nothing is said; MISSING if it has none."""
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return item.default


@cache
def own_settings(cls: type) -> tuple[tuple[Setting, Any], ...]:
    """The fields of a spec as settings, each with its default: that of a choice is a component."""
    hints, helps = typing.get_type_hints(cls), _helps(cls)
    pairs = []
    for item in dataclasses.fields(cls):
        kind, default = item.metadata.get("kind", ""), default_of(item)
        known, value = (str, default.name) if kind else (hints[item.name], default)
        pairs.append((Setting(item.name, known, value, helps.get(item.name, ""), kind), default))
    return tuple(pairs)


def _helps(cls: type) -> dict[str, str]:
    """Docstrings of the fields of a dataclass and its bases, which Python does not keep."""
    helps: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        helps |= dict(_documented(base))
    return helps


def _documented(cls: type) -> Iterator[tuple[str, str]]:
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    except (OSError, TypeError, SyntaxError):  # a class made at a prompt has no source
        return
    statements = body.body if isinstance(body, ast.ClassDef) else []
    for field, doc in itertools.pairwise(statements):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = doc.value if isinstance(doc, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield field.target.id, " ".join(text.value.split())


GROUP = "isojepa.components"
# components of isojepa-lab by kind: without it, their names fail with the command that installs it
LAB = {
    "world": ("reacher", "reacher-episodes", "reacher-isotropised"),
    "environment": ("emoji", "recipes", "rig", "robomimic", "smallnorb", "toys"),
    "backbone": ("alexnet-features", "squeezenet-features", "vgg16-features"),
    "objective": ("dino", "dinov2", "ibot", "imitated", "mae", "moco", "mutual", "swav", "taught"),
}
# the package's components: kind -> module -> names, so that a question about one imports one module
COMPONENTS: dict[str, dict[str, tuple[str, ...]]] = {
    "law": {
        "distributions.densities": (
            "normal",
            "generalized-normal",
            "laplace",
            "student-t",
            "uniform",
            "bimodal",
            "sparse",
        ),
    },
    "process": {
        "data.processes": ("ornstein-uhlenbeck", "langevin", "copula", "noisy-copies"),
    },
    "mixing": {
        "data.world": (
            "identity",
            "spiral",
            "sinusoid",
            "parabola",
            "additive-coupling",
            "affine-coupling",
            "lift",
            "perceptron",
        ),
    },
    "world": {
        "data.world": ("synthetic",),
        "data.images.source": ("images",),
        "data.files": ("episodes",),
        "data.observers": ("observer", "together"),
    },
    "encoder": {
        "encoders.convnets": ("conv",),
        "encoders.backbones": ("backbone",),
        "encoders.coupling": ("coupling", "free-coupling"),
        "encoders.mlp": ("mlp", "residual-mlp"),
        "encoders.world_model": ("world-model",),
    },
    "objective": {
        "objectives.masked": ("masked",),
        "objectives.autoencoder": ("autoencoder",),
        "objectives.infonce": ("infonce", "aninfonce", "sliced-infonce", "simclr"),
        "objectives.latent_dynamics": ("latent-dynamics",),
        "objectives.vicreg": ("vicreg", "barlow-twins"),
        "objectives.lejepa": ("lejepa", "whitening", "lejepa-images"),
        "objectives.supervised": ("supervised", "random"),
    },
    "environment": {
        "data.images.source": ("cameras",),
        "data.observers": ("latents",),
    },
    "backbone": {
        "encoders.convnets": ("convnet", "gridnet", "resnet18-small"),
    },
}
# of every spec, besides `build`
_ANSWERS = ("costless", "resolve", "operations", "around", "embedding", "feature_dim", "transformer")
_RESERVED = ("kind", "name", "build", *_ANSWERS)
T = TypeVar("T", bound=type)
_specs: dict[str, dict[str, "type[Spec]"]] = {}
_defaults: dict[str, str] = {}  # the first of each kind that asks to be it


class ComponentWarning(UserWarning):
    """A package with components could not be loaded."""


@dataclass(frozen=True)
class Context:
    """Properties of the run that a component is built for; None means unknown.

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
            (`isojepa.data.observers.Pairing`).
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
            ValueError: there is none, or models cannot be opened in this context.
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
            ValueError: it is unknown.
        """
        if self.dim is None:
            raise ValueError("the number of latents is not known in this world: set the dimension")
        return self.dim


@dataclass(frozen=True)
class Spec:
    """Interface of specs; `register` adds these defaults to a dataclass that lacks them."""

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
        """Context of a source for other components; the default builds the source."""
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
        name: name in flags and configs, e.g. "lejepa".
        default: whether it is the default of its kind.

    Raises:
        ValueError: the class is no frozen dataclass with `build`, has a name or a setting that means
            something else, or the component's name is taken.
    """

    def decorate(cls: T) -> T:
        frozen = dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
        if not frozen or "build" not in dir(cls):
            raise ValueError(f"{kind} {name!r} must be a frozen dataclass with `build`, got {cls.__name__}")
        table = _specs.setdefault(kind, {})
        before = _address(table[name]) if name in table else _module_of(kind, name)
        if before and before not in (_address(cls), cls.__module__):
            raise ValueError(f"{kind} {name!r} is taken by {before}, got {_address(cls)} too")
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
            if answer not in dir(cls):  # a plain dataclass of another package
                setattr(cls, answer, vars(Spec)[answer])
        cls.kind, cls.name = kind, name  # type: ignore[attr-defined]
        table[name] = cls
        if default:
            _defaults[kind] = name
        return cls

    return decorate


def component_field(kind: str, default: Callable[[], Any]) -> Any:
    """A field of a spec that is itself a component, of the given default."""
    return dataclasses.field(default_factory=default, metadata={"kind": kind})


def components(kind: str) -> dict[str, type[Spec]]:
    """The specs of a kind by name: those of the package, then those of other packages."""
    _load_entry_points()
    choose("kind of component", kind, dict.fromkeys((*COMPONENTS, *_specs)))
    for module in COMPONENTS.get(kind, ()):
        importlib.import_module(f"isojepa.{module}")
    names = (name for group in COMPONENTS.get(kind, {}).values() for name in group)
    return {name: _specs[kind][name] for name in dict.fromkeys((*names, *_specs[kind]))}


def kinds() -> list[str]:
    """The kinds of components."""
    _load_entry_points()
    return list(dict.fromkeys((*COMPONENTS, *_specs)))


def component_packages() -> set[str]:
    """Packages that register components, isojepa among them."""
    _load_entry_points()
    modules = (spec.__module__ for table in _specs.values() for spec in table.values())
    return {"isojepa", *(module.partition(".")[0] for module in modules)}


def find(kind: str, name: str | None = None) -> type[Spec]:
    """The spec of a name; without a name, of the kind's default.

    Raises:
        ValueError: there is no such component; the message lists the choices and the nearest, or how to
            install isojepa-lab if it is one of its components.
    """
    if isinstance(name, str) and (module := _module_of(kind, name)):
        importlib.import_module(module)
        return _specs[kind][name]
    table = components(kind)
    if name in LAB.get(kind, ()) and name not in table:
        raise ValueError(f"{kind} {name!r} is part of isojepa-lab, which is not installed: {lab_hint()}")
    return choose(kind, _defaults.get(kind, next(iter(table))) if name is None else name, table)


def is_spec(thing: Any, kind: str) -> bool:
    """Whether something is the spec of a component of a kind."""
    choose("kind of component", kind, dict.fromkeys((*COMPONENTS, *_specs)))
    return type(thing) in _specs.get(kind, {}).values()


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

    for setting, value in own_settings(cls):
        if default is not None:
            value = getattr(default, setting.key)
            setting = Setting(
                setting.key,
                setting.type,
                value.name if setting.choice else value,
                setting.help,
                setting.choice,
            )
        add(setting)
        if setting.choice:
            inner = find(setting.choice, values.get(setting.key, value.name))
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


def build_spec(kind: str, name: str | None = None, **values: Any) -> Any:
    """The spec of a component and some of its settings, by name.

    Raises:
        ValueError: there is no such component or setting.

    Example:
        >>> build_spec("world", process="langevin", law="laplace", mixing="identity").process.law.name
        'laplace'
    """
    cls = find(kind, name)
    known_settings = settings(cls, values)
    for key in values:
        if key not in known_settings:
            raise ValueError(unknown(f"setting {key!r} of {kind} {cls.name!r}", key, known_settings))
    return assemble(cls, values)


def replace_settings(spec: Any, **values: Any) -> Any:
    """The same component with other settings, those of the components within it too.

    Where another component is chosen within it, settings that both have keep their values.

    Example:
        >>> replace_settings(build_spec("world"), rho=0.9).process.rho
        0.9
        >>> replace_settings(build_spec("world", rho=0.9), process="langevin", mixing="identity").process.rho
        0.9
    """
    before = flatten(spec)
    known_settings = settings(type(spec), before | values)
    return build_spec(
        spec.kind, spec.name, **{key: before[key] for key in before if key in known_settings} | values
    )


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


def _module_of(kind: str, name: str) -> str:
    """The module of isojepa that registers a component; empty for components of other packages."""
    modules = COMPONENTS.get(kind, {}).items()
    return next((f"isojepa.{module}" for module, names in modules if name in names), "")


@cache
def _load_entry_points() -> None:
    """Import the components of other packages."""
    for entry in metadata.entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:  # a broken package must not disable the others
            warnings.warn(
                f"the components of {entry.value} could not be loaded: {type(error).__name__}: {error}",
                ComponentWarning,
                stacklevel=2,
            )


def _address(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
