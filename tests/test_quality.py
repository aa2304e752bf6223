"""The claims of the README, trained anew. Minutes: `make test-slow`."""

import os
import subprocess
import sys

import pytest

import isojepa as ij
from isojepa import runs
from isojepa.config import Config
from isojepa.encoders.coupling import CouplingSpec
from isojepa.registry import build_spec
from isojepa.threads import one_thread

pytestmark = pytest.mark.slow


def trained(config):
    encoder, world, objective = runs.build_all(config)
    run = ij.fit(encoder, world, objective, seed=config.seed, **vars(config.training))
    return run, ij.certify(encoder, world)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_defaults_recover_the_spiral_as_a_rotation(seed):
    run, certificate = trained(Config(seed=seed))
    assert certificate.recovery.r2_h_to_z.estimate >= 0.99
    assert certificate.grade == "rotation"
    assert certificate.holds
    assert run.status == "done"


@pytest.mark.parametrize("mixing", ["sinusoid", "parabola"])
def test_the_shears_pass_0_995(mixing):
    _, certificate = trained(Config(world=build_spec("world", mixing=mixing)))
    assert certificate.recovery.r2_h_to_z.estimate >= 0.995
    assert certificate.holds


@pytest.mark.parametrize("dim", [2, 8])
def test_the_matched_encoder_passes_0_9999_on_the_coupling(dim):
    world = build_spec("world", mixing="additive-coupling", dim=dim)
    _, certificate = trained(Config(world=world, encoder=CouplingSpec()))
    assert certificate.recovery.r2_h_to_z.estimate >= 0.9999
    assert certificate.holds


def coupling_r2(dim, objective, steps):
    world = ij.data.World(ij.data.OrnsteinUhlenbeck(dim, 0.95), ij.data.AdditiveCoupling(dim))
    options = {"steps": steps, "batch": 256, "batch_start": None, "learning_rate": 1e-2}
    return ij.fit(ij.encoders.Coupling(dim), world, objective, **options).r2


def test_infonce_recovers_with_the_width_of_the_world_and_not_with_the_published_one():
    matched = ij.objectives.matched_sigma(0.95)
    assert coupling_r2(4, ij.objectives.InfoNCE(matched), 1000) >= 0.999
    assert coupling_r2(4, ij.objectives.InfoNCE(1.0, learned=True), 1000) >= 0.999
    assert coupling_r2(4, ij.objectives.InfoNCE(1.0), 1000) < 0.9


def test_sliced_infonce_does_not_saturate_where_the_plain_one_does():
    matched = ij.objectives.matched_sigma(0.95)
    assert coupling_r2(64, ij.objectives.SlicedInfoNCE(4, 16, matched), 400) >= 0.85
    assert coupling_r2(64, ij.objectives.InfoNCE(matched), 400) < 0.8


def test_the_demo_takes_less_than_a_minute(tmp_path):
    # in processor time of one thread: what else the machine does is not the demo's
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-m", "isojepa", "demo", "--out", tmp_path / "demo"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **one_thread()},
    )
    after = os.times()
    assert after.children_user + after.children_system - before.children_user - before.children_system < 60
    assert "World model: the embedding is a rotation of the latents" in done.stdout
    assert ij.RunDirectory.open(tmp_path / "demo").result["metrics"]["r2"] >= 0.99
    assert (tmp_path / "demo/report.html").exists()
