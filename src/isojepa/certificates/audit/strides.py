r"""Per stride: correlation of each dimension of the state, and how normal its differences are.

Small strides hardly move the state (rho near 1, next to no spectral gap 2 rho (1 - rho)) and show the
policy's own steps; large ones resolve the law of the states. In between both assumptions may come near:
Klindt, LeCun & Balestriero (2026), Appendix "Reacher Experiment", figures traj_distributions, rho_vs_sigreg.

SIGReg here is the Epps-Pulley statistic of the scaled differences z_{t + stride} - z_t, of each dimension and
as the mean over random directions of all of them together, averaged over subsamples. It grows with the number
of samples where the law is not normal, so it is read against the floor, its mean for normal samples,

    sum_t w_t (1 - (1 + t^2 + kappa t^4 / 2) e^{-t^2}),      kappa = E sum_i u_i^4 = 3 / (dim + 2),

over the knots t and weights w of the quadrature: the terms in t^2 and t^4 are what estimating the mean and
the deviation of each dimension takes away from a slice along u.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from isojepa import ranks
from isojepa.certificates.assumptions.shape import bend, normal_bend, normal_pvalues
from isojepa.data.episodes import Episodes
from isojepa.objectives.directions import draw_directions
from isojepa.objectives.gaussianity import EppsPulley
from isojepa.objectives.gaussianity.sliced import slice_means
from isojepa.seeds import generator
from isojepa.validation import check_count, validate_types

STRIDES = (1, 2, 4, 8, 16, 32, 64)
SLICES = 64
_LEAST = 20  # pairs


@dataclass(frozen=True)
class StrideRow:
    """One stride.

    Attributes:
        stride: steps between the two ends of a pair.
        pairs: that were looked at.
        rho: correlation of each dimension across a pair; here and below NaN for one that never moves.
        gap: 2 rho (1 - rho) of their mean.
        sigreg, sigreg_spread: of the differences of each dimension, its mean and deviation over subsamples.
        floor: what normal samples have.
        joint, joint_spread, joint_floor: the same of all dimensions together.
        bend: share of the variance of the differences of each dimension that bends away when they are made
            normal.
        p: of normal differences, for each dimension, on one pair of each episode; NaN for few episodes.
    """

    stride: int
    pairs: int
    rho: tuple[float, ...]
    gap: float
    sigreg: tuple[float, ...]
    sigreg_spread: tuple[float, ...]
    floor: float
    joint: float
    joint_spread: float
    joint_floor: float
    bend: tuple[float, ...]
    p: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@validate_types
def stride_rows(
    episodes: Episodes,
    name: str = "qpos",
    strides: Sequence[int] = STRIDES,
    per_episode: int = 10,
    samples: int = 2000,
    repeats: int = 5,
    seed: int = 0,
) -> tuple[StrideRow, ...]:
    """Autocorrelation, normality and SIGReg of the differences per stride.

    Args:
        episodes: of any lengths; strides that none is longer than are left out.
        name: the column of states.
        strides: in steps.
        per_episode: pairs of each episode, as in the paper; 0 for all.
        samples: differences in a subsample.
        repeats: subsamples.
        seed: draws pairs, subsamples and directions.

    Raises:
        ValueError: no stride leaves enough pairs, no state moves, or one is not finite.

    Example:
        >>> walk = np.cumsum(np.random.default_rng(0).normal(size=(60, 50, 1)), 1)
        >>> [row.stride for row in stride_rows(Episodes.of({"qpos": walk}), strides=(1, 4, 64))]
        [1, 4]
    """
    check_count("samples", samples, _LEAST)
    check_count("repeats", repeats)
    longest = int(episodes.lengths.max())
    rows = []
    for stride in sorted({check_count("stride", one) for one in strides}):
        if stride >= longest:
            continue
        first, second, episode = episodes.pairs(stride, name, per_episode, seed)
        if len(first) >= _LEAST:
            rows.append(stride_row(stride, first, second, episode, samples, repeats, seed))
    if not rows:
        raise ValueError(
            f"strides must leave {_LEAST} pairs, got {list(strides)} for episodes of at most {longest} steps"
        )
    return tuple(rows)


@ranks.alone()  # these are all the samples, also in a distributed job
def stride_row(
    stride: int,
    first: np.ndarray,
    second: np.ndarray,
    episode: np.ndarray,
    samples: int = 2000,
    repeats: int = 5,
    seed: int = 0,
) -> StrideRow:
    """The row of pairs that somebody chose.

    Args:
        stride: steps between their ends.
        first, second: (pairs, dim) the ends.
        episode: (pairs,) that each is of.
        samples, repeats, seed: as of `stride_rows`.

    Raises:
        ValueError: no state moves, or one is not finite.
    """
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError("states must be finite, got NaN or Inf")
    n, difference = min(samples, len(first)), second - first
    moving = difference.std(0) > 1e-12 * np.maximum(np.abs(first).max(0), 1e-300)
    if not moving.any():
        raise ValueError("states must move, got states that never do")
    rho = np.array([_correlation(a, b) for a, b in zip(first.T, second.T, strict=True)])
    mean = float(rho[moving].mean())
    source = generator(seed, "strides", stride)
    single, joint = [], []
    for _ in range(repeats):
        part = _scaled(difference[torch.randperm(len(difference), generator=source)[:n].numpy()][:, moving])
        one, together = _sigreg(part, source)
        single.append(one)
        joint.append(together)
    order = torch.randperm(len(episode), generator=source).numpy()
    alone = order[np.unique(episode[order], return_index=True)[1]][:samples]  # one of each: independent
    enough = len(alone) >= _LEAST
    return StrideRow(
        stride=stride,
        pairs=len(first),
        rho=_spread_out(rho[moving], moving),
        gap=2 * mean * (1 - mean),
        sigreg=_spread_out(np.mean(single, 0), moving),
        sigreg_spread=_spread_out(np.std(single, 0), moving),
        floor=normal_floor(1),
        joint=float(np.mean(joint)),
        joint_spread=float(np.std(joint)),
        joint_floor=normal_floor(int(moving.sum())),
        bend=_spread_out(bend(np.sort(part, 0)) - normal_bend(n), moving),
        p=_spread_out(normal_pvalues(difference[alone][:, moving]) if enough else np.nan, moving),
    )


def _spread_out(values: Any, moving: np.ndarray) -> tuple[float, ...]:
    """A number for each dimension: NaN where it never moves."""
    whole = np.full(len(moving), np.nan)
    whole[moving] = values
    return tuple(whole.tolist())


def _sigreg(x: np.ndarray, source: torch.Generator) -> tuple[np.ndarray, float]:
    """The statistic of each column of x (n, dim), and the mean over directions of all together."""
    values, test = torch.from_numpy(x).float(), EppsPulley()
    together = slice_means(test, values, draw_directions(x.shape[1], SLICES, source))
    return test.statistic(values).double().numpy(), float(together)


@functools.cache
def normal_floor(dim: int) -> float:
    """The statistic's mean over directions for many scaled normal samples of a dimension."""
    t, _, weights = EppsPulley().grid.table
    estimated = 1 + t**2 + 3 / (dim + 2) * t**4 / 2
    return float(weights @ (1 - estimated * np.exp(-(t**2))))


def _scaled(x: np.ndarray) -> np.ndarray:
    deviation = x.std(0)
    return np.asarray((x - x.mean(0)) / np.where(deviation > 0, deviation, 1.0))


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    spread = math.sqrt(float(a @ a)) * math.sqrt(float(b @ b))
    return float(a @ b) / spread if spread > 0 else math.nan
