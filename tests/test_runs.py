"""From configs to objects."""

import pytest
import torch

from isojepa.config import Config
from isojepa.encoders.coupling import CouplingSpec, FreeCouplingSpec, ScaledCoupling
from isojepa.objectives import matched_sigma
from isojepa.objectives.infonce import InfoNCESpec
from isojepa.registry import make
from isojepa.runs import build_all
from isojepa.seeds import generator

UNEQUAL = make("world", rho=(0.9, 0.5))


def test_a_learned_width_starts_from_the_mean_of_unequal_correlations() -> None:
    _, _, objective = build_all(Config(world=UNEQUAL, objective=InfoNCESpec(sigma="learned")))
    assert objective.log_sigma.exp().item() == pytest.approx(matched_sigma(0.7), rel=1e-6)
    assert objective.log_sigma.requires_grad


def test_no_width_matches_unequal_correlations() -> None:
    with pytest.raises(ValueError, match=r"sigma 'matched' needs one correlation .* got \(0.9, 0.5\)"):
        build_all(Config(world=UNEQUAL, objective=InfoNCESpec(sigma="matched")))


def test_a_free_coupling_starts_as_the_coupling_and_is_not_bound_to_its_volume() -> None:
    world = make("world", dim=4, mixing="additive-coupling")
    plain, where, _ = build_all(Config(world=world, encoder=CouplingSpec()))
    free, _, _ = build_all(Config(world=world, encoder=FreeCouplingSpec()))
    x = where.sample(8, generator(0, "data")).views[0]
    torch.testing.assert_close(free(x), plain(x))
    with torch.no_grad():
        for parameter in free.parameters():
            parameter.mul_(0.1)
    slope = torch.autograd.functional.jacobian(lambda one: free(one), x[0])
    assert torch.linalg.det(slope).abs().item() == pytest.approx(1e-4, rel=1e-4)


def test_a_free_coupling_of_networks_scales_too() -> None:
    world = make("world", dim=4, mixing="affine-coupling")
    encoder, _, _ = build_all(Config(world=world, encoder=FreeCouplingSpec(layers=2, hidden=7)))
    assert isinstance(encoder, ScaledCoupling)
    assert (encoder.layers, encoder.hidden, encoder.dim) == (2, 7, 4)


def test_a_free_coupling_keeps_the_dimension() -> None:
    config = Config(
        world=make("world", dim=4, mixing="additive-coupling"),
        encoder=FreeCouplingSpec(dim=2),
    )
    with pytest.raises(ValueError, match="'free-coupling' keeps the observed dimension 4, got dim 2"):
        build_all(config)
