"""Recorded trajectories as a process and as a world."""

import numpy as np
import pytest
import torch

from isojepa.data import OrnsteinUhlenbeck
from isojepa.data.trajectories import Recorded, RecordedWorld, Standardizer
from isojepa.seeds import generator

RNG = np.random.default_rng(0)


def labelled(lengths):
    """States that say where they are: (path, step)."""
    return [np.stack((np.full(n, p), np.arange(n)), 1).astype(float) for p, n in enumerate(lengths)]


@pytest.mark.parametrize("stride", [1, 3])
def test_pairs_are_stride_apart_never_cross_paths_and_all_occur(stride):
    recorded = Recorded(labelled([6, 3, 9, 4]), stride=stride, standardize=False)
    z, z_next = recorded.sample(4000, generator(0, "data"))
    assert torch.equal(z[:, 0], z_next[:, 0])
    assert torch.equal(z[:, 1] + stride, z_next[:, 1])
    expected = sum(max(0, n - stride) for n in (6, 3, 9, 4))
    assert recorded.pairs == expected == len({tuple(row) for row in z.tolist()})


def test_pairs_are_drawn_alike_or_by_weight():
    paths = labelled([5, 7])
    weights = np.array([0, 1, 2, 0, 3, 0, 0, 4, 0, 0.0])
    recorded = Recorded(paths, weights=weights, standardize=False)
    z, _ = recorded.sample(50_000, generator(0, "data"))
    path, step = recorded.locate(np.arange(10))
    counts = [((z[:, 0] == p) & (z[:, 1] == s)).sum().item() for p, s in zip(path, step, strict=True)]
    np.testing.assert_allclose(np.array(counts) / 50_000, weights / 10, atol=0.01)
    assert all(count == 0 for count, weight in zip(counts, weights, strict=True) if weight == 0)
    z, _ = Recorded(paths, standardize=False).sample(50_000, generator(0, "data"))
    np.testing.assert_allclose((z[:, 0] == 0).double().mean().item(), 0.4, atol=0.01)


def test_swapped_pairs_are_turned_round():
    recorded = Recorded(labelled([50, 50]), swap=0.5, standardize=False)
    z, z_next = recorded.sample(20_000, generator(0, "data"))
    assert (z[:, 1] > z_next[:, 1]).double().mean().item() == pytest.approx(0.5, abs=0.02)
    assert (z[:, 1] - z_next[:, 1]).abs().unique().tolist() == [1.0]


def test_correlation_is_that_of_numpy_with_and_without_weights():
    paths = OrnsteinUhlenbeck(2, rho=[0.9, 0.5]).trajectory(200, 30, generator(0, "data"))
    recorded = Recorded(paths, stride=2)
    a, b = paths[:-2].reshape(-1, 2).numpy(), paths[2:].reshape(-1, 2).numpy()
    expected = [np.corrcoef(a[:, i], b[:, i])[0, 1] for i in (0, 1)]
    np.testing.assert_allclose(recorded.correlation, expected, atol=1e-6)
    weights = RNG.random(recorded.pairs)
    z, z_next = recorded.states_at(np.arange(recorded.pairs))
    covariance = [np.cov(z[:, i], z_next[:, i], aweights=weights) for i in (0, 1)]
    expected = [c[0, 1] / np.sqrt(c[0, 0] * c[1, 1]) for c in covariance]
    np.testing.assert_allclose(recorded.reweighted(weights).correlation, expected, atol=1e-9)
    assert isinstance(Recorded(paths[..., :1]).correlation, float)


def test_a_split_is_by_path_and_standardised_by_the_training_part():
    recorded = Recorded(labelled([8] * 10), stride=2, weights=np.arange(1, 61))
    train, held_out = recorded.split(0.3, seed=3)
    names = [set(part.standardizer.restore(part.sample(2000, generator(0, "x"))[0])[:, 0].round().tolist())
             for part in (train, held_out)]  # fmt: skip
    assert len(names[0]) == 7
    assert len(names[1]) == 3
    assert not names[0] & names[1]
    assert held_out.standardizer is train.standardizer
    assert np.concatenate((train.weights, held_out.weights)).size == 60
    own = train.states.moments()
    np.testing.assert_allclose(train.standardizer.mean, own[0])
    again, _ = recorded.split(0.3, seed=3)
    np.testing.assert_array_equal(again.weights, train.weights)
    other, _ = recorded.split(0.3, seed=4)
    assert not np.array_equal(other.weights, train.weights)
    plain, _ = Recorded(labelled([8] * 10), standardize=False).split()
    assert plain.standardizer.std.tolist() == [1, 1]


def test_observations_stay_beside_their_states(tmp_path):
    states = labelled([6, 9])
    seen = [np.concatenate((10 * path, path**2), 1) for path in states]
    np.save(tmp_path / "seen.npy", seen[1])
    seen[1] = np.load(tmp_path / "seen.npy", mmap_mode="r")
    world = Recorded(states, seen, stride=2, swap=0.3, standardize=False).world()
    assert isinstance(world, RecordedWorld)
    assert (world.facts.dim, world.facts.shapes, world.facts.gaussian) == (2, ((4,), (4,)), False)
    pairs = world.sample(500, generator(0, "data"))
    for z, x in ((pairs.z[0], pairs.views[0]), (pairs.z[1], pairs.views[1])):
        torch.testing.assert_close(x, torch.cat((10 * z, z**2), 1))
    assert torch.equal((pairs.z[0] - pairs.z[1])[:, 1].abs(), torch.full((500,), 2.0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stride": 10}, "stride must be below the 10 steps"),
        ({"stride": 0}, "stride must be a positive integer"),
        ({"stride": [1, 2]}, "coordinates cannot have strides of their own"),
        ({"swap": 0.7}, "swap must lie in"),
        ({"weights": np.ones(3)}, r"weights must be one per pair, \(36,\)"),
        ({"weights": np.full(36, np.nan)}, "weights must be finite"),
        ({"weights": np.zeros(36)}, "not all 0"),
        ({"observations": np.zeros((10, 3, 2))}, "as many paths as states, 4, got 3"),
        ({"standardize": Standardizer(np.zeros(3), np.ones(3))}, "standardize must be of 2 coordinates"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_bad_input_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        Recorded(RNG.normal(size=(10, 4, 2)), **options)


def test_constant_and_unbounded_states_are_refused():
    states = RNG.normal(size=(10, 4, 2))
    states[..., 1] = 3.0
    with pytest.raises(ValueError, match="constant dimension 1"):
        Recorded(states)
    states[2, 1, 0] = np.inf
    with pytest.raises(ValueError, match="states must be finite"):
        Recorded(states, standardize=Standardizer(np.zeros(2), np.ones(2)))
    with pytest.raises(ValueError, match="states must be vectors"):
        Recorded(RNG.normal(size=(10, 4, 2, 2)))
    with pytest.raises(ValueError, match="at least 2 paths"):
        Recorded(RNG.normal(size=(10, 2))).split()
    seen = np.full((10, 4, 1), np.nan)
    with pytest.raises(ValueError, match="observations must be finite"):
        Recorded(RNG.normal(size=(10, 4, 2)), seen).world()


def test_states_in_bfloat16_are_read_and_huge_ones_refused():
    states = torch.randn(50, 5, 2, generator=generator(0, "states"))
    rounded = Recorded(states.bfloat16())
    assert rounded.correlation == pytest.approx(Recorded(states.bfloat16().float()).correlation)
    with pytest.raises(ValueError, match="states must be below 1e100 in size"):
        Recorded(states.double() * 1e200)
