"""Pictures by several observers: matched by what they show, split by state, shuffled for ablations."""

import numpy as np
import pytest
import torch

import isojepa as ij
from isojepa import testing
from isojepa.worlds import Observers
from isojepa.worlds.images import Stack, Views
from isojepa.worlds.images.observers import Observer, PictureObservers
from isojepa.worlds.images.pictures import Shuffled
from isojepa.worlds.images.views import Augmented


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
        both = PictureObservers([LEFT, RIGHT], held_out=0.3, seed=seed)
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
    both = PictureObservers([LEFT, RIGHT])
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


def test_the_states_of_the_test_split_may_be_given():
    both = PictureObservers([LEFT, RIGHT], test=[2, 7])
    assert {key // 10 for key in shown_by(both.pictures("left", "test"))} == {2, 7}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PictureObservers([LEFT]), "two at least with different names, got left"),
        (lambda: PictureObservers([LEFT, LEFT]), "two at least with different names, got left, left"),
        (lambda: observer("left", [1, 2, 1]), "'left' must show each thing once, got 1 twice"),
        (
            lambda: Observer("left", LEFT.pictures, LEFT.keys[1:], LEFT.states),
            r"must have a key and a state for each picture, got \[100, 99, 100\]",
        ),
        (
            lambda: PictureObservers([LEFT, Observer("b", LEFT.pictures, LEFT.keys, LEFT.states + 1)]),
            "must say which state 0 is, got 0 and 1",
        ),
        (
            lambda: PictureObservers([LEFT, observer("right", range(100, 130))]).pairs(0, 1, None),
            "'left' and 'right' must have seen the same things, got none in common",
        ),
        (lambda: PictureObservers([LEFT, RIGHT], test=[]).pairs(0, 1), "'test' must have pictures, got none"),
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


def test_each_observer_is_shuffled_its_own_way_and_stays_matched():
    pictures = random_stack(20)
    keys, states = tuple(range(20)), torch.arange(20)
    both = PictureObservers([Observer(name, pictures, keys, states) for name in ("a", "b")])
    mixed = both.shuffled(4)
    assert mixed.test == both.test
    pairs, before = mixed.pairs(0, 1), both.pairs(0, 1)
    assert torch.equal(pairs.ids, before.ids)
    first, second = (part.read(torch.arange(len(pairs))) for part in (pairs.first, pairs.second))
    assert not torch.equal(first, second)
    assert torch.equal(first.flatten(1).sort().values, second.flatten(1).sort().values)


def test_a_patch_that_does_not_fit_twice_is_refused():
    with pytest.raises(ValueError, match="must fit into pictures of 16 × 16 twice, got 9"):
        Shuffled(random_stack(), 9)


def test_augmented_pictures_are_views_of_a_recipe_and_always_the_same():
    whole = random_stack(4, 32)
    views = Views(global_size=24, local_views=0)
    seen = Augmented(whole, views)
    ids = torch.tensor([2, 0])
    assert torch.equal(seen.read(ids)[1:], seen.read(ids[1:]))
    assert not torch.equal(seen.read(ids), Augmented(whole, views, seed=1).read(ids))
    off = dict.fromkeys(("flip", "jitter", "grey", "blur", "solarize"), 0.0)
    plain = Views(global_size=32, local_views=0, global_scale=(1.0, 1.0), ratio=(1.0, 1.0), **off)
    assert torch.equal(Augmented(whole, plain).read(ids), whole.read(ids))
    assert seen.shape == (3, 24, 24)
