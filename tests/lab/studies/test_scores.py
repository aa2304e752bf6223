"""What is measured of an encoder, on encoders of which everything is known."""

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from isojepa.data import Identity, OrnsteinUhlenbeck, Sinusoid, Spiral, World
from isojepa.io import to_jsonable
from isojepa.seeds import generator
from isojepa_lab.studies.scores import on_grid, score
from tests.reference.global_state import untouched
from tests.reference.textbook_sigreg import textbook

RHO = 0.9
FLAT = World(OrnsteinUhlenbeck(2, RHO), Identity())


class Function(nn.Module):
    """A function as an encoder."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def turned(angle: float, scale: float = 1.0) -> nn.Module:
    c, s = math.cos(angle), math.sin(angle)
    matrix = scale * torch.tensor([[c, -s], [s, c]])
    return Function(lambda x: x @ matrix)


@pytest.fixture(scope="module")
def identity():
    return score(nn.Identity(), FLAT)


def test_the_identity_is_a_perfect_encoder(identity):
    for name in ("r2", "r2_z_to_h", "r2_x_to_z", "r2_orthogonal", "r2_grid"):
        assert identity[name] == pytest.approx(1, abs=1e-12), name
    assert identity["r2_each"] == pytest.approx([1, 1], abs=1e-12)
    assert identity["error"] < 1e-20
    assert identity["orthogonality_error"] < 1e-10
    assert identity["orthogonality_grid"] < 1e-10
    assert identity["holds"] is True
    assert identity["refuted"] is False
    assert identity["delta_interval"][0] < 0 < identity["delta_interval"][1]
    assert identity["mean_variance"] == pytest.approx(1, abs=0.02)


def test_the_alignment_of_the_identity_is_half_of_one_minus_rho(identity):
    # (z - z')^2 / 4 has mean (1 - rho) / 2 and deviation (1 - rho) / sqrt(2); 10,240 pairs in 2 dimensions
    deviation = (1 - RHO) / math.sqrt(2) / math.sqrt(2 * 10_240)
    assert identity["alignment"] == pytest.approx((1 - RHO) / 2, abs=4 * deviation)


def test_sigreg_is_the_textbooks_in_batches_of_256(identity):
    z = torch.randn(40 * 256, 2, generator=generator(0, "test"))
    directions = nn.functional.normalize(torch.randn(64, 2, generator=generator(0, "slices")), dim=1)
    values = [textbook(batch, directions, knots=17, t_max=3.0).item() for batch in z.split(256)]
    spread = np.std(values) * math.sqrt(1 / 40 + 1 / 80)
    assert identity["sigreg"] == pytest.approx(np.mean(values), abs=4 * spread)


def test_a_rotation_scores_as_the_identity_does(identity):
    found = score(turned(1.0), FLAT)
    for name in ("r2", "r2_orthogonal", "r2_grid", "alignment", "bound", "epsilon", "delta"):
        assert found[name] == pytest.approx(identity[name], abs=1e-5), name
    assert found["error"] < 1e-10
    assert found["orthogonality_grid"] < 1e-5


def test_a_stretched_rotation_is_linear_but_no_isometry():
    found = score(turned(0.5, scale=2.0), FLAT)
    assert found["r2"] == pytest.approx(1, abs=1e-6)
    assert found["orthogonality_error"] == pytest.approx(3, abs=1e-4)  # |4 I - I|_F / sqrt(2)
    assert found["orthogonality_grid"] == pytest.approx(3, abs=1e-4)
    assert found["error"] == pytest.approx(2, abs=0.05)  # E |2 Q z - Q z|^2
    assert found["mean_variance"] == pytest.approx(4, abs=0.08)
    assert found["whitening"] == pytest.approx(9, abs=0.6)  # |3 I|_F^2 / 2
    assert found["holds"] is True


def test_half_a_collapse_keeps_one_latent_of_two():
    found = score(Function(lambda x: x * torch.tensor([1.0, 0.0])), FLAT)
    assert found["r2"] == pytest.approx(0.5, abs=1e-3)
    assert found["r2_each"] == pytest.approx([1, 0], abs=1e-3)
    assert found["r2_z_to_h"] == pytest.approx(0.5, abs=1e-3)  # a constant scores 0
    assert found["r2_grid"] == pytest.approx(0.5, abs=1e-9)
    assert found["error"] == pytest.approx(1, abs=0.03)
    assert found["epsilon"] == pytest.approx(1, abs=0.02)
    assert found["whitening"] == pytest.approx(0.5, abs=0.02)
    assert found["alignment"] == pytest.approx((1 - RHO) / 4, abs=0.003)
    assert found["smallest_variance"] == 0
    assert found["holds"] is True


def test_a_constant_tells_nothing_and_is_scored():
    found = score(Function(torch.ones_like), FLAT)
    assert found["r2"] == pytest.approx(0, abs=1e-3)
    assert found["r2_grid"] == pytest.approx(0, abs=1e-9)
    assert found["alignment"] == 0
    assert found["whitening"] == pytest.approx(2)  # mean (1, 1), covariance 0
    assert found["error"] == pytest.approx(2, abs=0.05)


def test_fewer_dimensions_than_latents_have_no_rotation():
    found = score(Function(lambda x: x[:, :1]), FLAT)
    assert found["r2"] == pytest.approx(0.5, abs=1e-3)
    assert found["r2_z_to_h"] == pytest.approx(1, abs=1e-9)
    for name in ("r2_orthogonal", "error", "bound", "holds", "orthogonality_grid"):
        assert found[name] is None, name


def test_more_dimensions_than_latents_share_the_linear_part():
    found = score(Function(lambda x: torch.cat((x, (x**2 - 1) / math.sqrt(2)), dim=1)), FLAT)
    assert found["r2"] == pytest.approx(1, abs=1e-6)
    assert found["r2_z_to_h"] == pytest.approx(0.5, abs=0.01)
    # squares correlate by rho^2 across a pair
    assert found["alignment"] == pytest.approx((2 - RHO - RHO**2) / 4, abs=0.004)
    assert found["error"] is None


@pytest.mark.parametrize("dim", [1, 3, 17])
def test_other_dimensions_have_no_grid_and_many_no_list(dim):
    found = score(nn.Identity(), World(OrnsteinUhlenbeck(dim, RHO), Identity()))
    assert found["r2"] == pytest.approx(1, abs=1e-12)
    assert found["alignment"] == pytest.approx((1 - RHO) / 2, abs=0.003)
    assert "r2_grid" not in found
    assert ("r2_each" in found) == (dim <= 16)


def test_the_grid_score_is_the_naive_one():
    world = World(OrnsteinUhlenbeck(2, RHO), Spiral())
    encoder = Function(lambda x: torch.tanh(x @ torch.tensor([[1.0, 0.3], [-0.2, 0.8]])) + 0.1)
    places = np.linspace(-3, 3, 100)
    z = np.array([(a, b) for a in places for b in places])
    angle = math.pi * np.hypot(z[:, 0], z[:, 1])
    c, s = np.cos(angle), np.sin(angle)
    x = np.stack((c * z[:, 0] - s * z[:, 1], s * z[:, 0] + c * z[:, 1]), axis=1)
    h = np.tanh(x @ np.array([[1.0, 0.3], [-0.2, 0.8]])) + 0.1

    def fitted(inputs, outputs):
        design = np.column_stack((np.ones(len(inputs)), inputs))
        return np.linalg.lstsq(design, outputs, rcond=None)[0], design

    weights, design = fitted(h, z)
    residual = ((z - design @ weights) ** 2).sum(0)
    q = fitted(z, h)[0][1:].T
    found = on_grid(encoder, world)
    assert found["r2_grid"] == pytest.approx((1 - residual / ((z - z.mean(0)) ** 2).sum(0)).mean(), abs=1e-4)
    expected = np.linalg.norm(q.T @ q - np.eye(2)) / math.sqrt(2)
    assert found["orthogonality_grid"] == pytest.approx(expected, abs=1e-4)


def test_an_encoder_without_values_in_the_corners_has_no_grid_score():
    corner = Function(lambda x: torch.where(x.square().sum(1, keepdim=True) > 17.9, torch.nan, x))
    assert on_grid(corner, FLAT) == {"r2_grid": None, "orthogonality_grid": None}


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_embeddings_that_are_not_finite_cannot_be_scored(bad):
    with pytest.raises(ValueError, match="embeddings must be finite"):
        score(Function(lambda x: torch.where(x > 2, bad, x)), FLAT)


def test_scores_are_plain_values_and_depend_on_nothing_else():
    world = World(OrnsteinUhlenbeck(2, RHO), Sinusoid())
    encoder = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).train()
    with untouched():
        first = score(encoder, world)
    assert encoder[1].training
    assert encoder[1].num_batches_tracked == 0
    assert first == score(encoder, world)
    assert json.loads(json.dumps(to_jsonable(first), allow_nan=False)) == first
