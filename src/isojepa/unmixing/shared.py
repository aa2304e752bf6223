r"""What two axes share: how far a function of one is correlated with a function of the other.

Axes of one latent each share nothing. Two functions of one latent, which need not be correlated themselves,
and axes that mix latents, share a lot. With polynomials of each axis up to degree `_DEGREE`, made white, and
M their correlations, the largest singular value of M is the correlation of the two that share most (the
maximal correlation of Gebelein 1941, restricted to them). The two are found on every other block of rows and
correlated on the blocks between, and the other way round, so that chance does not add to it.

Polynomials are of values, not of ranks, and those that hardly vary count little: on an axis of two values all
that they show is the trace of other axes that any estimate leaves.

A harmonic of an axis is a function of it, to the share of its variance that is no other latent's. Of the two
halves of a circle neither is a function of the other: their squares are. So it is also told how far an axis
itself, and not a function of it, is one of another.
"""

import numpy as np
import torch
from torch import Tensor

from isojepa.certificates.spectrum import hermite_polynomials

_DEGREE = 4
_FAR = 4.0  # deviations beyond which a value counts as that: powers of larger ones are those of few rows
_RIDGE = 0.03  # of the variance of each polynomial, that is added to it
_STILL = 0.5  # deviation below which a polynomial hardly varies
_SQUARINGS = 4  # of the power iteration: what is asked is whether there is much, not how much exactly
_SURE = 4.0  # standard errors of a correlation of 0


def shared_functions(y: Tensor, block: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correlations of functions of every two axes, and whether both halves of the rows show them.

    Args:
        y: (n, dim) axes.
        block: (n,) to which each row belongs, from 0.

    Returns:
        (dim, dim) the mean of what both halves say; (dim, dim) what is beyond chance in both; and (dim, dim)
        the correlation of a function of each axis with each other axis itself, the mean of both halves.
    """
    odd = block % 2 == 1
    sizes = len(odd) - int(odd.sum()), int(odd.sum())
    order = torch.from_numpy(np.argsort(odd, kind="stable"))
    pairs = _correlations(y.T.index_select(1, order).float(), sizes)
    turns = pairs, pairs[::-1]
    found = torch.stack([_held_out(*turn) for turn in turns])
    # the first polynomial is the axis itself, and whitening leaves it as it is but for its size
    carried = torch.stack([_carried(*(part[..., 0] for part in turn)) for turn in turns])
    carried.diagonal(dim1=1, dim2=2).fill_(0)
    chance = _SURE / np.sqrt(min(sizes))
    sure = (found.amin(0) > chance).numpy()
    return found.mean(0).numpy(), sure, carried.mean(0).numpy()


def _correlations(y: Tensor, sizes: tuple[int, int]) -> list[Tensor]:
    """Of the white polynomials of every two axes, (dim, dim, degree, degree), in each half of the rows.

    Args:
        y: (dim, n) axes, the rows of the first half before those of the second.
        sizes: of both halves.
    """
    dim, n = y.shape
    y = y - y.mean(1, keepdim=True)
    spread = y.std(1, keepdim=True).clamp_min_(1e-30)  # an axis may stand still in every so many rows
    table = torch.stack(hermite_polynomials((y / spread).clamp_(-_FAR, _FAR), _DEGREE)[1:], 1)
    halves = table.reshape(dim * _DEGREE, n).split(sizes, 1)
    # whitening acts on products of few numbers, not on rows of many
    means = [half.mean(1).double() for half in halves]
    products = [(half @ half.T).double() / half.shape[1] for half in halves]
    mean = sum(size * one for size, one in zip(sizes, means, strict=True)) / n
    products = [
        product - torch.outer(own, mean) - torch.outer(mean, own - mean)
        for product, own in zip(products, means, strict=True)
    ]
    whole = sum(size * one for size, one in zip(sizes, products, strict=True)) / n
    own = whole.reshape(dim, _DEGREE, dim, _DEGREE).diagonal(dim1=0, dim2=2).permute(2, 0, 1)
    scale = (own.diagonal(dim1=1, dim2=2) * n / (n - 1)).clamp_min(0).sqrt().clamp_min(_STILL)
    gram = own / (scale[:, :, None] * scale[:, None]) + _RIDGE * torch.eye(_DEGREE)
    root = torch.linalg.cholesky(gram)
    white = torch.linalg.solve_triangular(root, torch.diag_embed(1 / scale), upper=False)

    def whitened(product: Tensor) -> Tensor:
        for _ in range(2):  # from the left, and as it is symmetric, once more
            product = (white @ product.reshape(dim, _DEGREE, -1)).reshape(product.shape).T
        return product.reshape(dim, _DEGREE, dim, _DEGREE).transpose(1, 2)

    return [whitened(product) for product in products]


def _held_out(found_on: Tensor, shown_on: Tensor) -> Tensor:
    """(dim, dim) correlations on some rows of the functions that share most on others."""
    dim = len(found_on)
    one, other = torch.triu_indices(dim, dim, 1)
    found_on, shown_on = found_on[one, other], shown_on[one, other]
    power = found_on.transpose(1, 2) @ found_on
    for _ in range(_SQUARINGS):
        power = power / power.diagonal(dim1=1, dim2=2).sum(1).clamp_min(1e-30)[:, None, None]
        power = power @ power
    right = _unit(power.sum(2, keepdim=True))
    left = _unit(found_on @ right)
    found = torch.zeros(dim, dim, dtype=shown_on.dtype)
    found[one, other] = found[other, one] = (left.transpose(1, 2) @ shown_on @ right)[:, 0, 0]
    return found


def _carried(found_on: Tensor, shown_on: Tensor) -> Tensor:
    """(dim, dim) the same of functions with axes themselves, from (dim, dim, degree)."""
    found: Tensor = (found_on * shown_on).sum(2) / torch.linalg.vector_norm(found_on, dim=2).clamp_min(1e-12)
    return found


def _unit(vectors: Tensor) -> Tensor:
    unit: Tensor = vectors / torch.linalg.vector_norm(vectors, dim=1, keepdim=True).clamp_min(1e-12)
    return unit
