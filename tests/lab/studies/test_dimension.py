"""The study of dimensions: what it predicts, and what its report says of any set of rows."""

import itertools
import math

import pytest

from isojepa.runs import build_all, train
from isojepa_lab.studies.dimension import EQUAL, STUDY
from isojepa_lab.studies.dimension_page import summaries
from isojepa_lab.studies.scores import score
from isojepa_lab.studies.study import Cell, Row, unique
from tests.lab.studies.made_up_rows import made_up_row


def as_predicted(cell: Cell) -> Row:
    """A projection below, the latents and something else above."""
    n, m = cell.config.world.dim, cell.labels["dim"]
    each = [0.999] * min(m, n) + [0.001] * max(0, n - m)
    return made_up_row(
        cell, r2=sum(each) / n, r2_each=each, r2_z_to_h=min(n, m) / m, alignment=0.05, mean_variance=1.0
    )


@pytest.mark.parametrize("scale", ["quick", "standard", "paper"])
def test_encoders_have_the_dimension_of_their_label(scale: str) -> None:
    cells = STUDY.plan(scale)
    assert len(unique(cells)) == len(cells)
    for cell in {(c.labels["latents"], c.labels["dim"]): c for c in cells}.values():
        encoder, world, _ = build_all(cell.config)
        assert encoder.out_dim == cell.labels["dim"]
        assert world.dim == cell.labels["latents"]


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


@pytest.mark.filterwarnings("ignore::isojepa.training.run.RunWarning")
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
