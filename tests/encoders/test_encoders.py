"""Encoders: what they compute, and that building one reads no global state."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import erf

from isojepa.encoders import MLP, Coupling, ScaledCoupling, mlp
from isojepa.seeds import generator
from isojepa.worlds import AdditiveCoupling, AffineCoupling, Lift
from tests.reference.global_state import untouched


@pytest.mark.parametrize("build", [lambda seed: MLP(3, 2, seed=seed), lambda seed: Coupling(6, seed=seed)])
def test_weights_come_from_the_seed_alone(build):
    with untouched():
        first = build(1)
    torch.manual_seed(42)
    again, other = build(1), build(2)
    for one, two, three in zip(first.parameters(), again.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)
        assert (one != three).all()


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


@pytest.mark.parametrize(
    ("in_dim", "out_dim", "width", "layers"), [(2, 2, 256, 4), (5, 3, 7, 1), (4, 1, 6, 2)]
)
def test_mlp_has_the_parameters_of_its_layers(in_dim, out_dim, width, layers):
    sizes = [in_dim] + [width] * (layers - 1) + [out_dim]
    truth = sum((a + 1) * b for a, b in itertools.pairwise(sizes))
    assert sum(p.numel() for p in MLP(in_dim, out_dim, width, layers).parameters()) == truth


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


def test_sinh_goes_on_straight_where_it_would_overflow():
    x = torch.tensor([-1e30, -7.0, -6.0, -1.0, 0.0, 5.9, 6.1, 1e30], requires_grad=True)
    y = mlp.Sinh()(x)
    y.sum().backward()
    near = x.detach().double().clamp(-6, 6)
    straight = torch.sinh(near) + math.cosh(6) * (x.detach().double() - near)
    torch.testing.assert_close(y.double(), straight, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(x.grad.double(), torch.cosh(near), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gain", [3.0, 6.0])
def test_a_sinh_perceptron_with_the_weights_of_the_lift_undoes_it(gain):
    lift = Lift(4, 8, gain=gain, seed=1)
    encoder = MLP(8, 4, width=4, layers=3, activation="sinh")
    first, second, outer = lift.rotations
    with torch.no_grad():
        weights = outer.T[:4], second.T / gain, first.T / gain
        for layer, weight in zip(encoder.body[::2], weights, strict=True):
            layer.weight.copy_(weight)
            layer.bias.zero_()
    z = torch.randn(100, 4, generator=generator(0, "z"))
    torch.testing.assert_close(encoder(lift(z)), z, rtol=0, atol=1e-4)


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


def test_coupling_preserves_volume_whatever_its_weights():
    encoder = Coupling(6, layers=3, seed=5).double()
    x = torch.randn(6, generator=generator(0, "x"), dtype=torch.float64)
    assert torch.linalg.det(torch.func.jacrev(encoder)(x)).abs().item() == pytest.approx(1, rel=1e-10)


@pytest.mark.parametrize("dim", [3, 1, 0])
def test_coupling_refuses_an_odd_dimension(dim):
    with pytest.raises(ValueError, match=f"dim must be even and at least 2 for a coupling, got {dim}"):
        Coupling(dim)


def test_coupling_refuses_no_layers_and_observations_of_another_dimension():
    with pytest.raises(ValueError, match="layers must be a positive integer, got 0"):
        Coupling(4, layers=0)
    with pytest.raises(ValueError, match=r"observations must have 4 coordinates, got shape \(5, 6\)"):
        Coupling(4)(torch.zeros(5, 6))


@pytest.mark.parametrize("name", ["in_dim", "out_dim", "width", "layers"])
@pytest.mark.parametrize("value", [0, -1, 2.5])
def test_mlp_refuses_sizes_that_are_no_positive_integers(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a positive integer, got {value}"):
        MLP(**{"in_dim": 2, "out_dim": 2, name: value})


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


def test_a_scaled_coupling_begins_near_the_identity_and_says_what_it_takes():
    x = torch.randn(200, 6, generator=generator(0, "test"))
    with torch.no_grad():
        begun = ScaledCoupling(6, layers=2)(x)
    assert torch.nn.functional.cosine_similarity(begun, x).min() > 0.95
    assert (begun - x).abs().mean() > 1e-3
    for wrong, message in (
        ({"dim": 3}, "dim must be even"),
        ({"dim": 4, "hidden": 0}, "hidden must be a positive"),
    ):
        with pytest.raises(ValueError, match=message):
            ScaledCoupling(**wrong)
    with pytest.raises(ValueError, match="observations must have 4 coordinates"):
        ScaledCoupling(4)(torch.zeros(5, 6))
