"""The sliced Epps-Pulley statistic as its definition reads: batch x slices x knots complex numbers, float64.

T = n * trapezoid(|ecf(t) - phi(t)|^2 phi(t)) on linspace(-t_max, t_max, knots), averaged over directions.
"""

import torch
from torch import Tensor


def textbook(x: Tensor, directions: Tensor, knots: int, t_max: float) -> Tensor:
    """Mean statistic of a batch x (n, dim) over directions (slices, dim); autograd differentiates it."""
    t = torch.linspace(-t_max, t_max, knots, dtype=torch.float64)
    phi = torch.exp(-(t**2) / 2)
    projections = x.double() @ directions.double().T
    ecf = torch.exp(1j * projections.unsqueeze(-1) * t).mean(0)
    return len(x) * torch.trapezoid((ecf - phi).abs().square() * phi, t, dim=-1).mean()


def pairs_statistic(x: Tensor, directions: Tensor, knots: int, t_max: float) -> Tensor:
    """n times the mean over i != j of the kernel whose full mean is the squared distance of the ecf.

    k(p, q) = trapezoid((cos(t (p - q)) - phi cos(t p) - phi cos(t q) + phi^2) phi), one pair at a time.
    """
    t = torch.linspace(-t_max, t_max, knots, dtype=torch.float64)
    phi = torch.exp(-(t**2) / 2)
    n = len(x)
    total = torch.zeros((), dtype=torch.float64)
    for direction in directions.double():
        p = x.double() @ direction
        for i in range(n):
            for j in range(n):
                if i != j:
                    kernel = (
                        torch.cos(t * (p[i] - p[j])) - phi * torch.cos(t * p[i]) - phi * torch.cos(t * p[j])
                    )
                    total = total + torch.trapezoid((kernel + phi**2) * phi, t)
    return n * total / (n * (n - 1)) / len(directions)


def with_gradient(statistic, x: Tensor, *arguments) -> tuple[float, Tensor]:
    """Value and gradient of a statistic at x, in float64."""
    leaf = x.detach().double().requires_grad_()
    value = statistic(leaf, *arguments)
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.item(), gradient
