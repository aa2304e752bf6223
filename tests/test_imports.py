"""Imports point up the house: a module may use its own room and those above it, never one below."""

import ast
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src/isojepa"
SMALL = [
    "seeds",
    "names",
    "files",
    "linear",
    "ranks",
    "places",
    "settings",
    "registry",
    "importing",
    "threads",
    "version",
    "terminal",
    "opening",
    "arguments",
    "vision",
    "torchvision_operators",
]
ORDER = [
    "laws",
    "worlds",
    "isotropise",
    "encoders",
    "objectives",
    "evaluations",
    "training",
    "watching",
    "config",
    "runs",
    "testing",
    "certificates",
    "theory",
    "align",
    "unmix",
    "planning",
    "exports",
    "report",
    "studies",
    "papers",
    "sweep",
    "cli",
]
OUTSIDE = ["__init__", "__main__"]  # they import everything, nobody imports them
EXCEPTIONS: dict[tuple[str, str], str] = {  # (module, what it imports): the reason
    ("isojepa.certificates.named", "isojepa.unmix"): "a certificate names axes only where it is asked to",
}


def room(module: str) -> str:
    """The part of the package a module belongs to: "worlds" for isojepa.worlds.world."""
    return module.split(".")[1] if "." in module else "__init__"


def level(name: str) -> int:
    """How far down the house a room lies; the small modules lie above all rooms."""
    if name in SMALL:
        return 0
    if name in OUTSIDE:
        return 1 + len(ORDER)
    assert name in ORDER, f"give {name} a place in ORDER, here and in docs/architecture.md"
    return 1 + ORDER.index(name)


def imported(source: str, module: str, is_package: bool = False) -> set[str]:
    """Every module of the package that the source imports: at its top, in functions, and for types alone."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: -node.level + is_package or None]
                base = ".".join([*parents, *([node.module] if node.module else [])])
            found |= {_part(alias.name) if base == "isojepa" else base for alias in node.names}
    return {name for name in found if name.split(".")[0] == "isojepa"}


def _part(name: str) -> str:
    """`from isojepa import runs` imports the module runs; `from isojepa import fit` the package itself."""
    is_module = (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()
    return f"isojepa.{name}" if is_module else "isojepa"


@cache
def graph() -> dict[str, set[str]]:
    """What every module of the package imports of the package."""
    edges = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE.parent).with_suffix("")
        parts = relative.parts[:-1] if path.stem == "__init__" else relative.parts
        module = ".".join(parts)
        edges[module] = imported(path.read_text(encoding="utf-8"), module, path.stem == "__init__")
    return edges


def broken(edges: dict[str, set[str]]) -> list[str]:
    """The imports that point down the house."""
    return [
        f"{module} imports {other}: {room(other)} lies below {room(module)}"
        for module, others in edges.items()
        for other in sorted(others)
        if level(room(other)) > level(room(module)) and (module, other) not in EXCEPTIONS
    ]


def test_every_module_and_room_has_a_place_in_the_order():
    named = {path.stem for path in PACKAGE.glob("*.py")}
    named |= {path.name for path in PACKAGE.iterdir() if any(path.glob("*.py"))}
    unplaced = named - {*SMALL, *ORDER, *OUTSIDE}
    assert not unplaced, f"give {sorted(unplaced)} a place in ORDER, here and in docs/architecture.md"


def test_imports_only_point_up_the_house():
    assert broken(graph()) == []


def test_small_modules_import_nothing_of_the_rooms():
    for module, others in graph().items():
        if room(module) in SMALL:
            assert {room(other) for other in others} <= set(SMALL), module


def test_exceptions_are_still_needed():
    edges = graph()
    for module, other in EXCEPTIONS:
        assert other in edges.get(module, set()), f"{module} no longer imports {other}: remove the exception"


@pytest.mark.parametrize(
    "source",
    [
        "from isojepa.report.page import write",
        "import isojepa.report.page as page",
        "from isojepa import report",
        "from isojepa import fit",
        "from ..report import page",
        "def later():\n    from isojepa.report import page",
        "if TYPE_CHECKING:\n    from isojepa.report import page",
    ],
)
def test_an_import_down_the_house_is_seen_wherever_it_stands(source):
    module = "isojepa.worlds.world"
    assert broken({module: imported(source, module)}), source
    assert not broken({"isojepa.__main__": imported("from isojepa.report import page", "isojepa.__main__")})


def test_an_import_up_the_house_is_allowed():
    module = "isojepa.report.page"
    source = "import json\nfrom isojepa import seeds\nfrom isojepa.worlds import World\nfrom . import lines"
    assert imported(source, module) == {"isojepa.seeds", "isojepa.worlds", "isojepa.report"}
    assert not broken({module: imported(source, module)})
