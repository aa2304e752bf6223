"""LeJEPA: how the two terms are joined, and its schedule."""

import math

import numpy as np
import pytest
import torch

from isojepa.objectives import LeJEPA, SIGReg, Whitening, pairwise, to_center
from isojepa.seeds import generator
from tests.reference.numpy_moments import whitening


def sample(views: int = 2, batch: int = 20, dim: int = 3, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(views, batch, dim, generator=generator(0, "views"), dtype=dtype) * 1.3 + 0.2


@pytest.mark.parametrize("weight", [0.0, 4e-3, 0.5, 1.0])
@pytest.mark.parametrize("alignment", ["centre", "pairwise"])
def test_total_is_weight_regularizer_plus_rest_alignment(weight, alignment):
    views = sample()
    loss = LeJEPA(weight, regularizer=Whitening(), alignment=alignment)(views)
    align = {"centre": to_center, "pairwise": pairwise}[alignment](views).item()
    regular = np.mean([whitening(view.numpy()) for view in views])
    assert loss.terms["alignment"].item() == pytest.approx(align, rel=1e-12)
    assert loss.terms["regularizer"].item() == pytest.approx(regular, rel=1e-10)
    assert loss.total.item() == pytest.approx(weight * regular + (1 - weight) * align, rel=1e-10)


def test_global_views_make_the_centre():
    views = sample(views=4)
    loss = LeJEPA(0.0, regularizer=Whitening(), global_views=2)(views)
    truth = ((views - views[:2].mean(0)) ** 2).mean()
    assert loss.total.item() == pytest.approx(truth.item(), rel=1e-12)


@pytest.mark.parametrize("alignment", ["centre", "pairwise"])
@pytest.mark.parametrize("regularizer", [SIGReg(slices=6), SIGReg(slices=6, pooled=True), Whitening()])
def test_gradient_is_the_derivative(alignment, regularizer):
    objective = LeJEPA(0.3, regularizer=regularizer, alignment=alignment)
    views = sample(batch=6).requires_grad_()
    assert torch.autograd.gradcheck(lambda views: objective(views, generator(1)).total, views)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": 2}, r"weight must lie in \[0, 1\], got 2"),
        ({"weight": math.nan}, r"weight must lie in \[0, 1\], got nan"),
        (
            {"alignment": "center"},
            "alignment must be one of centre, centre-sum, pairwise, got 'center'; did you mean 'centre'",
        ),
        ({"global_views": 0}, "global_views must be positive, with alignment 'centre', got 0"),
    ],
)
def test_settings_without_meaning_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LeJEPA(**options)


@pytest.mark.parametrize("shape", [(1, 8, 3), (8, 3), (2, 2, 8, 3)], ids=str)
def test_fewer_than_two_views_are_refused(shape):
    match = r"views must be \(view, batch, dim\) with at least 2 views, got shape \("
    with pytest.raises(ValueError, match=match):
        LeJEPA()(torch.zeros(shape))


def test_more_global_views_than_views_are_refused():
    with pytest.raises(ValueError, match="global_views must be at most the 2 views, got 5"):
        LeJEPA(global_views=5)(sample(views=2))
