r"""KoLeo, a regularizer that spreads vectors on the sphere (Sablayrolles et al. 2019, ICLR, equation 3).

    KoLeo(x) = - (1/n) sum_i log min_{j != i} |u_i - u_j|,    u_i = x_i / |x_i|

up to a constant the Kozachenko-Leonenko estimate of minus the entropy of the u_i. The nearest neighbour is
sought in the batch of all ranks; DINOv2's code seeks it among each device's own.
"""

import torch
from torch import Tensor
from torch.nn import functional

from isojepa import ranks
from isojepa.objectives.objective import at_least_float32, check_samples

_EPS = 1e-8  # added to the distance, and to each difference of coordinates as torch's pairwise_distance does


def koleo(x: Tensor) -> Tensor:
    """KoLeo of a batch.

    Args:
        x: (samples, dim) this rank's samples.

    Returns:
        A scalar, the same on all ranks.

    Raises:
        ValueError: there are fewer than two samples on all ranks together.

    Example:
        >>> round(float(koleo(torch.eye(3))), 4)  # - log sqrt 2
        -0.3466
    """
    u = ranks.gather(functional.normalize(at_least_float32(check_samples(x)), dim=-1, eps=_EPS))
    with torch.no_grad():
        nearest = (u @ u.T).fill_diagonal_(-2.0).argmax(1)
    distance = functional.pairwise_distance(u, u[nearest], eps=_EPS)
    return -torch.log(distance + _EPS).mean()
