"""`isojepa study`, as a person and as a program would use it."""

import ast
import inspect
import json
import re
import shutil
from pathlib import Path

import pytest
import tyro

from isojepa_lab.cli.study import Study
from isojepa_lab.studies.catalogue import STUDIES
from isojepa_lab.studies.evidence import gather, write_evidence
from isojepa_lab.sweep.plan import find_studies
from isojepa_lab.sweep.work import work
from tests.lab.studies.small import STUDY, leave_records

EXAMPLES = Path(__file__).parents[3] / "examples"
DOCUMENT = (Path(__file__).parents[3] / "docs/studies.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """A screen on which no line is broken."""
    monkeypatch.setenv("COLUMNS", "400")


def run(capsys, *arguments):
    code = tyro.cli(Study, args=list(map(str, arguments))).run()
    return code, capsys.readouterr().out


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A study of one's own in a file, two of whose six runs are missing."""
    monkeypatch.chdir(tmp_path)
    Path("small.py").write_text("from tests.lab.studies.small import STUDY\n")
    leave_records(STUDY.plan("standard")[:4], Path("runs/studies"))
    return "small.py"


def test_a_report_is_written_told_and_made_again_from_its_rows(capsys, small):
    code, out = run(capsys, "report", small)
    assert code == 0
    assert "The **worst** R² is 1.0000 in 4 runs." in out
    assert "2 of 6 runs are missing; isojepa sweep small.py --scale standard makes them" in out
    assert re.search(r"Wrote docs/results/small.html and 8 files beside it, \d+ kB in all", out)
    assert "isojepa sweep small.py" in Path("docs/results/small.md").read_text()
    first = Path("docs/results/small.html").read_bytes()
    for number, source in enumerate(("docs/results/small.json", "docs/results")):
        code, _ = run(
            capsys, "report", small, "--from", source, "--records", "nowhere", "--out", f"again{number}"
        )
        assert code == 0
        assert Path(f"again{number}/small.html").read_bytes() == first


def test_a_program_gets_json(capsys, small):
    code, out = run(capsys, "report", small, "--json", "--out", "there")
    (told,) = json.loads(out)
    assert code == 0
    assert (told["study"], told["scale"], told["runs"], told["missing"]) == ("small", "standard", 6, 2)
    assert "there/small.html" in told["files"]
    assert told["summary"][0].startswith("The **worst**")


def test_no_run_at_all_is_one_line_that_says_what_to_do(capsys, small):
    message = r"none holds no run of small.py at scale paper; isojepa sweep small.py --scale paper makes them"
    with pytest.raises(ValueError, match=message):
        run(capsys, "report", small, "--scale", "paper", "--records", "none")
    assert not Path("docs").exists()


def test_one_study_without_runs_does_not_stop_the_others(capsys, small):
    Path("other.py").write_text(
        "from dataclasses import replace\nfrom tests.lab.studies.small import STUDY, cell\n"
        "STUDY = replace(STUDY, name='other', cells=lambda scale: [cell(16, 9)])\n"
    )
    with pytest.raises(ValueError, match=r"holds no run of other.py at scale standard"):
        run(capsys, "report", "other.py", small)
    assert Path("docs/results/small.html").exists()
    assert not Path("docs/results/other.html").exists()


def test_rows_of_another_study_are_refused(capsys, small):
    write_evidence(Path("small.json"), gather(STUDY, "standard"))
    Path("other.py").write_text(
        "from dataclasses import replace\nfrom tests.lab.studies.small import STUDY\n"
        "STUDY = replace(STUDY, name='other')\n"
    )
    with pytest.raises(ValueError, match="holds the rows of study 'small', not of 'other'"):
        run(capsys, "report", "other.py", "--from", "small.json")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("report", "gird"), r"study must be one of .*mixings.*did you mean 'grid'"),
        (("report",), "at least one study"),
        (("show", "all"), "takes one study"),
        (("show", "small.py", "--scale", "huge"), "scale must be one of paper, quick, standard, got 'huge'"),
        (("report", "none.py"), "none.py does not exist"),
        (("report", "small.py", "--from", "none.json"), "none.json does not exist"),
    ],
)
def test_what_is_wrong_is_one_line(capsys, small, arguments, message):
    with pytest.raises(ValueError, match=message) as error:
        run(capsys, *arguments)
    assert "\n" not in str(error.value)


def test_an_out_that_is_a_file_is_told(capsys, small):
    Path("taken").write_text("")
    with pytest.raises(OSError, match=r"cannot write taken/small.json"):
        run(capsys, "report", small, "--out", "taken")


def test_the_module_of_the_command_imports_no_study_for_all_commands():
    tree = ast.parse(Path(inspect.getfile(Study)).read_text(encoding="utf-8"))
    imported = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert "isojepa.cli.printing" in imported
    assert not any(
        module.startswith(("isojepa_lab.studies", "isojepa_lab.sweep", "matplotlib")) for module in imported
    )


def test_the_document_has_the_studies_of_the_catalogue():
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", DOCUMENT, flags=re.MULTILINE)
    assert dict(rows) == STUDIES
    assert [name for name, _ in rows] == list(STUDIES)


def test_the_example_of_a_study_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for end in ("py", "md"):
        shutil.copy(EXAMPLES / f"own_study.{end}", f"my_study.{end}")
    (study,) = find_studies(["my_study.py"])
    for cell in study.plan("quick"):
        work(cell.config, "runs/studies")
    _, out = run(capsys, "report", "my_study.py", "--scale", "quick", "--out", "runs/reports")
    assert "Every weight recovers the latents: " in out
    assert "missing" not in out
    assert Path("runs/reports/weights-weights.csv").read_text().startswith("weight,R²\n0.001,0.")
    assert Path("runs/reports/weights.png").stat().st_size > 1000
