"""`isojepa theory`, as a person and as a program would use it."""

import ast
import inspect
import json
from pathlib import Path

import pytest
import tyro

from isojepa_lab.cli.theory import Theory
from isojepa_lab.theory import CHECKS, catalogue, check

DOCUMENT = (Path(__file__).parents[3] / "docs/theory.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """A screen on which no line is broken."""
    monkeypatch.setenv("COLUMNS", "400")


def run(capsys, *arguments):
    code = tyro.cli(Theory, args=list(arguments)).run()
    return code, capsys.readouterr().out


def test_json_holds_every_field(capsys):
    code, out = run(capsys, "--only", "orthogonality", "--json")
    (told,) = json.loads(out)
    assert code == 0
    fields = "name theorem step claim formula method covers general precision tolerance passed"
    for name in (*fields.split(), "axiom_in_lean", "lean", "note", "seconds", "parts"):
        assert name in told, name
    assert told["passed"] is told["exact"] is True
    assert told["axiom_in_lean"] is False
    assert len(told["parts"]) == 14


def test_the_list_names_every_check_and_runs_none(capsys, monkeypatch):
    monkeypatch.setattr(check.Check, "__call__", lambda self: pytest.fail("ran"))
    _, out = run(capsys, "--list")
    for entry in CHECKS:
        assert entry.name in out
        assert entry.claim in out
    _, out = run(capsys, "--list", "--json")
    assert [entry["name"] for entry in json.loads(out)] == [entry.name for entry in CHECKS]


def test_a_failed_check_gives_exit_code_1_and_says_what_was_not_shown(capsys, monkeypatch):
    @check.check("wrong", theorem="forward", step="none", method="symbolic", covers="nothing")
    def wrong():
        """One is two.

        1 = 2
        """
        yield check.vanishes("the difference [of both]", 1)

    monkeypatch.setattr(catalogue, "CHECKS", (wrong,))
    monkeypatch.setattr("isojepa_lab.theory.CHECKS", (wrong,))
    code, out = run(capsys)
    assert code == 1
    assert "✗" in out
    assert "not shown: the difference [of both] (error inf, allowed 0)" in out
    assert "1 of 1 checks failed: wrong" in out
    code, out = run(capsys, "--json")
    assert code == 1
    assert json.loads(out)[0]["precision"] == "inf"


def test_the_module_of_the_command_does_not_import_sympy_for_all_commands():
    tree = ast.parse(Path(inspect.getfile(Theory)).read_text(encoding="utf-8"))
    imported = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert "isojepa.cli.printing" in imported
    assert not any(module.startswith(("isojepa_lab.theory", "sympy")) for module in imported)


@pytest.mark.parametrize("entry", CHECKS, ids=lambda entry: entry.name)
def test_the_document_has_every_check_with_its_claim_and_mark(entry):
    rows = [line for line in DOCUMENT.splitlines() if line.startswith(f"| `{entry.name}` |")]
    assert len(rows) == 1
    assert entry.claim in rows[0]
    assert ("yes" if entry.lean else "") == rows[0].split("|")[-2].strip()
    assert ("general" if entry.general else "cases") in rows[0]


def test_the_document_names_no_check_that_is_gone():
    names = {line.split("`")[1] for line in DOCUMENT.splitlines() if line.startswith("| `")}
    assert names == {entry.name for entry in CHECKS}
