"""Transforms of torch.func and second derivatives through SIGReg, against the textbook form."""

import pytest
import torch
from torch.func import grad, hessian, jacrev, jvp, vmap

from isojepa import ranks
from isojepa.objectives import SIGReg
from isojepa.objectives.directions import draw_directions
from isojepa.objectives.gaussianity import UNIVARIATE
from isojepa.seeds import generator
from tests.distributed import joined, run_ranks

BATCH, DIM = 24, 3
FIXED = SIGReg(slices=5, resample=False)
DIRECTIONS = draw_directions(DIM, 5, generator(0, "slices"))


def embeddings(*lead: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return 1.3 * torch.randn(*lead, BATCH, DIM, generator=generator(0, "h", *lead), dtype=dtype)


def textbook(x: torch.Tensor) -> torch.Tensor:
    """n times the integral of |phi_n - phi|^2 phi, trapezoid rule on [-5, 5], 17 knots: plain operations."""
    t = torch.linspace(-5, 5, 17, dtype=x.dtype)
    weights = torch.full_like(t, t[1] - t[0])
    weights[[0, -1]] /= 2
    angles = (x @ DIRECTIONS.to(x).T).unsqueeze(-1) * t
    phi = torch.exp(-(t**2) / 2)
    error = (angles.cos().mean(-3) - phi) ** 2 + angles.sin().mean(-3) ** 2
    return (x.shape[-2] * (error * weights * phi).sum(-1)).mean()


def near(value: torch.Tensor, truth: torch.Tensor) -> bool:
    scale = truth.abs().max()
    return bool((value - truth).abs().max() <= (1e-4 if value.dtype == torch.float32 else 1e-10) * scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "transform", [grad, jacrev, hessian, lambda f: grad(lambda x: grad(f)(x).pow(2).sum())]
)
def test_transforms_give_what_they_give_of_the_textbook_form(transform, dtype):
    x = embeddings(dtype=dtype)
    assert near(transform(FIXED)(x), transform(textbook)(x))


def test_vmap_over_batches_and_of_gradients():
    x = embeddings(4)
    assert near(vmap(FIXED)(x), torch.stack([textbook(one) for one in x]))
    assert near(vmap(grad(FIXED))(x), torch.stack([grad(textbook)(one) for one in x]))


def test_forward_mode_gives_the_directional_derivative():
    x, v = embeddings(), embeddings(1)[0]
    value, slope = jvp(FIXED, (x,), (v,))
    truth, true_slope = jvp(textbook, (x,), (v,))
    assert near(value, truth)
    assert near(slope, true_slope)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lead", [(), (2,)])
def test_the_gradient_has_a_gradient(dtype, lead):
    """As a gradient penalty asks for it: create_graph, then backward."""

    def penalty(function):
        x = embeddings(*lead, dtype=dtype).requires_grad_()
        (first,) = torch.autograd.grad(function(x), x, create_graph=True)
        first.square().sum().backward()
        return first.detach(), x.grad

    for value, truth in zip(penalty(FIXED), penalty(textbook), strict=True):
        assert near(value, truth)


@pytest.mark.parametrize("test", list(UNIVARIATE))
def test_every_univariate_test_goes_through_vmap_and_grad(test):
    regularizer = SIGReg(slices=4, resample=False, test=test)
    x = embeddings(3, dtype=torch.float64)
    for one, slope in zip(x, vmap(grad(regularizer))(x), strict=True):
        leaf = one.clone().requires_grad_()
        regularizer(leaf).backward()
        assert near(slope, leaf.grad)


def _second_on_ranks(rank: int, world: int, folder: str) -> tuple[torch.Tensor, str]:
    with joined(rank, world, folder):
        x = embeddings(dtype=torch.float64).tensor_split(world)[rank].clone().requires_grad_()
        (first,) = torch.autograd.grad(FIXED(x), x, create_graph=True)
        ranks.total(first.square().sum()).backward()
        try:
            grad(FIXED)(x.detach())
        except ValueError as error:
            return x.grad, str(error)
        return x.grad, ""


@pytest.mark.slow
def test_on_several_ranks_second_derivatives_are_right_and_transforms_refuse(tmp_path):
    found = run_ranks(_second_on_ranks, 2, tmp_path)
    x = embeddings(dtype=torch.float64).requires_grad_()
    (first,) = torch.autograd.grad(textbook(x), x, create_graph=True)
    first.square().sum().backward()
    # the losses of both ranks count: twice the first gradient, so four times the penalty, on two ranks
    assert near(torch.cat([second for second, _ in found]), 8 * x.grad)
    for _, told in found:
        assert "one rank" in told
        assert "torch.autograd" in told
