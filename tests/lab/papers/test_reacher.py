"""The studies of the Reacher: what is trained, what is measured, and what their stories say of rows."""

import numpy as np
import pytest
import torch
from torch import nn

from isojepa_lab.environments.reacher import Reacher
from isojepa_lab.environments.reacher_frames import ArmLook
from isojepa_lab.environments.rendering import NoRendering
from isojepa_lab.papers.world_model import reacher, reacher_ou, reacher_trajectory
from isojepa_lab.studies.cells import Row, record_of
from isojepa_lab.studies.rows import Rows

STUDIES = {"reacher_ou": reacher_ou.STUDY, "reacher_trajectory": reacher_trajectory.STUDY}


class Angles(nn.Module):
    """An encoder that knows the angles of the shared states: it looks them up by their pixels."""

    def __init__(self, states: Reacher, turn: float) -> None:
        super().__init__()
        batches = states.take(torch.arange(states.facts.size))
        self.seen = {view.numpy().tobytes(): z for view, z in zip(*self._of(batches), strict=True)}
        c, s = np.cos(turn), np.sin(turn)
        self.turn = torch.tensor([[c, -s], [s, c]], dtype=torch.float32)

    @staticmethod
    def _of(batch):
        return torch.cat(batch.views), torch.cat(batch.latents)

    def forward(self, x):
        return torch.stack([self.seen[one.numpy().tobytes()] for one in x]) @ self.turn.T


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    try:
        return Reacher.shared(
            0.9, 400, look=ArmLook(), data=str(tmp_path_factory.mktemp("frames")), processes=1
        )
    except (NoRendering, ImportError) as error:
        pytest.skip(str(error))


def test_an_encoder_that_turns_the_angles_is_told_as_one(states):
    found = reacher.score(Angles(states, 0.7), states)
    assert found["r2"] == pytest.approx(1.0, abs=1e-5)
    assert found["r2_each"] == pytest.approx([1.0, 1.0], abs=1e-5)
    assert found["r2_validation"] == pytest.approx(1.0, abs=1e-5)
    assert found["orthogonality_error"] < 1e-4
    assert found["longer"] == pytest.approx(0.0, abs=1e-6)
    assert found["length"] >= 1
    # sines and cosines of angles are not linear in them, but for small ones
    assert found["r2_sincos"] < 0.9


def test_a_world_that_is_not_the_arm_is_refused():
    import isojepa as ij

    with pytest.raises(ValueError, match="its own world"):
        reacher.score(nn.Identity(), ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.9), None))


@pytest.mark.parametrize("name", STUDIES)
def test_configs_are_the_published_ones(name):
    cells = STUDIES[name].plan("paper")
    own = [cell for cell in cells if cell.labels.get("policy") != reacher_trajectory.GAUSSIAN]
    assert len(own) == 7 * 4 * 3
    config = cells[0].trained
    assert config.training.steps == 39_062
    assert (config.training.batch, config.training.clip, config.training.learning_rate) == (256, 1.0, 3e-3)
    assert config.objective.slices == 256
    assert config.encoder.name == "conv"


def test_gaussian_pairs_beside_trajectories_are_the_runs_of_their_own_study():
    ours = {record_of(cell.config).name for cell in reacher_ou.STUDY.plan("standard")}
    beside = [
        record_of(cell.config).name
        for cell in reacher_trajectory.STUDY.plan("standard")
        if cell.labels["policy"] == reacher_trajectory.GAUSSIAN
    ]
    assert len(beside) == 14
    assert set(beside) <= ours


def row(cell, **scores):
    usual = {
        "r2_validation": 0.9,
        "r2": 0.94,
        "r2_own": 0.97,
        "r2_z_to_h": 0.4,
        "r2_each": [0.95, 0.93],
        "r2_sincos": 0.1,
        "orthogonality_error": 0.1,
        "error": 0.1,
        "bound": 0.2,
        "ceiling": 0.945,
        "length": 1.2,
        "oracle": 1.1,
        "longer": 0.1,
        "longer_interval": [0.05, 0.2],
        "samples": 5000,
        "rho": 0.95,
        "rho_each": [0.96, 0.94],
        "sigreg_each": [2.0, 3.0],
        "sigreg_joint": 4.0,
        "floor": 0.3,
        "floor_joint": 0.5,
    }
    return Row(dict(cell.labels), cell.config.to_dict(), usual | scores, "done", 1, 1.0, 0.1, "record")


def test_the_weight_is_chosen_on_validation_states_alone():
    cells = [cell for cell in reacher_ou.STUDY.plan("standard") if cell.labels["rho"] == 0.95]
    plain = [cell for cell in cells if cell.labels["condition"] == reacher_ou.PLAIN]
    assert len({cell.labels["weight"] for cell in plain}) == 4
    rows = Rows(
        row(cell, r2_validation=1 - cell.labels["weight"], r2=cell.labels["weight"]) for cell in plain
    )
    assert [one.labels["weight"] for one in reacher.chosen(rows, "rho")] == [1e-3]


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_quick_sweep_trains_and_scores(name, tmp_path, monkeypatch, states):
    from isojepa_lab.studies.evidence import gather
    from isojepa_lab.sweep.work import work

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cell = STUDIES[name].plan("quick")[0]
    record = work(cell.config, tmp_path / "runs", name)
    assert {"r2", "r2_validation", "ceiling", "longer"} <= set(record.scores)
    assert ("r2_own" in record.scores) == (name == "reacher_trajectory")
    assert len(gather(STUDIES[name], "quick", tmp_path / "runs").rows) == 1
