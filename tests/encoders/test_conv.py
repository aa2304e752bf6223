"""The published CNN: its layers as listed, counted; with and without normalisation; several frames."""

import itertools

import pytest
import torch
from torch import nn

from isojepa.encoders import Conv
from isojepa.registry import Context, build_spec


def count(net):
    return sum(parameter.numel() for parameter in net.parameters())


def published():
    """The list of the paper, written down with torch's own layers."""
    parts, widths = [], (3, 32, 64, 128, 256)
    for n_in, n_out in itertools.pairwise(widths):
        parts += [nn.Conv2d(n_in, n_out, 4, stride=2, padding=1), nn.BatchNorm2d(n_out), nn.GELU()]
    parts += [
        nn.AvgPool2d(4),
        nn.Flatten(),
        nn.Linear(256, 256),
        nn.BatchNorm1d(256),
        nn.GELU(),
        nn.Linear(256, 2),
    ]
    return nn.Sequential(*parts)


def test_it_is_the_network_that_the_paper_lists():
    ours, theirs = Conv(2), published()
    assert count(ours) == count(theirs) == 757_922
    for source, target in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):
        assert source.shape == target.shape
        target.copy_(source)
    x = torch.randn(6, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), rtol=1e-4, atol=1e-5)


def test_without_normalisation_there_is_none():
    net = Conv(2, batch_norm=False)
    assert not [part for part in net.modules() if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d)]
    assert count(net) == 757_922 - 2 * (32 + 64 + 128 + 256 + 256)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 0}, "dim must be a positive integer"),
        ({"dim": 2, "frames": 0}, "frames must be a positive integer"),
        ({"dim": 2, "size": 50}, "size must be a multiple of 16, got 50"),
        ({"dim": 2, "batch_norm": "yes"}, "batch_norm must be"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Conv(**settings)


def test_other_pictures_are_refused():
    with pytest.raises(ValueError, match=r"images must be \(batch, 3, 64, 64\), .* got \(2, 3, 84, 84\)"):
        Conv(2)(torch.zeros(2, 3, 84, 84))
    for shapes in (((2,),) * 2, ((3, 64, 32),) * 2, ((6, 64, 64),) * 2, None):
        with pytest.raises(ValueError, match=r"encoder 'conv' takes square images of 3 channels"):
            build_spec("encoder", "conv", dim=2).build(Context(shapes=shapes))
