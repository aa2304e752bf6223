"""The study of the ceiling: its simulation is one, kept rows are its cells, conclusions follow the rows."""

from pathlib import Path

import pytest

from isojepa_lab.environments.wrapped_angles import r2_ceiling
from isojepa_lab.papers.world_model import ceiling
from isojepa_lab.papers.world_model.ceiling import PUBLISHED, STUDY
from isojepa_lab.studies.evidence import read_evidence

KEPT = Path(__file__).parents[3] / "docs/results/ceiling.json"


def test_the_simulation_finds_what_the_formula_says_and_not_a_neighbor_of_it():
    for spread in (0.5, 1.0, 1.5):
        assert ceiling.simulate(spread, 400_000) == pytest.approx(r2_ceiling(spread), abs=0.006)
        assert abs(ceiling.simulate(spread, 400_000) - r2_ceiling(spread + 0.15)) > 0.006 or spread == 0.5


def test_the_kept_rows_are_what_their_cells_measure():
    evidence, cells = read_evidence(KEPT), STUDY.plan("standard")
    for row, cell in zip(evidence.rows, cells, strict=True):
        if row.labels["part"] == "rho":
            assert ceiling.measure(cell) == pytest.approx(row.scores, rel=1e-6)
    assert {row.labels["rho"] for row in evidence.rows if row.labels["part"] == "rho"} == set(PUBLISHED)
