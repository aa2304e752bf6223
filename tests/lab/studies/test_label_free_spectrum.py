"""The study of the label-free spectrum: its cases are what they say, and its page says what its rows say."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from isojepa_lab.studies.label_free_spectrum import Case, Study, cases, ou, quadratic, rotation
from isojepa_lab.studies.label_free_spectrum_page import held, summary

ROOT = Path(__file__).parents[3]


def test_known_energies_are_the_labelled_ones():
    for share in (0.03, 0.2, 1.0):
        assert Case("q", ou(2), quadratic(share)).truth() == pytest.approx(1 - share, abs=1e-9)
    assert Case("r", ou(2), rotation(2), noise=0.1).truth() == pytest.approx(0.9)


def test_paths_are_stationary_with_the_rate_and_the_noise_they_claim():
    case = Case("noisy", ou(2, 0.8), rotation(2), noise=0.25)
    h = case.path(2000, 10, 0)
    assert h.shape == (10, 2000, 2)
    assert h.var() == pytest.approx(1 / 0.75, rel=0.03)
    lagged = np.mean(h[:-1] * h[1:]) / h.var()
    assert lagged == pytest.approx(0.8 * 0.75, abs=0.02)
    assert np.exp(-case.rate) == pytest.approx(0.8)


def test_every_case_has_another_name_and_maps_its_world():
    found = list(cases(()))
    assert len({case.name for case in found}) == len(found)
    for case in found:
        x = case.world.mixing(torch.zeros(3, case.world.dim))
        assert case.encoder(x).shape == (3, case.world.dim)


@pytest.mark.slow
def test_a_small_study_writes_its_files(tmp_path):
    Study(out=tmp_path, paths=60, steps=60, seeds=1, draws=20, training=(), sizes=(40,)).run()
    content = json.loads((tmp_path / "label_free_spectrum.json").read_text())
    text = (tmp_path / "label_free_spectrum.md").read_text()
    assert (tmp_path / "label_free_spectrum.png").stat().st_size > 10_000
    rows = content["rows"]
    assert {row["part"] for row in rows} == {"cases", "sizes"}
    assert summary(rows) in text
    unanswered = [row for row in rows if row["part"] == "cases" and not row["meant"] and row["answered"]]
    assert len(unanswered) <= 1


def test_the_record_keeps_its_promises():
    rows = json.loads((ROOT / "docs/results/label_free_spectrum.json").read_text())["rows"]
    answered = [row for row in rows if row["part"] == "cases" and row["answered"] and row["meant"]]
    assert sum(map(held, answered)) >= 0.9 * len(answered)
    assert not [row for row in rows if row["part"] == "cases" and row["answered"] and not row["meant"]]
