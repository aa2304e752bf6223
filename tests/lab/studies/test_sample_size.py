"""The study of training sets: slopes of known curves, and what its report says of any set of rows."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from isojepa.objectives import LeJEPA, Whitening
from isojepa.runs import build_all, train
from isojepa.seeds import generator
from isojepa_lab.studies.sample_size import COUPLING, ENDLESS, OBJECTIVES, SIZES, SPIRAL, STUDY
from isojepa_lab.studies.sample_size_page import curve, fresh_loss, summaries, training_loss
from isojepa_lab.studies.scores import score
from isojepa_lab.studies.study import Cell, Row, unique
from tests.lab.studies.made_up_rows import made_up_row


def falling(cell: Cell, power: float = 1.0, floor: float = 1e-5) -> Row:
    """1 - R^2 = floor + (16 / N)^power."""
    pairs = cell.labels["pairs"]
    miss = floor + ((16 / pairs) ** power if pairs else 0.0)
    return made_up_row(cell, r2=1 - miss, error=miss, bound=10 * miss)


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


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_slope_of_a_known_power_is_found(power: float) -> None:
    found = curve(summaries([falling(cell, power, floor=0.0) for cell in of(COUPLING)[:-1]]))
    assert found["slope"] == pytest.approx(-power, abs=1e-9)
    assert found["slope_error"] == pytest.approx(0, abs=1e-6)
    first = next(size for size in SIZES if (16 / size) ** power < 0.1)
    assert found["from"] == first
    needed = next((size for size in SIZES if (16 / size) ** power < 0.01), None)
    assert found["needed"] == needed


def test_sizes_that_the_optimizer_decides_are_left_out_of_the_slope() -> None:
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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::isojepa.training.run.RunWarning")
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
