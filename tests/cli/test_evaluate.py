"""The command `evaluate`, from run directories and files of episodes to a table."""

import json

import pytest
import torch

import isojepa as ij
from isojepa.cli.main import main
from tests.planning.simulators import PointDynamics

ENV = "tests/own_environment.py:make"


class PointModel(torch.nn.Module):
    """The equations of the point mass, as a module that can be trained and loaded."""

    context = 1

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x * self.scale

    def encode(self, observations):
        return self(observations)

    def rollout(self, latents, actions):
        return PointDynamics().rollout(latents / self.scale, actions) * self.scale


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    world = ij.data.World(ij.data.OrnsteinUhlenbeck(4, 0.9))
    objective = ij.objectives.LeJEPA(regularizer=ij.objectives.SIGReg(slices=4))
    options = {"steps": 1, "batch": 32, "eval_samples": 64, "progress": False}
    for name in ("a", "b"):
        ij.fit(PointModel(), world, objective, record=folder / name, **options)
    ij.collect(ENV, episodes=12, out=folder / "test.h5")
    return folder


def answer(capsys, folder, *arguments):
    code = main(["evaluate", *map(str, arguments), "--env", ENV, "--trust", __name__])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


QUICK = ("--tolerance", "0.2", "--offset", "15", "--count", "6", "--no-oracle")


def test_a_run_is_evaluated_in_a_table_and_a_file(capsys, folder, tmp_path):
    command = (
        folder / "a",
        "--tasks",
        folder / "test.h5",
        *QUICK,
        "--planner",
        "mpc",
        "icem",
        "--out",
        tmp_path,
    )
    code, out, _ = answer(capsys, folder, *command)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[:5]] == [
        "controller",
        "mpc",
        "icem",
        "random",
        "idle",
    ]
    (path,) = tmp_path.iterdir()
    assert answer(capsys, folder, *command[:-2])[0] == 0  # by default in the run directory
    assert (folder / "a" / path.name).exists()
    assert f"Wrote {path}" in out
    found = json.loads(path.read_text())
    assert f"Protocol {found['protocol_hash']}" in out
    assert found["protocol"]["environment"] == ENV


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--tasks", "none.h5"), "none.h5"),
        (("--planner", "cme"), "did you mean 'cem'"),
        (("--tolerance", "-1"), "tolerance must be positive"),
    ],
)
def test_what_cannot_be_evaluated_is_one_line(capsys, folder, change, message):
    code, _, err = answer(capsys, folder, folder / "a", "--tasks", folder / "test.h5", *QUICK, *change)
    assert code == 2
    assert message in " ".join(err.split())
    assert err.startswith("error:")
