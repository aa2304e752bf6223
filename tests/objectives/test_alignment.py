"""Alignment terms against loops over views, samples and dimensions."""

import itertools

import pytest
import torch

from isojepa.objectives import ALIGNMENTS, pairwise, to_center
from isojepa.seeds import generator


def sample(views: int, batch: int = 5, dim: int = 3) -> torch.Tensor:
    return torch.randn(views, batch, dim, generator=generator(0, "views", views), dtype=torch.float64)


@pytest.mark.parametrize("views", [2, 3, 6])
@pytest.mark.parametrize("global_views", [None, 1, 2])
def test_to_center_equals_the_loop(views, global_views):
    h = sample(views)
    v, n, d = h.shape
    members = range(v) if global_views is None else range(global_views)
    total = 0.0
    for i in range(n):
        for j in range(d):
            centre = sum(h[m, i, j].item() for m in members) / len(members)
            total += sum((h[m, i, j].item() - centre) ** 2 for m in range(v))
    assert to_center(h, global_views).item() == pytest.approx(total / (v * n * d), rel=1e-12)


@pytest.mark.parametrize("views", [2, 3, 6])
def test_pairwise_equals_the_loop_over_pairs(views):
    h = sample(views)
    pairs = list(itertools.combinations(range(views), 2))
    total = sum(((h[a, i] - h[b, i]) ** 2).sum().item() for a, b in pairs for i in range(h.shape[1]))
    assert pairwise(h).item() == pytest.approx(total / len(pairs) / h.shape[1], rel=1e-12)


@pytest.mark.parametrize("dim", [1, 3, 8])
def test_with_two_views_pairwise_is_4_dim_to_center(dim):
    h = sample(2, dim=dim)
    assert pairwise(h).item() == pytest.approx(4 * dim * to_center(h).item(), rel=1e-12)


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_alignment_keeps_its_digits_far_from_the_origin(alignment):
    h = sample(3).float()
    shifted = h + 1000
    truth = ALIGNMENTS[alignment](shifted.double())
    assert ALIGNMENTS[alignment](shifted).item() == pytest.approx(truth.item(), rel=1e-4)


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_alignment_gradient_is_the_derivative(alignment):
    assert torch.autograd.gradcheck(ALIGNMENTS[alignment], sample(3).requires_grad_())
