"""The study of theory and training, small."""

import json
import math

import numpy as np
import pytest

from isojepa.distributions import GeneralizedNormal, eigensystem
from isojepa_lab.studies.theory_meets_training import Study, laws
from isojepa_lab.studies.theory_meets_training_page import summaries


def test_the_curve_is_1_at_2_alone_and_knows_the_ratio():
    study = Study()
    two, four = study.predict(2.0), study.predict(4.0)
    assert two["r2"] == pytest.approx(1, abs=1e-9)
    assert two["ratio"] == pytest.approx(2, abs=1e-6)
    assert four["r2"] < 0.99
    assert four["ratio"] > 3


def test_the_laws_have_names():
    assert list(laws((2.0, 4.0))) == ["alpha 2", "alpha 4", "uniform", "bimodal"]


@pytest.mark.filterwarnings("ignore::isojepa.training.run.RunWarning")
def test_a_short_training_is_already_nearer_to_the_eigenfunction_than_to_the_latent():
    law = laws(())["bimodal"]
    study = Study(steps=250, batch=1024, samples=20_000)
    row = study.train("bimodal", law, eigensystem(law, count=2), 0, 250)
    assert row["r2_phi"] > 0.98
    assert row["r2"] == pytest.approx(row["predicted"], abs=0.03)
    assert row["r2_interval"][0] < row["r2"] < row["r2_interval"][1]


def test_a_summary_is_over_seeds_and_what_is_open_is_what_geometry_leaves_open():
    rows = [
        {"part": "trained", "law": "x", "alpha": None, "seed": seed, "steps": 10, "predicted": 0.98, "r2": r2}
        | {"r2_interval": [r2 - 0.001, r2 + 0.001], "r2_phi": 0.99}
        for seed, r2 in enumerate((0.97, 0.98, 0.99))
    ]
    (one,) = summaries(rows, 10)
    assert one["r2"] == pytest.approx(0.98)
    assert one["half"] == pytest.approx(math.hypot(4.3027 * 0.01 / math.sqrt(3), 0.001), rel=1e-3)
    # the extremes by brute force: h = sqrt(c) phi + sqrt(1 - c) u, z = sqrt(a) phi + sqrt(1 - a) v
    angles = np.linspace(0, 2 * np.pi, 2001)
    values = (math.sqrt(0.99 * 0.98) + math.sqrt(0.01 * 0.02) * np.cos(angles)) ** 2
    assert one["open"] == pytest.approx((values.min(), values.max()), rel=1e-6)
    assert summaries(rows, 20) == []


@pytest.mark.filterwarnings("ignore::isojepa.training.run.RunWarning")
def test_a_tiny_study_writes_its_three_files(tmp_path):
    small = {
        "curve": 4,
        "longer": ("uniform",),
        "ratios": (1.0, 3.0),
        "samples": 500,
        "seeds": 2,
        "rate_steps": 4,
    }
    Study(tmp_path, alphas=(2.0, 4.0), steps=4, batch=64, width=8, layers=2, **small).run()
    content = json.loads((tmp_path / "theory_meets_training.json").read_text(encoding="utf-8"))
    parts = [row["part"] for row in content["rows"]]
    assert parts.count("trained") == 9
    assert parts.count("anisotropy") == 2
    curve = [row for row in content["rows"] if row["part"] == "curve"]
    exact = eigensystem(GeneralizedNormal(4.0), count=1).coefficients()[1] ** 2
    assert [row["r2"] for row in curve if row["alpha"] == 4.0] == pytest.approx([exact], abs=1e-6)
    text = (tmp_path / "theory_meets_training.md").read_text(encoding="utf-8")
    assert "## When one latent is faster" in text
    assert "nan" not in text
    assert (tmp_path / "theory_meets_training.png").stat().st_size > 10_000
