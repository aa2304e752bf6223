"""The mixings: cells, numbers in the table, pictures with and without records."""

from dataclasses import replace
from pathlib import Path

import pytest

from isojepa.runs import build_all, record_path, train
from isojepa_lab.studies.mixings import STUDY
from tests.lab.studies.made_up_rows import made_up_row


def test_table_has_means_over_seeds() -> None:
    cells = [c for c in STUDY.plan("standard") if c.labels["objective"] == "SIGReg"][:3]
    rows = [made_up_row(cell, r2=r2) for cell, r2 in zip(cells, (0.9, 0.95, 1.0), strict=True)]
    (line,) = STUDY.report(rows).tables[0].rows
    assert line["r2"] == pytest.approx(0.95)
    assert line["r2_std"] == pytest.approx(0.05)
    assert line["r2_lowest"] == 0.9
    assert line["holds"] == "3 of 3"


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


@pytest.mark.slow
def test_quick_runs_become_a_report(tmp_path: Path) -> None:
    from isojepa_lab.studies.scores import score

    rows = []
    for cell in STUDY.plan("quick"):
        run = train(cell.config, tmp_path, progress=False)
        _, world, _ = build_all(cell.config)
        rows.append(made_up_row(cell, **score(run.encoder, world)))
    assert len(STUDY.report(rows).tables[0].rows) == len(rows)
