r"""Reweight recorded pairs towards the assumptions of the theorems, and measure the effect.

Isotropise: choose among recorded pairs so that they come nearer to the Gaussian world of the theorems.

The data are not changed; how often each pair is drawn is. At strength 0 that is the data's own law, at 1
the full correction, as far as the data reach. Latents (or a proxy) are whitened; the target is N(0,
scale^2) in each coordinate, with a scale below 1 where the data have less room than a Gaussian takes, and
the pair law that of the Ornstein-Uhlenbeck process, in which u and v (see `pair_law`) are N(0, I).

    rates      second moments of (u, v): every direction gets the same correlation rho; the shape stays
    moments    all moments of (u, v) up to degree four: shape, rates, and noise alike at every state
    marginals  the law of each coordinate, in bins; transitions are taken as they come
    reweight   the density ratio of (u, v): normal over a nearest-neighbour estimate of the data's own
    stride     no weights: another stride, whose (u, v) are nearest to N(0, I), or rho to the one given

The first three are maximum-entropy tiltings (see `tilting`), whose wanted moments move from the data's own
to the target's in proportion to the strength. The fourth is raised to the strength as a power. With the
strength, pairs are also turned round more often, up to half of them: then both ends have one law. Weights
only ever choose among pairs that exist. Where the data have none, e.g. slow motion through a region that is
only crossed fast, no weight makes one: that takes other data, and the effect shows it as few effective pairs
or as a distance that stays.

What isotropising did to the law of recorded pairs: measures before and after.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.arguments import checked
from isojepa.isotropise.weighing import (
    WEIGHERS,
    Frame,
    PairLaw,
    Sample,
    Weigher,
    common_rho,
    lagged,
    measure_pairs,
    stand_in,
    whitening,
)
from isojepa.names import choose
from isojepa.seeds import generator
from isojepa.worlds.trajectories import Arrays, Recorded

_SENTENCES = {
    "effective_pairs": "pairs that count, out of the recorded ones",
    "effective_paths": "paths that count",
    "gaussianity": "distance of the states from a Gaussian",
    "transition": "distance of the pairs from a Gaussian process of one rate",
    "isotropy": "fastest over slowest rate; should be below 2",
    "stationarity": "distance between the two ends of the pairs",
}


@dataclass(frozen=True)
class Effect:
    """What was given and what it did.

    Attributes:
        method, strength: as asked for.
        of: "states", or "proxy" when the weights were computed from one: then so are the measures.
        stride: of the pairs, before and after.
        rho: correlation that was aimed at; NaN for "stride".
        scale: standard deviations that were aimed at, in those of the data, per coordinate.
        before, after: measures of the law of pairs.
        clipped: number of pairs whose weight was cut.
        effective_unclipped: effective pairs without the cut.
        missed: largest distance of a moment from the one aimed at, in its standard deviations.
    """

    method: str
    strength: float
    of: str
    stride: tuple[int, int]
    rho: float
    scale: tuple[float, ...]
    before: PairLaw
    after: PairLaw
    clipped: int
    effective_unclipped: float
    missed: float

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [f"{self.method}, strength {self.strength:g}, measured on the {self.of}"]
        for name, sentence in _SENTENCES.items():
            before, after = getattr(self.before, name), getattr(self.after, name)
            rows.append(f"  {name:<16} {before:>10.4g} -> {after:<10.4g} {sentence}")
        if self.stride[0] != self.stride[1]:
            rows.append(f"  {'stride':<16} {self.stride[0]:>10} -> {self.stride[1]:<10} steps of a pair")
        if self.clipped:
            rows.append(
                f"  {self.clipped} weights were cut; without that there are "
                f"{self.effective_unclipped:.4g} effective pairs"
            )
        if self.missed > 0.05:
            rows.append(f"  The aim was missed by up to {self.missed:.2g} standard deviations of a moment")
        return "\n".join(rows)


METHODS = (*WEIGHERS, "stride")
_ROOM = 2.0  # standard deviations of the target that must fit within the data's range


@dataclass(frozen=True)
class Isotropised:
    """Trajectories to train on, and what their weights did.

    Attributes:
        recorded: the same trajectories with other weights or another stride.
        effect: measures before and after.
        apply: gives other trajectories, e.g. held-out ones, the same weights as a function of the pair.
    """

    recorded: Recorded
    effect: Effect
    apply: Callable[[Recorded], Recorded] = field(repr=False)


@checked
def isotropise(
    source: Recorded | Arrays,
    strength: float = 1.0,
    method: str = "moments",
    *,
    stride: int | None = None,
    strides: Sequence[int] | None = None,
    proxy: Arrays | Callable[[Tensor], Tensor] | None = None,
    rho: float | None = None,
    scale: Sequence[float] | None = None,
    least: float = 500.0,
    clip: float = 1000.0,
    samples: int = 100_000,
    seed: int = 0,
) -> Isotropised:
    """Weigh recorded pairs so that they come nearer to a Gaussian process of one rate.

    Args:
        source: recorded trajectories, or their states as `Recorded` takes them.
        strength: from 0, the data as they are, to 1.
        method: rates, moments, marginals, reweight or stride.
        stride: of the pairs, when the source is not `Recorded`; 1 by default.
        strides: candidates for the method "stride"; by default powers of two up to a third of a path.
        proxy: coordinates to isotropise in place of the states: values beside them, or a function of
            observations such as an encoder in evaluation mode (see `isojepa.isotropise.weighing`).
        rho: correlation to aim at; by default the one of the geometric mean of the data's rates.
        scale: standard deviations to aim at for each whitened coordinate, in (0, 1]; by default what fits.
        least: effective pairs that must be left.
        clip: largest weight of a pair, in mean weights.
        samples: pairs that the weights are fitted on; they are then computed for all.
        seed: draws those, and the directions of the measures.

    Returns:
        The trajectories with their new weights, and what they did.

    Raises:
        ValueError: the strength is outside [0, 1] or leaves too few pairs (then the largest that does not is
            said), or the method is unknown.

    Example:
        >>> from isojepa.worlds.goals import GoalReaching
        >>> paths = GoalReaching().trajectory(100, 120, generator(0, "data"))
        >>> found = isotropise(paths, 1.0, "rates", stride=8)
        >>> found.effect.after.isotropy < found.effect.before.isotropy
        True
    """
    if not 0 <= strength <= 1:
        raise ValueError(f"strength must lie in [0, 1], got {strength}")
    choose("method", method, dict.fromkeys(METHODS))
    if rho is not None and not 0 < rho < 1:
        raise ValueError(f"rho must lie in (0, 1), got {rho}")
    if not clip > 1:
        raise ValueError(f"clip must be above 1 mean weight, got {clip}")
    if int(samples) != samples or samples < 100:
        raise ValueError(f"samples must be an integer of at least 100, got {samples}")
    if strides is not None and method != "stride":
        raise ValueError(f"strides are candidates of the method 'stride', got method {method!r}")
    if isinstance(source, Recorded):
        if stride is not None:
            raise ValueError(f"stride belongs to the recording: use recorded.strided({stride})")
        recorded = source
    else:
        recorded = Recorded(source, stride=1 if stride is None else stride)
    shadow = recorded if proxy is None else stand_in(recorded, proxy)
    wanted = _given_scale(scale, shadow.dim)
    before = measure_pairs(shadow, seed)
    if method == "stride":
        chosen, after = _choose_stride(shadow, before, strength, strides, rho, seed)
        effect = _effect(method, strength, proxy, before, after, stride=(recorded.stride, chosen))
        return Isotropised(recorded.strided(chosen), effect, lambda other: other.strided(chosen))
    if strength == 0:
        effect = _effect(method, strength, proxy, before, before, stride=(recorded.stride, recorded.stride))
        return Isotropised(recorded, effect, lambda other: other)
    sample = _sample(shadow, samples, seed, rho, wanted, shaped=method != "rates")
    weigher = WEIGHERS[method](sample, float(strength))
    weights, unclipped, cut = _weights(shadow, sample.frame, weigher, clip)
    left = float(weights.sum() ** 2 / (weights**2).sum())
    if left < least:
        raise ValueError(_too_few(method, sample, shadow, strength, left, least, clip))
    swap = recorded.swap + (0.5 - recorded.swap) * strength
    effect = _effect(
        method,
        strength,
        proxy,
        before,
        measure_pairs(shadow.reweighted(weights, swap), seed),
        stride=(recorded.stride, recorded.stride),
        rho=sample.frame.rho,
        scale=tuple(sample.frame.scale.tolist()),
        clipped=cut,
        effective_unclipped=unclipped,
        missed=weigher.missed,
    )

    def apply(other: Recorded) -> Recorded:
        if proxy is not None and not callable(proxy):
            raise ValueError("proxy must be a function of observations to weigh other trajectories")
        like = other if proxy is None else stand_in(other, proxy)
        found = _weights(like.standardised(shadow.standardiser), sample.frame, weigher, clip)[0]
        return other.reweighted(found, other.swap + (0.5 - other.swap) * strength)

    return Isotropised(recorded.reweighted(weights, swap), effect, apply)


def _effect(method: str, strength: float, proxy: Any, before: PairLaw, after: PairLaw, **rest: Any) -> Effect:
    given: dict[str, Any] = {
        "rho": math.nan,
        "scale": (1.0,) * len(before.rho),
        "clipped": 0,
        "effective_unclipped": after.effective_pairs,
        "missed": 0.0,
    }
    of = "states" if proxy is None else "proxy"
    return Effect(method, float(strength), of, before=before, after=after, **(given | rest))


def _given_scale(scale: Sequence[float] | None, dim: int) -> np.ndarray | None:
    if scale is None:
        return None
    values = np.asarray(scale, dtype=np.float64)
    if values.shape != (dim,) or not ((values > 0) & (values <= 1)).all():
        raise ValueError(f"scale must be {dim} numbers in (0, 1], got {scale}")
    return values


def _sample(
    shadow: Recorded, samples: int, seed: int, rho: float | None, scale: np.ndarray | None, shaped: bool
) -> Sample:
    """The pairs that weights are fitted on, in the coordinates of the target."""
    index = np.arange(shadow.pairs)
    if shadow.pairs > samples:
        drawn = torch.randperm(shadow.pairs, generator=generator(seed, "isotropise"))[:samples]
        index = np.sort(drawn.numpy())
    z, z_next = shadow.states_at(index)
    base = np.full(len(index), 1 / len(index)) if shadow.weights is None else shadow.weights[index]
    base = base / base.sum()
    ends, share = np.concatenate((z, z_next)), np.concatenate((base, base)) / 2
    mean, matrix = whitening(ends, share)
    white = (ends - mean) @ matrix
    if scale is None:
        scale = _fitting(white, share) if shaped else np.ones(shadow.dim)
    half = len(index)
    if rho is None:
        rho = common_rho(lagged(white[:half], white[half:], base)[0])
    frame = Frame(mean, matrix / scale, scale, rho)
    return Sample(white[:half] / scale, white[half:] / scale, base, frame)


def _fitting(white: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The largest scale, up to 1, of which two standard deviations fit into each coordinate's range."""
    room = []
    for column in white.T:
        order = np.argsort(column)
        levels = np.cumsum(share[order])
        low, high = column[order[np.searchsorted(levels, [0.005, 0.995]).clip(max=len(order) - 1)]]
        room.append(min(-low, high) / _ROOM)
    scales: np.ndarray = np.clip(np.array(room), 0.1, 1.0)
    return scales


def _weights(shadow: Recorded, frame: Frame, weigher: Weigher, clip: float) -> tuple[np.ndarray, float, int]:
    """Weights of all pairs, effective pairs before they were clipped, and how many were."""
    logs, base = [], []
    for z, z_next, weight in shadow.chunks():
        logs.append(weigher.log_weights(*frame.enter(z, z_next)))
        base.append(weight)
    return clipped(np.concatenate(logs), np.concatenate(base), clip)


def clipped(logs: np.ndarray, base: np.ndarray, clip: float) -> tuple[np.ndarray, float, int]:
    """base exp(logs), cut at `clip` means: the weights, the effective number before, how many were cut."""
    logs = np.where(base > 0, logs, -np.inf)
    weights = base * np.exp(logs - logs.max())
    weights /= weights.mean()
    unclipped = float(weights.sum() ** 2 / (weights**2).sum())
    cut = int((weights > clip).sum())
    return np.minimum(weights, clip), unclipped, cut


def _too_few(
    method: str,
    sample: Sample,
    shadow: Recorded,
    strength: float,
    left: float,
    least: float,
    clip: float,
) -> str:
    """Say how many pairs are left, and find by bisection the strength that leaves enough."""
    low, high = 0.0, float(strength)
    for _ in range(7):
        middle = (low + high) / 2
        logs = WEIGHERS[method](sample, middle).log_weights(sample.z, sample.z_next)
        weights, _, _ = clipped(logs, sample.base, clip)
        share = weights.sum() ** 2 / (weights**2).sum() / len(weights)
        low, high = (middle, high) if share * shadow.pairs >= least else (low, middle)
    works = math.floor(100 * low) / 100
    hint = f"a strength up to {works:g} does" if works > 0 else "no strength does: record more"
    return (
        f"strength must leave at least {least:g} effective pairs, got {left:.0f} of {shadow.pairs} at "
        f"{strength:g} with method {method!r}; {hint}"
    )


def _choose_stride(
    shadow: Recorded,
    before: PairLaw,
    strength: float,
    strides: Sequence[int] | None,
    rho: float | None,
    seed: int,
) -> tuple[int, PairLaw]:
    """Move from the present stride towards the best of the candidates, in equal ratios."""
    if strength == 0:
        return shadow.stride, before
    if strides is None:
        largest = max(1, shadow.states.longest // 3)
        strides = [2**power for power in range(largest.bit_length())]
    laws = {int(stride): measure_pairs(shadow.strided(stride), seed) for stride in strides}
    usable = {stride: law for stride, law in laws.items() if math.isfinite(law.transition)}
    if not usable:
        raise ValueError(f"strides must have one over which all directions persist, got {list(strides)}")

    def distance(stride: int) -> float:
        law = usable[stride]
        return law.transition if rho is None else abs(math.log(common_rho(np.array(law.rho)) / rho))

    best = min(usable, key=distance)
    chosen = round(shadow.stride * (best / shadow.stride) ** strength)
    if chosen == shadow.stride:
        return chosen, before
    return chosen, laws[chosen] if chosen in laws else measure_pairs(shadow.strided(chosen), seed)
