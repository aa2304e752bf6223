"""The study of the ceiling: its simulation is one, kept rows are its cells, conclusions follow the rows."""

from dataclasses import replace
from pathlib import Path

import pytest

from isojepa.worlds.reacher import r2_ceiling
from isojepa_lab.papers.world_model import ceiling
from isojepa_lab.papers.world_model.ceiling import PUBLISHED, STUDY
from isojepa_lab.studies.evidence import gather, read_evidence
from isojepa_lab.studies.writing import write_report
from isojepa_lab.sweep.work import work

KEPT = Path(__file__).parents[3] / "docs/results/ceiling.json"


def test_the_simulation_finds_what_the_formula_says_and_not_a_neighbour_of_it():
    for spread in (0.5, 1.0, 1.5):
        assert ceiling.simulate(spread, 400_000) == pytest.approx(r2_ceiling(spread), abs=0.006)
        assert abs(ceiling.simulate(spread, 400_000) - r2_ceiling(spread + 0.15)) > 0.006 or spread == 0.5


def test_the_kept_rows_are_the_cells_of_the_standard_scale():
    evidence, cells = read_evidence(KEPT), STUDY.plan("standard")
    assert [row.labels for row in evidence.rows] == [dict(cell.labels) for cell in cells]
    assert [row.config for row in evidence.rows] == [cell.config.to_dict() for cell in cells]
    for row, cell in zip(evidence.rows, cells, strict=True):
        if row.labels["part"] == "rho":
            assert ceiling.measure(cell) == pytest.approx(row.scores, rel=1e-6)
    assert {row.labels["rho"] for row in evidence.rows if row.labels["part"] == "rho"} == set(PUBLISHED)


def test_the_quick_scale_is_computed_and_reported(tmp_path):
    for cell in STUDY.plan("quick"):
        work(cell.config, tmp_path / "records")
    evidence = gather(STUDY, "quick", tmp_path / "records")
    assert evidence.missing == 0
    written = write_report(STUDY, evidence, tmp_path / "out")
    assert {path.name for path in written.files} >= {"ceiling.json", "ceiling.md", "ceiling.png"}


def said(claim, **scores):
    rows = [replace(row, scores=row.scores | scores) for row in read_evidence(KEPT).rows]
    return next(text for text in STUDY.report(rows).summary if text.startswith(f"**{claim}"))


@pytest.mark.parametrize(
    ("claim", "scores", "verdict"),
    [
        ("No published", {}, "holds"),
        ("No published", {"ceiling": 0.92}, "in part"),
        ("No published", {"ceiling": 0.1}, "does not hold"),
        ("The published plateau", {}, "holds"),
        ("The published plateau", {"ceiling": 1.0}, "does not hold"),
        ("A simulation", {}, "holds"),
        ("A simulation", {"simulated": 0.5}, "does not hold"),
        ("The function of frames", {}, "in part"),
        ("The function of frames", {"aligned": 0.948}, "holds"),
        ("The function of frames", {"aligned": 0.8}, "does not hold"),
    ],
)
def test_conclusions_follow_the_rows(claim, scores, verdict):
    assert f": {verdict}.**" in said(claim, **scores)
