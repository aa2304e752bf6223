"""The mixings: cells, numbers in the table, pictures with and without records."""

from dataclasses import replace
from pathlib import Path

import pytest

from isojepa.runs import build_all, record_path, train
from isojepa_lab.studies.measured import grouped, mean, measured, spread, told
from isojepa_lab.studies.mixings import MIXINGS, RELEASED, STUDY
from isojepa_lab.studies.settings import OBJECTIVES, OURS, PUBLISHED
from isojepa_lab.studies.study import Row, unique
from tests.lab.studies.made_up_rows import lost_row, made_up_row


def test_cells_are_every_mixing_and_objective() -> None:
    cells = STUDY.plan("standard")
    ours = [cell for cell in cells if cell.labels["settings"] == OURS]
    pairs = {(cell.labels["mixing"], cell.labels["objective"]) for cell in ours}
    assert pairs == {(mixing, name) for mixing in MIXINGS for name in [*OBJECTIVES, RELEASED]}
    assert len(ours) == 3 * len(pairs)
    published = [cell for cell in cells if cell.labels["settings"] == PUBLISHED]
    assert [cell.labels["mixing"] for cell in published] == list(MIXINGS)
    assert {cell.config.training.steps for cell in published} == {20_000}
    assert len(unique(STUDY.plan("paper"))) == len(STUDY.plan("paper")) == 5 * (len(pairs) + 3 * len(MIXINGS))
    for cell in unique(STUDY.plan("quick")):
        build_all(cell.config)


def test_table_has_means_over_seeds() -> None:
    cells = [c for c in STUDY.plan("standard") if c.labels["objective"] == "SIGReg"][:3]
    rows = [made_up_row(cell, r2=r2) for cell, r2 in zip(cells, (0.9, 0.95, 1.0), strict=True)]
    (line,) = STUDY.report(rows).tables[0].rows
    assert line["r2"] == pytest.approx(0.95)
    assert line["r2_std"] == pytest.approx(0.05)
    assert line["r2_lowest"] == 0.9
    assert line["holds"] == "3 of 3"


def test_failures_are_named() -> None:
    cells = STUDY.plan("standard")
    rows = [made_up_row(cells[0], r2=0.995), made_up_row(cells[3], r2=0.4)]
    text = " ".join(STUDY.report(rows).summary)
    assert f"{cells[3].labels['objective']} on spiral (0.400)" in text
    assert "No run" in " ".join(STUDY.report(rows[:1]).summary)


def test_beside_the_published_settings_only_like_is_compared() -> None:
    cells = STUDY.plan("standard")
    ours = made_up_row(cells[0], r2=0.99)
    published = next(cell for cell in cells if cell.labels["settings"] == PUBLISHED)
    other = next(
        cell
        for cell in cells
        if cell.labels["settings"] == PUBLISHED and cell.labels["mixing"] != published.labels["mixing"]
    )
    text = " ".join(STUDY.report([ours, made_up_row(published, r2=0.98), made_up_row(other, r2=1.0)]).summary)
    assert "higher R² in 1 of 1 cases" in text


def test_report_of_lost_and_no_rows() -> None:
    cells = STUDY.plan("quick")
    findings = STUDY.report([lost_row(cells[0]), made_up_row(cells[1])])
    assert any("could not be scored" in text for text in findings.summary)
    assert [picture.name for picture in findings.pictures] == ["recovery"]
    assert STUDY.report([]).summary == ["No run is there yet."]
    assert STUDY.report([lost_row(cells[0])]).tables


def test_planes_are_drawn_where_records_are(tmp_path: Path) -> None:
    cells = STUDY.plan("quick")[:2]
    rows = []
    for cell in cells:
        short = replace(cell, config=replace(cell.config, training=replace(cell.config.training, steps=3)))
        train(short.config, tmp_path, progress=False)
        rows.append(replace(made_up_row(short), path=record_path(short.config, tmp_path)))
    findings = STUDY.report(rows)
    assert [picture.name for picture in findings.pictures] == ["recovery", "planes"]
    assert len(findings.pictures[1].figure.axes) == 2 * 3  # two mixings; latents, observations, one objective
    elsewhere = [replace(row, path=tmp_path / "absent") for row in rows]
    assert [picture.name for picture in STUDY.report(elsewhere).pictures] == ["recovery"]


def test_one_latent_of_two_is_told_from_half_of_both() -> None:
    cell = next(cell for cell in STUDY.plan("standard") if cell.labels["settings"] != PUBLISHED)
    for each, expected in (([0.99, 0.01], True), ([0.5, 0.5], False)):
        text = " ".join(STUDY.report([made_up_row(cell, r2=0.5, r2_each=each)]).summary)
        assert ("one latent of the two" in text) == expected


@pytest.mark.slow
def test_quick_runs_become_a_report(tmp_path: Path) -> None:
    from isojepa_lab.studies.scores import score

    rows = []
    for cell in STUDY.plan("quick"):
        run = train(cell.config, tmp_path, progress=False)
        _, world, _ = build_all(cell.config)
        rows.append(made_up_row(cell, **score(run.encoder, world)))
    assert len(STUDY.report(rows).tables[0].rows) == len(rows)


def test_what_is_measured_is_finite_or_none() -> None:
    row = made_up_row(
        STUDY.plan("quick")[0], r2=float("nan"), error=None, bound="Infinity", delta=True, epsilon=1
    )
    assert [measured(row, name) for name in ("r2", "error", "bound", "delta", "nothing")] == [None] * 5
    assert measured(row, "epsilon") == 1.0
    assert mean([row], "r2") is None
    assert spread([row], "epsilon") is None


def test_groups_leave_out_rows_without_the_label() -> None:
    rows = [made_up_row(cell) for cell in STUDY.plan("quick")]
    bare = Row(**{**vars(rows[0]), "labels": {"seed": 0}})
    groups = grouped([*rows, bare], "mixing")
    assert sum(map(len, groups.values())) == len(rows)


def test_what_was_run_is_told() -> None:
    rows = [made_up_row(cell) for cell in STUDY.plan("quick")]
    assert told(rows[:2]).startswith("2 runs of 100 steps")
    assert told([rows[0], *rows[:2]]).startswith("2 runs")  # one under two labels
    assert "1 diverged" in told([rows[0], lost_row(STUDY.plan("quick")[1])])
    assert told([]) == "No run is there yet."
