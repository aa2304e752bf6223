"""Two observers in one batch: every row is one state for both, and each has its own randomness."""

import numpy as np
import pytest
import torch

import isojepa as ij
from isojepa import testing
from isojepa.data import Arrays, OrnsteinUhlenbeck, Paired, Pairing, Spiral, World
from isojepa.data.images import Images, Stack, Views
from isojepa.data.source import Streams

X = np.arange(40, dtype="float32").reshape(20, 2)


def pictures(size=12, offset=0):
    """Each of one colour that is its number, so that a view tells which picture it is of."""
    grey = (np.arange(size, dtype=np.uint8)[:, None, None] * 10 + offset) * np.ones((1, 8, 8), dtype=np.uint8)
    return Stack(grey, labels=np.arange(size) % 3)


def plain(**options):
    unchanged = {"jitter": 0.0, "grey": 0.0, "blur": 0.0, "solarize": 0.0, "mean": (0.0,), "std": (1.0,)}
    return Views(**{"global_size": 8, "local_size": 4, "local_views": 1} | unchanged | options)


def test_every_row_of_a_pair_is_one_state():
    source = Paired(Arrays((X, X + 0.25)), Arrays((-X, -X, 2 * X)))
    testing.check_source(source)
    batch = source.sample(50, ij.generator(0, "test"))
    assert source.pairing == Pairing((2, 3), (2, 3))
    assert len(batch.views) == batch.global_views == 5
    assert torch.equal(batch.views[0], -batch.views[2])
    assert torch.equal(2 * batch.views[0], batch.views[4])
    assert batch.ids is not None
    assert np.array_equal(X[batch.ids], batch.views[0].numpy())


def test_a_batch_is_divided_into_those_of_its_observers():
    source = Paired(
        Images(pictures(), plain(global_views=2, local_views=2)), Images(pictures(offset=5), plain())
    )
    testing.check_source(source)
    batch = source.sample(7, ij.generator(0, "test"))
    first, second = source.pairing.divide(batch)
    assert [view.shape[-1] for view in first.views] == [8, 8, 4, 4]
    assert [view.shape[-1] for view in second.views] == [8, 8, 4]
    assert (first.global_views, second.global_views) == (2, 2)
    assert batch.global_views == 2  # there are local views: the center is the first observer's
    for view in first.views:
        assert torch.equal((view[:, 0, 0, 0] * 255).round().long(), 10 * batch.ids)
    for view in second.views:
        assert torch.equal((view[:, 0, 0, 0] * 255).round().long(), 10 * batch.ids + 5)
    assert torch.equal(first.labels, batch.ids % 3)
    with pytest.raises(ValueError, match=r"must have 4 \+ 3 views, got 1"):
        source.pairing.divide(one_view())


def one_view():
    return ij.data.Batch((torch.zeros(2, 1),))


def test_observers_cut_their_views_by_random_streams_of_their_own():
    rng = np.random.default_rng(0)
    same = Stack(rng.integers(0, 256, (6, 16, 16), dtype=np.uint8))
    views = plain(global_views=2, local_views=0, global_scale=(0.1, 0.5))
    ids = torch.arange(6)
    streams = Streams(3, torch.zeros_like(ids), ids)
    source = Paired(Images(same, views), Images(same, views))
    batch = source.take(ids, streams)
    alone = Images(same, views).take(ids, streams)
    assert torch.equal(batch.views[0], alone.views[0])  # the first sees what it would see apart
    assert not torch.equal(batch.views[2], batch.views[0])


def test_endless_worlds_are_observed_at_the_same_latents():
    process = OrnsteinUhlenbeck(dim=2, rho=0.9)
    first, second = World(process, Spiral()), World(process)
    source = Paired(first, second)
    testing.check_source(source)
    batch = source.sample(9, ij.generator(1, "test"))
    assert torch.equal(batch.z[0], batch.z[2])
    assert torch.equal(batch.z[1], batch.z[3])
    assert torch.equal(batch.views[2], batch.z[0])
    torch.testing.assert_close(batch.views[0], first.observe(batch.z[0]))
    assert source.facts.correlation == 0.9


@pytest.mark.parametrize(
    ("first", "second", "options", "message"),
    [
        (Arrays((X, X)), Arrays((X[1:], X[1:])), {}, "the same number of states, got 20 and 19"),
        (Arrays((X, X)), World(OrnsteinUhlenbeck(2, 0.9)), {}, "got 20 and no end of"),
        (World(OrnsteinUhlenbeck(2, 0.9)), World(OrnsteinUhlenbeck(3, 0.9)), {}, "same latents, got 2 and 3"),
        (Arrays((X, X)), Arrays((X, X)), {"ids": [1, 2]}, r"one for each of 20 states, got shape \(2,\)"),
        (X, Arrays((X, X)), {}, "first must be a source"),
    ],
)
def test_observers_that_cannot_be_matched_are_refused(first, second, options, message):
    with pytest.raises(ValueError, match=message):
        Paired(first, second, **options)


def test_rows_of_different_states_are_refused():
    source = Paired(Arrays((X, X), ids=np.arange(20)), Arrays((X, X), ids=np.arange(20)[::-1].copy()))
    with pytest.raises(ValueError, match="their ids differ: sort both by state"):
        source.sample(5, ij.generator(0, "test"))
