"""The study of directions against what resampling and the samplers must do."""

import math
from pathlib import Path

import pytest
import torch

from isojepa.objectives import SIGReg
from isojepa.objectives.directions import draw_directions
from isojepa.seeds import generator
from isojepa_lab.papers.lejepa import slices
from isojepa_lab.papers.lejepa.slices import NULL, STUDY
from isojepa_lab.studies.evidence import read_evidence

KEPT = Path(__file__).parents[3] / "docs/results/slices.json"


def test_the_samples_begin_with_variances_that_fall_like_1_over_k():
    x = slices.begin(100_000, 4, 0)
    variances = x.var(0)
    torch.testing.assert_close(variances / variances[0], 1 / torch.arange(1, 5), rtol=0.03, atol=0)
    assert variances.mean().item() == pytest.approx(1, rel=0.02)


def test_the_reference_is_the_statistic_of_gaussian_samples():
    assert pytest.approx(math.sqrt(2 * math.pi) * (1 - 3**-0.5), abs=1e-4) == NULL
    x = torch.randn(256, 2000, generator=generator(0, "test"))
    assert slices.statistic(x).mean().item() == pytest.approx(NULL, rel=0.05)


def test_fixed_directions_fit_themselves_and_resampled_ones_fit_all():
    x, fresh = slices.begin(64, 8, 0), draw_directions(8, 256, generator(0, "test"))
    fixed, resampled = SIGReg(slices=4, resample=False), SIGReg(slices=4)
    ends = {name: slices.optimize(x, r, 100, 0.05, 0) for name, r in (("fixed", fixed), ("new", resampled))}
    assert fixed(ends["fixed"]) < 0.1 * fixed(x)
    means = {name: slices.statistic(end @ fresh.T).mean().item() for name, end in ends.items()}
    assert means["new"] < 0.5 * means["fixed"]


def test_sobol_and_orthogonal_directions_estimate_the_same_mean_with_less_noise():
    row = slices.estimate(256, 16, 64, sets=300)
    assert row["sobol"] < 0.8 * row["gaussian"]
    assert row["orthogonal"] < row["gaussian"]
    for name in ("sobol", "orthogonal"):
        assert row[f"{name}_mean"] == pytest.approx(row["gaussian_mean"], abs=row["gaussian"])


def test_a_kept_row_is_what_its_cell_measures():
    row = next(
        row for row in read_evidence(KEPT).rows if row.labels == {"part": "estimators", "dim": 16, "count": 4}
    )
    cell = next(cell for cell in STUDY.plan("standard") if cell.labels == row.labels)
    measured = slices.measure(cell)
    assert measured == pytest.approx(row.scores, rel=1e-5)
    assert row.config == cell.config.to_dict()
