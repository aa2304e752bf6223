"""Inputs that once ended in a traceback, or in words that nobody understands, each by its name."""

import json
import math
import shutil

import numpy as np
import pytest

import isojepa as ij
from isojepa.cli import main
from isojepa.training.run_directory import RunDirectory
from tests.test_startup import SMALL

HUGE = 10**400


def refused(capsys, *words):
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    assert code == 2, captured.out
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("records") / "run"
    assert main(["train", *SMALL, "--json", "--record", str(path)]) == 0
    return path


@pytest.fixture
def record(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def change(path, **values):
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, **values}))


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_a_number_that_no_float_holds_in_a_config(kind, capsys, tmp_path):
    (tmp_path / f"c.{kind}").write_text(
        json.dumps({"objective": {"weight": HUGE}, "world": {"rho": math.inf}})
    )
    error = refused(capsys, "train", "--config", tmp_path / f"c.{kind}")
    assert "objective.weight must be float, got an integer of 401 digits" in error
    assert "world.rho must be" in error


def test_a_number_that_no_float_holds_in_a_flag(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "got inf" in refused(capsys, "train", "--world.rho", "1" + "0" * 400)
    np.save("h.npy", np.random.default_rng(0).normal(size=(50, 2)))
    assert "rho must lie in (0, 1), got inf" in refused(capsys, "certify", "h.npy", "--rho", "1" + "0" * 400)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ij.objectives.LeJEPA(weight=HUGE),
        lambda: ij.objectives.SIGReg(slices=HUGE),
        lambda: ij.data.OrnsteinUhlenbeck(HUGE, 0.9),
        lambda: ij.data.OrnsteinUhlenbeck(2, HUGE),
        lambda: ij.encoders.MLP(2, HUGE),
        lambda: ij.certify(np.ones((9, 2)), rho=HUGE),
        lambda: ij.Recipe(learning_rate=HUGE).checked(),
        lambda: ij.distributions.StudentT(HUGE),
    ],
)
def test_a_number_that_no_float_holds_in_python(call):
    with pytest.raises(ValueError, match="got an integer of 401 digits"):
        call()


@pytest.mark.parametrize("line", ["3", "[]", "null", '"x"', "{}", '{"step": null}', '{"step": 1e400}', "{"])
def test_a_row_of_metrics_that_is_no_row(line, record, capsys):
    rows = (record / "metrics.jsonl").read_text()
    (record / "metrics.jsonl").write_text(f"{line}\n{rows}")
    with pytest.raises(ValueError, match=r"metrics.jsonl is damaged: line 1"):
        _ = RunDirectory.open(record).metrics
    assert "metrics.jsonl is damaged: line 1" in refused(capsys, "report", record)


@pytest.mark.parametrize("seconds", [None, "x", [], -1, "nan", HUGE])
def test_a_result_without_its_seconds(seconds, record, capsys):
    change(record / "result.json", seconds=seconds)
    assert "seconds must be a nonnegative number" in refused(capsys, "report", record)


@pytest.mark.parametrize("rho", ["1e-300", "5e-324", "0.9999999999999999"])
def test_a_trajectory_with_an_extreme_rho(rho, capsys, tmp_path):
    path = ij.data.OrnsteinUhlenbeck(2, 0.9).trajectory(1, 400, ij.generator(0, "odd"))[:, 0]
    np.save(tmp_path / "path.npy", path.numpy())
    code = main(["certify", str(tmp_path / "path.npy"), "--rho", rho, "--trajectory", "--json"])
    captured = capsys.readouterr()
    if code == 0:
        found = json.loads(captured.out)
        assert "nan" not in json.dumps(found["bound"])
    else:
        assert captured.err.startswith("error: ")
        assert captured.err.count("\n") == 1
