"""The study of unequal rates: its worlds, what it predicts, and what its report says of any set of rows."""

import itertools
import math

import pytest

from isojepa.runs import build_all, train
from isojepa_lab.studies.anisotropy import STUDY
from isojepa_lab.studies.anisotropy_page import fast, summaries
from isojepa_lab.studies.scores import score
from isojepa_lab.studies.study import Cell, Row
from tests.lab.studies.made_up_rows import made_up_row


def as_predicted(cell: Cell) -> Row:
    """Whitening loses the fast latent past ratio 2, nothing else does."""
    dim = cell.config.world.dim
    lost = cell.labels["objective"] == "whitening" and cell.labels["ratio"] > 2
    each = [0.99] * (dim - 1) + [0.001 if lost else 0.97]
    linear = sum(value > 0.5 for value in each) / dim
    return made_up_row(cell, r2=sum(each) / dim, r2_each=each, r2_z_to_h=linear)


@pytest.mark.parametrize("scale", ["quick", "standard", "paper"])
def test_the_last_latent_is_faster_by_the_ratio(scale: str) -> None:
    for cell in STUDY.plan(scale):
        *slow, last = cell.config.world.process.rho
        assert {cell.labels["slow"]} == set(slow)
        assert math.log(last) / math.log(slow[0]) == pytest.approx(cell.labels["ratio"])
        build_all(cell.config)


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


@pytest.mark.filterwarnings("ignore::isojepa.training.run.RunWarning")
def test_two_short_runs_fall_on_both_sides_of_the_break(tmp_path) -> None:
    rows = []
    for cell in STUDY.plan("quick")[:2]:
        run = train(cell.config, tmp_path, progress=False)
        scores = score(run.encoder, build_all(cell.config)[1])
        rows.append(made_up_row(cell, **scores))
    kept, lost = map(fast, rows)
    assert kept > 0.95
    assert lost < 0.1
