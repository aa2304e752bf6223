"""The Reacher as a world: pairs have the law that is told, held-out states are others, stores are shared."""

import math

import numpy as np
import pytest
import torch

import isojepa as ij
from isojepa import testing
from isojepa.data.source import held_out
from isojepa.data.trajectories import Trajectories
from isojepa.registry import Context, build_spec
from isojepa.seeds import generator
from isojepa_lab.environments import rendering as frames
from isojepa_lab.environments.reacher import Reacher
from isojepa_lab.environments.reacher_frames import ArmLook, StateScene, keep_states
from isojepa_lab.environments.rendering import stored_frames
from isojepa_lab.environments.wrapped_angles import r2_ceiling
from tests.lab.environments.rendering import rendering_or_skip

SMALL = ArmLook(size=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rendering_or_skip()
    return str(tmp_path_factory.mktemp("frames"))


@pytest.fixture(scope="module")
def world(folder):
    return Reacher.gaussian(0.9, 400, look=SMALL, held_out=50, data=folder)


def walk(episodes=9, steps=30):
    return np.cumsum(0.3 * np.random.default_rng(0).normal(size=(episodes, steps, 2)), axis=1)


def test_the_world_passes_the_public_checks(world):
    testing.check_source(world)
    testing.check_source(world.held_out())
    testing.check_spec(build_spec("world", "reacher", size=16))
    testing.check_spec(build_spec("world", "reacher-episodes", size=16))


def test_pairs_are_gaussian_with_the_correlation_that_is_told(world):
    z, z_next = (view.z for view in world.views)
    assert abs(np.corrcoef(z[:, 0], z_next[:, 0])[0, 1] - 0.9) < 0.05
    assert abs(np.corrcoef(z[:, 0], z[:, 1])[0, 1]) < 0.15
    assert np.abs(z.std(0) - 1).max() < 0.1
    facts = world.facts
    assert (facts.dim, facts.correlation, facts.gaussian, facts.size) == (2, 0.9, True, 400)
    assert facts.shapes == ((3, 16, 16),) * 2


def test_observations_are_those_of_the_states_and_live_ones_the_same(world):
    batch = world.take(torch.tensor([7, 3, 7]))
    assert torch.equal(batch.views[0][0], batch.views[0][2])
    assert torch.equal(world.observe(batch.z[1]), batch.views[1])
    seen = SMALL.frames(world.views[0].z[[3]])
    assert np.array_equal(seen[0], world.views[0].frames[3])
    assert isinstance(world.views[0].frames, np.memmap)
    assert world.views[0].frames.dtype == np.uint8


def test_worlds_of_other_rho_share_first_views_and_held_out_states(world, folder):
    other = Reacher.gaussian(0.5, 400, look=SMALL, held_out=50, data=folder)
    assert other.views[0].folder == world.views[0].folder
    assert other.views[1].folder != world.views[1].folder
    first, second = (one.held_out() for one in (world, other))
    assert first.views[0].folder == second.views[0].folder
    another_seed = Reacher.gaussian(0.9, 400, look=SMALL, held_out=50, seed=1, data=folder)
    assert another_seed.views[0].folder != world.views[0].folder
    assert another_seed.held_out().views[0].folder == first.views[0].folder
    assert not set(map(tuple, first.views[0].z)) & set(map(tuple, world.views[0].z))


@pytest.mark.slow
def test_one_process_and_two_render_the_same_bits(folder, tmp_path):
    z = np.random.default_rng(0).normal(size=(1030, 2)).astype(np.float32)
    one = keep_states(z, {"law": "test"}, SMALL, str(tmp_path / "one"), 1)
    two = keep_states(z, {"law": "test"}, SMALL, str(tmp_path / "two"), 2)
    assert np.array_equal(one.frames, two.frames)
    assert one.folder.name == two.folder.name
    assert np.array_equal(one.frames[::100], SMALL.frames(z[::100]))


def test_the_record_tells_what_is_wrapped_and_what_that_allows(folder, world):
    told = world.describe()
    angles = np.concatenate([view.z for view in world.views])
    assert told["shoulder_wrapped"] == (np.abs(angles[:, 0]) > math.pi).mean()
    assert told["r2_ceiling"] == r2_ceiling()
    squashed = Reacher.gaussian(0.9, 40, look=ArmLook(squash=True, size=16), data=folder).describe()
    assert squashed["wrist_wrapped"] == squashed["wrist_beyond_range"] == 0
    assert squashed["r2_ceiling"] == 1
    assert squashed["squash"]


def test_training_is_evaluated_on_held_out_states_and_certified_there(world):
    (evaluation,) = ij.probes.default_evaluations(world, 64)
    assert evaluation.source is world.held_out()
    assert held_out(world) is world.held_out()
    encoder = ij.encoders.Conv(2, size=16)
    run = ij.fit(
        encoder, world, ij.objectives.LeJEPA(0.05), steps=2, batch=16, batch_start=None, eval_samples=64
    )
    assert "r2" in run.metrics[-1]
    certificate = ij.certify(encoder, world, checks=False)
    assert certificate.samples == 50
    assert certificate.recovery is not None


def test_a_config_trains_and_its_record_opens_without_the_frames(folder, tmp_path, monkeypatch):
    from isojepa.config import config_from

    config = config_from(
        {
            "world": {
                "name": "reacher",
                "rho": 0.9,
                "pairs": 400,
                "held_out": 50,
                "size": 16,
                "data": folder,
            },
            "encoder": {"name": "conv"},
            "training": {"steps": 2, "batch": 16, "batch_start": None, "eval_samples": 64},
        }
    )
    assert config.to_dict()["encoder"]["dim"] == 2
    run = ij.train(config, tmp_path, progress=False)
    monkeypatch.setattr(Reacher, "gaussian", None)  # nothing is rendered or opened for the model alone
    model = ij.load(run.record.path)
    assert model(torch.zeros(1, 3, 16, 16)).shape == (1, 2)


def test_recorded_pairs_lie_within_an_episode_a_stride_apart(folder):
    angles = walk()
    world = Reacher.recorded(angles, 4, per_episode=5, look=SMALL, data=folder)
    testing.check_source(world)
    assert world.facts.size == 7 * 5  # of nine episodes two are held out
    places = {
        tuple(state): (e, t)
        for e, path in enumerate(angles.astype(np.float32))
        for t, state in enumerate(path)
    }
    for first, second in zip(*(view.z for view in world.views), strict=True):
        (episode, step), (other, later) = places[tuple(first)], places[tuple(second)]
        assert (episode, later - step) == (other, 4)
    assert world.facts.gaussian is False
    test = world.held_out()
    seen, unseen = ({places[tuple(z)][0] for z in one.views[0].z} for one in (world, test))
    assert not seen & unseen
    z = torch.cat(world.take(torch.arange(35)).z)
    assert z.std(0) == pytest.approx(torch.ones(2), abs=0.35)  # in units of the recording


def test_recorded_pairs_may_be_evaluated_on_the_states_that_all_conditions_share(world, folder):
    recorded = Reacher.recorded(walk(), 4, look=SMALL, evaluation="gaussian", gaussian_states=50, data=folder)
    assert recorded.facts.size == 90  # all episodes are trained on
    assert recorded.held_out().views[0].folder == world.held_out().views[0].folder
    assert recorded.held_out().facts.gaussian


def test_lists_of_unequal_episodes_arrays_and_trajectories_are_taken(folder, tmp_path):
    angles = walk()
    as_list = Reacher.recorded(list(angles), 4, look=SMALL, data=folder)
    as_array = Reacher.recorded(angles, 4, look=SMALL, data=folder)
    paths = Reacher.recorded(Trajectories("angles", angles.swapaxes(0, 1)), 4, look=SMALL, data=folder)
    assert as_list.views[0].folder == as_array.views[0].folder == paths.views[0].folder
    unequal = Reacher.recorded(
        [angles[0], angles[1, :7], angles[2, :3]], 4, per_episode=50, look=SMALL, data=folder
    )
    assert unequal.facts.size + unequal.held_out().facts.size == 26 + 3
    np.save(tmp_path / "angles.npy", angles)
    spec = build_spec(
        "world", "reacher-episodes", angles=str(tmp_path / "angles.npy"), stride=4, size=16, data=folder
    )
    assert spec.build(Context()).views[0].folder == as_array.views[0].folder


@pytest.mark.parametrize(
    ("make_world", "message"),
    [
        (lambda: Reacher.gaussian(1.2), r"rho must lie in \(0, 1\), got 1.2"),
        (lambda: Reacher.gaussian(pairs=0), "pairs must be an integer of at least 2, got 0"),
        (
            lambda: Reacher.recorded(walk(), 30),
            "stride must be below the 30 steps of the longest path, got 30",
        ),
        (lambda: Reacher.recorded(walk()[0], 2), r"angles must be \(episodes, steps, 2\)"),
        (
            lambda: Reacher.recorded(walk(), 2, evaluation="all"),
            "evaluation must be one of episodes, gaussian",
        ),
        (
            lambda: build_spec("world", "reacher-episodes", policy="sca").build(Context()),
            "policy must be one of",
        ),
    ],
)
def test_wrong_settings_are_said_before_anything_is_rendered(make_world, message, monkeypatch):
    monkeypatch.setattr(frames, "_render", None)
    with pytest.raises(ValueError, match=message):
        make_world()


def test_angles_that_are_no_numbers_are_told_by_episode_and_step():
    angles = walk()
    angles[3, 17, 1] = math.nan
    with pytest.raises(ValueError, match=r"angles must be finite, got .*nan.* in episode 3, step 17"):
        Reacher.recorded(angles, 2)


def test_a_store_with_other_states_is_refused(folder, tmp_path):
    z = np.zeros((5, 2), dtype=np.float32)
    kept = keep_states(z, {"law": "test"}, SMALL, str(tmp_path))
    with pytest.raises(ValueError, match=r"must hold the 5 states that were chosen by .*, got others"):
        keep_states(z + 1, {"law": "test"}, SMALL, str(tmp_path))
    assert np.array_equal(keep_states(z + 1e-6, {"law": "test"}, SMALL, str(tmp_path)).z, kept.z)


def test_blocks_are_read_from_the_states_beside_them(folder, world):
    view = world.views[0]
    scene = StateScene(
        folder,
        1,
        {"law": "normal", "part": "train", "seed": 0, "view": 0},
        400,
        "fast",
        False,
        16,
        (0.1, 0.1),
    )
    assert np.array_equal(stored_frames(scene), view.frames)
    assert np.array_equal(scene.render_block(0), view.frames)
    assert world.sample(3, generator(0, "x")).views[0].shape == (3, 3, 16, 16)


def test_pooled_observations_are_means_of_the_same_frames(world, folder):
    pooled = Reacher.gaussian(0.9, 400, look=ArmLook(size=16, pool=2), held_out=50, data=folder)
    assert pooled.views[0].folder == world.views[0].folder  # nothing is rendered again
    ids = torch.tensor([5, 0])
    whole, means = world.take(ids).views[0], pooled.take(ids).views[0]
    assert pooled.facts.shapes[0] == tuple(means.shape[1:]) == (3, 8, 8)
    assert means[1, 2, 3, 4].item() == pytest.approx(whole[1, 2, 6:8, 8:10].mean().item(), abs=1e-5)
    assert torch.allclose(pooled.observe(pooled.take(ids).z[0]), means)


def test_weighed_pairs_are_drawn_by_their_weights_and_held_out_ones_are_not(folder):
    angles = walk()

    def weigh(recorded):
        # only pairs whose first end has a shoulder above its mean, as the standardizer tells it
        above = np.concatenate([z[:, 0] > 0 for z, _, _ in recorded.chunks()])
        return recorded.reweighted(above.astype(float))

    plain = Reacher.recorded(angles, 3, look=SMALL, data=folder, per_episode=8)
    weighed = Reacher.recorded(angles, 3, look=SMALL, data=folder, per_episode=8, weigh=weigh)
    assert (weighed.take(torch.arange(weighed.facts.size)).z[0][:, 0] > 0).all()
    assert (plain.take(torch.arange(plain.facts.size)).z[0][:, 0] < 0).any()
    assert weighed.facts.size == 8 * len(set(plain.episodes))
    assert weighed.stride == 3
    assert np.array_equal(weighed.held_out().views[0].z, plain.held_out().views[0].z)


def test_isotropised_episodes_by_name_are_nearer_to_one_rate(folder, tmp_path):
    steps = np.random.default_rng(1).normal(size=(60, 40, 2)) * (1.0, 0.1)  # one joint is much faster
    np.save(tmp_path / "angles.npy", np.cumsum(0.05 * steps, 1) + np.sin(np.arange(60))[:, None, None])
    settings = {"angles": str(tmp_path / "angles.npy"), "size": 16, "stride": 4, "data": folder}
    plain = build_spec("world", "reacher-episodes", **settings).build(Context())
    spec = build_spec("world", "reacher-isotropised", strength=0.5, method="rates", **settings)
    weighed = spec.build(Context())

    def rates(world):
        return np.log(world.facts.correlation)

    assert rates(plain)[0] / rates(plain)[1] > 3
    first, second = (view.z.astype(float) for view in weighed.views)
    steps_of = ((second - first) / plain.standardizer.std).std(0)
    before = ((plain.views[1].z.astype(float) - plain.views[0].z) / plain.standardizer.std).std(0)
    assert steps_of[0] / steps_of[1] < before[0] / before[1]
    testing.check_spec(build_spec("world", "reacher-isotropised", size=16))
