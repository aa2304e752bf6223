"""What several test folders share."""

import pytest
import torch

import isojepa as ij


@pytest.fixture
def spiral() -> ij.worlds.World:
    return ij.worlds.World(ij.worlds.OrnsteinUhlenbeck(dim=2, rho=0.95), ij.worlds.Spiral())


@pytest.fixture
def gaussian_pairs() -> tuple[torch.Tensor, torch.Tensor]:
    """Latent pairs (z, z') of a three-dimensional Gaussian world, rho = 0.9."""
    return ij.worlds.OrnsteinUhlenbeck(dim=3, rho=0.9).sample(4000, ij.generator(0, "test"))
