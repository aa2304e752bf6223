"""Pictures by several observers: matched by what they show, split by state, shuffled for ablations."""

import numpy as np
import pytest
import torch

import isojepa as ij
from isojepa import testing
from isojepa.data import Observers
from isojepa.data.images import Stack
from isojepa.data.images.image_sets import Shuffled
from isojepa.data.images.source import ImageObservers, Observer


def observer(name, keys, labels=True):
    """Every picture is of one colour, its key; states are tens of keys."""
    keys = np.array(keys)
    images = np.broadcast_to(keys.astype(np.uint8)[:, None, None], (len(keys), 6, 6)).copy()
    found = Stack(images, labels=keys // 10 if labels else None)
    return Observer(name, found, tuple(keys.tolist()), torch.from_numpy(keys // 10))


def shown_by(pictures):
    return pictures.read(torch.arange(len(pictures)))[:, 0, 0, 0].tolist()


KEYS = list(range(100))
LEFT, RIGHT = observer("left", KEYS), observer("right", KEYS[::-2])


def test_pairs_show_the_same_things_and_splits_share_no_state():
    for seed in range(4):
        both = ImageObservers([LEFT, RIGHT], held_out=0.3, seed=seed)
        train, test, whole = (both.pairs("left", "right", split) for split in ("train", "test", None))
        assert shown_by(test.first) == shown_by(test.second)
        assert sorted(shown_by(train.first) + shown_by(test.first)) == sorted(RIGHT.keys)
        assert len(whole) == 50
        for split in ("train", "test"):
            states = set(both.pairs(0, 1, split).ids.tolist())
            for number in (0, 1):
                own = {key // 10 for key in shown_by(both.pictures(number, split))}
                assert own == states == set(both.states(number, split).tolist())
        assert not set(train.ids.tolist()) & set(test.ids.tolist())
        assert len(set(test.ids.tolist())) == 3
        assert torch.equal(test.labels, test.ids)
    assert isinstance(both, Observers)


def test_an_agent_is_trained_on_its_own_pictures_of_its_split_alone():
    both = ImageObservers([LEFT, RIGHT])
    source = both.source("right")
    testing.check_source(source)
    keys = shown_by(source.pictures)
    assert set(keys) <= set(RIGHT.keys)
    assert not {key // 10 for key in keys} & both.test
    paired = both.paired(0, 1)
    testing.check_source(paired)
    batch = paired.sample(20, ij.generator(0, "test"))
    assert not set(batch.ids.tolist()) & both.test
    assert torch.equal(batch.ids, batch.labels)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ImageObservers([LEFT, LEFT]), "two at least with different names, got left, left"),
        (lambda: observer("left", [1, 2, 1]), "'left' must show each thing once, got 1 twice"),
        (
            lambda: ImageObservers([LEFT, Observer("b", LEFT.pictures, LEFT.keys, LEFT.states + 1)]),
            "must agree which state 0 is, got 0, 1",
        ),
        (
            lambda: ImageObservers([LEFT, observer("right", range(100, 130))]).pairs(0, 1, None),
            "'left' and 'right' must have seen the same things, got none in common",
        ),
        (lambda: ImageObservers([LEFT, RIGHT], test=[]).pairs(0, 1), "'test' must have pictures, got none"),
    ],
)
def test_observers_that_do_not_fit_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def random_stack(size=5, side=16, channels=3):
    return Stack(np.random.default_rng(0).integers(0, 256, (size, channels, side, side), dtype=np.uint8))


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("patch", [1, 4, 5])
def test_shuffling_moves_whole_patches_and_loses_none(patch, fixed):
    whole = random_stack()
    mixed = Shuffled(whole, patch, fixed=fixed, seed=2)
    ids = torch.tensor([3, 0, 4])
    before, after = whole.read(ids), mixed.read(ids)
    assert torch.equal(mixed.read(ids[1:]), after[1:])  # the same picture, whatever else is read

    def patches(picture):  # by loops: the slow way
        count = 16 // patch
        return [
            picture[:, y * patch : (y + 1) * patch, x * patch : (x + 1) * patch].flatten().tolist()
            for y in range(count)
            for x in range(count)
        ]

    orders = []
    for one, two in zip(before, after, strict=True):
        assert sorted(patches(one)) == sorted(patches(two))
        assert patches(one) != patches(two)
        if patch > 1:
            orders.append([patches(one).index(found) for found in patches(two)])
        edge = 16 - 16 % patch
        assert torch.equal(one[:, edge:], two[:, edge:])
        assert torch.equal(one[:, :, edge:], two[:, :, edge:])
    if patch > 1:
        assert (orders[0] == orders[1]) == fixed
