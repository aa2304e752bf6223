"""Goal-directed paths that studies share: what is held out, what stands for weights, and what is trained."""

import numpy as np
import pytest

from isojepa.data.trajectories import Recorded
from isojepa.objectives import LeJEPA
from isojepa_lab.studies.goal_paths import STRIDE, draw_paths, sampled, train_encoder


def test_a_fifth_of_the_paths_is_held_out_in_the_units_of_the_others():
    train, held_out = draw_paths(50, 40, 0)
    assert (train.paths, held_out.paths, train.stride) == (40, 10, STRIDE)
    starts = [{tuple(z) for z in one.states_at(np.arange(one.paths) * 32)[0]} for one in (train, held_out)]
    assert not starts[0] & starts[1]
    assert list(map(len, starts)) == [40, 10]
    path, step = np.indices((40, 40)).reshape(2, -1)
    z = train.latents(path, step).double().numpy()
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(z.std(0), 1, atol=1e-5)
    assert held_out.standardizer is train.standardizer


def test_the_sample_stands_for_the_weighted_law():
    recorded = Recorded(np.random.default_rng(0).normal(size=(50, 200, 1)))
    z, _ = recorded.states_at(np.arange(recorded.pairs))
    weights = np.exp(z[:, 0])
    points, _, counts = sampled(recorded.reweighted(weights))
    assert np.average(points[:, 0], weights=counts) == pytest.approx(
        np.average(z[:, 0], weights=weights), abs=2e-3
    )


@pytest.mark.filterwarnings("ignore::isojepa.training.run.RunWarning")
def test_what_is_trained_is_a_function_of_angles_that_its_seed_decides():
    train, held_out = draw_paths(40, 40, 0)
    z = held_out.states_at(np.arange(20))[0]
    one, same, other = (train_encoder(train, LeJEPA(), seed, 3, 32)(z) for seed in (0, 0, 1))
    assert one.shape == (20, 2)
    np.testing.assert_allclose(one, same, rtol=1e-5)
    assert np.abs(one - other).max() > 0.1
