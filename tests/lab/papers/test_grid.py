"""The grid: what the loss prefers against independent arithmetic, and statements that can be false."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from isojepa.objectives import SIGReg
from isojepa.objectives.alignment import to_centre
from isojepa.runs import build_all, record_path
from isojepa.seeds import generator
from isojepa.worlds import OrnsteinUhlenbeck, Spiral, World
from isojepa_lab.papers.world_model.grid import CLAIMS, RHOS, SEEDS, SPOTS, STUDY, WEIGHTS
from isojepa_lab.papers.world_model.grid import ask as ask_rows
from isojepa_lab.papers.world_model.grid_theory import least_sigreg, preferred, spiral_correlation
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.settings import OURS, PUBLISHED
from isojepa_lab.studies.study import Row, unique
from tests.lab.studies.made_up_rows import lost_row, made_up_row


def ask(rows: list[Row]) -> Lines:
    return ask_rows(Rows(rows))


def row_at(weight: float, rho: float, settings: str = OURS, **scores: object) -> Row:
    cell = next(
        cell
        for cell in STUDY.plan("paper")
        if (cell.labels["weight"], cell.labels["rho"], cell.labels["settings"]) == (weight, rho, settings)
    )
    return made_up_row(cell, **scores)


def test_cells_cover_the_grid_at_the_published_batch() -> None:
    cells = STUDY.plan("standard")
    ours = [cell for cell in cells if cell.labels["settings"] == OURS]
    assert len(ours) == len(WEIGHTS) * len(RHOS) * SEEDS
    places = {(cell.labels["weight"], cell.labels["rho"]) for cell in ours}
    assert places == {(weight, rho) for weight in WEIGHTS for rho in RHOS}
    assert {cell.config.training.batch_at(step) for cell in cells for step in (0, 999)} == {256}
    assert len(unique(cells)) == len(cells) == len(ours) + len(SPOTS)
    published = [cell for cell in STUDY.plan("paper") if cell.labels["settings"] == PUBLISHED]
    assert len(published) == 189
    assert {cell.config.world.process.name for cell in published} == {"noisy-copies"}
    for cell in STUDY.plan("quick"):
        build_all(cell.config)


def test_a_spot_is_the_published_run_of_the_mixings() -> None:
    from isojepa_lab.studies.mixings import STUDY as MIXINGS

    ours = {record_path(cell.config).name for cell in STUDY.plan("standard")}
    theirs = {record_path(cell.config).name for cell in MIXINGS.plan("standard")}
    assert len(ours & theirs) == 1


def test_scaling_alone_has_the_minimum_of_a_fine_search() -> None:
    """One coefficient: h = s z, whose projections are N(0, s^2)."""
    weight, rho, batch = 1e-3, 0.9, 256
    step = 10 / 16
    t = step * np.arange(-8, 9)
    window = step * np.exp(-(t**2) / 2) * np.where(np.abs(t) == 5, 0.5, 1.0)
    variances = np.linspace(1e-3, 1.2, 20_000)
    phi = np.exp(-variances[:, None] * t**2 / 2)
    sigreg = (batch * (phi - np.exp(-(t**2) / 2)) ** 2 + 1 - phi**2) @ window
    losses = weight * sigreg + (1 - weight) * (1 - rho) / 2 * variances
    found = preferred(weight, rho, batch, terms=1)
    assert found.loss == pytest.approx(losses.min(), rel=1e-6)
    assert found.variance == pytest.approx(variances[losses.argmin()], abs=2e-4)
    assert found.r2 == 1
    assert found.orthogonality == pytest.approx(1 - found.variance)


def test_preferred_losses_are_those_of_the_map_itself() -> None:
    """A bent map of known coefficients, sampled and given to the objectives that training uses."""
    from isojepa_lab.papers.world_model.grid_theory import _alignment, _sigreg

    a = np.array([0.8, -0.15, 0.05])
    z, z_next = OrnsteinUhlenbeck(2, 0.8).sample(256 * 300, generator(0, "test"))

    def h(z: torch.Tensor) -> torch.Tensor:
        u = z.double().square().sum(1, keepdim=True) / 2
        terms = (torch.ones_like(u), 2 - u, 3 - 3 * u + u**2 / 2)
        return z * sum(c * term / math.sqrt(k + 1) for k, (c, term) in enumerate(zip(a, terms, strict=True)))

    views = torch.stack((h(z), h(z_next)))
    assert to_centre(views).item() == pytest.approx(_alignment(a, 0.8), rel=0.015)
    batches = views.reshape(-1, 256, 2).float()
    sampled = SIGReg(slices=32)(batches, generator(0, "slices")).item()
    assert sampled == pytest.approx(_sigreg(a, 256)[0], rel=0.04)


def test_the_gradient_of_the_expected_statistic_is_its_slope() -> None:
    from isojepa_lab.papers.world_model.grid_theory import _sigreg

    a, h = np.array([0.7, 0.1, -0.2, 0.03]), 1e-6
    slope = _sigreg(a, 256)[1]
    for index, direction in enumerate(np.eye(4)):
        numeric = (_sigreg(a + h * direction, 256)[0] - _sigreg(a - h * direction, 256)[0]) / (2 * h)
        assert slope[index] == pytest.approx(numeric, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("rho", [0.5, 0.95])
def test_bending_helps_the_loss_and_never_the_recovery(rho: float) -> None:
    straight, bent = preferred(1e-2, rho, terms=1), preferred(1e-2, rho)
    assert bent.loss < straight.loss
    assert bent.r2 < straight.r2
    assert bent.loss == pytest.approx(preferred(1e-2, rho, terms=10).loss, rel=1e-3)


def test_no_law_has_less_than_the_least_sigreg() -> None:
    least = least_sigreg(256)
    assert least < preferred(0.5, 0.95).sigreg < least + 0.01
    t = np.arange(1, 9) * 10 / 16
    window = 2 * (10 / 16) * np.exp(-(t**2) / 2) * np.where(t == 5, 0.5, 1.0)
    values = np.linspace(-1, 1, 20_001)[:, None]
    pointwise = (256 * (values - np.exp(-(t**2) / 2)) ** 2 + 1 - values**2).min(0)
    assert least == pytest.approx(float(window @ pointwise), abs=1e-6)


def test_small_weights_prefer_a_collapse_and_large_ones_recovery() -> None:
    assert preferred(1e-6, 0.9).variance < 1e-4
    assert preferred(0.5, 0.95).r2 > 0.999


def test_correlation_of_the_spiral_is_that_of_its_observations() -> None:
    pairs = World(OrnsteinUhlenbeck(2, 0.9), Spiral()).sample(200_000, generator(3, "test"))
    measured = (pairs.views[0] * pairs.views[1]).mean().item()
    assert spiral_correlation(0.9) == pytest.approx(measured, abs=0.006)


def said(rows: list[Row], claim: str) -> str:
    """What the page says of a claim, with the verdict."""
    texts = [block for block in STUDY.report(rows).body if isinstance(block, str)]
    return next(text for text in texts if text.startswith(f"**{claim}"))


def test_statements_hold_and_fail_with_the_numbers() -> None:
    places = [(weight, rho) for weight in (1e-3, 5e-3) for rho in (0.9, 0.95)]
    good = [row_at(*place, r2=0.98, orthogonality_error=0.15) for place in places]
    words = {str(answer["statement"]): answer["verdict"] for answer in ask(good)}
    first, second = list(CLAIMS)[:2]
    assert words[first] == words[second] == "holds"
    one = [row_at(1e-3, 0.9, r2=0.9, orthogonality_error=0.5), *good[1:]]
    assert {a["verdict"] for a in ask(one) if a["statement"] in (first, second)} == {"in part"}
    bad = [row_at(*place, r2=0.5, orthogonality_error=0.6) for place in places]
    assert {a["verdict"] for a in ask(bad) if a["statement"] in (first, second)} == {"does not hold"}


def test_all_published_statements_together_have_every_verdict() -> None:
    claim, place = "The published statements", (1e-3, 0.9)
    assert ": holds.**" in said([row_at(*place, r2=0.98, orthogonality_error=0.15)], claim)
    assert ": in part.**" in said([row_at(*place, r2=0.98, orthogonality_error=0.5)], claim)
    assert ": does not hold.**" in said([row_at(*place, r2=0.5, orthogonality_error=0.5)], claim)
    assert ": cannot be asked.**" in said([row_at(5e-2, 0.3, r2=0.5)], claim)


@pytest.mark.parametrize(
    ("last", "verdict"), [(0.5, "holds"), (0.949, "does not hold")], ids=["degrades", "stays"]
)
def test_degradation_is_asked_at_the_last_rho(last: float, verdict: str) -> None:
    rows = [row_at(0.1, r, r2=v) for r, v in ((0.5, 0.8), (0.8, 0.95), (0.99, last))]
    answer = next(a for a in ask(rows) if "moderate" in str(a["statement"]))
    assert answer["verdict"] == verdict


def test_falls_of_r2_are_counted() -> None:
    rows = [row_at(1e-2, r, r2=v) for r, v in ((0.3, 0.8), (0.5, 0.9), (0.7, 0.7), (0.8, 0.9))]
    answer = next(a for a in ask(rows) if "grows" in str(a["statement"]))
    assert answer["verdict"] == "in part"
    assert "1 of 3 steps" in str(answer["found"])
    assert "by 0.200" in str(answer["found"])


def test_report_blames_the_optimiser_only_where_it_failed() -> None:
    best, claim = preferred(0.5, 0.95), "At weight 0.5 recovery fails by the optimiser"
    failed = row_at(0.5, 0.95, r2=0.05, sigreg=1.06, alignment=0.2)
    reached = row_at(0.5, 0.95, r2=best.r2, sigreg=best.sigreg, alignment=best.alignment)
    assert ": holds.**" in said([failed], claim)
    assert ": does not hold.**" in said([reached], claim)
    assert ": cannot be asked.**" in said([row_at(1e-3, 0.95)], claim)


def test_report_says_where_training_finds_what_the_loss_prefers() -> None:
    best, claim = preferred(5e-3, 0.9), "At weights up to 1e-2"
    assert ": holds.**" in said([row_at(5e-3, 0.9, r2=best.r2)], claim)
    assert ": in part.**" in said([row_at(5e-3, 0.9, r2=best.r2), row_at(1e-2, 0.9, r2=0.5)], claim)
    assert ": does not hold.**" in said([row_at(5e-3, 0.9, r2=0.5)], claim)
    assert ": cannot be asked.**" in said([row_at(0.5, 0.9, r2=0.5)], claim)


def test_report_chooses_the_weight_by_the_bound() -> None:
    rows = [row_at(1e-3, 0.9, error=0.3, bound=0.5), row_at(1e-2, 0.9, error=0.1, bound=0.9)]
    text = said(rows, "Chosen without labels")
    assert ": does not hold.**" in text
    assert "0 of 1 correlations" in text
    assert "3.00 times" in text


def test_report_of_all_kinds_of_rows() -> None:
    cells = STUDY.plan("quick")
    rows = [made_up_row(cells[0]), lost_row(cells[1]), row_at(1e-3, 0.95, PUBLISHED)]
    findings = STUDY.report(rows)
    assert {table.name for table in findings.tables} == {"statements", "places", "published_settings"}
    for table in findings.tables:
        assert all({column.key for column in table.columns} <= set(row) for row in table.rows)
    assert any("could not be scored" in str(block) for block in findings.body)
    assert {plot.name for plot in findings.plots} == {"heat_maps", "cuts"}
    assert STUDY.report([]).summary


def test_labels_survive_the_round_trip() -> None:
    row = made_up_row(STUDY.plan("quick")[0])
    again = Row.from_dict(row.to_dict())
    assert dataclasses.asdict(again) == dataclasses.asdict(row)
