"""The study of dimensions: what it predicts, and what its report says of any set of rows."""

import itertools
import math

import pytest

from isojepa.runs import build_all, train
from isojepa_lab.studies.dimension import DIMENSIONS, EQUAL, OBJECTIVES, RATIOS, STUDY, UNEQUAL
from isojepa_lab.studies.dimension_page import summaries
from isojepa_lab.studies.scores import score
from isojepa_lab.studies.study import Cell, Row, unique
from tests.lab.studies.made_up_rows import lost_row, made_up_row


def as_predicted(cell: Cell) -> Row:
    """A projection below, the latents and something else above."""
    n, m = cell.config.world.dim, cell.labels["dim"]
    each = [0.999] * min(m, n) + [0.001] * max(0, n - m)
    return made_up_row(
        cell, r2=sum(each) / n, r2_each=each, r2_z_to_h=min(n, m) / m, alignment=0.05, mean_variance=1.0
    )


def told(rows: list[Row]) -> str:
    return " ".join(STUDY.report(rows).summary)


@pytest.mark.parametrize("scale", ["quick", "standard", "paper"])
def test_encoders_have_the_dimension_of_their_label(scale: str) -> None:
    cells = STUDY.plan(scale)
    assert len(unique(cells)) == len(cells)
    for cell in {(c.labels["latents"], c.labels["dim"]): c for c in cells}.values():
        encoder, world, _ = build_all(cell.config)
        assert encoder.out_dim == cell.labels["dim"]
        assert world.dim == cell.labels["latents"]


def test_dimensions_lie_below_at_and_above_the_latents_up_to_three_times() -> None:
    for latents, dimensions in DIMENSIONS.items():
        assert min(dimensions) == 1
        assert latents in dimensions
        assert max(dimensions) == 3 * latents
    assert max(RATIOS) < 2 * min(RATIOS)
    unequal = [c for c in STUDY.plan("standard") if c.labels["rates"] == UNEQUAL]
    assert unequal
    assert all(
        list(c.config.world.process.rho) == sorted(c.config.world.process.rho, reverse=True) for c in unequal
    )


def test_predictions_are_those_of_counting_monomials() -> None:
    """The number of monomials of degree d in n variables is C(n + d - 1, d); the slowest come first."""
    cells = [c for c in STUDY.plan("standard") if c.labels["rates"] == EQUAL and c.labels["seed"] == 0]
    for point in summaries([as_predicted(cell) for cell in cells]):
        n, m = point["latents"], point["dim"]
        degrees = list(
            itertools.islice((d for d in itertools.count(1) for _ in range(math.comb(n + d - 1, d))), m)
        )
        assert point["linear_predicted"] == pytest.approx(min(n, m) / m)
        assert point["r2_predicted"] == pytest.approx(min(1, m / n), abs=1e-6)
        assert point["alignment_predicted"] == pytest.approx(
            sum((1 - 0.9**d) / 2 for d in degrees) / m, rel=1e-6
        )
        assert point["degrees"].startswith(f"{degrees.count(1)} of degree 1")


def test_the_report_says_what_the_rows_say() -> None:
    rows = [as_predicted(cell) for cell in STUDY.plan("standard")]
    found = STUDY.report(rows)
    text = " ".join(found.summary)
    assert "the embedding is a linear projection of the latents" in text
    assert "If rates differ it takes the slowest latents" in text
    assert "whitening keeps the latents**, R² 0.999 or more" in text
    assert "the linear share is within 0.000 of n / m" in text
    assert "SIGReg cannot have what it asks for" in text
    assert [table.name for table in found.tables] == ["dimensions", "rates"]
    assert len(found.tables[0].rows) == sum(map(len, DIMENSIONS.values())) * len(OBJECTIVES)
    assert len(found.pictures[0].figure.axes) == 6


def test_other_rows_are_told_otherwise() -> None:
    cells = STUDY.plan("standard")
    for linear, words in ((0.8, "is mostly a linear projection"), (0.3, "is not always a linear projection")):
        fewer = [made_up_row(c, r2=0.3, r2_each=[0.3] * 4, r2_z_to_h=linear) for c in cells[:2]]
        assert words in told(fewer)
        assert ("Nothing is superposed" in told(fewer)) == (linear > 0.7)
    unequal = [c for c in cells if c.labels["rates"] == UNEQUAL and c.labels["dim"] == 1]
    row = made_up_row(unequal[0], r2=0.25, r2_each=[0.1, 0.8, 0.1, 0.0])
    assert "the slowest latents in 0 of 1 runs" in told([row])
    right = [made_up_row(c, r2=0.25, r2_each=[1.0, 0.0, 0.0, 0.0]) for c in unequal[:1]]
    assert "the slowest latents in 1 of 2 runs" in told([*right, row])  # each run is asked, not their mean
    more = [
        c for c in cells if c.labels["dim"] > c.labels["latents"] and c.labels["objective"] == "whitening"
    ]
    assert "keeps only part" in told([made_up_row(more[0], r2=0.2, r2_each=[0.2] * 4, r2_z_to_h=0.2)])
    odd = [made_up_row(c, r2=0.5, r2_each=[0.5] * 4, r2_z_to_h=float("nan")) for c in cells]
    assert STUDY.report(odd).summary
    equal = [c for c in cells if c.labels["dim"] == c.labels["latents"]]
    assert STUDY.report([made_up_row(equal[0])]).summary


def test_tables_hold_plain_values_alone() -> None:
    found = STUDY.report([as_predicted(cell) for cell in STUDY.plan("standard")])
    for table in found.tables:
        for row in table.rows:
            assert all(value is None or isinstance(value, str | int | float) for value in row.values())


@pytest.mark.parametrize("count", [0, 1, 5, 40])
def test_a_report_of_some_rows_works(count: int) -> None:
    found = STUDY.report([as_predicted(cell) for cell in STUDY.plan("standard")[:count]])
    assert found.summary
    assert len(found.pictures) == (count > 0)


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_a_report_of_one_objective_works(name: str) -> None:
    cells = [c for c in STUDY.plan("standard") if c.labels["objective"] == name]
    assert STUDY.report([as_predicted(cell) for cell in cells]).summary


def test_a_report_of_large_dimensions_alone_works() -> None:
    cells = [c for c in STUDY.plan("standard") if c.labels["dim"] > c.labels["latents"]]
    assert "fewer dimensions" not in told([as_predicted(cell) for cell in cells])


def test_scores_that_are_missing_are_left_out() -> None:
    cells = [c for c in STUDY.plan("standard") if c.labels["dim"] == 12]
    bare = [made_up_row(c, alignment=None, smallest_variance=None, sigreg=None, r2_each=None) for c in cells]
    assert STUDY.report(bare).summary
    found = STUDY.report([as_predicted(cells[0]), lost_row(cells[1])])
    assert any("1 runs could not be scored" in note for note in found.notes)
    assert "No run" in STUDY.report([lost_row(cells[0])]).summary[0]


@pytest.mark.filterwarnings("ignore::isojepa.training.loop.RunWarning")
def test_short_runs_keep_a_projection_and_fill_up(tmp_path) -> None:
    rows = []
    for cell in STUDY.plan("quick")[:3:2]:
        run = train(cell.config, tmp_path, progress=False)
        rows.append(made_up_row(cell, **score(run.encoder, build_all(cell.config)[1])))
    below, above = summaries(rows)
    assert below["r2"] == pytest.approx(0.5, abs=0.03)
    assert below["linear"] > 0.95
    assert above["r2"] > 0.95
    assert above["linear"] == pytest.approx(0.5, abs=0.03)
