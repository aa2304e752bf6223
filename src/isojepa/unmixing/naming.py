r"""Which axes are told apart, and which only span a block that stays a rotation.

A search always returns axes. Whether they are more than the luck of the sample is asked of other rows: axes
are found on every other block of rows, and all numbers of them are measured on the blocks between, and the
other way round. Two axes are told apart

    by shape   if kappa_i + kappa_j (`shapes`) is above 0 beyond chance, and one of the two is further from
               normal than the tolerance: 1 - corr(y, normal scores of y)^2, the least nonlinear energy with
               which a function of a normal latent could have this law;
    by rate    if their correlations across a pair differ beyond chance, and their rates -log c by more than
               five times the tolerance (energy t of degree k in an embedding of equal rates makes a rate
               (k - 1) t larger);

and if both halves found the same two axes. Chance is `_CHANCE` over all pairs together, by Student's t over
the blocks. Axes that are not told apart form a block. The tolerance is what an encoder may have left: a
Gaussian world seen through an encoder with that much nonlinear energy has no named axes.

Encoders of laws with ends leave more. So where there are pairs, what counts is the departure that is the
world's own (`departures`), to which no encoder adds: a normal process behind an axis has none. It must be
beyond chance, of the axis or of all axes together.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa.linear import nearest_rotation
from isojepa.unmixing.departures import departures, refuted_departures, shown_departures, world_departure
from isojepa.unmixing.independence import judge_independence
from isojepa.unmixing.rotations import (
    Pass,
    Rotation,
    find_rotation,
    pass_over,
    refine_rotation,
    search_passes,
    squares_go_together,
)
from isojepa.unmixing.shapes import measure_kappa
from isojepa.unmixing.shared import shared_functions
from isojepa.unmixing.whitening import Sample

_CHANCE = 1e-3
_TURNED = 0.15  # cosine between an axis of one half and another of the other half, from which they are mixed
FOUND = 0.9  # cosine of an axis with itself in both halves, at least
_DEGREES = 5.0  # tolerances by which rates must differ
DEPENDENT = 0.1  # correlation of functions from which an axis is said to depend on another
_SPREAD = 0.25  # of sizes, at least: those of a law of two values are all the same, but for what is left
_RANKED = 20_000  # rows that normal scores are taken of
_ASKED = 1 << 22  # numbers of one view that are asked for the world's departure, or so many rows
_LOOKED = 1 << 22  # numbers among which dependence is looked for, of which there are several copies
_SHARED = 1 << 21  # numbers of which functions are compared
_PRIOR = 8.0  # pairs as good as said, that are counted besides
_LARGEST = 50.0  # times the variance that one pair may show: beyond, it is another thing than chance


@dataclass(frozen=True)
class Evidence:
    """What the rows of the other half say of some axes, block by block.

    Attributes:
        kappa: (blocks, dim).
        correlation: (blocks, dim) across a pair; None without second views.
        departure: (dim,) 1 - corr(y, normal scores)^2.
    """

    kappa: np.ndarray
    correlation: np.ndarray | None
    departure: np.ndarray


@dataclass(frozen=True)
class Naming:
    """What is told apart.

    Attributes:
        by_shape, by_rate: (dim, dim) whether a pair is, by either cue.
        together: (dim, dim) whether a pair is in one block, reflexive.
        stability: (dim,) cosine of each axis between the two halves.
        departure: (dim,) from the normal law.
        world: (dim,) the departure that is the world's, see `departures`; NaN where it was not asked for.
        correlation: (dim,) across a pair; None without second views.
        dependence: (dim,) the largest correlation of a function of it with a function of another.
        partner: (dim,) which other that is.
        dependent: (dim,) whether that is more than `DEPENDENT`, and more than chance.
        doubted: (dim,) whether a departure from normal may be the encoder's own.
        hinted: (dim, dim) whether a pair would be told apart by shape if all shapes were trusted.
        links: (dim, dim) the largest such correlation of every pair.
        carried: (dim, dim) the largest correlation of a function of each axis with each other axis itself.
        rejected, unexplained: (dim, dim) pairs whose independence is rejected, see `Independence`.
        excess: by how much the angles between both halves are larger than rows that do not depend on their
            neighbours would make them, as a factor of the variance.
    """

    by_shape: np.ndarray
    by_rate: np.ndarray
    together: np.ndarray
    stability: np.ndarray
    departure: np.ndarray
    world: np.ndarray
    correlation: np.ndarray | None
    dependence: np.ndarray
    partner: np.ndarray
    dependent: np.ndarray
    doubted: np.ndarray
    hinted: np.ndarray
    links: np.ndarray
    carried: np.ndarray
    rejected: np.ndarray
    unexplained: np.ndarray
    excess: float


def name_axes(
    sample: Sample, halves: tuple[Rotation, Rotation], rotation: Rotation, tolerance: float
) -> Naming:
    """Hold the axes of a rotation against those that both halves of the rows found.

    Args:
        sample: white rows.
        halves: found on `sample.half(0)` and on `sample.half(1)`.
        rotation: of all rows.
        tolerance: nonlinear energy that an encoder may have left.
    """
    dim = len(rotation.matrix)
    found, order = [], []
    for which, half in enumerate(halves):
        cosines = np.abs(rotation.matrix @ half.matrix.T)
        match = scipy.optimize.linear_sum_assignment(-cosines)[1]
        order.append(match)
        found.append(_measure(sample.half(1 - which), half, match))
    cosines = np.abs(halves[0].matrix[order[0]] @ halves[1].matrix[order[1]].T)
    stability = np.diag(cosines).copy()
    mixed = np.maximum(cosines, cosines.T) > _TURNED
    unsure = stability < FOUND
    mixed |= unsure[:, None] & unsure  # those that neither half found may be any rotation of one another
    departure = (found[0].departure + found[1].departure) / 2
    kappa = np.concatenate([one.kappa for one in found])
    by_shape = hinted = _beyond_chance(kappa, 1.0)
    # not asked for those who trust all shapes
    world = _world_departures(sample, rotation.matrix) if tolerance > 0 else None
    own = shown_departures(departure, world, tolerance) if tolerance > 0 else departure
    by_shape = hinted & (np.maximum(own[:, None], own) >= tolerance)
    doubted = (departure >= tolerance) & (own < tolerance)
    by_rate, correlation = np.zeros((dim, dim), bool), None
    known = [one.correlation for one in found if one.correlation is not None]
    if known:
        each = np.concatenate(known)
        correlation = each.mean(0)
        rate = rates(correlation)
        ratio = np.abs(np.log(rate[:, None] / rate))
        by_rate = _beyond_chance(each, -1.0) & (ratio > _DEGREES * tolerance)
    apart = (by_shape | by_rate) & ~mixed
    np.fill_diagonal(apart, False)
    groups = scipy.sparse.csgraph.connected_components(~apart, directed=False)[1]
    together = groups[:, None] == groups
    links, partner, dependent, carried = _look_for_dependence(sample, rotation.matrix)
    independence = judge_independence(_along_axes(sample, rotation.matrix))
    return Naming(
        by_shape=by_shape,
        by_rate=by_rate,
        together=together,
        stability=stability,
        departure=departure,
        world=np.full(dim, np.nan) if world is None else np.where(np.isfinite(world[1]), world[0], np.nan),
        correlation=correlation,
        dependence=links.max(1),
        partner=partner,
        dependent=dependent,
        doubted=doubted,
        hinted=hinted,
        links=links,
        carried=carried,
        rejected=independence.rejected,
        unexplained=independence.unexplained,
        excess=_excess(cosines, halves, order, len(sample.first)),
    )


def rates(correlation: np.ndarray) -> np.ndarray:
    """-log of correlations across a pair, of those that have one."""
    return np.asarray(-np.log(np.clip(correlation, 1e-3, 1 - 1e-9)))


def find_halves(
    sample: Sample,
    source: np.random.Generator,
    tolerance: float = 0.0,
    passes: Sequence[Pass] = (),
) -> tuple[Rotation, Rotation]:
    """Axes of every other block of rows and of those between, each from a start of its own.

    With passes over more rows of each half than the sample holds, these are searched.

    Shapes that pairs of the other half show not to be the world's are heard no more: what an encoder left
    must not outweigh the rates.
    """
    found = []
    for which in (0, 1):
        half, own = sample.half(which).whitened()
        lagged, start = half.lagged(), None
        if passes:
            start = nearest_rotation(search_passes(passes[which], len(own), source) @ np.linalg.inv(own))
        rotation = find_rotation(half.first, lagged, source, start)
        axes = nearest_rotation(rotation.matrix @ own)
        world = _world_departures(sample.half(1 - which), axes) if tolerance > 0 else None
        if world is not None and (false := refuted_departures(world, tolerance)).any():
            rotation = refine_rotation(
                rotation.matrix,
                pass_over(half.first),
                (half.first,),
                lagged,
                len(half.first),
                shaped=~false,
                slopes=squares_go_together(half.first, rotation.matrix),
            )
            axes = nearest_rotation(rotation.matrix @ own)
        found.append(replace(rotation, matrix=axes))
    return found[0], found[1]


def turned(white: Tensor, matrix: np.ndarray) -> Tensor:
    """White rows along the axes of a rotation; the values of an axis stand together in memory."""
    return (torch.from_numpy(matrix).to(white.dtype) @ white.T).T


def _along_axes(sample: Sample, matrix: np.ndarray) -> np.ndarray:
    """Rows of the first view along the axes, evenly spaced: about `_RANKED` at most."""
    step = max(1, len(sample.first) // _RANKED)
    return np.asarray(turned(sample.first[::step], matrix).double().numpy())


def _measure(sample: Sample, half: Rotation, match: np.ndarray) -> Evidence:
    """What rows say of axes that were found on others, in the order of `match`."""
    matrix, scores = half.matrix[match], half.scores[:, torch.from_numpy(match)]
    kappa, correlation = [], []
    for rows in _blocks(sample.block):
        y = turned(sample.first[rows], matrix).T
        # per block against its own mean and variance: a sample's own standardisation costs no power
        kappa.append(measure_kappa(y, scores).numpy())
        if sample.second is not None:
            after = turned(sample.second[rows], matrix).T
            spread = ((y * y).mean(1, dtype=torch.float64) + (after * after).mean(1, dtype=torch.float64)) / 2
            # where both views stand at 0 throughout, as few rows of few levels may: 0, and not 0 / 0
            product = (y * after).mean(1, dtype=torch.float64) / spread.clamp_min(1e-300)
            correlation.append(product.numpy())
    some = sample.first[:: max(1, len(sample.first) // _RANKED)]
    return Evidence(
        np.stack(kappa),
        np.stack(correlation) if correlation else None,
        departures(turned(some, matrix).double().numpy()),
    )


def _blocks(block: np.ndarray) -> list[slice]:
    """Where each block of rows stands, which stand together."""
    edges = np.flatnonzero(np.diff(block, prepend=-1, append=-1)).tolist()
    return [slice(start, stop) for start, stop in itertools.pairwise(edges)]


def _world_departures(sample: Sample, matrix: np.ndarray) -> np.ndarray | None:
    """(2, dim) the world's departure on each axis, and its error; None without pairs."""
    if sample.second is None:
        return None
    step = max(1, len(sample.first) // max(_RANKED, _ASKED // len(matrix)))
    y, after = (turned(view[::step], matrix).double().numpy() for view in (sample.first, sample.second))
    block = sample.block[::step]
    found = [world_departure(one, later, block) for one, later in zip(y.T, after.T, strict=True)]
    return np.array(found).T


def _beyond_chance(values: np.ndarray, sign: float) -> np.ndarray:
    """Whether the mean over blocks (blocks, dim) of value_i + sign value_j is not 0, for every pair.

    A sum must be above 0; a difference may have either sign.
    """
    blocks, dim = values.shape
    mean = values.mean(0)
    covariance = np.cov(values.T).reshape(dim, dim) / blocks
    variance = np.diag(covariance)
    error = np.sqrt(np.maximum(variance[:, None] + variance + 2 * sign * covariance, 1e-300))
    pairs = max(1, dim * (dim - 1) // 2)
    reach = float(scipy.special.stdtrit(blocks - 1, 1 - _CHANCE / (2 * pairs)))
    value = mean[:, None] + sign * mean
    return np.asarray((value if sign > 0 else np.abs(value)) > reach * error)


def _look_for_dependence(
    sample: Sample, matrix: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What `_dependence` finds among all rows, and `shared_functions` among some, whichever is more.

    Returns:
        `links`, `partner`, `dependent` and `carried` of a `Naming`.
    """
    some = slice(None, None, max(1, sample.first.numel() // _LOOKED))
    y, block = turned(sample.first[some], matrix), sample.block[some]
    links, partner, dependent = _dependence(y, block)
    few = slice(None, None, max(1, y.numel() // _SHARED))
    shared, sure, carried = shared_functions(y[few], block[few])
    shared = np.where(sure, shared, 0.0)
    more = shared.max(1) > links.max(1)
    partner = np.where(more, shared.argmax(1), partner)
    return np.maximum(links, shared), partner, dependent | (shared.max(1) > DEPENDENT), carried


def _dependence(y: Tensor, block: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correlations of sizes of axes with sizes or values of others; which is largest, and if surely."""
    dim = y.shape[1]
    if dim == 1:
        return np.zeros((1, 1)), np.zeros(1, int), np.zeros(1, bool)
    value, size = _standardised(y.T.contiguous(), 0.0), _standardised(y.T.abs().contiguous(), _SPREAD)
    crossed = size @ value.T
    kinds = torch.stack((size @ size.T, crossed, crossed.T)) / len(y)
    strength, kind = kinds.abs().max(0)
    largest, partner = strength.fill_diagonal_(0).max(1)
    kind = kind.gather(1, partner[:, None])[:, 0]
    # the same one of the three, block by block
    kind = kind[:, None]
    product = torch.where(kind < 2, size, value)
    product *= torch.where(kind == 1, value[partner], size[partner])
    each = np.stack([product[:, rows].mean(1).numpy() for rows in _blocks(block)])
    error = each.std(0, ddof=1) / np.sqrt(len(each))
    reach = float(scipy.special.stdtrit(len(each) - 1, 1 - _CHANCE / (3 * dim * (dim - 1))))
    sure = np.abs(each.mean(0)) > reach * error
    return strength.double().numpy(), partner.numpy(), sure & (largest.numpy() > DEPENDENT)


def _standardised(values: Tensor, least: float) -> Tensor:
    """Axes (dim, n) less their means, over their standard deviations or the least one."""
    centered = values - values.mean(1, keepdim=True)
    spread = torch.linalg.vector_norm(centered, dim=1, keepdim=True) / np.sqrt(values.shape[1] - 1)
    return centered.div_(spread.clamp_min(least))


def _excess(
    cosines: np.ndarray, halves: tuple[Rotation, Rotation], order: list[np.ndarray], rows: int
) -> float:
    """How much larger squared angles between the halves are than the information allows."""
    both = [half.information[np.ix_(match, match)] for half, match in zip(halves, order, strict=True)]
    information = np.minimum(*both)
    off = ~np.eye(len(cosines), dtype=bool) & (cosines < _TURNED)
    if not off.any():
        return 1.0
    # each half has half of the rows, and both err
    seen = np.minimum(cosines**2 * information * rows / 4, _LARGEST)[off]
    return max(1.0, float((seen.sum() / 2 + _PRIOR) / (len(seen) / 2 + _PRIOR)))
