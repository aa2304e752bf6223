"""The study of directions against what resampling and the samplers must do."""

import json
import math

import pytest
import torch

from isojepa.objectives import SIGReg
from isojepa.objectives.directions import draw_directions
from isojepa.seeds import generator
from isojepa.studies import slices
from isojepa.studies.slices import Study
from isojepa.studies.slices_page import NULL


def test_the_samples_begin_with_variances_that_fall_like_1_over_k():
    x = slices.begin(100_000, 4, 0)
    variances = x.var(0)
    torch.testing.assert_close(variances / variances[0], 1 / torch.arange(1, 5), rtol=0.03, atol=0)
    assert variances.mean().item() == pytest.approx(1, rel=0.02)


def test_the_reference_is_the_statistic_of_gaussian_samples():
    assert pytest.approx(math.sqrt(2 * math.pi) * (1 - 3**-0.5), abs=1e-4) == NULL
    x = torch.randn(256, 2000, generator=generator(0, "test"))
    assert slices.each_direction(x, torch.eye(2000)).mean().item() == pytest.approx(NULL, rel=0.05)


def test_fixed_directions_fit_themselves_and_resampled_ones_fit_all():
    x, fresh = slices.begin(64, 8, 0), draw_directions(8, 256, generator(0, "test"))
    fixed, resampled = SIGReg(slices=4, resample=False), SIGReg(slices=4)
    ends = {name: slices.optimise(x, r, 100, 0.05, 0) for name, r in (("fixed", fixed), ("new", resampled))}
    assert fixed(ends["fixed"]) < 0.1 * fixed(x)
    means = {name: slices.each_direction(end, fresh).mean().item() for name, end in ends.items()}
    assert means["new"] < 0.5 * means["fixed"]


def test_sobol_and_orthogonal_directions_estimate_the_same_mean_with_less_noise():
    row = Study(sets=300).estimate(16, 64)
    assert row["sobol"] < 0.8 * row["gaussian"]
    assert row["orthogonal"] < row["gaussian"]
    for name in ("sobol", "orthogonal"):
        assert row[f"{name}_mean"] == pytest.approx(row["gaussian_mean"], abs=row["gaussian"])


def test_a_tiny_study_writes_its_three_files(tmp_path):
    sizes = {"counts": (4, 16), "counts_fixed": (32,), "counts_samplers": (4, 8), "counts_trained": (4,)}
    Study(tmp_path, samples=16, dims=(4, 8), steps=5, seeds=1, fresh=32, sets=3, **sizes).run()
    content = json.loads((tmp_path / "slices.json").read_text(encoding="utf-8"))
    assert [row["part"] for row in content["rows"]].count("figure 7") == 2 * 5
    assert "## Samplers" in (tmp_path / "slices.md").read_text(encoding="utf-8")
    assert (tmp_path / "slices.png").stat().st_size > 10_000
