"""Random directions: unit vectors to project on.

Each direction is uniform on the sphere whatever the sampler, so a mean over slices is an unbiased estimate of
the mean over the sphere. Samplers differ in the joint distribution of the directions of one set:

    gaussian     independent
    sobol        a low-discrepancy sequence through the normal quantile function (Balestriero & LeCun 2025,
                 "LeJEPA", Appendix D): one scrambled sequence, shifted at random modulo 1 in each set
    orthogonal   blocks of orthonormal bases, each randomly rotated

All depend on the generator alone: with the same seed and step, every rank of a distributed job draws the same
directions without communication.
"""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from isojepa import ranks
from isojepa.validation import check_count, choose, validate_types


@validate_types
def draw_directions(dim: int, slices: int, generator: torch.Generator, sampler: str = "gaussian") -> Tensor:
    """Draw unit vectors: (slices, dim), on the generator's device.

    Args:
        dim: of the space.
        slices: number of directions.
        generator: draws them.
        sampler: "gaussian", "sobol" or "orthogonal".

    Example:
        >>> draw_directions(3, 5, torch.Generator(), "orthogonal").shape
        torch.Size([5, 3])
    """
    draw = choose("sampler", sampler, SAMPLERS)
    dim, slices = check_count("dim", dim), check_count("slices", slices)
    with ranks.untransformed():  # one set of directions, also under a transform of torch.func
        return draw(dim, slices, generator)


def _gaussian(dim: int, slices: int, generator: torch.Generator) -> Tensor:
    """Independent directions."""
    shape = slices, dim
    return _unit(torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float32))


def _sobol(dim: int, slices: int, generator: torch.Generator) -> Tensor:
    """A low-discrepancy sequence, shifted at random."""
    shift = torch.rand(dim, generator=generator, device=generator.device, dtype=torch.float64)
    return _unit(_normal((_sobol_points(dim, slices).to(shift.device) + shift) % 1)).float()


def normal_points(dim: int, count: int) -> Tensor:
    """Quasi-random points of N(0, I), always the same: (count, dim), float64."""
    return _normal(_sobol_points(dim, count))


def _normal(uniform: Tensor) -> Tensor:
    normal: Tensor = torch.special.ndtri(uniform.clamp(1e-12, 1 - 1e-12))
    return normal


@lru_cache(maxsize=8)
def _sobol_points(dim: int, slices: int) -> Tensor:
    limit = torch.quasirandom.SobolEngine.MAXDIM
    if dim > limit:
        raise ValueError(f"sampler 'sobol' has at most {limit} dimensions, got {dim}")
    points: Tensor = torch.quasirandom.SobolEngine(dim, scramble=True, seed=0).draw(
        slices, dtype=torch.float64
    )
    return points


def _orthogonal(dim: int, slices: int, generator: torch.Generator) -> Tensor:
    """Orthonormal bases, randomly rotated."""
    bases = []
    for start in range(0, slices, dim):
        shape = dim, min(dim, slices - start)
        normal = torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float32)
        q, r = torch.linalg.qr(normal)
        # the factorisation fixes the signs of q; those of r make it uniform over all rotations
        bases.append((q * r.diagonal().sign()).T)
    return torch.cat(bases)


def _unit(directions: Tensor) -> Tensor:
    unit: Tensor = directions / directions.norm(dim=1, keepdim=True)
    return unit


SAMPLERS: dict[str, Callable[[int, int, torch.Generator], Tensor]] = {
    "gaussian": _gaussian,
    "sobol": _sobol,
    "orthogonal": _orthogonal,
}
