"""What several test folders share."""

import importlib.util
from collections.abc import Iterator

import pytest
import torch

import isojepa as ij

if importlib.util.find_spec("isojepa_lab") is None:  # a clone with the library alone
    collect_ignore = [
        "lab",
        "fuzz",
        "planning/made_up.py",
        "planning/test_fitted.py",
        "planning/test_lines.py",
        "planning/test_lqr.py",
        "planning/test_regret.py",
        "certificates/test_transition.py",
        "cli/test_transition.py",
        "contract/test_rows.py",
        "objectives/test_latent_dynamics.py",
        "test_bad_input.py",
        "test_registry.py",
        "test_startup.py",
        "test_terminal.py",
        "test_threads.py",
    ]


@pytest.fixture
def spiral() -> ij.data.World:
    return ij.data.World(ij.data.OrnsteinUhlenbeck(dim=2, rho=0.95), ij.data.Spiral())


@pytest.fixture
def one_thread() -> Iterator[None]:
    """One thread, as every process of a sweep has: the processor time of two depends on how they wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def gaussian_pairs() -> tuple[torch.Tensor, torch.Tensor]:
    """Latent pairs (z, z') of a three-dimensional Gaussian world, rho = 0.9."""
    return ij.data.OrnsteinUhlenbeck(dim=3, rho=0.9).sample(4000, ij.generator(0, "test"))
