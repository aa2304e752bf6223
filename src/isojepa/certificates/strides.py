r"""Per stride: correlation of each dimension of the state, and how normal its differences are.

Small strides hardly move the state (rho near 1, next to no spectral gap 2 rho (1 - rho)) and show the
policy's own steps; large ones resolve the distribution of the states. In between both assumptions may come
near: Klindt, LeCun & Balestriero (2026), Appendix "Reacher Experiment", figures traj_distributions,
rho_vs_sigreg.

SIGReg here is the Epps-Pulley statistic of the scaled differences z_{t + stride} - z_t, of each dimension and
as the mean over random directions of all of them together, averaged over subsamples. It grows with the number
of samples where the distribution is not normal, so it is read against the floor, its mean for normal samples,

    sum_t w_t (1 - (1 + t^2 + kappa t^4 / 2) e^{-t^2}),      kappa = E sum_i u_i^4 = 3 / (dim + 2),

over the knots t and weights w of the quadrature: the terms in t^2 and t^4 are what estimating the mean and
the deviation of each dimension takes away from a slice along u.
"""

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from isojepa import ranks
from isojepa.data.episodes import Episodes
from isojepa.objectives.directions import draw_directions
from isojepa.objectives.gaussianity import EppsPulley
from isojepa.objectives.gaussianity.sliced import slice_means
from isojepa.seeds import generator
from isojepa.validation import check_count, validate_types

STRIDES = (1, 2, 4, 8, 16, 32, 64)
SLICES = 64
_MIN_PAIRS = 20


@dataclass(frozen=True)
class StrideRow:
    """One stride.

    Attributes:
        stride: steps between the two ends of a pair.
        pairs: number of pairs.
        rho: correlation of each dimension across a pair; here and below NaN for one that never moves.
        sigreg: of the differences of each dimension, its mean over subsamples.
        floor: value of normal samples.
        joint, joint_floor: the same of all dimensions together.
    """

    stride: int
    pairs: int
    rho: tuple[float, ...]
    sigreg: tuple[float, ...]
    floor: float
    joint: float
    joint_floor: float

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
    check_count("samples", samples, _MIN_PAIRS)
    check_count("repeats", repeats)
    longest = int(episodes.lengths.max())
    rows = []
    for stride in sorted({check_count("stride", one) for one in strides}):
        if stride >= longest:
            continue
        first, second, _ = episodes.pairs(stride, name, per_episode, seed)
        if len(first) >= _MIN_PAIRS:
            rows.append(stride_row(stride, first, second, samples, repeats, seed))
    if not rows:
        raise ValueError(
            f"strides must leave {_MIN_PAIRS} pairs, got {list(strides)} for at most {longest} steps"
        )
    return tuple(rows)


@ranks.alone()  # these are all the samples, also in a distributed job
def stride_row(
    stride: int,
    first: np.ndarray,
    second: np.ndarray,
    samples: int = 2000,
    repeats: int = 5,
    seed: int = 0,
) -> StrideRow:
    """The row of given pairs.

    Args:
        stride: steps between their ends.
        first, second: (pairs, dim) the ends.
        samples, repeats, seed: as of `stride_rows`.

    Raises:
        ValueError: no state moves, or one is not finite.
    """
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError("states must be finite, got NaN or Inf")
    difference = second - first
    moving = difference.std(0) > 1e-12 * np.maximum(np.abs(first).max(0), 1e-300)
    if not moving.any():
        raise ValueError("states must move, got states that never do")
    difference = _standardized(difference[:, moving])
    rho = (_standardized(first[:, moving]) * _standardized(second[:, moving])).mean(0)
    source, test = generator(seed, "strides", stride), EppsPulley()
    single, joint = [], []
    for _ in range(repeats):
        subsample = torch.randperm(len(difference), generator=source)[:samples].numpy()
        values = torch.from_numpy(_standardized(difference[subsample])).float()
        joint.append(float(slice_means(test, values, draw_directions(values.shape[1], SLICES, source))))
        single.append(test.statistic(values).double().numpy())

    def each(values: Any) -> tuple[float, ...]:
        """A number for each dimension: NaN where it never moves."""
        row = np.full(len(moving), np.nan)
        row[moving] = values
        return tuple(row.tolist())

    return StrideRow(
        stride=stride,
        pairs=len(first),
        rho=each(rho),
        sigreg=each(np.mean(single, 0)),
        floor=normal_floor(1),
        joint=float(np.mean(joint)),
        joint_floor=normal_floor(int(moving.sum())),
    )


@functools.cache
def normal_floor(dim: int) -> float:
    """The statistic's mean over directions for many scaled normal samples of a dimension."""
    t, _, weights = EppsPulley().grid.table
    estimated = 1 + t**2 + 3 / (dim + 2) * t**4 / 2
    return float(weights @ (1 - estimated * np.exp(-(t**2))))


def _standardized(x: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and deviation 1, scaled first: squares of huge and tiny numbers leave float64."""
    centered = x - x.mean(0)
    largest = np.abs(centered).max(0)
    centered = centered / np.where(largest > 0, largest, 1.0)
    deviation = centered.std(0)
    return np.asarray(centered / np.where(deviation > 0, deviation, 1.0))
