import math
from dataclasses import replace

import pytest

from isojepa.runs import build_all, record_path
from isojepa_lab.papers.world_model.scaling import (
    DIMS,
    STUDY,
    best_of,
    learning_rate,
    operations,
)
from isojepa_lab.studies.findings import Findings
from isojepa_lab.studies.measured import pairs_of
from isojepa_lab.studies.published import published_scaling
from isojepa_lab.studies.rows import Rows
from isojepa_lab.studies.study import Cell, Row


def row(cell: Cell, r2: float | None, loss: float | None = 0.1, seconds: float = 1.0) -> Row:
    scores = {"unscored": "diverged"} if r2 is None else {"r2": r2, "r2_x_to_z": 0.75, "holds": True}
    config = cell.config.to_dict()
    steps = cell.config.training.steps
    return Row(
        labels=dict(cell.labels),
        config=config,
        scores=scores,
        status="done",
        steps=steps,
        seconds=9.0,
        loss=loss,
        record=record_path(cell.config).name,
        cpu_seconds=seconds,
    )


def findings(rows: list[Row]) -> Findings:
    return STUDY.report(rows)


def of(cells: list[Cell], **labels: object) -> list[Cell]:
    return [cell for cell in cells if all(cell.labels[name] == value for name, value in labels.items())]


@pytest.mark.parametrize("scale", ["quick", "standard", "paper"])
def test_every_cell_can_be_built_and_has_a_record_of_its_own(scale: str) -> None:
    cells = STUDY.plan(scale)
    assert len({record_path(cell.config).name for cell in cells}) == len(cells)
    for cell in cells:
        if cell.config.world.dim <= 8:
            build_all(cell.config)


def test_encoders_of_one_world_share_the_mixing_and_nothing_else() -> None:
    cells = of(STUDY.plan("paper"), dim=8, method="SIGReg", settings="published", world=3)
    assert [cell.labels["attempt"] for cell in cells] == [0, 1, 2]
    assert {cell.config.world.mixing.mixing_seed for cell in cells} == {3}
    assert len({cell.config.seed for cell in cells}) == 3


def test_the_best_is_taken_by_loss_within_a_world_and_never_between_worlds() -> None:
    cells = of(STUDY.plan("paper"), dim=4, method="SIGReg", settings="published")
    rows = [
        row(
            cell, 0.1 * cell.labels["attempt"] + cell.labels["world"], loss=1.0 - 0.1 * cell.labels["attempt"]
        )
        for cell in cells
    ]
    rows.append(replace(rows[0], loss=None, scores={"r2": 99.0}))
    chosen = best_of(rows)
    assert [row.labels["world"] for row in chosen] == [0, 1, 2, 3, 4]
    assert [row.labels["attempt"] for row in chosen] == [2] * 5
    assert all(row.scores["r2"] < 10 for row in chosen)
    world = rows[:3]
    for odd in (replace(world[0], loss=0.01, status="diverged"), replace(world[0], loss=math.nan)):
        (best,) = best_of([odd, *world[1:]])
        assert best is world[2]


def test_learning_rates_fall_with_the_third_root_from_16_latents_on() -> None:
    assert learning_rate(2) == learning_rate(16) == 1e-2
    assert learning_rate(128) == pytest.approx(5e-3)
    assert learning_rate(1024) == pytest.approx(2.5e-3)


def test_operations_count_what_the_layers_multiply() -> None:
    # one view forward: 4 layers of 4 x 4, a multiplication and an addition each; backward twice; two views
    assert operations(8) == 2 * 3 * (4 * 2 * 4 * 4)
    cell = of(STUDY.plan("standard"), dim=8, method="SIGReg", settings="published")[0]
    assert pairs_of(row(cell, 0.9)) == 20_000 * 256


def test_infonce_at_the_published_width_is_judged_beside_the_published() -> None:
    cells = of(STUDY.plan("standard"), settings="ours", method="InfoNCE, published width")
    known = {dim: published_scaling("infonce", dim).r2_h_to_z for dim in DIMS}
    (statement,) = [one for one in STUDY.statements if one.name == "published"]
    same = [row(cell, known[cell.config.world.dim]) for cell in cells]
    other = [row(cell, 0.9999 if (dim := cell.config.world.dim) == 2 else known[dim]) for cell in cells]
    assert [statement.judge(Rows(rows)).verdict for rows in (same, other)] == ["holds", "in part"]


def test_time_that_grows_like_the_operations_has_ratio_one() -> None:
    cells = [cell for cell in of(STUDY.plan("standard"), settings="ours", method="SIGReg", world=0)]
    rows = [row(cell, 0.99, seconds=operations(cell.config.world.dim) * 1e-6) for cell in cells]
    table = {table.name: table for table in findings(rows).tables}["cost"]
    assert [line["ratio"] for line in table.rows] == pytest.approx([1.0] * len(DIMS))


def test_information_is_that_of_gaussian_pairs() -> None:
    rows = [row(cell, 0.9) for cell in of(STUDY.plan("standard"), method="InfoNCE, matched width", dim=8)]
    table = {table.name: table for table in findings(rows).tables}["information"]
    correlation = 0.95**2
    assert table.rows[0]["information"] == pytest.approx(-8 / 2 * math.log(1 - correlation**2))
