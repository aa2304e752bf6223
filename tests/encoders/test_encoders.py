"""Encoders: what they compute, and that building one reads no global state."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import erf

from isojepa.data import AdditiveCoupling, AffineCoupling
from isojepa.encoders import MLP, Coupling, ScaledCoupling, mlp
from isojepa.seeds import generator


@pytest.mark.parametrize(
    ("build", "scale"),
    [(lambda: MLP(7, 5, width=64, layers=4), 1.0), (lambda: Coupling(64, layers=4), 0.01)],
)
def test_initial_weights_are_uniform_within_a_share_of_one_over_root_fan_in(build, scale):
    linears = [part for part in build().modules() if isinstance(part, torch.nn.Linear)]
    assert len(linears) == 4
    scaled = []
    for layer in linears:
        bound = scale / math.sqrt(layer.in_features)
        for parameter in (layer.weight, layer.bias):
            assert parameter.abs().max().item() <= bound
            scaled.append(parameter.detach().flatten().double() / bound)
    assert stats.kstest(torch.cat(scaled).numpy(), stats.uniform(-1, 2).cdf).pvalue > 1e-3


ACTIVATIONS = {
    "gelu": lambda h: h * 0.5 * (1 + erf(h / math.sqrt(2))),
    "relu": lambda h: np.maximum(h, 0),
    "silu": lambda h: h / (1 + np.exp(-h)),
    "sinh": np.sinh,
    "tanh": np.tanh,
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_mlp_is_linear_maps_with_its_activation_between(activation):
    encoder = MLP(3, 2, width=5, layers=3, seed=4, activation=activation).double()
    x = torch.randn(2, 6, 3, generator=generator(0, "x"), dtype=torch.float64)
    parts = [p.detach().numpy() for p in encoder.parameters()]
    h = x.numpy()
    for layer in range(3):
        h = h @ parts[2 * layer].T + parts[2 * layer + 1]
        if layer < 2:
            h = ACTIVATIONS[activation](h)
    np.testing.assert_allclose(encoder(x).detach(), h, rtol=1e-10, atol=1e-12)


def test_all_activations_are_known_by_name_and_others_are_refused():
    assert set(ACTIVATIONS) == set(mlp.ACTIVATIONS)
    with pytest.raises(
        ValueError, match=r"activation must be one of gelu, .*got 'gleu'; did you mean 'gelu'"
    ):
        MLP(2, 2, activation="gleu")


@pytest.mark.parametrize(("dim", "layers", "seed"), [(2, 4, 0), (8, 1, 3), (64, 4, 1), (16, 7, 2)])
def test_coupling_with_the_mixings_weights_reversed_inverts_it(dim, layers, seed):
    mixing, encoder = AdditiveCoupling(dim, layers, seed), Coupling(dim, layers)
    with torch.no_grad():
        for shift, weight in zip(encoder.shifts, reversed(mixing.weights), strict=True):
            shift.weight.copy_(weight)
            shift.bias.zero_()
    z = torch.randn(4, 100, dim, generator=generator(0, "z"))
    torch.testing.assert_close(encoder(mixing(z)), z, rtol=0, atol=1e-5)
    torch.testing.assert_close(encoder(mixing(z)), mixing.inverse(mixing(z)), rtol=0, atol=1e-5)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="dim must be even and at least 2 for a coupling, got 3"):
        Coupling(3)
    for name in ("in_dim", "out_dim", "width", "layers"):
        with pytest.raises(ValueError, match=f"{name} must be a positive integer, got 2.5"):
            MLP(**{"in_dim": 2, "out_dim": 2, name: 2.5})
    with pytest.raises(ValueError, match="layers must be a positive integer, got 0"):
        Coupling(4, layers=0)
    with pytest.raises(ValueError, match=r"observations must have 4 coordinates, got shape \(5, 6\)"):
        Coupling(4)(torch.zeros(5, 6))


@pytest.mark.parametrize(("dim", "layers"), [(4, 1), (8, 3)])
def test_a_scaled_coupling_with_the_weights_of_the_mixing_undoes_it(dim, layers):
    mixing = AffineCoupling(dim, layers, hidden=5, seed=1)
    encoder = ScaledCoupling(dim, layers, hidden=5)
    for own, theirs in (
        (encoder.scales, mixing.networks[::2][::-1]),
        (encoder.shifts, mixing.networks[1::2][::-1]),
    ):
        for network, (first, bias, last) in zip(own, theirs, strict=True):
            with torch.no_grad():
                network[0].weight.copy_(first)
                network[0].bias.copy_(bias)
                network[2].weight.copy_(last)
                network[2].bias.zero_()
    z = torch.randn(50, dim, generator=generator(0, "test"))
    with torch.no_grad():
        torch.testing.assert_close(encoder(mixing(z)), z, rtol=1e-4, atol=1e-4)
