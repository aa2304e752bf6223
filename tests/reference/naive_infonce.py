"""InfoNCE with a Gaussian kernel from its definition: every difference h_i - h'_j is formed, float64."""

import math

import torch
from torch import Tensor


def naive_terms(h: Tensor, h_next: Tensor, sigma: Tensor | float) -> tuple[float, float]:
    """Alignment and regularizer of two views (batch, dim); sigma is one width or one per dimension."""
    h, h_next = h.double(), h_next.double()
    sigma = torch.as_tensor(sigma, dtype=torch.float64)
    difference = (h.unsqueeze(1) - h_next.unsqueeze(0)) / sigma
    energy = (difference**2).sum(-1) / 2
    n = len(h)
    forth = sum(math.log(sum(math.exp(-e) for e in row) / n) for row in energy.tolist()) / n
    back = sum(math.log(sum(math.exp(-e) for e in row) / n) for row in energy.T.tolist()) / n
    return sum(energy[i, i].item() for i in range(n)) / n, (forth + back) / 2
