"""The forms everything is measured against, written straight from the papers, with no thought for speed."""

import torch
from torch import Tensor


def sigreg(x: Tensor, directions: Tensor, knots: int = 17, t_max: float = 5.0) -> Tensor:
    """SIGReg as Algorithm 1 of the LeJEPA paper writes it: complex exponentials of batch x slices x knots."""
    t = torch.linspace(-t_max, t_max, knots, device=x.device, dtype=x.dtype)
    target = torch.exp(-0.5 * t**2)
    angles = (x @ directions.T).unsqueeze(2) * t
    empirical = (1j * angles).exp().mean(0)
    error = (empirical - target).abs().square().mul(target)
    return (torch.trapezoid(error, t, dim=1) * len(x)).mean()


def infonce(views: Tensor, sigma: float) -> Tensor:
    """InfoNCE from differences of all pairs: batch x batch x dim."""
    distance = (views[0].unsqueeze(1) - views[1].unsqueeze(0)).square().sum(-1)
    logits = -distance / (2 * sigma**2)
    labels = torch.arange(len(logits), device=logits.device)
    forth = torch.nn.functional.cross_entropy(logits, labels)
    return (forth + torch.nn.functional.cross_entropy(logits.T, labels)) / 2
