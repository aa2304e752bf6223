"""LeJEPA: how the two terms are joined, and its schedule."""

import math

import numpy as np
import pytest
import torch

from isojepa.objectives import LeJEPA, SIGReg, Whitening, pairwise, to_centre
from isojepa.seeds import generator
from tests.reference.numpy_moments import whitening


def sample(views: int = 2, batch: int = 20, dim: int = 3, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(views, batch, dim, generator=generator(0, "views"), dtype=dtype) * 1.3 + 0.2


@pytest.mark.parametrize("weight", [0.0, 4e-3, 0.5, 1.0])
@pytest.mark.parametrize("alignment", ["centre", "pairwise"])
def test_total_is_weight_regularizer_plus_rest_alignment(weight, alignment):
    views = sample()
    loss = LeJEPA(weight, regularizer=Whitening(), alignment=alignment)(views)
    align = {"centre": to_centre, "pairwise": pairwise}[alignment](views).item()
    regular = np.mean([whitening(view.numpy()) for view in views])
    assert loss.terms["alignment"].item() == pytest.approx(align, rel=1e-12)
    assert loss.terms["regularizer"].item() == pytest.approx(regular, rel=1e-10)
    assert loss.total.item() == pytest.approx(weight * regular + (1 - weight) * align, rel=1e-10)


def test_the_generator_reaches_the_regularizer():
    views = sample(dtype=torch.float32)
    loss = LeJEPA(0.1)(views, generator(5, "slices"))
    assert loss.terms["regularizer"].item() == SIGReg()(views, generator(5, "slices")).item()
    assert loss.terms["regularizer"].item() != SIGReg()(views, generator(6, "slices")).item()


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


def test_a_view_that_collapses_is_charged_by_the_regularizer():
    # of a constant embedding 0 the ecf is 1: T = n int (1 - phi)^2 phi dt for any directions
    n = 64
    loss = LeJEPA(0.5)(torch.zeros(2, n, 4))
    root = math.sqrt(2 * math.pi)
    truth = n * root * (1 - 2 / math.sqrt(2) + 1 / math.sqrt(3))
    assert loss.terms["alignment"].item() == 0
    assert loss.terms["regularizer"].item() == pytest.approx(truth, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": 2}, r"weight must lie in \[0, 1\], got 2"),
        ({"weight": -0.1}, r"weight must lie in \[0, 1\], got -0.1"),
        ({"weight": math.nan}, r"weight must lie in \[0, 1\], got nan"),
        (
            {"alignment": "center"},
            "alignment must be one of centre, centre-sum, pairwise, got 'center'; did you mean 'centre'",
        ),
        ({"alignment": "zzz"}, "alignment must be one of centre, centre-sum, pairwise, got 'zzz'$"),
        ({"global_views": 0}, "global_views must be positive, with alignment 'centre', got 0"),
        (
            {"global_views": 1, "alignment": "pairwise"},
            "global_views must be positive, with alignment 'centre'",
        ),
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


def test_one_sample_is_refused():
    with pytest.raises(ValueError, match=r"with at least 2 samples, got \(2, 1, 3\)"):
        LeJEPA()(torch.zeros(2, 1, 3))


def test_more_global_views_than_views_are_refused():
    with pytest.raises(ValueError, match="global_views must be at most the 2 views, got 5"):
        LeJEPA(global_views=5)(sample(views=2))


def test_pairs_of_views_know_no_centre_of_some_of_them():
    with pytest.raises(ValueError, match="must be all views, or alignment 'centre', got 1 of 3"):
        LeJEPA(alignment="pairwise")(torch.randn(3, 16, 2), global_views=1)
