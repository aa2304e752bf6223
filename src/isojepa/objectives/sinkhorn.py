r"""Balanced assignments to prototypes, by Sinkhorn's iteration (Cuturi 2013, NeurIPS).

As SwAV has it (Caron et al. 2020, NeurIPS, equation 3): for scores S of n samples and K prototypes and a
temperature T, Q = exp(S / T) is scaled in turn so that every prototype gets 1/K of all and every sample gives
1/n, three times. The rows of n Q, which sum to 1, are the assignments. Sums over samples run over all ranks.
"""

import math

import torch
from torch import Tensor

from isojepa import ranks
from isojepa.arguments import check_count
from isojepa.objectives.objective import at_least_float32


@torch.no_grad()
def sinkhorn(scores: Tensor, temperature: float, iterations: int = 3) -> Tensor:
    """Assignments (samples, prototypes), rows of which sum to 1.

    Args:
        scores: (samples, prototypes) this rank's samples; it may have none.
        temperature: T, positive.
        iterations: how often both sides are balanced.

    Raises:
        ValueError: the temperature is not positive, or there is no iteration.

    Example:
        >>> q = sinkhorn(torch.tensor([[0.9, 0.1], [0.8, 0.2]]), 0.1)
        >>> [round(float(share), 2) for share in q[1]]  # the first is nearer for both; they share
        [0.27, 0.73]
    """
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be positive and finite, got {temperature}")
    check_count("iterations", iterations)
    scores = at_least_float32(scores)
    lowest = scores.new_full((1, 1), -math.inf)
    largest = ranks.gather(torch.cat([lowest, scores.reshape(-1, 1)]).amax(0, keepdim=True)).amax()
    q = torch.exp((scores - largest) / temperature)  # a common factor cancels in the first sum
    tiny = torch.finfo(q.dtype).tiny
    for _ in range(iterations):
        q = q / (ranks.total(q.sum(0)).clamp(min=tiny) * q.shape[1])
        q = q / q.sum(1, keepdim=True).clamp(min=tiny)
    return q
