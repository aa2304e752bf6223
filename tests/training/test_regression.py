"""Small networks between rows: the maps that a standardised network is."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from isojepa.encoders.mlp import MLP
from isojepa.seeds import generator
from isojepa.training.regression import Standardised


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_the_maps_of_a_standardised_network_are_the_network(layers):
    source = generator(0, "rows")
    x = 3 * torch.randn(200, 5, generator=source) + 7
    x[:, 2] = 4.0  # a column without spread
    y = torch.tensor([0.01, 30.0]) * torch.randn(200, 2, generator=source) - 5
    network = Standardised(MLP(5, 2, 16, layers), x, y)
    *hidden, (weight, bias) = network.maps()
    assert len(hidden) == layers - 1
    h = x
    for first, second in hidden:
        h = functional.gelu(functional.linear(h, first, second))
    torch.testing.assert_close(functional.linear(h, weight, bias), network(x), rtol=1e-4, atol=1e-5)


def test_another_network_than_an_mlp_has_no_maps():
    rows = torch.randn(10, 2, generator=generator(0, "rows"))
    with pytest.raises(ValueError, match="inner must be an MLP to have maps, got Tanh"):
        Standardised(nn.Tanh(), rows, rows).maps()
