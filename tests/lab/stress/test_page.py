"""The command `stress` and its page."""

import json

import numpy as np

from isojepa.cli.main import main
from isojepa_lab.stress import StressCurve, StressPoint
from isojepa_lab.stress.page import write_stress
from tests.alignment.made_up import rotation
from tests.report.test_page import Outline, data_of


def curve(value=0.7, predicted=0.72):
    """Two settings of a stress test; the arguments are the R^2 at the second."""
    points = [
        StressPoint(0.0, "0 mismatched", 100, "r2", 0.95, 0.94, 0.96, 0.01, 3, 0.951),
        StressPoint(0.0, "0 mismatched", 100, "condition", 2.0, 1.9, 2.1, 0.1, 3, 2.0),
        StressPoint(0.3, "0.3 mismatched", 100, "r2", value, value - 0.01, value + 0.01, 0.01, 3, predicted),
        StressPoint(0.3, "0.3 mismatched", 100, "condition", 9.0, 5.0, 12.0, 1.0, 3, None),
    ]
    return StressCurve("pair_noise", "share of mismatched pairs", tuple(points))


def test_predictions_are_drawn_under_the_points(tmp_path):
    file = tmp_path / "stress.html"
    size = write_stress(file, ("left", "right"), [curve(0.7, 0.72)])
    text = file.read_text(encoding="utf-8")
    assert size == len(text.encode())
    drawn = data_of(text)["charts"]["stress-0-0"]["series"]
    assert [one["name"] for one in drawn] == ["predicted", "measured"]
    assert drawn[0]["values"] == [0.951, 0.72]
    assert drawn[1]["values"] == [0.95, 0.7]
    assert drawn[1]["ends"] == [[0.94, 0.69], [0.96, 0.71]]
    assert "off by 0.02 at most" in Outline(text).text


def test_the_command_prints_predictions_and_writes_the_page(capsys, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 6))
    np.save(tmp_path / "a.npy", z)
    np.save(tmp_path / "b.npy", z @ rotation(rng, 6) + 0.1 * rng.normal(size=z.shape))
    monkeypatch.chdir(tmp_path)
    assert main(["stress", "a.npy", "b.npy", "--kind", "ols", "--report", "page.html", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["stress"]
    assert {row["test"] for row in rows} == {"pair_noise", "pair_budget"}
    assert all(row["predicted"] is not None for row in rows if row["metric"] == "r2")
    assert len(data_of((tmp_path / "page.html").read_text(encoding="utf-8"))["charts"]) > 2
    assert main(["stress", "a.npy"]) == 2
