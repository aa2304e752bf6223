"""The study of encoders of others on made-up pictures: what it measures, and how rows become verdicts."""

from dataclasses import replace

import numpy as np
import pytest

from isojepa_lab.papers.social import others
from isojepa_lab.papers.social.others import RANDOM, SMALL, STUDY, TRAINED
from isojepa_lab.studies.cells import Cell, Computation, Row
from isojepa_lab.studies.rows import Rows


def row_of(cell: Cell, scores: dict[str, float]) -> Row:
    asked = cell.config
    assert isinstance(asked, Computation)
    return Row(dict(cell.labels), asked.to_dict(), scores, "done", 0, 1.0, None, "x")


def made_up(**changed: float) -> list[Row]:
    """A row for each cell; trained networks are the better ones unless told otherwise."""
    numbers = {"trained": 0.8, "random": 0.5, "turned": 0.3, "white_expected": 0.7} | changed
    found = []
    for cell in STUDY.plan("standard"):
        value = numbers["trained" if cell.labels["weights"] == TRAINED else "random"]
        names = ("linear", "low", "high", "neighbors", "width", "carried", "there", "back", "chance")
        scores = dict.fromkeys((*names, "cka", "cka_chance", "cka_calibrated", "direct", "defect"), value)
        scores |= dict.fromkeys(("knn", "knn_calibrated", "condition", "white", "round"), value)
        scores |= {"turned": numbers["turned"], "white_expected": numbers["white_expected"]}
        found.append(row_of(cell, scores | {"turned_expected": 0.4, "width": 256.0}))
    return found


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


def test_verdicts_follow_the_rows() -> None:
    def verdicts(**changed: float) -> dict[str, str]:
        given = Rows(made_up(**changed))
        return {statement.name: statement.judge(given).verdict for statement in STUDY.statements}

    assert verdicts() == {
        "better": "holds",
        "closer": "holds",
        "rotates": "does not hold",
        "through": "does not hold",
    }
    assert verdicts(random=0.9, turned=0.79, white_expected=0.76) == {
        "better": "does not hold",
        "closer": "does not hold",
        "rotates": "holds",
        "through": "holds",
    }


def test_the_story_tells_all_of_it() -> None:
    report = STUDY.report(made_up())
    assert [len(table.rows) for table in report.tables] == [6, 4, 50, 20]
    assert others._maps(Rows(made_up()))[0].values[0] == [None, 0.8, 0.8, 0.8, 0.8]


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
