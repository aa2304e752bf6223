"""The study of encoders of others on made-up pictures: what it measures, and how rows become verdicts."""

from dataclasses import replace

import numpy as np
import pytest

from isojepa_lab.papers.social import others
from isojepa_lab.papers.social.others import RANDOM, SMALL, STUDY, TRAINED
from isojepa_lab.studies.cells import Computation


def test_every_network_and_pair_is_measured_with_both_kinds_of_weights() -> None:
    found = {tuple(cell.labels.values()): others.measure(cell) for cell in STUDY.plan("quick")}
    networks, pairs = len(SMALL), len(SMALL) * (len(SMALL) - 1) // 2
    assert len(found) == 2 * (networks + pairs + 1) + networks
    for labels, scores in found.items():
        assert all(np.isfinite(value) for value in scores.values()), labels
        if labels[0] == "pair":
            assert scores["there_low"] < scores["there"] < scores["there_high"]
            assert scores["turned"] <= scores["there"] + 0.01
            assert scores["chance"] < 0.1 < scores["there"]  # bars are seen by all, chance is not
        if labels[0] == "encoder":
            assert scores["linear"] > 0.9


def test_missing_weights_and_pictures_are_told_with_the_command_that_fetches_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cell = next(cell for cell in STUDY.plan("standard") if cell.labels["weights"] == RANDOM)
    with pytest.raises(ValueError, match="tools/data fashion-mnist"):
        others.measure(cell)
    images = np.random.default_rng(0).integers(256, size=(130, 8, 8)).astype(np.uint8)
    np.savez("train.npz", images=images, labels=np.arange(130) % 2)
    settings = {**cell.settings, "data": str(tmp_path), "weights": TRAINED, "pictures": 120}
    with pytest.raises(ValueError, match="tools/data encoders"):
        others.measure(replace(cell, config=Computation(settings)))
