"""One set of pictures under two recipes."""

import numpy as np
import pytest
import torch

from isojepa import testing
from isojepa.data import environment
from isojepa.data.images import Views


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "pictures.npz",
        images=rng.integers(0, 256, (30, 32, 32, 3), dtype=np.uint8),
        labels=np.arange(30) % 3,
    )
    return tmp_path / "pictures.npz"


def test_recipes_are_those_of_the_paper():
    """Appendix A.3."""
    a, b = Views.named("social-a"), Views.named("social-b")
    for views in (a, b):
        assert views.global_scale == (0.2, 1.0)
        assert (views.brightness, views.contrast, views.saturation, views.hue) == (0.4, 0.4, 0.4, 0.1)
        assert (views.flip, views.grey) == (0.5, 0.2)
    assert (a.blur, a.solarize) == (0.0, 0.0)
    assert (b.blur, b.solarize) == (0.5, 0.2)


def test_observers_see_the_same_pictures_by_recipes_of_their_own(data):
    found = environment("recipes", data)
    assert found.names == ("social-a", "social-b")
    for number, blur in ((0, 0.0), (1, 0.5)):
        source = found.source(number)
        testing.check_source(source)
        assert source.views.blur == blur
        assert source.views.sizes == (32, 32)
        assert len(source.pictures) == 24
    testing.check_observers(found)
    paired = found.paired(0, 1)
    assert paired.pairing.views == (2, 2)


def test_agents_are_compared_on_augmentations_or_on_the_pictures(data):
    ids = torch.arange(6)
    augmented = environment("recipes", data, size=16).pairs(0, 1)
    first, second = augmented.first.read(ids), augmented.second.read(ids)
    assert first.shape == second.shape == (6, 3, 16, 16)
    assert not torch.equal(first, second)
    assert torch.equal(first, environment("recipes", data, size=16).pairs(0, 1).first.read(ids))
    whole = environment("recipes", data, compare="whole").pairs(0, 1)
    assert torch.equal(whole.first.read(ids), whole.second.read(ids))
    assert torch.equal(whole.labels, whole.ids % 3)
    with pytest.raises(ValueError, match="compare must be one of augmented, whole"):
        environment("recipes", data, compare="both")
