import numpy as np
import pytest
import torch

from isojepa.data.images import ImageSubset, Stack, divide
from tests.data.images.files import PIL, noise


def stack(count=20, channels=3, labels=True, names=None):
    images = np.stack([noise(4, 5, channels, seed) for seed in range(count)])
    return Stack(images, np.arange(count) % 2 if labels else None, names)


def test_a_part_has_the_pictures_labels_and_moments_of_the_whole():
    whole, ids = stack(), torch.tensor([7, 2, 7])
    part = ImageSubset(whole, ids)
    assert torch.equal(part.read(torch.arange(3)), whole.read(ids))
    assert (part.labels.tolist(), part.mean, part.std) == ([1, 0, 1], whole.mean, whole.std)
    inner = ImageSubset(part, torch.tensor([1]))
    assert torch.equal(inner.read(torch.tensor([0])), whole.read(torch.tensor([2])))


@pytest.mark.parametrize("ids", [[], [-1], [20], [[0]]])
def test_numbers_of_no_picture_are_refused(ids):
    with pytest.raises(ValueError, match="each from 0 to 19"):
        ImageSubset(stack(), torch.tensor(ids, dtype=torch.int64))


def test_colours_become_grey_as_pillow_has_it_and_grey_three_equal_channels():
    colour, grey = stack(channels=3), stack(channels=1)
    found = ImageSubset(colour, channels=1).read(torch.tensor([3]))[0, 0].numpy().astype(int)
    assert np.abs(found - np.asarray(PIL.fromarray(noise(4, 5, 3, 3)).convert("L"))).max() <= 1
    three = ImageSubset(grey, channels=3)
    assert (three.shape, three.mean) == ((3, 4, 5), grey.mean * 3)
    assert (three.read(torch.tensor([3]))[0].numpy() == noise(4, 5, 1, 3)).all()


def test_a_division_is_whole_disjoint_and_the_same_for_a_seed():
    whole = stack(100)
    first, second = divide(whole, 0.25, seed=3)
    assert (len(first), len(second)) == (75, 25)
    ids = torch.cat([first._ids, second._ids])
    assert ids.sort().values.tolist() == list(range(100))
    assert torch.equal(divide(whole, 0.25, seed=3)[1]._ids, second._ids)
    assert not torch.equal(divide(whole, 0.25, seed=4)[1]._ids, second._ids)


def test_a_state_is_on_one_side():
    states = torch.arange(60) // 3 + 1_000
    for seed in range(10):
        first, second = divide(stack(60), 0.2, seed, states)
        assert not set(states[first._ids].tolist()) & set(states[second._ids].tolist())
        assert len(second) == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"held_out": 0.0}, r"held_out must lie in \(0, 1\)"),
        ({"held_out": 1.0}, r"held_out must lie in \(0, 1\)"),
        ({"states": torch.zeros(3)}, "states must be 20 numbers"),
        ({"states": torch.zeros(20)}, "number of states must be"),
    ],
)
def test_what_cannot_be_divided_is_said(options, message):
    with pytest.raises(ValueError, match=message):
        divide(stack(), **options)
