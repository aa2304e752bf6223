"""Settings of views: the published ones by name, those for small pictures, and what is refused."""

import pytest

from isojepa.data.images import Views
from isojepa.data.images.views import PRESETS


def test_named_settings_are_the_published_ones():
    released = Views.named("released")
    assert released.sizes == (224, 224, 96, 96, 96, 96, 96, 96)
    assert (released.global_scale, released.local_scale) == ((0.3, 1.0), (0.05, 0.3))
    strengths = (released.brightness, released.contrast, released.saturation, released.hue)
    assert strengths == (0.4, 0.4, 0.2, 0.1)
    assert (released.jitter, released.grey, released.blur, released.solarize) == (0.8, 0.2, 0.5, 0.2)
    assert len(Views.named("paper").sizes) == 10
    first, second = Views.named("social-a"), Views.named("social-b")
    assert first.global_scale == second.global_scale == (0.2, 1.0)
    assert first.sizes == second.sizes == (224, 224)
    assert (first.saturation, first.grey, first.blur, first.solarize) == (0.4, 0.2, 0.0, 0.0)
    assert (second.saturation, second.grey, second.blur, second.solarize) == (0.4, 0.2, 0.5, 0.2)


@pytest.mark.parametrize(
    ("side", "sizes"), [(28, (28, 16)), (32, (32, 16)), (64, (64, 32)), (256, (224, 96))]
)
def test_settings_go_by_the_size_of_pictures(side, sizes):
    found = Views.for_size(side)
    assert (found.global_size, found.local_size) == sizes
    assert Views.named(str(side)) == found


@pytest.mark.parametrize("name", [*PRESETS, "1", "2", "28", "48", "111"])
def test_every_kernel_is_odd_and_fits_its_view(name):
    views = Views.named(name)
    for size in views.sizes:
        kernel = views.kernel_for(size)
        assert kernel % 2 == 1
        assert kernel // 2 < size
    assert Views().kernel_for(224) == 23
    assert Views.named("minimal").kernel_for(128) == 7


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"global_views": 0}, "global_views must be a positive integer, got 0"),
        ({"global_scale": (0.5, 1.2)}, "global_scale must be two numbers, positive and at most 1"),
        ({"ratio": (0.0, 1.0)}, "ratio must be two numbers, positive"),
        ({"flip": 1.5}, r"flip must be a probability in \[0, 1\], got 1.5"),
        ({"blur": (0.5, 0.5)}, "blur must be one number or 8, one for each view"),
        ({"hue": 0.6}, r"hue must lie in \[0, 0.5\]"),
        ({"mean": (0.5,)}, "mean and std must be given together"),
    ],
)
def test_settings_out_of_their_range_are_refused(change, told):
    with pytest.raises(ValueError, match=told):
        Views(**change)
