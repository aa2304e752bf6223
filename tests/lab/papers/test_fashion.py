"""The study of Fashion-MNIST on made-up pictures: what it measures, and how rows become verdicts."""

from dataclasses import replace

import pytest

from isojepa_lab.papers.lejepa import fashion
from isojepa_lab.papers.lejepa.fashion import LONGER, METHODS, PIXELS, RANDOM, STUDY
from isojepa_lab.studies.cells import Computation


def test_every_method_learns_bars_that_stand_from_bars_that_lie():
    found = {cell.labels["method"]: fashion.measure(cell) for cell in STUDY.plan("quick")}
    assert set(found) == {*METHODS, LONGER, RANDOM, PIXELS}
    for method in METHODS:
        assert found[method]["linear"] > 0.9
        assert {"at 1", "at 2", "at 3", "at 4"} <= set(found[method])
    assert "cpu_seconds" not in found[RANDOM]


def test_missing_data_are_told_with_the_command_that_fetches_them(tmp_path):
    cell = STUDY.plan("standard")[0]
    settings = {**cell.settings, "data": str(tmp_path / "none")}
    with pytest.raises(ValueError, match="tools/data fashion-mnist"):
        fashion.measure(replace(cell, config=Computation(settings)))
