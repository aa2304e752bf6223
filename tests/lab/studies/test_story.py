"""The one form of a study: its story is filled from rows, and nothing in it is said whatever the rows say."""

from dataclasses import replace
from pathlib import Path

import pytest

from isojepa.report.charts import Curve, curves_chart
from isojepa_lab.studies.cells import Computation, Row, crossed
from isojepa_lab.studies.evidence import gather, read_evidence
from isojepa_lab.studies.findings import Findings
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec, heat_map
from isojepa_lab.studies.statements import (
    Judgement,
    Statement,
    asks,
    below,
    judge_lines,
    judge_values,
)
from isojepa_lab.studies.story import Story
from isojepa_lab.studies.study import Study
from isojepa_lab.studies.writing import write_report
from tests.lab.studies.small import cells, leave_records

STORY = """\
Made-up numbers reach the page as they are.

{statement good: R² is above {ninety} everywhere}
holds: It is, at {good} of {asked} runs.
in part: Only at {good} of {asked} runs,
the lowest being {low:.3f}.
does not hold: Nowhere; the highest is {high:.3f}.

The mean is {mean:.4f} in {runs} runs.

Never said: {unknown:.3f}.

{chart curve}
Look at the *last*.

{table by_dim: By dimension}
| latents {dim:d} | {*:.6f} |
Means of {runs} runs.

## Nothing to see

Words about a table that is empty.

{table empty}
| latents {dim:d} |

## Notes

{run_summary}
"""


def rows_of(*scores: float) -> list[Row]:
    return [
        Row(
            {"dim": 2 ** (k + 1), "seed": 0, "objective": "SIGReg"},
            {},
            {"r2": r2},
            "done",
            10,
            1.0,
            0.1,
            f"r{k}",
        )
        for k, r2 in enumerate(scores)
    ]


def judge(rows: Rows) -> Judgement:
    return judge_values((row.scores["r2"] for row in rows), lambda r2: r2 > 0.9)


def panels(rows: Rows) -> list:
    return [curves_chart("R²", "latents", "R²", rows.curves("dim", "r2", "{objective}"), scale="linear")]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    path = tmp_path / "made_up.md"
    path.write_text(STORY.replace("{ninety}", "0.9"), encoding="utf-8")
    return Study(
        name="made_up",
        title="A <made-up> study",
        source="Nobody (2026)",
        cells=cells,
        story=path,
        tables=[
            TableSpec("by_dim", lambda rows: rows.pivot(["dim"], "{objective}, {seed}", "r2")),
            TableSpec("empty", lambda rows: []),
        ],
        charts=[ChartSpec("curve", panels)],
        statements=[Statement("good", judge)],
        numbers=lambda rows: {
            "mean": sum(row.scores["r2"] for row in rows) / len(rows) if rows else None,
            "runs": len(rows),
            "unknown": None,
        },
    )


def texts(findings: Findings) -> list[str]:
    return [block for block in findings.body if isinstance(block, str)]


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ([0.95, 0.99], "holds.** It is, at 2 of 2 runs."),
        ([0.5, 0.99], "in part.** Only at 1 of 2 runs, the lowest being 0.500."),
        ([0.5, 0.6], "does not hold.** Nowhere; the highest is 0.600."),
        ([], "cannot be asked.** The rows that it speaks of are not there."),
    ],
)
def test_a_statement_is_what_the_rows_say(study: Study, scores: list[float], told: str) -> None:
    assert study.report(rows_of(*scores)).summary[0] == f"**R² is above 0.9 everywhere: {told}"


def test_numbers_are_filled_and_what_is_unknown_is_not_said(study: Study) -> None:
    findings = study.report(rows_of(0.5, 0.6))
    assert "The mean is 0.5500 in 2 runs." in findings.summary
    assert not any("Never said" in text for text in texts(findings))
    assert not any("mean" in text for text in study.report([]).summary)
    assert study.claim == "Made-up numbers reach the page as they are."


def test_tables_and_charts_stand_where_the_story_has_them(study: Study) -> None:
    findings = study.report(rows_of(0.5, 0.6))
    kinds = [type(block).__name__ for block in findings.body]
    assert kinds == ["str", "str", "Plot", "Table", "str", "str"]
    table = findings.tables[0]
    assert (table.title, table.note) == ("By dimension", "Means of 2 runs.")
    assert [(c.key, c.title, c.form) for c in table.columns] == [
        ("dim", "latents", "d"),
        ("SIGReg, 0", "SIGReg, 0", ".6f"),
    ]
    assert table.rows[1]["SIGReg, 0"] == 0.6
    assert findings.plots[0].caption == "Look at the *last*."


def test_a_section_whose_tables_are_empty_is_left_out(study: Study) -> None:
    assert not any(
        "Nothing to see" in text or "Words about" in text for text in texts(study.report(rows_of(0.5)))
    )
    nothing = study.report([])
    assert not nothing.tables
    assert not nothing.plots
    assert nothing.body[-1] == "No run is there yet."


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{mean:.4f}", "{meen:.4f}", "number of made_up.md must be one of .*did you mean 'mean'"),
        (
            "{table by_dim",
            "{table by_dime",
            "table of made_up.md must be one of by_dim, empty, got 'by_dime'",
        ),
        ("{chart curve}", "No chart.", "does not show curve"),
        ("does not hold: ", "", "no sentence for: does not hold"),
        ("| latents {dim:d} | {*:.6f} |\n", "", r"must be \| title \{key:form\} \|"),
        ("Made-up numbers", "{runs} numbers", "must begin with the claim"),
    ],
)
def test_a_story_that_does_not_fit_its_study_is_told(study: Study, old: str, new: str, message: str) -> None:
    text = study.story.read_text(encoding="utf-8")
    assert old in text
    study.story.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        study.report(rows_of(0.5, 0.99))


def test_a_story_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none.md cannot be read: No such file"):
        Story.read(tmp_path / "none.md")


def test_the_report_of_a_story_is_made_again_with_the_same_bytes(study: Study, tmp_path: Path) -> None:
    leave_records(study.plan("quick"), tmp_path / "records")
    evidence = gather(study, "quick", tmp_path / "records")
    written = write_report(study, evidence, tmp_path / "out")
    names = {path.name for path in written.files}
    assert names == {f"made_up{end}" for end in (".json", "-by_dim.csv", ".png", ".svg", ".md", ".html")}
    again = write_report(study, read_evidence(tmp_path / "out/made_up.json"), tmp_path / "again")
    for old, new in zip(written.files, again.files, strict=True):
        assert old.read_bytes() == new.read_bytes(), old.name
    page = (tmp_path / "out/made_up.html").read_text(encoding="utf-8")
    assert 'id="curve-1"' in page  # where the script draws what the files show
    assert '"curve-1":{"x":[2.0,4.0,8.0]' in page
    assert "<made-up>" not in page
    text = (tmp_path / "out/made_up.md").read_text(encoding="utf-8")
    assert (
        text.index("![Look at the *last*.](made_up.png)")
        < text.index("## By dimension")
        < text.index("## Notes")
    )


def test_lines_are_told_by_how_they_were_judged() -> None:
    lines = [{"dim": 2, "r2": 0.5}, {"dim": 4, "r2": 0.95}, {"dim": 8, "r2": 0.7}]
    found = judge_lines(lines, lambda line: line["r2"] > 0.6, "{r2:.2f} at {dim}", "r2", extra=1)
    assert found.verdict == "in part"
    assert found.facts == {
        "good": 2,
        "asked": 3,
        "all": "0.50 at 2; 0.95 at 4; 0.70 at 8",
        "yes": "0.95 at 4; 0.70 at 8",
        "no": "0.50 at 2",
        "low": "0.50 at 2",
        "high": "0.95 at 4",
        "extra": 1,
    }
    assert judge_lines([], below(1), "{r2}", "r2").verdict == "cannot be asked"


def test_lines_that_lack_what_is_asked_are_not_asked() -> None:
    lines = Lines([{"dim": 2, "r2": 0.5, "gap": 3}, {"dim": 4, "r2": 0.9, "gap": 1}, {"dim": 8, "r2": None}])
    found = asks(lambda rows: lines, "r2", below(0.8), "{dim}", order="gap")(Rows())
    assert (found.verdict, found.facts["low"], found.facts["high"]) == ("in part", "4", "2")
    assert lines.where(dim=(2, 8), gap=lambda gap: gap > 1) == [{"dim": 2, "r2": 0.5, "gap": 3}]


def test_cells_are_made_of_all_combinations_of_labels() -> None:
    found = crossed(lambda dim, what: Computation({"n": dim}), dim=(1, 2), what="it")
    assert [dict(cell.labels) for cell in found] == [{"dim": 1, "what": "it"}, {"dim": 2, "what": "it"}]
    assert [cell.settings for cell in found] == [{"n": 1}, {"n": 2}]


def test_rows_become_lines_curves_and_ratios() -> None:
    again = [replace(row, labels={**row.labels, "seed": 1}) for row in rows_of(0.25, 0.2)]
    rows = Rows(rows_of(0.5, 0.6) + again)
    ratios = rows.where(seed=1).over(rows.where(seed=0), "r2", "dim")
    assert ratios.values("r2") == [0.5, pytest.approx(1 / 3)]
    assert [row.labels["dim"] for row in ratios] == [2, 4]
    assert rows.where(seed=1, dim=2).over(rows.where(seed=0), "r2").values("r2") == [
        0.5,
        pytest.approx(5 / 12),
    ]
    assert rows.points("dim", "r2") == {2.0: 0.375, 4.0: pytest.approx(0.4)}
    assert Rows(rows[:3]).pivot(["dim"], "seed {seed}", "r2", runs=len) == [
        {"dim": 2, "seed 0": 0.5, "seed 1": 0.25, "runs": 2},
        {"dim": 4, "seed 0": 0.6, "seed 1": None, "runs": 1},
    ]
    assert rows.lines(["objective"], "r2", lambda own: {"first": own.label("dim")}, again="r2") == [
        {"objective": "SIGReg", "r2": pytest.approx(0.3875), "first": 2, "again": pytest.approx(0.3875)}
    ]
    parts = Rows([replace(rows[0], scores={"a": 1.0, "b": 2.0})]).split("part", ("a", "b"), "size")
    assert [(row.labels["part"], row.scores) for row in parts] == [("a", {"size": 1.0}), ("b", {"size": 2.0})]
    first, second = rows.curves("dim", "r2", "{seed}", {"SIGReg": "dashed"}, height=lambda r2: 1 - r2)
    assert first == Curve("0", {2.0: 0.5, 4.0: 0.4}, 1, "dashed")
    assert (second.name, second.color) == ("1", 2)
    assert rows.curves("dim", "r2", "all")[0].color == 0
    lines = [{"w": 1, "rho": 0.5, "r2": 0.1}, {"w": 2, "rho": 0.9, "r2": 0.2}]
    heat = heat_map(lines, "rho", "w", "r2", title="t", across="ρ", up="w")
    assert heat.values == [[0.1, None], [None, 0.2]]
    assert (heat.columns, heat.rows) == (["0.5", "0.9"], ["1", "2"])
    assert rows.where(seed=1, dim=4)[0].scores["r2"] == 0.2
    assert len(rows.where(dim=(2, 4), seed=lambda seed: seed < 1)) == 2
