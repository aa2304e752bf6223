"""What others named or wrote reaches the screen as text: brackets stay, and nothing in it is obeyed."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from isojepa.cli import main
from isojepa.cli.printing import print_json
from isojepa.terminal import Console, escape_control, shell_quote
from tests.test_startup import SMALL

NASTY = "a[/b]\x1b]0;t\x07[red]\x9b31m\u202e\udce9\x7f"


def seen(show, **options):
    file = io.StringIO()
    show(Console(file=file, width=200, **options))
    return file.getvalue()


def obeyed(text):
    """The characters of a text that a terminal acts on."""
    return {char for char in text if escape_control(char) != char}


def table_of(cell):
    table = Table(title=cell)
    table.add_column(cell)
    table.add_row(cell)
    return table


@pytest.mark.parametrize(
    "thing",
    [NASTY, Text(NASTY), table_of(NASTY), Panel(NASTY), Panel(Text(NASTY)), [NASTY], {"a": NASTY}],
    ids=["text", "Text", "table", "panel", "panel of Text", "list", "dict"],
)
def test_whatever_is_printed_is_shown_and_not_obeyed(thing):
    text = seen(lambda console: console.print(thing))
    assert obeyed(text) == set()
    assert r"\x1b]0;t" in text
    assert "[/b]" in text
    assert "[red]" in text


def test_json_on_the_screen_is_safe_and_says_the_same(capsys):
    value = {"na\x1bme": NASTY, "ρ": "é\U000e0001"}
    print_json(value)
    out = capsys.readouterr().out
    assert obeyed(out) == set()
    assert json.loads(out) == value
    assert "ρ" in out


@pytest.mark.parametrize("name", ["plain", "a b", "a[/b]", "it's", "é", "$HOME", "-x", "\\"])
def test_a_suggested_command_can_be_copied(name):
    script = f"printf %s {shell_quote(name)}"
    assert obeyed(script) == set()
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert os.fsdecode(done.stdout) == name


@pytest.mark.parametrize(
    "command",
    [
        ["certify", f"{NASTY}.npy"],
        ["certify", "h.npy", "--bad", NASTY],
        ["certify", f"{NASTY}.py:encode"],
        ["train", "--config", NASTY],
        ["train", f"--world.{NASTY}", "3"],
        ["report", NASTY],
        ["sweep", "grid", "--only", NASTY],
        ["study", "report", "grid", "--from", NASTY],
        [NASTY],
    ],
    ids=lambda command: " ".join(command[:2]).encode("ascii", "backslashreplace").decode(),
)
def test_no_command_lets_a_name_reach_the_screen_raw(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("h.npy", np.random.default_rng(0).normal(size=(50, 2)))
    try:
        code = main(command)
    except SystemExit as stopped:
        code = stopped.code
    captured = capsys.readouterr()
    assert code == 2
    assert captured.err
    assert obeyed(captured.out + captured.err) == set()


def test_a_record_of_an_odd_name_is_trained_suggested_and_certified(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "run [/red] \x1b[31m it's"
    assert main(["train", *SMALL, "--record", name]) == 0
    out = capsys.readouterr().out
    assert obeyed(out) == set()
    assert f"Record: {escape_control(name)}" in out
    assert f"isojepa certify {shell_quote(name)} " in out
    assert main(["certify", name, "--samples", "2000", "--no-checks", "--report", f"{name}.html"]) == 0
    assert main(["report", name]) == 0
    assert obeyed(capsys.readouterr().out) == set()


def test_a_terminal_that_knows_few_letters_is_no_error(tmp_path):
    """A narrow encoding of the output must not end a command whose numbers are computed."""
    np.save(tmp_path / "h.npy", np.random.default_rng(0).normal(size=(50, 2)))
    command = [sys.executable, "-m", "isojepa", "certify", "h.npy", "--no-checks"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "60"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
