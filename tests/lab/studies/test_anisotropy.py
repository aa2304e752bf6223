"""The study of unequal rates: its worlds, what it predicts, and what its report says of any set of rows."""

import itertools
import math

import pytest

from isojepa.runs import build_all, train
from isojepa_lab.studies.anisotropy import CONTRASTIVE, OBJECTIVES, STUDY
from isojepa_lab.studies.anisotropy_page import fast, summaries
from isojepa_lab.studies.scores import score
from isojepa_lab.studies.study import Cell, Row, unique
from tests.lab.studies.made_up_rows import lost_row, made_up_row


def as_predicted(cell: Cell) -> Row:
    """Whitening loses the fast latent past ratio 2, nothing else does."""
    dim = cell.config.world.dim
    lost = cell.labels["objective"] == "whitening" and cell.labels["ratio"] > 2
    each = [0.99] * (dim - 1) + [0.001 if lost else 0.97]
    linear = sum(value > 0.5 for value in each) / dim
    return made_up_row(cell, r2=sum(each) / dim, r2_each=each, r2_z_to_h=linear)


def told(rows: list[Row]) -> str:
    return " ".join(STUDY.report(rows).summary)


@pytest.mark.parametrize("scale", ["quick", "standard", "paper"])
def test_the_last_latent_is_faster_by_the_ratio(scale: str) -> None:
    for cell in STUDY.plan(scale):
        *slow, last = cell.config.world.process.rho
        assert {cell.labels["slow"]} == set(slow)
        assert math.log(last) / math.log(slow[0]) == pytest.approx(cell.labels["ratio"])
        build_all(cell.config)


def test_every_objective_meets_every_ratio_on_both_sides_of_the_break() -> None:
    cells = STUDY.plan("standard")
    assert len(unique(cells)) == len(cells)
    ratios = {
        name: {
            (cell.labels["latents"], cell.labels["slow"], cell.labels["ratio"])
            for cell in cells
            if cell.labels["objective"] == name
        }
        for name in OBJECTIVES
    }
    assert len(set(map(frozenset, ratios.values()))) == 1
    assert {latents for latents, _, _ in ratios["SIGReg"]} == {2, 4}
    assert {c.config.training.batch for c in cells if c.labels["objective"] in CONTRASTIVE} == {512}


def slowest_functions(correlations: tuple[float, ...], count: int) -> list[tuple[int, ...]]:
    """All products of Hermite polynomials up to degree 6, by their correlation across a pair."""
    orders = itertools.product(range(7), repeat=len(correlations))
    found = [order for order in orders if any(order)]
    return sorted(found, key=lambda a: -math.prod(r**k for r, k in zip(correlations, a, strict=True)))[:count]


@pytest.mark.parametrize("ratio", [1.0, 1.5, 1.75, 2.25, 4.0])
def test_predictions_are_those_of_listing_all_hermite_products(ratio: float) -> None:
    cells = [c for c in STUDY.plan("standard") if c.labels["ratio"] == ratio and c.labels["seed"] == 0]
    for point in summaries([as_predicted(cell) for cell in cells]):
        dim = point["latents"]
        correlations = (*(point["slow"],) * (dim - 1), point["slow"] ** ratio)
        taken = slowest_functions(correlations, dim)
        alone = (*(0,) * (dim - 1), 1)
        assert point["predicted_fast"] == pytest.approx(float(alone in taken), abs=1e-6)
        expected = sum((1 - math.prod(r**k for r, k in zip(correlations, a, strict=True))) / 2 for a in taken)
        assert point["alignment_white"] == pytest.approx(expected / dim, rel=1e-6)
        assert point["alignment_rotation"] == pytest.approx(sum((1 - r) / 2 for r in correlations) / dim)


def test_nothing_is_predicted_where_the_fast_latent_is_tied_with_a_square() -> None:
    cells = [c for c in STUDY.plan("paper") if c.labels["ratio"] == 2.0]
    assert cells
    assert {point["predicted_fast"] for point in summaries([as_predicted(c) for c in cells])} == {None}


def test_the_report_says_what_the_rows_say() -> None:
    rows = [as_predicted(cell) for cell in STUDY.plan("standard")]
    found = STUDY.report(rows)
    text = " ".join(found.summary)
    assert "Whitening breaks where theory says, at 2 times" in text
    assert "0.970 or more up to ratio 1.75, and 0.001 or less from 2.25 on" in text
    assert "SIGReg keeps the fast latent beyond the break" in text
    assert "Contrastive losses do not break" in text
    assert "differs from InfoNCE by 0.0000 on average" in text
    assert len(found.tables[0].rows) == len({tuple(list(r.labels.values())[:4]) for r in rows})
    assert len(found.pictures[0].figure.axes) == 3


def test_other_rows_are_told_otherwise() -> None:
    cells = STUDY.plan("standard")
    kept = [made_up_row(cell, r2_each=[0.9] * cell.config.world.dim) for cell in cells]
    assert "Whitening shows no clean break" in told(kept)
    lost = [made_up_row(cell, r2_each=[0.9] * (cell.config.world.dim - 1) + [0.1]) for cell in cells]
    assert "SIGReg loses the fast latent too" in told(lost)
    assert "Contrastive losses lose some of it" in told(lost)
    assert "A square of theirs has taken its place" not in told(kept)
    assert "not Gaussian" not in told(lost)


def test_whether_aninfonce_repairs_is_asked_of_the_rows() -> None:
    cells = [cell for cell in STUDY.plan("standard") if cell.labels["objective"] in CONTRASTIVE]
    rows = []
    for cell in cells:
        low = cell.labels["ratio"] > 2 and cell.labels["objective"] == "InfoNCE"
        rows.append(made_up_row(cell, r2_each=[0.99] * (cell.config.world.dim - 1) + [0.1 if low else 0.98]))
    text = told(rows)
    assert "nothing to repair" not in text
    assert "AnInfoNCE repairs" in text
    assert "last layer" not in text


def test_places_are_counted_where_sigreg_keeps_only_some() -> None:
    cells = [c for c in STUDY.plan("standard") if c.labels["objective"] == "SIGReg" and c.labels["ratio"] > 2]
    rows = [made_up_row(c, r2_each=[0.99] * (c.config.world.dim - 1) + [0.1]) for c in cells]
    first = cells[0].labels
    same = {key: first[key] for key in ("latents", "slow", "ratio")}
    for i, cell in enumerate(cells):
        if all(cell.labels[key] == value for key, value in same.items()):
            rows[i].scores["r2_each"][-1] = 0.97
    assert "beyond the break at 1 of" in told(rows)


def test_a_better_aligned_embedding_is_named_where_sigreg_fails() -> None:
    cell = next(
        c for c in STUDY.plan("standard") if c.labels["objective"] == "SIGReg" and c.labels["ratio"] == 8
    )
    row = made_up_row(cell, r2_each=[0.7, 0.1], alignment=0.05, mean_variance=1.0, sigreg=1.7)
    text = told([row])
    assert "better aligned than any rotation" in text
    assert "ratio 8: 0.0500 against 0.0966, SIGReg 1.7" in text
    row = made_up_row(cell, r2_each=[0.7, 0.1], alignment=0.0966, mean_variance=1.0)
    assert "better aligned" not in told([row])


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_a_report_of_some_rows_works(count: int) -> None:
    cells = STUDY.plan("standard")[:count]
    found = STUDY.report([as_predicted(cell) for cell in cells])
    assert found.summary
    assert len(found.pictures) == (count > 0)


def test_runs_without_scores_are_counted_and_left_out() -> None:
    cells = STUDY.plan("quick")
    rows = [as_predicted(cells[0]), lost_row(cells[1]), made_up_row(cells[2], r2_each=None)]
    assert [fast(row) is None for row in rows] == [False, True, True]
    found = STUDY.report(rows)
    assert len(found.tables[0].rows) == 1
    assert any("1 runs could not be scored" in note for note in found.notes)
    assert "No run" in STUDY.report(rows[1:]).summary[0]


@pytest.mark.filterwarnings("ignore::isojepa.training.loop.RunWarning")
def test_two_short_runs_fall_on_both_sides_of_the_break(tmp_path) -> None:
    rows = []
    for cell in STUDY.plan("quick")[:2]:
        run = train(cell.config, tmp_path, progress=False)
        scores = score(run.encoder, build_all(cell.config)[1])
        rows.append(made_up_row(cell, **scores))
    kept, lost = map(fast, rows)
    assert kept > 0.95
    assert lost < 0.1
    assert "Whitening breaks where theory says" in told(rows)
