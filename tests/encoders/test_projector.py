"""Projectors: the layers that their names say."""

import pytest
import torch
from torch import nn

from isojepa.encoders import Projector
from isojepa.encoders.layers import projector_widths
from isojepa.importing import import_torchvision
from isojepa.seeds import generator
from tests.vision import timm_or_skip


@pytest.mark.parametrize(("name", "widths"), [("24-16-4", [24, 16, 4]), ("8-4", [8, 4]), ("linear-4", [4])])
def test_a_projector_is_torchvisions_mlp_with_batch_norm_whose_initial_weights_have_the_same_law(
    name, widths
):
    timm_or_skip()
    theirs = import_torchvision("ops").MLP(12, widths, norm_layer=nn.BatchNorm1d, inplace=False)
    ours = Projector(12, name, seed=1)
    pairs = list(zip(ours.parameters(), theirs.parameters(), strict=True))
    with torch.no_grad():
        for our, their in pairs:
            their.copy_(our)
    h = torch.randn(32, 12, generator=generator(0, "h"))
    torch.testing.assert_close(ours(h), theirs(h))
    torch.testing.assert_close(ours.eval()(h), theirs.eval()(h))
    assert ours.out_dim == 4


@pytest.mark.parametrize("name", ["", "2048-", "a-b", "linear", "linear-3-4", "64_32", "-5"])
def test_names_that_say_no_widths_are_refused(name):
    with pytest.raises(ValueError, match='projector must be widths such as "2048-2048-64"'):
        projector_widths(name)


def test_a_width_of_zero_and_no_layer_at_all_are_refused():
    with pytest.raises(ValueError, match="a width of the projector must be a positive integer, got 0"):
        Projector(4, "8-0")
    with pytest.raises(ValueError, match="widths must be one at least"):
        Projector(4, "none")
