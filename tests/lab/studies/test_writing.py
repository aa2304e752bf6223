"""The report of a study as files."""

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from markdown_it import MarkdownIt
from matplotlib.figure import Figure

from isojepa.runs import record_path
from isojepa_lab.studies.evidence import gather, read_evidence, rounded
from isojepa_lab.studies.findings import COMPARISON, Column, Findings, Picture, Table, text_of
from isojepa_lab.studies.writing import write_report
from tests.lab.studies.small import PUBLISHED, STUDY, leave_records, scores_of

CELLS = STUDY.plan("standard")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Records of four of six runs, and the report of them."""
    folder = tmp_path_factory.mktemp("small")
    leave_records(CELLS[:4], folder / "records")
    evidence = gather(STUDY, "standard", folder / "records")
    return folder, evidence, write_report(STUDY, evidence, folder / "out")


def test_the_files_are_those_that_were_promised(made):
    folder, _, written = made
    names = [path.name for path in written.files]
    assert sorted(names) == sorted(path.name for path in (folder / "out").iterdir())
    assert set(names) == {
        *("small.json", "small.md", "small.html", "small-against.csv", "small-words.csv"),
        *("small.png", "small.svg", "small-again.png", "small-again.svg"),
    }


def test_made_again_from_its_rows_every_file_has_the_same_bytes(made, tmp_path):
    _, _, written = made
    rows = next(path for path in written.files if path.name == "small.json")
    again = write_report(STUDY, read_evidence(rows), tmp_path)
    for old, new in zip(written.files, again.files, strict=True):
        assert old.name == new.name
        assert old.read_bytes() == new.read_bytes(), old.name


def test_kept_rows_stand_where_there_is_no_record_and_in_the_order_of_the_cells(made, tmp_path):
    folder, whole, _ = made
    leave_records([CELLS[1], CELLS[5]], tmp_path / "records")
    filled = gather(STUDY, "standard", tmp_path / "records", kept=folder / "out")
    assert [row.labels for row in filled.rows] == [dict(CELLS[place].labels) for place in (0, 1, 2, 3, 5)]
    assert (filled.runs, filled.missing) == (6, 1)
    assert filled.rows[0].scores["r2"] == whole.rows[0].scores["r2"]
    assert filled.rows[0].path is None
    assert filled.rows[1].path is not None  # a record goes before what was kept
    assert len(filled.versions) == len({str(version) for version in filled.versions})
    assert gather(STUDY, "standard", tmp_path / "records", kept=tmp_path).missing == 4  # nothing kept there


def test_rows_come_back_with_config_scores_and_what_is_no_number(made):
    folder, evidence, _ = made
    back = read_evidence(folder / "out/small.json")
    assert (back.runs, back.missing, back.scale, back.versions) == (6, 2, "standard", evidence.versions)
    for row, one in zip(back.rows, CELLS, strict=False):
        assert row.config == one.config.to_dict()  # weight 1e-3 / 3 to the last bit
        assert row.labels == one.labels
        assert row.scores["r2"] == pytest.approx(scores_of(one)["r2"], abs=1e-9)
        assert math.isnan(row.scores["sharper"])
        assert row.scores["bound"] == math.inf
        assert row.record == record_path(one.config).name


def test_numbers_have_nine_digits_and_settings_all_of_them(made):
    folder, _, _ = made
    data = json.loads((folder / "out/small.json").read_text(), parse_constant=pytest.fail)
    first = data["rows"][0]
    assert first["seconds"] == 33.3333333
    assert first["config"]["objective"]["weight"] == 1e-3 / 3
    assert first["config"]["training"] == {"steps": 10, "batch_start": None}
    assert data["defaults"]["training"]["batch_start"] == 256
    assert rounded({"a": [1 / 3, 7, True, "x", None, math.inf]}) == {
        "a": [0.333333333, 7, True, "x", None, math.inf]
    }


def test_rows_stay_what_they_were_when_the_defaults_change(made, tmp_path):
    folder, _, _ = made
    data = json.loads((folder / "out/small.json").read_text())
    data["defaults"]["training"]["beta2"] = 0.5  # what the package had when they were written
    (tmp_path / "old.json").write_text(json.dumps(data))
    assert all(row.config["training"]["beta2"] == 0.5 for row in read_evidence(tmp_path / "old.json").rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "does not hold the rows of a study"),
        ('{"rows": []}', "does not hold the rows of a study"),
        ('{"rows": [', "is not a whole JSON file"),
        (
            '{"study": "small", "scale": "quick", "runs": "x", "missing": 0, "versions": 3, "defaults": {}, '
            '"rows": []}',
            "does not hold the rows of a study",
        ),
        (None, "does not exist"),
    ],
)
def test_a_file_that_holds_no_rows_is_told(tmp_path, text, message):
    path = tmp_path / "small.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_evidence(path)


def test_a_row_that_cannot_be_read_is_told_with_its_file(made, tmp_path):
    folder, _, _ = made
    data = json.loads((folder / "out/small.json").read_text())
    for broken in ({"labels": {}}, {**data["rows"][0], "config": {"world": {"rhoo": 1}}}, 7):
        (tmp_path / "small.json").write_text(json.dumps({**data, "rows": [broken]}))
        with pytest.raises(ValueError, match=r"small.json has a row that cannot be read"):
            read_evidence(tmp_path / "small.json")


def test_csv_holds_the_raw_values(made):
    folder, _, _ = made
    with open(folder / "out/small-against.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["dim", *(column.key for column in COMPARISON)]
    for row, dim in zip(rows, (2, 4), strict=False):
        ours = [rounded(scores_of(one)["r2"]) for one in CELLS[:4] if one.config.world.dim == dim]
        assert float(row["ours"]) == pytest.approx(np.mean(ours), abs=1e-9)
        assert float(row["ours_std"]) == pytest.approx(np.std(ours, ddof=1), rel=1e-6)
        assert float(row["published"]) == PUBLISHED[dim][0]
        assert row["mark"] == "above"
    assert rows[-1]["dim"] == "16"
    assert rows[-1]["ours"] == ""


def test_a_run_that_two_cells_share_counts_once(tmp_path):
    both = replace(STUDY, cells=lambda scale: [*CELLS, *(replace(one, labels={"dim": 2}) for one in CELLS)])
    leave_records(CELLS[:4], tmp_path)
    evidence = gather(both, "standard", tmp_path)
    assert len(evidence.rows) == 8
    assert (evidence.runs, evidence.missing) == (6, 2)
    assert evidence.seconds == pytest.approx(400 / 3)
    assert evidence.endings == {"done": 4}


def broken(rows):
    return rows[0].scores["nothing of that name"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"report": broken}, r"cannot report its rows: KeyError: 'nothing .*' \(test_writing.py, line \d+\)"),
        ({"report": lambda rows: None}, "must return Findings, got None"),
        ({"name": "../small"}, "name of a study must be letters"),
    ],
    ids=["raises", "nothing", "name"],
)
def test_a_study_that_cannot_report_is_one_line(made, tmp_path, change, told):
    _, evidence, _ = made
    with pytest.raises(ValueError, match=told):
        write_report(replace(STUDY, **change), evidence, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_odd_characters_stay_in_their_cell(made, tmp_path):
    _, evidence, _ = made
    odd = 'a\\|b <script>x</script>, "q"\nnext'
    table = Table("odd", "Odd", (Column("label", "label"), Column("n", "n")), [{"label": odd, "n": 1}])
    study = replace(STUDY, name="odd", report=lambda rows: Findings(["One."], [table]))
    write_report(study, evidence, tmp_path)
    (line,) = [line for line in (tmp_path / "odd.md").read_text().splitlines() if "script" in line]
    assert line == '| a\\\\\\|b \\<script>x\\</script>, "q" next | 1 |'
    shown = MarkdownIt("commonmark").enable("table").render(f"| l | n |\n|---|---|\n{line}\n")
    assert "<td>a\\|b &lt;script&gt;x&lt;/script&gt;, &quot;q&quot; next</td>" in shown
    with open(tmp_path / "odd-odd.csv", newline="") as file:
        assert next(csv.DictReader(file)) == {"label": odd, "n": "1"}
    assert "<script>x" not in (tmp_path / "odd.html").read_text()


def test_no_rows_no_report(tmp_path):
    evidence = gather(STUDY, "standard", tmp_path / "nothing")
    assert evidence.missing == 6
    with pytest.raises(ValueError, match=r"at least one run of small .*isojepa sweep small --scale standard"):
        write_report(STUDY, evidence, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a", "a"), "the names of a study's tables must differ, got 'a' twice"),
        (("../a",), r"the name of a table must be letters, digits, - and _, got '../a'"),
        (("",), "got ''"),
    ],
)
def test_names_that_make_no_files_are_told(made, tmp_path, names, message):
    _, evidence, _ = made
    tables = [Table(name, "t", (Column("a", "a"),), [{"a": 1}]) for name in names]
    study = replace(STUDY, report=lambda rows: Findings(["x"], tables))
    with pytest.raises(ValueError, match=message):
        write_report(study, evidence, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_picture_of_very_many_points_has_no_svg_and_loses_the_old_one(made, tmp_path):
    _, evidence, _ = made

    def report(count):
        figure = Figure(figsize=(3, 3), dpi=60)
        figure.subplots().plot(np.random.default_rng(0).normal(size=count), "o")
        return lambda rows: Findings(["x"], pictures=[Picture("cloud", "c", figure)])

    names = []
    for count in (10, 20_000):
        written = write_report(replace(STUDY, report=report(count)), evidence, tmp_path)
        names.append({path.name for path in written.files})
    assert "small.svg" in names[0]
    assert "small.svg" not in names[1]
    assert not (tmp_path / "small.svg").exists()
    page = (tmp_path / "small.html").read_text()
    assert "data:image/png;base64," in page
    assert len(page) < 100_000


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (0.99949, ".4f", "0.9995"),
        (3, ".1e", "3.0e+00"),
        (3.0, "d", "3"),
        (-0.002, "+.1e", "-2.0e-03"),
        (None, ".4f", "–"),
        (math.inf, "d", "∞"),
        (True, ".4f", "yes"),
        (12345678, ",d", "12,345,678"),
    ],
)
def test_a_value_is_shown_in_its_format(value, form, text):
    assert text_of(value, form) == text
