"""Tables on narrow screens: prose goes below its row instead of one word per line."""

import numpy as np
import pytest
from rich.text import Text

from isojepa.certificates import examine
from isojepa.cli import gaussianity as command
from isojepa.cli import main
from isojepa.cli.printing import out
from isojepa.cli.tables import Column, lay_out, print_table, width_of
from tests.cli.test_commands import run

PROSE = "how much of the latents a linear map reads off the embedding"
COLUMNS = (Column("name"), Column("value [95 % interval]"), Column(prose=True))
ROWS = [("R2 of the worst latent", "0.9492  [0.9464, 0.9520]", PROSE), ("delta", "0", "short")]


def plain(*arguments) -> list[str]:
    return [line.plain for line in lay_out(*arguments)]


@pytest.mark.parametrize("width", [200, 120, 100, 80, 60, 40, 20])
def test_no_line_is_wider_than_the_screen_and_no_word_is_lost(width):
    lines = plain(COLUMNS, ROWS, width)
    fixed = max(len(cell) for row in ROWS for cell in row[:2]) + 2
    assert max(map(len, lines)) <= max(width, fixed)
    words = " ".join(lines).split()
    assert sorted(words) == sorted(" ".join(["name value [95 % interval]", *map(" ".join, ROWS)]).split())


def test_prose_has_its_column_where_there_is_room_and_stands_below_where_there_is_not():
    wide, narrow = plain(COLUMNS, ROWS, 120), plain(COLUMNS, ROWS, 60)
    assert wide[1] == f"R2 of the worst latent  0.9492  [0.9464, 0.9520]  {PROSE}"
    assert narrow[1] == "R2 of the worst latent  0.9492  [0.9464, 0.9520]"
    assert narrow[2:4] == [
        "    how much of the latents a linear map reads off the",
        "    embedding",
    ]
    assert len(narrow) == 6  # header; two lines of prose; one of prose


def test_numbers_close_ranks_before_they_part():
    columns = (Column("test"), *(Column(name, right=True) for name in ("samples", "statistic", "p")))
    row = ("rahman-govindarajulu", "1000", "0.004571", "0.304")
    assert len(plain(columns, [row], 48)) == 2
    close = plain(columns, [row], 44)
    assert close[1] == "rahman-govindarajulu    1000  0.004571 0.304"
    apart = plain(columns, [row], 30)
    assert apart[2:] == ["rahman-govindarajulu", "     1000   0.004571  0.304"]


def test_cells_are_printed_as_they_are_and_styles_are_kept(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    print_table((Column(), Column(prose=True)), [("[bold]x[/]", Text("y", style="red"))], title="t", indent=2)
    assert capsys.readouterr().out == "t\n  [bold]x[/]  y\n"
    (line,) = lay_out((Column(),), [(Text("a", style="bold"),)], 10)
    assert line.spans or line.style == "bold"


def test_the_width_is_what_columns_says_and_wide_in_a_file(monkeypatch):
    monkeypatch.setenv("COLUMNS", "61")
    assert width_of() == 61
    monkeypatch.delenv("COLUMNS")
    assert width_of() == (out.width if out.is_terminal else 140)


def test_an_empty_table_prints_nothing():
    assert lay_out((Column(),), [], 40) == []


@pytest.mark.parametrize(
    "arguments",
    [("list",), ("study", "list"), ("study", "show", "grid"), ("theory", "--list")],
    ids=" ".join,
)
def test_at_60_columns_lines_hold_several_words(capsys, monkeypatch, arguments):
    monkeypatch.setenv("COLUMNS", "60")
    code, printed, _ = run(capsys, *arguments)
    assert code == 0
    runs = longest = 0
    for line in printed.splitlines():
        lonely = line.startswith(" " * 8) and len(line.split()) == 1
        runs = runs + 1 if lonely else 0
        longest = max(longest, runs)
    assert longest <= 1, printed  # the last word of a sentence may stand alone


def test_the_table_of_tests_fits_60_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    h = np.random.default_rng(0).normal(size=(60, 2))
    command._print(examine(h, samples=60, slices=4, draws=9))
    table = [line for line in capsys.readouterr().out.splitlines() if " slices " in line]
    assert len(table) == 13
    assert max(map(len, table)) <= 60


def test_a_certificate_at_60_columns_has_no_narrow_column(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 2))
    np.savez(tmp_path / "pairs.npz", h=z, h_next=0.9 * z + 0.4 * rng.normal(size=z.shape), z=z)
    assert main(["certify", str(tmp_path / "pairs.npz"), "--rho", "0.9"]) == 0
    told = capsys.readouterr().out.splitlines()
    table = told[2 : told.index("Assumptions")]
    assert max(map(len, table)) <= 60
    assert all(len(line) - len(line.lstrip()) <= 6 for line in table[1:])  # prose is below, not beside
