"""The study of directions against what resampling and the samplers must do."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isojepa.objectives import SIGReg
from isojepa.objectives.directions import draw_directions
from isojepa.seeds import generator
from isojepa_lab.papers.lejepa import slices
from isojepa_lab.papers.lejepa.slices import NULL, STUDY
from isojepa_lab.studies.cells import Row
from isojepa_lab.studies.evidence import gather, read_evidence
from isojepa_lab.studies.study import unique
from isojepa_lab.studies.writing import write_report
from isojepa_lab.sweep.work import work

KEPT = Path(__file__).parents[3] / "docs/results/slices.json"


def test_the_samples_begin_with_variances_that_fall_like_1_over_k():
    x = slices.begin(100_000, 4, 0)
    variances = x.var(0)
    torch.testing.assert_close(variances / variances[0], 1 / torch.arange(1, 5), rtol=0.03, atol=0)
    assert variances.mean().item() == pytest.approx(1, rel=0.02)


def test_the_reference_is_the_statistic_of_gaussian_samples():
    assert pytest.approx(math.sqrt(2 * math.pi) * (1 - 3**-0.5), abs=1e-4) == NULL
    x = torch.randn(256, 2000, generator=generator(0, "test"))
    assert slices.statistic(x).mean().item() == pytest.approx(NULL, rel=0.05)


def test_fixed_directions_fit_themselves_and_resampled_ones_fit_all():
    x, fresh = slices.begin(64, 8, 0), draw_directions(8, 256, generator(0, "test"))
    fixed, resampled = SIGReg(slices=4, resample=False), SIGReg(slices=4)
    ends = {name: slices.optimise(x, r, 100, 0.05, 0) for name, r in (("fixed", fixed), ("new", resampled))}
    assert fixed(ends["fixed"]) < 0.1 * fixed(x)
    means = {name: slices.statistic(end @ fresh.T).mean().item() for name, end in ends.items()}
    assert means["new"] < 0.5 * means["fixed"]


def test_sobol_and_orthogonal_directions_estimate_the_same_mean_with_less_noise():
    row = slices.estimate(256, 16, 64, sets=300)
    assert row["sobol"] < 0.8 * row["gaussian"]
    assert row["orthogonal"] < row["gaussian"]
    for name in ("sobol", "orthogonal"):
        assert row[f"{name}_mean"] == pytest.approx(row["gaussian_mean"], abs=row["gaussian"])


def test_a_kept_row_is_what_its_cell_measures():
    row = next(
        row for row in read_evidence(KEPT).rows if row.labels == {"part": "estimators", "dim": 16, "count": 4}
    )
    cell = next(cell for cell in STUDY.plan("standard") if cell.labels == row.labels)
    measured = slices.measure(cell)
    assert measured == pytest.approx(row.scores, rel=1e-5)
    assert row.config == cell.config.to_dict()


def test_the_kept_rows_are_the_cells_of_the_standard_scale():
    evidence, cells = read_evidence(KEPT), STUDY.plan("standard")
    assert [row.labels for row in evidence.rows] == [dict(cell.labels) for cell in cells]
    assert [row.config for row in evidence.rows] == [cell.config.to_dict() for cell in cells]
    assert evidence.runs == len(unique(cells)) < len(cells)  # Figure 7 has runs of the samplers


def test_the_quick_scale_is_computed_once_and_reported(tmp_path):
    cells = unique(STUDY.plan("quick"))
    for cell in cells[:3]:
        work(cell.config, tmp_path / "records")
    evidence = gather(STUDY, "quick", tmp_path / "records")
    assert evidence.missing == len(cells) - 3
    written = write_report(STUDY, evidence, tmp_path / "out")
    assert {path.name for path in written.files} >= {"slices.json", "slices.md", "slices.html", "slices.png"}


def changed(test, **scores) -> list[Row]:
    """The kept rows, some of them with other scores."""
    rows = read_evidence(KEPT).rows
    return [replace(row, scores=row.scores | scores) if test(row.labels) else row for row in rows]


def said(rows: list[Row], claim: str) -> str:
    return next(text for text in STUDY.report(rows).summary if text.startswith(f"**{claim}"))


MORE, FEW, EQUAL = "More directions", "16 resampled directions do better", "At equal numbers"
LONGER, NOISE, END = "With four times", "Sobol's and orthogonal", "How directions are drawn"


@pytest.mark.parametrize(
    ("claim", "test", "scores", "verdict"),
    [
        (MORE, lambda at: False, {}, "in part"),
        (MORE, lambda at: True, {"after": 9.0}, "does not hold"),
        (FEW, lambda at: False, {}, "in part"),
        (FEW, lambda at: at.get("kind") == "fixed", {"after": 9.0}, "holds"),
        (FEW, lambda at: at.get("kind") == "resampled", {"after": 9.0}, "does not hold"),
        (EQUAL, lambda at: False, {}, "holds"),
        (EQUAL, lambda at: at.get("count") == 2 and at["kind"] == "resampled", {"after": 9.0}, "in part"),
        (EQUAL, lambda at: at.get("kind") == "resampled", {"after": 9.0}, "does not hold"),
        (LONGER, lambda at: False, {}, "in part"),
        (LONGER, lambda at: at["part"] == "longer" and at["kind"] == "fixed", {"after": 9.0}, "holds"),
        (
            LONGER,
            lambda at: at["part"] == "longer" and at["kind"] == "fixed",
            {"after": 0.01},
            "does not hold",
        ),
        (NOISE, lambda at: at["part"] == "estimators", {"gaussian": 9.0}, "holds"),
        (NOISE, lambda at: at["part"] == "estimators", {"gaussian": 1e-9}, "does not hold"),
        (END, lambda at: False, {}, "holds"),
        (END, lambda at: at.get("sampler") == "sobol", {"after": 0.01}, "in part"),
        (END, lambda at: at.get("sampler") not in (None, "gaussian"), {"after": 0.01}, "does not hold"),
    ],
)
def test_conclusions_follow_the_rows(claim, test, scores, verdict):
    assert f": {verdict}.**" in said(changed(test, **scores), claim)


def test_without_rows_nothing_is_concluded():
    told = STUDY.report([]).summary
    assert len(told) == 6
    assert all(": cannot be asked.**" in text for text in told)
