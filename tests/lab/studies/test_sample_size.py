"""The study of training sets: slopes of known curves, and what its report says of any set of rows."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from isojepa.objectives import LeJEPA, Whitening
from isojepa.runs import build_all, train
from isojepa.seeds import generator
from isojepa_lab.studies.sample_size import COUPLING, ENDLESS, OBJECTIVES, SIZES, SPIRAL, STUDY, WORLDS
from isojepa_lab.studies.sample_size_page import curve, fresh_loss, summaries, training_loss
from isojepa_lab.studies.scores import score
from isojepa_lab.studies.study import Cell, Row, unique
from tests.lab.studies.made_up_rows import lost_row, made_up_row


def falling(cell: Cell, power: float = 1.0, floor: float = 1e-5) -> Row:
    """1 - R^2 = floor + (16 / N)^power."""
    pairs = cell.labels["pairs"]
    miss = floor + ((16 / pairs) ** power if pairs else 0.0)
    return made_up_row(cell, r2=1 - miss, error=miss, bound=10 * miss)


def told(rows: list[Row]) -> str:
    return " ".join(STUDY.report(rows).summary)


def of(world: str, objective: str = "SIGReg", seed: int = 0) -> list[Cell]:
    wanted = (world, objective, seed)
    names = ("world", "objective", "seed")
    return [c for c in STUDY.plan("standard") if tuple(c.labels[name] for name in names) == wanted]


@pytest.mark.parametrize("scale", ["quick", "standard", "paper"])
def test_training_sets_have_the_size_of_their_label(scale: str) -> None:
    cells = STUDY.plan(scale)
    assert len(unique(cells)) == len(cells)
    for cell in cells:
        assert cell.config.training.pairs == (cell.labels["pairs"] or None)
        cell.config.training.checked()


def test_sizes_are_powers_of_two_and_every_curve_has_its_reference() -> None:
    assert list(SIZES) == [2**k for k in range(6, 18)]
    for world in WORLDS:
        assert [cell.labels["pairs"] for cell in of(world)] == [*SIZES, ENDLESS]
    for cell in STUDY.plan("quick"):
        build_all(cell.config)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_slope_of_a_known_power_is_found(power: float) -> None:
    found = curve(summaries([falling(cell, power, floor=0.0) for cell in of(COUPLING)[:-1]]))
    assert found["slope"] == pytest.approx(-power, abs=1e-9)
    assert found["slope_error"] == pytest.approx(0, abs=1e-6)
    first = next(size for size in SIZES if (16 / size) ** power < 0.1)
    assert found["from"] == first
    needed = next((size for size in SIZES if (16 / size) ** power < 0.01), None)
    assert found["needed"] == needed


def test_sizes_that_the_optimiser_decides_are_left_out_of_the_slope() -> None:
    floor = 1e-3
    found = curve(summaries([falling(cell, 1.0, floor) for cell in of(COUPLING)]))
    chosen = [size for size in SIZES if 3 * floor < floor + 16 / size < 0.1]
    assert (found["from"], found["to"]) == (chosen[0], chosen[-1])
    assert found["floor"] == pytest.approx(floor)
    slope, _ = np.polyfit(np.log(chosen), np.log([floor + 16 / size for size in chosen]), 1)
    assert found["slope"] == pytest.approx(slope, rel=1e-9)


@pytest.mark.parametrize("pairs", [ENDLESS, 4096, 64])
def test_the_training_loss_is_that_of_a_batch_without_its_own_noise(pairs: int) -> None:
    """A linear encoder that is white on its set: the noise of whitening, by drawing batches."""
    cell = next(c for c in of(COUPLING, "whitening") if c.labels["pairs"] == pairs)
    source, dim = generator(3, "noise"), 8
    size = min(1024, pairs or 1024)
    recipe = replace(cell.config.training, batch=size, batch_start=None)
    whole = torch.randn(pairs or 1, dim, generator=source, dtype=torch.float64)
    if pairs:
        whole = whole - whole.mean(0)
        whole = whole @ torch.linalg.cholesky(torch.linalg.inv(torch.cov(whole.T)))
    drawn = []
    for _ in range(300):
        fresh = torch.randn(size, dim, generator=source, dtype=torch.float64)
        batch = whole[torch.randperm(pairs, generator=source)[:size]] if pairs else fresh
        drawn.append(Whitening()(batch).item())
    noisy = 0.5 * sum(drawn) / len(drawn)
    row = replace(made_up_row(Cell(replace(cell.config, training=recipe), cell.labels)), loss=0.02 + noisy)
    assert training_loss(row) == pytest.approx(0.02, abs=0.03 * noisy + 1e-9)


def test_a_size_counts_when_every_larger_one_passes() -> None:
    cells = of(COUPLING)[:5]  # 64 to 1024
    rows = [made_up_row(c, r2=r2) for c, r2 in zip(cells, (0.9, 0.995, 0.98, 0.992, 0.999), strict=True)]
    found = curve(summaries(rows))
    assert (found["needed"], found["first"]) == (512, 128)
    last = curve(summaries(rows[:3]))
    assert (last["needed"], last["first"]) == (None, 128)
    assert "128, though not every larger set does" in told(rows[:3])
    assert "more than there were" in told(rows[:1])


def test_few_sizes_have_no_slope() -> None:
    found = curve(summaries([falling(cell) for cell in of(COUPLING)[:2]]))
    assert found["slope"] is None


def test_the_fresh_loss_is_the_objective_on_fresh_pairs() -> None:
    """Whitening's, whose value does not depend on the batch, computed by the objective itself."""
    cell = of(COUPLING, "whitening")[0]
    encoder, world, _ = build_all(cell.config)
    row = made_up_row(cell, **score(encoder, world))
    pairs = world.sample(100_000, generator(9, "fresh"))
    with torch.no_grad():
        views = torch.stack((encoder(pairs.views[0]), encoder(pairs.views[1])))
    weight = cell.config.objective.weight
    expected = LeJEPA(weight, regularizer=Whitening())(views.double()).total.item()
    assert fresh_loss(row) == pytest.approx(expected, rel=0.05)
    row = made_up_row(of(SPIRAL)[0], alignment=0.03, sigreg=2.0)
    assert fresh_loss(row) == pytest.approx(2e-3 * 2.0 + 0.998 * 0.03)


def test_medians_keep_one_local_minimum_from_being_a_trend() -> None:
    cell = of(SPIRAL)[3]
    (point,) = summaries([made_up_row(cell, r2=r2) for r2 in (0.2, 0.98, 0.99)])
    assert point["r2"] == 0.98
    assert (point["r2_low"], point["r2_high"]) == (0.2, 0.99)


def test_the_report_says_what_the_rows_say() -> None:
    rows = [falling(cell) for cell in STUDY.plan("standard")]
    found = STUDY.report(rows)
    text = " ".join(found.summary)
    assert "With a matched encoder 1 − R² falls about as 1 / N" in text
    assert "2,048 for coupling of 8, matched under SIGReg" in text
    assert f"The bound holds on fresh pairs**: in {len(rows)} of {len(rows)} runs" in text
    assert "10 times the error at the median" in text
    assert len(found.tables[0].rows) == 5
    assert len(found.tables[1].rows) == 5 * (len(SIZES) + 1)
    assert found.tables[1].rows[len(SIZES)]["size"] == "endless"
    assert len(found.pictures[0].figure.axes) == 3


def test_learning_by_heart_is_told_from_the_losses() -> None:
    cell = of(SPIRAL)[0]
    close = replace(made_up_row(cell, alignment=0.03, sigreg=1.0), loss=0.03)
    assert "Even the smallest set is not learned by heart" in told([close])
    far = replace(close, loss=0.001)
    assert "**Small sets are learned by heart.** With 64 pairs the loss is 0.0010 in training" in told([far])


def test_other_rows_are_told_otherwise() -> None:
    slow = [falling(cell, 0.4) for cell in STUDY.plan("standard")]
    assert "depends on encoder and objective" in told(slow)
    broken = [made_up_row(of(COUPLING)[0], holds=False), made_up_row(of(COUPLING)[1])]
    assert "The bound does not always hold**: in 1 of 2 runs" in told(broken)


@pytest.mark.parametrize("count", [0, 1, 3, 14, 60])
def test_a_report_of_some_rows_works(count: int) -> None:
    found = STUDY.report([falling(cell) for cell in STUDY.plan("standard")[:count]])
    assert found.summary
    assert len(found.pictures) == (count > 0)


def test_runs_that_failed_or_miss_scores_are_left_out() -> None:
    cells = of(SPIRAL)
    bare = made_up_row(cells[0], alignment=None, error=None, bound=None, holds=None)
    assert STUDY.report([bare]).summary
    endless = made_up_row(cells[-1])
    assert STUDY.report([endless]).summary
    found = STUDY.report([made_up_row(cells[0]), lost_row(cells[1])])
    assert any("1 runs could not be scored" in note for note in found.notes)
    assert "No run" in STUDY.report([lost_row(cells[0])]).summary[0]
    perfect = [made_up_row(cell, r2=1.0, error=0.0) for cell in cells]
    assert STUDY.report(perfect).summary


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::isojepa.training.loop.RunWarning")
def test_more_pairs_recover_more(tmp_path) -> None:
    rows = []
    for cell in (STUDY.plan("quick")[0], STUDY.plan("quick")[2]):
        run = train(cell.config, tmp_path, progress=False)
        rows.append(made_up_row(cell, **score(run.encoder, build_all(cell.config)[1])))
    few, many = summaries(rows)
    assert (few["pairs"], many["pairs"]) == (64, 1024)
    assert 1 - few["r2"] > 3 * (1 - many["r2"])
    assert all(row.scores["holds"] for row in rows)
    assert math.isfinite(few["bound"])
    assert set(OBJECTIVES) == {"SIGReg", "whitening"}
