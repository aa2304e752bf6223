"""The study of Fashion-MNIST on made-up pictures: what it measures, and how rows become verdicts."""

from dataclasses import replace

import pytest

from isojepa_lab.papers.lejepa import fashion
from isojepa_lab.papers.lejepa.fashion import LONGER, METHODS, OURS, PIXELS, RANDOM, STUDY
from isojepa_lab.studies.cells import Computation, Row
from isojepa_lab.studies.rows import Rows


def rows(**accuracies):
    """A row for each method, of some accuracy, with an interval of a point to each side."""
    found = []
    for cell in STUDY.plan("standard"):
        name = cell.labels["method"]
        value = accuracies[name.split()[0].lower().strip(",")]
        scores = {"linear": value, "low": value - 0.01, "high": value + 0.01, "rankme": 9.0}
        scores["neighbors"] = value - 0.02 if name != PIXELS else value + 0.01
        if name in METHODS:
            scores |= {"cpu_seconds": 600.0, "at 50": 0.5, "at 500": value}
        found.append(Row(dict(cell.labels), cell.config.to_dict(), scores, "done", 0, 1.0, None, "x"))
    return found


GOOD = {"lejepa": 0.89, "simclr": 0.88, "vicreg": 0.895, "barlow": 0.7, "random": 0.8, "raw": 0.84}


def test_every_method_learns_bars_that_stand_from_bars_that_lie():
    found = {cell.labels["method"]: fashion.measure(cell) for cell in STUDY.plan("quick")}
    assert set(found) == {*METHODS, LONGER, RANDOM, PIXELS}
    for method in METHODS:
        assert found[method]["linear"] > 0.9
        assert {"at 1", "at 2", "at 3", "at 4"} <= set(found[method])
    assert "cpu_seconds" not in found[RANDOM]


def test_verdicts_follow_the_rows():
    def verdicts(**changed):
        given = Rows(rows(**(GOOD | changed)))
        return {statement.name: statement.judge(given).verdict for statement in STUDY.statements}

    good = {"wanted": "holds", "goal": "does not hold", "gain": "holds", "others": "holds"}
    assert verdicts() == {**good, "neighbors": "holds"}
    assert verdicts(raw=0.87) == {**good, "neighbors": "does not hold"}  # nearer than the linear probe shows
    assert verdicts(lejepa=0.86, random=0.82) == {
        "wanted": "does not hold",
        "goal": "does not hold",
        "gain": "does not hold",
        "neighbors": "does not hold",
        "others": "in part",
    }


def test_curves_are_drawn_over_minutes_of_processor_time():
    (chart,) = fashion._curves(Rows(rows(**GOOD)))
    assert list(chart.x) == [1.0, 10.0]
    assert {series.name for series in chart.series} == {*METHODS, LONGER}


def test_the_story_tells_all_of_it():
    assert STUDY.report(rows(**GOOD)).tables[0].rows[0]["method"] == OURS


def test_missing_data_are_told_with_the_command_that_fetches_them(tmp_path):
    cell = STUDY.plan("standard")[0]
    settings = {**cell.settings, "data": str(tmp_path / "none")}
    with pytest.raises(ValueError, match="tools/data fashion-mnist"):
        fashion.measure(replace(cell, config=Computation(settings)))
