"""What importing the package and calling its commands load, each in a process of its own."""

import ast
import importlib
import inspect
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import isojepa as ij
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
        "ij.worlds.World, ij.laws.Normal, ij.isotropise.isotropise, ij.objectives.gaussianity.EppsPulley, "
        "ij.encoders.MLP, ij.training.Recipe, ij.certificates.certify"
    )
    code = f"import isojepa as ij\n{names}\nfor name in ij.__all__: getattr(ij, name)"
    assert loaded(code) == {"torch"}


def test_names_are_listed_and_unknown_ones_refused():
    assert set(ij.__all__) <= set(dir(ij))
    with pytest.raises(AttributeError, match="no attribute 'wolrds'"):
        _ = ij.wolrds


def test_type_checkers_see_the_names_that_are_imported_when_asked_for():
    tree = ast.parse(Path(ij.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {*ij._ROOMS, *ij._HOMES} == seen == set(ij.__all__) - {"__version__"}


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


def test_help_lists_every_command_with_its_line_and_the_version():
    done = subprocess.run(
        [sys.executable, "-m", "isojepa", "--help"], capture_output=True, text=True, check=True
    )
    told = " ".join(done.stdout.replace("│", " ").split())
    assert "--version" in told
    for name, command in commands().items():
        assert f"{name} {command.summary}" in told


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


@pytest.mark.parametrize("name", commands())
def test_the_table_of_commands_has_the_first_lines_of_their_docstrings(name):
    command = commands()[name]
    found = getattr(importlib.import_module(command.module), command.name)
    assert (inspect.getdoc(found) or "").splitlines()[0] == command.summary


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
