"""One latent process seen through several mixings."""

import numpy as np
import pytest
import torch

from isojepa import testing
from isojepa.data import AffineCoupling, Identity, Observers, OrnsteinUhlenbeck, Spiral, environment
from isojepa.data.observers import LatentObservers


def test_pairs_are_what_both_see_at_the_latents_that_are_told():
    process = OrnsteinUhlenbeck(dim=2, rho=0.9)
    worlds = LatentObservers(process, [Spiral(), AffineCoupling(2)], states=40)
    pairs = worlds.pairs("first", "second")
    torch.testing.assert_close(Spiral().inverse(pairs.first), pairs.z, atol=1e-5, rtol=0)
    torch.testing.assert_close(AffineCoupling(2).inverse(pairs.second), pairs.z, atol=1e-4, rtol=0)
    assert isinstance(worlds, Observers)


def test_splits_share_no_state_and_come_again():
    worlds = environment("latents", dim=4, states=30)
    train, test, both = (worlds.pairs(0, 1, split) for split in ("train", "test", None))
    assert not set(train.ids.tolist()) & set(test.ids.tolist())
    assert not np.isin(test.z.numpy(), train.z.numpy()).any()
    assert torch.equal(both.z, torch.cat((train.z, test.z)))
    assert torch.equal(both.ids, torch.cat((train.ids, test.ids)))
    again = environment("latents", dim=4, states=30).pairs(0, 1)
    assert torch.equal(again.first, test.first)
    assert torch.equal(again.second, test.second)
    other = environment("latents", dim=4, states=30, seed=1).pairs(0, 1)
    assert not torch.equal(other.z, test.z)


def test_sources_and_pairs_of_sources_keep_the_contract():
    worlds = environment(
        "latents", dim=4, mixings=("additive-coupling", "additive-coupling", "affine-coupling")
    )
    assert worlds.names == ("first", "second", "third")
    testing.check_observers(worlds)
    pairs = worlds.pairs(0, 1)
    assert not torch.equal(pairs.first, pairs.second)  # two mixings of one kind have seeds of their own


def test_rotations_of_the_latents_are_related_by_the_rotation_of_theorem_1():
    worlds = LatentObservers(OrnsteinUhlenbeck(dim=3, rho=0.9), [Identity(), Identity()], states=200)
    pairs = worlds.pairs(0, 1)
    first, second = (np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0] for seed in (1, 2))
    h1, h2 = pairs.first.double().numpy() @ first.T, pairs.second.double().numpy() @ second.T
    u, _, vt = np.linalg.svd(h2.T @ h1)
    np.testing.assert_allclose(u @ vt, second @ first.T, atol=1e-8)


@pytest.mark.parametrize(
    ("mixings", "options", "message"),
    [
        ([Spiral()], {}, "two at least, each with a name of its own, got 1 mixings"),
        ([Spiral(), Spiral()], {"names": ["a", "a"]}, "the names a, a"),
        ([Spiral(), Spiral()], {"states": 0}, "states must be a positive integer"),
    ],
)
def test_observers_that_do_not_fit_are_refused(mixings, options, message):
    with pytest.raises(ValueError, match=message):
        LatentObservers(OrnsteinUhlenbeck(dim=2, rho=0.9), mixings, **options)
