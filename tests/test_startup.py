"""What importing the package and calling its commands load, each in a process of its own."""

import ast
import importlib
import json
import pkgutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import isojepa as ij
from isojepa import registry
from isojepa.cli.main import COMMANDS, LAB, commands, main
from tests.lab.sweep.cells import tiny, write_study
from tests.processes import run

HEAVY = {"torch", "numba", "scipy.stats", "scipy.optimize", "matplotlib", "lightning_fabric", "sympy"}
SMALL = [
    *("--encoder.width", "8", "--encoder.layers", "2", "--objective.slices", "4"),
    *("--training.steps", "4", "--training.batch", "16", "--training.eval-samples", "64"),
]


def loaded(code: str, new: bool = True) -> set[str]:
    """The heavy modules that a process has after some code: a new process, or one that has torch already."""
    code += f"\nimport json, sys; sys.stderr.write(json.dumps(sorted({HEAVY!r} & set(sys.modules))))"
    if new:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    else:
        done = run(code)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_importing_the_package_loads_nothing_heavy():
    assert loaded("import isojepa") == set()


def test_every_public_name_is_there_after_a_plain_import_and_loads_torch_but_no_other_heavy_library():
    names = (
        "ij.data.World, ij.distributions.Normal, ij.data.isotropize, "
        "ij.objectives.gaussianity.EppsPulley, "
        "ij.encoders.MLP, ij.training.Recipe, ij.certificates.certify"
    )
    code = f"import isojepa as ij\n{names}\nfor name in ij.__all__: getattr(ij, name)"
    assert loaded(code) == {"torch"}


def test_objectives_load_few_modules():
    code = "import json, sys, isojepa.objectives.sigreg\nsys.stderr.write(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = [name for name in json.loads(done.stderr) if name.partition(".")[0] in ("isojepa", "isojepa_lab")]
    assert len(names) <= 40
    heavy = ("isojepa.data.images", "isojepa.planning", "isojepa.report", "isojepa_lab")
    assert not [name for name in names if name.startswith(heavy)]


PACKAGES = [module.name for module in pkgutil.walk_packages(ij.__path__, "isojepa.") if module.ispkg]


@pytest.mark.parametrize("name", ["isojepa", *PACKAGES])
def test_lazy_names_of_packages_exist_and_are_listed(name):
    package = importlib.import_module(name)
    public = getattr(package, "__all__", [])
    assert {*public} <= {*dir(package)}
    for entry in public:
        getattr(package, entry)
    with pytest.raises(AttributeError, match="no attribute 'wolrds'"):
        _ = package.wolrds


def test_the_table_of_components_is_that_of_the_decorators():
    source = Path(ij.__file__).parent
    decorated = {
        (".".join(file.relative_to(source).with_suffix("").parts), *(item.value for item in node.args))
        for file in source.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "register"
    }
    table = registry.COMPONENTS.items()
    listed = {(module, kind, name) for kind, own in table for module, names in own.items() for name in names}
    assert decorated == listed


def test_help_and_version_need_no_torch():
    calls = [["--help"], ["-h"], [], ["--version"], ["-V"]]
    assert loaded(f"from isojepa.cli import main\nassert not any(map(main, {calls}))") == set()


def test_a_misspelt_command_is_one_line_and_needs_no_torch():
    code = "from isojepa.cli import main\nassert main(['trian', '--seed', '3']) == 2"
    assert loaded(code) == set()
    done = subprocess.run(
        [sys.executable, "-m", "isojepa", "trian"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("got 'trian'; did you mean 'train'?\n")


@pytest.mark.parametrize("name", LAB)
def test_without_the_lab_its_commands_say_what_to_install(name, monkeypatch, capsys):
    monkeypatch.setattr(metadata, "entry_points", lambda group: [])
    assert main([name, "--help"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {name} is a command of isojepa-lab, which is not installed: ")
    assert "pip install -c constraints.txt -e lab" in line


def test_a_broken_distribution_takes_no_other_command_along(monkeypatch):
    broken = metadata.EntryPoint("broken", "no_such_module:COMMANDS", "isojepa.commands")
    monkeypatch.setattr(metadata, "entry_points", lambda group: [broken])
    with pytest.warns(UserWarning, match="the commands of no_such_module:COMMANDS could not be loaded"):
        assert set(commands()) == set(COMMANDS)


@pytest.mark.parametrize(
    "worker", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["alone", "with a worker"]
)
def test_commands_that_draw_nothing_load_no_matplotlib(tmp_path, worker):
    np.save(tmp_path / "h.npy", np.random.default_rng(0).normal(size=(200, 2)))
    study = write_study(tmp_path / "study.py", {"0": tiny()})
    commands = [
        ["list"],
        ["study", "show", "axes"],
        ["train", *SMALL, "--record", tmp_path / "run"],
        ["certify", tmp_path / "h.npy"],
        ["certify", tmp_path / "run", "--samples", 500],
    ]
    if worker:
        commands = [["sweep", study, "--estimate", "--workers", 1, "--records", tmp_path / "records"]]
    code = (
        "import sys\nfrom isojepa.cli import main\n"
        f"for command in {[[str(word) for word in command] for command in commands]!r}:\n"
        "    assert main(command) == 0, command\n"
        "    assert 'matplotlib' not in sys.modules, command\n"
        "from isojepa_lab.sweep.plan import find_studies\nfind_studies(['all'])"
    )
    assert "matplotlib" not in loaded(code, new=False)
