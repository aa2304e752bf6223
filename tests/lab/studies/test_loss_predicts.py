"""Losses and recovery: rank correlations against scipy, strata that hide a confounder, honest sentences."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from isojepa_lab.papers.world_model.grid import STUDY as GRID
from isojepa_lab.studies import catalogue, loss_predicts
from isojepa_lab.studies.loss_predicts import STUDY
from isojepa_lab.studies.mixings import STUDY as MIXINGS
from isojepa_lab.studies.rank_correlations import rank_correlation
from isojepa_lab.studies.settings import OURS
from isojepa_lab.studies.study import Cell, Row
from tests.lab.studies.made_up_rows import made_up_row


def test_rank_correlation_is_spearmans() -> None:
    source = np.random.default_rng(0)
    x = source.normal(size=60).round(1)  # with ties
    y = x + source.normal(size=60)
    found = rank_correlation(x.tolist(), y.tolist(), range(60))
    assert found is not None
    assert found.estimate == pytest.approx(spearmanr(x, y).statistic)
    assert found.low < found.estimate < found.high


def test_interval_covers_as_often_as_it_says() -> None:
    source = np.random.default_rng(1)
    truth = 6 / math.pi * math.asin(0.6 / 2)  # Spearman's of a normal pair of correlation 0.6
    hits = 0
    for _ in range(100):
        x = source.normal(size=80)
        y = 0.6 * x + 0.8 * source.normal(size=80)
        found = rank_correlation(x.tolist(), y.tolist(), range(80))
        assert found is not None
        hits += found.low <= truth <= found.high
    assert hits >= 87


def test_copies_of_a_run_make_no_narrower_interval() -> None:
    source = np.random.default_rng(2)
    x, y = source.normal(size=30), source.normal(size=30)
    once = rank_correlation(x.tolist(), y.tolist(), range(30))
    x3, y3, cells = (np.repeat(values, 3).tolist() for values in (x, y, range(30)))
    thrice = rank_correlation(x3, y3, cells)
    assert once is not None
    assert thrice is not None
    assert thrice.high - thrice.low == pytest.approx(once.high - once.low, rel=0.1)


def test_strata_take_out_what_differs_between_them() -> None:
    """Simpson's paradox: falling within each group, rising across them."""
    x = [0, 1, 2, 10, 11, 12, 20, 21, 22]
    y = [2, 1, 0, 12, 11, 10, 22, 21, 20]
    groups = [0, 0, 0, 1, 1, 1, 2, 2, 2]
    across, within = rank_correlation(x, y, range(9)), rank_correlation(x, y, range(9), groups)
    assert across is not None
    assert within is not None
    assert across.estimate > 0.7
    assert within.estimate == pytest.approx(-1)


def test_correlations_that_do_not_exist() -> None:
    assert rank_correlation([1, 1, 1, 1], [1, 2, 3, 4], range(4)) is None
    assert rank_correlation([], [], []) is None
    few = rank_correlation([1, 2, 3], [3, 1, 2], [0, 0, 0])
    assert few is not None
    assert math.isnan(few.low)
    with pytest.raises(ValueError, match="equal lengths"):
        rank_correlation([1, 2], [1], [0, 1])
    with pytest.raises(ValueError, match="finite"):
        rank_correlation([1, math.nan, 2], [1, 2, 3], [0, 1, 2])


def rows_of(**by_name: object) -> list[Row]:
    """One made-up run per place of the grid, with scores given as functions of (weight, rho, index)."""
    cells = [c for c in GRID.plan("standard") if c.labels["seed"] == 0 and c.labels["settings"] == OURS]
    rows = []
    for index, cell in enumerate(cells):
        scores = {
            name: make(float(cell.labels["weight"]), float(cell.labels["rho"]), index)  # type: ignore[operator]
            for name, make in by_name.items()
        }
        rows.append(made_up_row(Cell(cell.config, {**cell.labels, "study": "grid"}), **scores))
    return rows


def test_alignment_that_only_follows_rho_is_found_out() -> None:
    """R^2 rises with rho, alignment falls with it: across the grid it predicts, within one rho it cannot."""
    source = np.random.default_rng(3)
    noise = source.normal(size=100)
    rows = rows_of(
        r2=lambda w, rho, i: 0.5 + 0.4 * rho + 0.001 * noise[i],
        alignment=lambda w, rho, i: (1 - rho) / 2 + 1e-4 * noise[99 - i],
    )
    lines = {row["subset"]: row for row in STUDY.report(rows).tables[0].rows}
    assert float(lines["all"]["alignment"] or 0) < -0.9
    assert abs(float(lines["all, within one study, ρ and dimension"]["alignment"] or 0)) < 0.5


def test_share_is_the_gap_without_rho_and_scale() -> None:
    """A nonlinear share s gives delta = 2 rho (1 - rho) s tr Cov(h), whatever rho and the scale are."""
    share = np.random.default_rng(4).uniform(0, 0.2, size=100)
    rows = rows_of(
        r2=lambda w, rho, i: 1 - share[i],
        alignment=lambda w, rho, i: (1 - rho) / 2 * (0.1 + w),
        mean_variance=lambda w, rho, i: 0.1 + w,
        delta=lambda w, rho, i: 2 * rho * (1 - rho) * share[i] * 2 * (0.1 + w),
    )
    findings = STUDY.report(rows)
    line = next(row for row in findings.tables[0].rows if row["subset"] == "all")
    assert float(line["share"] or 0) < float(line["delta"] or 0)
    assert line["share"] == pytest.approx(-1)


def test_experiments_are_judged_one_by_one() -> None:
    """Of two experiments alignment orders one, and pooled they would hide it."""
    grid = rows_of(
        r2=lambda w, rho, i: 0.91 + i / 1000,
        alignment=lambda w, rho, i: 1.0 - i / 100,
        sigreg=lambda w, rho, i: 1.0 + (i * 7 % 63),
        whitening=lambda w, rho, i: 1.0 + (i * 11 % 63),
    )
    cells = [cell for cell in MIXINGS.plan("standard") if cell.labels["settings"] == OURS][:30]
    mixings = [
        made_up_row(
            Cell(cell.config, {**cell.labels, "study": "mixings"}),
            r2=0.95 + i / 1000,
            alignment=5.0 + i / 100,
            sigreg=1.0 + (i * 7 % 30),
            whitening=0.5 - i / 100,
        )
        for i, cell in enumerate(cells)
    ]
    collapsed = [replace(row, status="collapsed", scores={**row.scores, "r2": 0.1}) for row in grid[:5]]
    findings = STUDY.report([*grid, *mixings, *collapsed])
    lines = {row["subset"]: row for row in findings.tables[0].rows}
    assert lines["grid, R² > 0.9"]["alignment"] == pytest.approx(-1)
    assert lines["mixings, R² > 0.9"]["alignment"] == pytest.approx(1)
    assert lines["grid"]["runs"] == 68
    assert lines["grid, without collapsed runs"]["runs"] == 63


def test_total_loss_is_that_of_the_objective() -> None:
    from isojepa_lab.studies.loss_predicts_page import _run

    grid = GRID.plan("quick")[0]
    found = _run(made_up_row(grid, sigreg=3.0, alignment=0.5))
    assert found is not None
    weight = float(grid.labels["weight"])
    assert found["total"] == pytest.approx(weight * 3 + (1 - weight) * 0.5)
    ours = [cell for cell in MIXINGS.plan("standard") if cell.labels["settings"] == OURS]
    by_name = {cell.labels["objective"]: cell for cell in ours}
    default = _run(made_up_row(by_name["SIGReg"], sigreg=3.0, alignment=0.5))
    white = _run(made_up_row(by_name["whitening"], whitening=0.2, alignment=0.5))
    other = _run(made_up_row(by_name["InfoNCE"]))
    assert default is not None
    assert default["total"] == pytest.approx(2e-3 * 3 + 0.998 * 0.5)
    assert white is not None
    assert white["total"] == pytest.approx(0.35 * 0.2 + 0.65 * 0.5)
    assert other is not None
    assert other["total"] is None


def test_cells_are_those_of_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"mixings": MIXINGS, "grid": GRID}
    monkeypatch.setattr(loss_predicts, "SOURCES", tuple(known))
    monkeypatch.setattr(catalogue, "find_study", known.__getitem__)
    cells = STUDY.plan("standard")
    assert len(cells) == len(MIXINGS.plan("standard")) + len(GRID.plan("standard")) - 1  # one run is shared
    assert len(STUDY.plan("quick")) == 4
    assert {cell.labels["study"] for cell in cells} == set(known)
