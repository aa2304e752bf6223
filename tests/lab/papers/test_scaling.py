import math
from dataclasses import replace

import pytest

from isojepa.runs import build_all, record_path
from isojepa_lab.papers.world_model.scaling import (
    CONTROL,
    DIMS,
    METHODS,
    STUDY,
    beside,
    best_of,
    learning_rate,
    operations,
)
from isojepa_lab.studies.findings import Findings
from isojepa_lab.studies.measured import pairs_of
from isojepa_lab.studies.published import published_scaling
from isojepa_lab.studies.study import Cell, Row

R2 = {dim: published_scaling("sigreg", dim).r2_h_to_z for dim in DIMS}


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


def said(rows: list[Row], claim: str) -> str:
    """What the page says of a claim, with the verdict."""
    texts = [block for block in findings(rows).body if isinstance(block, str)]
    return next(text for text in texts if text.startswith(f"**{claim}"))


def of(cells: list[Cell], **labels: object) -> list[Cell]:
    return [cell for cell in cells if all(cell.labels[name] == value for name, value in labels.items())]


@pytest.mark.parametrize("scale", ["quick", "standard", "paper"])
def test_every_cell_can_be_built_and_has_a_record_of_its_own(scale: str) -> None:
    cells = STUDY.plan(scale)
    assert len({record_path(cell.config).name for cell in cells}) == len(cells)
    for cell in cells:
        if cell.config.world.dim <= 8:
            build_all(cell.config)


def test_standard_has_every_dimension_and_method_and_the_published_settings_of_sigreg() -> None:
    cells = STUDY.plan("standard")
    for dim in DIMS:
        for method in METHODS:
            assert of(cells, dim=dim, method=method, settings="ours")
        assert bool(of(cells, dim=dim, method="SIGReg", settings="published")) == (dim <= 256)
    assert of(cells, method=CONTROL)[0].config.objective.weight == 0


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


def test_whitening_stands_beside_what_was_published_as_vicreg() -> None:
    known = beside("whitening", 64)
    assert known is not None
    assert known.r2_h_to_z == 0.999968
    assert beside("VICReg", 64) is None
    assert beside("InfoNCE, sliced", 64).r2_h_to_z == 0.648496  # type: ignore[union-attr]
    assert beside("SIGReg, free encoder", 64) is None
    assert beside("SIGReg", 6) is None


def test_the_report_counts_the_dimensions_that_meet_the_published() -> None:
    cells = of(STUDY.plan("standard"), settings="ours", method="SIGReg")
    rows = [
        row(cell, R2[cell.config.world.dim] - (1e-3 if cell.config.world.dim == 32 else 0)) for cell in cells
    ]
    text = findings(rows).summary[0]
    assert ": in part.**" in text
    assert "9 of 10 places" in text
    assert "SIGReg at 32 (0.998981 against 0.999981)" in text
    worse = [replace(one, scores={**one.scores, "r2": 0.5}) for one in rows]
    assert ": does not hold.**" in findings(worse).summary[0]
    better = [replace(one, scores={**one.scores, "r2": 1.0}) for one in rows]
    assert ": holds.**" in findings(better).summary[0]


def test_infonce_at_the_published_width_is_judged_beside_the_published() -> None:
    cells = of(STUDY.plan("standard"), settings="ours", method="InfoNCE, published width")
    known = {dim: published_scaling("infonce", dim).r2_h_to_z for dim in DIMS}
    same = [row(cell, known[cell.config.world.dim]) for cell in cells]
    assert ": holds.**" in said(same, "InfoNCE at the published width")
    other = [row(cell, 0.9999 if (dim := cell.config.world.dim) == 2 else known[dim]) for cell in cells]
    text = said(other, "InfoNCE at the published width")
    assert ": in part.**" in text
    assert "not at 2 (0.9999 against 0.9510)." in text


def test_time_that_grows_like_the_operations_has_ratio_one() -> None:
    cells = [cell for cell in of(STUDY.plan("standard"), settings="ours", method="SIGReg", world=0)]
    rows = [row(cell, 0.99, seconds=operations(cell.config.world.dim) * 1e-6) for cell in cells]
    table = {table.name: table for table in findings(rows).tables}["cost"]
    assert [line["ratio"] for line in table.rows] == pytest.approx([1.0] * len(DIMS))


def test_the_report_works_with_diverged_runs_and_with_few() -> None:
    cells = STUDY.plan("standard")
    rows = [row(cell, None if index % 3 == 0 else 0.9, loss=None) for index, cell in enumerate(cells)]
    told = findings(rows)
    assert any("could not be scored" in text for text in told.summary)
    assert all("cannot be asked" in text for text in findings([]).summary)
    assert findings([row(STUDY.plan("quick")[0], 0.5)]).tables


def test_information_is_that_of_gaussian_pairs() -> None:
    rows = [row(cell, 0.9) for cell in of(STUDY.plan("standard"), method="InfoNCE, matched width", dim=8)]
    table = {table.name: table for table in findings(rows).tables}["information"]
    correlation = 0.95**2
    assert table.rows[0]["information"] == pytest.approx(-8 / 2 * math.log(1 - correlation**2))


def test_published_settings_do_not_enter_the_means_of_ours() -> None:
    cells = of(STUDY.plan("paper"), method="InfoNCE, published width", dim=64)
    rows = [row(cell, 0.6 if cell.labels["settings"] == "ours" else 0.9) for cell in cells]
    table = {table.name: table for table in findings(rows).tables}["information"]
    assert table.rows[0]["InfoNCE, published width"] == pytest.approx(0.6)


def test_what_the_regularizer_decides_is_asked_of_the_rows() -> None:
    cells = of(STUDY.plan("standard"), settings="ours")

    def told(alone: float, free: float) -> list[str]:
        rows = [row(cell, 0.999) for cell in cells if cell.labels["method"] == "SIGReg"]
        rows += [row(cell, alone) for cell in cells if cell.labels["method"] == CONTROL]
        free_cells = [cell for cell in cells if "free" in str(cell.labels["method"])]
        rows += [row(cell, free if index else 0.999) for index, cell in enumerate(free_cells)]
        return [said(rows, claim) for claim in ("Alignment alone", "With a linear map")]

    alone, free = told(0.999, 0.999)
    assert "is no test of the regularizer" in alone
    assert ": holds.**" in alone
    assert "decides little there too" in free
    alone, free = told(0.5, 0.1)
    assert "the regularizer helps" in alone
    assert ": does not hold.**" in alone
    assert "There the regularizer decides" in free
    assert ": in part.**" in free


def test_the_cost_and_the_noise_are_judged_by_the_rows() -> None:
    cells = of(STUDY.plan("standard"), settings="ours", method="SIGReg", world=0)

    def rows(noise: float, time: float) -> list[Row]:
        dims = [(cell, cell.config.world.dim) for cell in cells]
        return [row(c, 1 - 1e-7 * dim**noise, seconds=operations(dim) ** time) for c, dim in dims]

    grows, noise = "Time per pair", "What is left of 1 − R²"
    assert ": holds.**" in said(rows(1, 0.9), grows)
    assert ": does not hold.**" in said(rows(1, 1.1), grows)
    assert ": holds.**" in said(rows(1, 1), noise)
    assert ": in part.**" in said(rows(2, 1), noise)
