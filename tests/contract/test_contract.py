"""What stays as it is while the package is rebuilt: run directories, SIGReg, certificates, exit codes."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch

import isojepa as ij
from isojepa.cli.main import COMMANDS, LAB, main
from tests.contract.stored import HERE, RUNS, STOP, cases, embeddings, interrupted_after, judged, train
from tests.reference.textbook_sigreg import textbook, with_gradient

CERTIFICATES = json.loads((HERE / "certificates.json").read_text())


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", RUNS)
def test_a_stored_run_directory_is_loaded_and_resumed(tmp_path, name):
    stored = np.load(HERE / "stored_runs" / name / "embeddings.npz")
    shutil.copytree(HERE / "stored_runs" / name / "run", tmp_path / "run")
    before = embeddings(name, tmp_path, unfinished=True)
    torch.testing.assert_close(before, torch.from_numpy(stored["stopped"]), atol=1e-5, rtol=0)
    train(name, tmp_path)
    assert json.loads((tmp_path / "run/result.json").read_text())["resumed_at"] == [STOP]
    done = embeddings(name, tmp_path)
    torch.testing.assert_close(done, torch.from_numpy(stored["done"]), atol=1e-5, rtol=0)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", RUNS)
def test_a_resumed_run_ends_with_the_bits_of_an_uninterrupted_one(tmp_path, name):
    for folder in ("whole", "cut"):
        (tmp_path / folder).mkdir()
    train(name, tmp_path / "whole")
    with interrupted_after(STOP):
        train(name, tmp_path / "cut")
    train(name, tmp_path / "cut")
    assert torch.equal(embeddings(name, tmp_path / "whole"), embeddings(name, tmp_path / "cut"))


@pytest.mark.parametrize("shape", [(64, 3), (7, 1), (300, 20)])
def test_sigreg_and_its_gradient_are_those_of_the_textbook(shape):
    x = torch.randn(shape, generator=ij.generator(0, "contract", "sigreg"), dtype=torch.float64)
    directions = torch.randn(16, shape[1], generator=ij.generator(3, "slices"))
    leaf = x.clone().requires_grad_()
    value = ij.objectives.SIGReg(slices=16, knots=17)(leaf, ij.generator(3, "slices"))
    (gradient,) = torch.autograd.grad(value, leaf)
    expected, slope = with_gradient(textbook, x, torch.nn.functional.normalize(directions), 17, 5.0)
    assert value.item() == pytest.approx(expected, rel=1e-6)
    torch.testing.assert_close(gradient, slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", CERTIFICATES)
def test_a_certificate_keeps_its_grade_and_estimates(name):
    stored, found = CERTIFICATES[name], judged(cases()[name])
    assert found["grade"] == stored["grade"]
    assert found["estimates"] == pytest.approx(stored["estimates"], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("command", [*COMMANDS, *LAB])
def test_exit_codes(command, capsys):
    if command in LAB:
        pytest.importorskip("isojepa_lab")
    for flag, code in (("--help", 0), ("--no-such-flag", 2)):
        with pytest.raises(SystemExit) as ended:
            sys.exit(main([command, flag]))
        assert ended.value.code == code
    assert "Traceback" not in capsys.readouterr().err
