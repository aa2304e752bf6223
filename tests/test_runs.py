"""From configs to objects."""

import pytest
import torch

from isojepa.config import Config
from isojepa.encoders.coupling import CouplingSpec, FreeCouplingSpec
from isojepa.objectives import matched_sigma
from isojepa.objectives.infonce import InfoNCESpec
from isojepa.registry import build_spec
from isojepa.runs import build_all
from isojepa.seeds import generator

UNEQUAL = build_spec("world", rho=(0.9, 0.5))


def test_a_learned_width_starts_from_the_mean_of_unequal_correlations() -> None:
    _, _, objective = build_all(Config(world=UNEQUAL, objective=InfoNCESpec(sigma="learned")))
    assert objective.log_sigma.exp().item() == pytest.approx(matched_sigma(0.7), rel=1e-6)
    assert objective.log_sigma.requires_grad


def test_no_width_matches_unequal_correlations() -> None:
    with pytest.raises(ValueError, match=r"sigma 'matched' needs one correlation .* got \(0.9, 0.5\)"):
        build_all(Config(world=UNEQUAL, objective=InfoNCESpec(sigma="matched")))


def test_a_free_coupling_starts_as_the_coupling_and_is_not_bound_to_its_volume() -> None:
    world = build_spec("world", dim=4, mixing="additive-coupling")
    plain, where, _ = build_all(Config(world=world, encoder=CouplingSpec()))
    free, _, _ = build_all(Config(world=world, encoder=FreeCouplingSpec()))
    x = where.sample(8, generator(0, "data")).views[0]
    torch.testing.assert_close(free(x), plain(x))
    with torch.no_grad():
        for parameter in free.parameters():
            parameter.mul_(0.1)
    slope = torch.autograd.functional.jacobian(lambda one: free(one), x[0])
    assert torch.linalg.det(slope).abs().item() == pytest.approx(1e-4, rel=1e-4)
