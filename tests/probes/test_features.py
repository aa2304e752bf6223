"""Features of pictures: what the model is shown, and how its answer is taken."""

import numpy as np
import pytest
import torch
from torch import nn

from isojepa.data.images.augmentations import whole
from isojepa.data.images.image_sets import Stack
from isojepa.encoders.model import Headed
from isojepa.probes.features import features_of


def pictures(n=10, shape=(8, 8), seed=0):
    return Stack(np.random.default_rng(seed).integers(0, 256, size=(n, *shape), dtype=np.uint8))


class Ragged:
    """Pictures of two sizes."""

    channels, shape, labels, classes, mean, std, skipped = 1, None, None, (), (0.5,), (0.25,), 0

    def __len__(self):
        return 4

    def read(self, ids):
        return [torch.full((1, 6 + int(i) % 2 * 3, 7), 10 * int(i), dtype=torch.uint8) for i in ids]


def test_features_are_those_of_all_pictures_at_once_whatever_the_batch():
    stack = pictures()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    x = whole(stack.read(torch.arange(10)), 8, stack.mean, stack.std)
    for batch in (1, 4, 256):
        found = features_of(model, stack, batch=batch)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, model(x).detach().numpy(), atol=1e-5)
    some = features_of(model, stack, ids=torch.tensor([7, 2]))
    np.testing.assert_allclose(some, model(x[[7, 2]]).detach().numpy(), atol=1e-5)


def test_the_model_is_in_evaluation_mode_and_then_as_it_was():
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Dropout(0.5))
    model[1].eval()
    first, again = features_of(model, pictures()), features_of(model, pictures(), batch=3)
    np.testing.assert_allclose(first, again, atol=1e-6)
    assert (model.training, model[1].training, model[2].training) == (True, False, True)


def test_a_projector_is_not_read_and_what_a_backbone_recommends_is():
    class Vit(nn.Module):
        def forward(self, x):
            return x.flatten(1)[:, :5]

        def layers_features(self, x):
            return x.flatten(1)[:, :7]

    assert features_of(Headed(nn.Flatten(), nn.Linear(64, 2)), pictures()).shape == (10, 64)
    assert features_of(Vit(), pictures()).shape == (10, 7)
    assert features_of(Headed(Vit(), nn.Linear(5, 2)), pictures()).shape == (10, 7)


def test_grey_pictures_are_repeated_for_a_model_of_color():
    seen = []
    features_of(
        lambda x: seen.append(x) or x.flatten(1), pictures(), channels=3, mean=(0, 0, 0), std=(1, 2, 4)
    )
    assert seen[0].shape == (10, 3, 8, 8)
    torch.testing.assert_close(seen[0][:, 0], 4 * seen[0][:, 2])
    with pytest.raises(ValueError, match="channels must be 1 or 3, got 4"):
        features_of(nn.Flatten(), pictures(), channels=4)


def test_pictures_of_several_sizes_need_to_be_told_one():
    with pytest.raises(ValueError, match="size must be given"):
        features_of(nn.Flatten(), Ragged())
    found = features_of(nn.Flatten(), Ragged(), size=5, channels=3, mean=(0.5,) * 3, std=(0.25,) * 3)
    assert found.shape == (4, 75)
    np.testing.assert_allclose(found[3], (30 / 255 - 0.5) / 0.25, rtol=1e-5)


def test_a_model_that_does_not_fit_is_told():
    with pytest.raises(ValueError, match=r"does not take images of shape \(10, 1, 8, 8\)"):
        features_of(nn.Conv2d(3, 2, 3), pictures())
    with pytest.raises(ValueError, match=r"must give features \(10, dim\).*got \(10, 1, 8, 8\)"):
        features_of(nn.Identity(), pictures())
    with pytest.raises(ValueError, match=r"ids must be one at least"):
        features_of(nn.Flatten(), pictures(), ids=torch.arange(0))
