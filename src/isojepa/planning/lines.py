"""Straight lines in an embedding, decoded to observations or states.

Straight lines in an embedding, decoded: do they stay straight in the latents?

    y_t = (1 - t) y_s + t y_g,  t = 0, 1/T, ..., 1;  decoded to the latents z_t by a library
    length      sum |z_(t+1) - z_t| / |z_g - z_s|                  1 for a straight path at even pace
    deviation   mean distance of z_t to the line through z_s and z_g
    error       mean distance of z_t to (1 - t) z_s + t z_g

Appendix H of Klindt, LeCun & Balestriero (2026): T = 15, K = 30 pairs, k = 1 of a library of 10,000. Here
decoded endpoints are reported as they are decoded, and by default start and goal are taken out of the
library, in which they would find themselves. Retrieval alone makes paths longer than their chord: the
oracle, latents in place of embeddings under the same library, says by how much, and the difference to it
over the same pairs is what judges an encoder. Pairs nearer than a share of the typical distance are left
out and counted, for a ratio to nearly nothing says nothing. Intervals are bootstraps over pairs, for the
library as it is.

From embeddings back to latents, by a library of states whose latents are known.

    nearest   the mean latents of the k nearest embeddings; k = 1 as published
    local     a linear regression over the k nearest ones, tricube weights, with a little ridge
    learned   a ridge regression on the embedding and 256 random tanh features of it, held out

All are functions of embeddings (m, d). Nearest neighbors can only give back states of the library: a
decoded line jumps from one to the next, and is longer than the line by that alone, the less dense the
library the more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree

from isojepa.alignment.pairs import as_rows
from isojepa.linear import errors, r2_of
from isojepa.seeds import generator
from isojepa.statistics.intervals import Interval
from isojepa.validation import check_count, check_number, choose, short_repr, validate_fields, validate_types

_FEATURES = 256
_PENALTIES = np.logspace(-8, 1, 10)  # of ridge, relative to the mean square of a feature
_MIN_ROWS = 20  # of a library from which a decoder is learned


@dataclass(frozen=True)
class LatentDecoder:
    """A map from embeddings to latents.

    Attributes:
        name: how it was made.
        decode: (m, d) -> (m, dim).
        r2: of a learned one, on a fifth of the library that it was not fitted on; None for others.
    """

    name: str
    decode: Callable[[np.ndarray], np.ndarray]
    r2: float | None = None

    def __call__(self, embeddings: np.ndarray) -> np.ndarray:
        return self.decode(embeddings)


@validate_types
def make_decoder(
    name: str, embeddings: Any, latents: Any, k: int | None = None, seed: int = 0
) -> LatentDecoder:
    """Make a decoder of a library.

    Args:
        name: nearest, local or learned.
        embeddings: (n, d) of the library.
        latents: (n, dim) of the same states.
        k: neighbors; by default 1 of `nearest`, 4 (d + 1) of `local`.
        seed: draws features and the split of `learned`.

    Raises:
        ValueError: the name is unknown, rows differ in number or are not finite, or k is more than the
            library has.

    Example:
        >>> decoder = make_decoder("nearest", np.array([[0.0], [1.0]]), np.array([[5.0], [7.0]]))
        >>> decoder(np.array([[0.8]])).tolist()
        [[7.0]]
    """
    make = choose("decoder", name, DECODERS)
    embeddings, latents = library(embeddings, latents)
    if name == "learned":
        return _learned(embeddings, latents, seed)
    count = {"nearest": 1, "local": 4 * (embeddings.shape[1] + 1)}[name] if k is None else k
    check_count("k", count)
    if count > len(embeddings):
        raise ValueError(f"k must be at most the {len(embeddings)} states of the library, got {count}")
    return make(embeddings, latents, count)


def library(embeddings: Any, latents: Any) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings (n, d) and latents (n, dim) of the same states, float64.

    Raises:
        ValueError: their rows differ in number, or a number is not finite.
    """
    embeddings, latents = as_rows("embeddings", embeddings), as_rows("latents", latents)
    if len(embeddings) != len(latents):
        raise ValueError(
            f"embeddings and latents must have a row for each state, got {len(embeddings)} and {len(latents)}"
        )
    return embeddings, latents


def _nearest(embeddings: np.ndarray, latents: np.ndarray, k: int) -> LatentDecoder:
    tree = cKDTree(embeddings)

    def decode(queries: np.ndarray) -> np.ndarray:
        _, places = tree.query(queries, k=[*range(1, k + 1)])
        return np.asarray(latents[places].mean(1))

    return LatentDecoder(f"{k} nearest", decode)


def _local(embeddings: np.ndarray, latents: np.ndarray, k: int) -> LatentDecoder:
    tree = cKDTree(embeddings)

    def decode(queries: np.ndarray) -> np.ndarray:
        distances, places = map(np.asarray, tree.query(queries, k=[*range(1, k + 1)]))
        reach = 1.001 * distances[:, -1:] + np.finfo(float).tiny  # the furthest counts a little
        weights = np.sqrt((1 - (distances / reach) ** 3) ** 3)[..., None]
        offsets = (embeddings[places] - queries[:, None]) / reach[..., None]
        design = np.concatenate((np.ones((*places.shape, 1)), offsets), axis=2) * weights
        normal = np.einsum("mki,mkj->mij", design, design)
        # where neighbors lie in fewer dimensions than the embedding has, slopes across them are taken as 0
        sizes = np.trace(normal, axis1=1, axis2=2)[:, None, None]
        normal += 1e-9 * sizes * np.diag([0.0, *np.ones(embeddings.shape[1])])
        target = np.einsum("mki,mkj->mij", design, latents[places] * weights)
        return np.asarray(np.linalg.solve(normal, target)[:, 0])

    return LatentDecoder(f"local of {k}", decode)


def _learned(embeddings: np.ndarray, latents: np.ndarray, seed: int) -> LatentDecoder:
    if len(embeddings) < _MIN_ROWS:
        raise ValueError(f"a learned decoder needs at least {_MIN_ROWS} states, got {len(embeddings)}")
    source = generator(seed, "plan", "decoder")
    center, scale = embeddings.mean(0), embeddings.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    slopes = torch.randn(embeddings.shape[1], _FEATURES, generator=source, dtype=torch.float64).numpy()
    places = torch.randn(_FEATURES, generator=source, dtype=torch.float64).numpy()

    def features(rows: np.ndarray) -> np.ndarray:
        z = (rows - center) / scale
        curved = np.tanh(z @ slopes / np.sqrt(embeddings.shape[1]) + places)
        return np.concatenate((np.ones((len(z), 1)), z, curved), axis=1)

    order = torch.randperm(len(embeddings), generator=source).numpy()
    fifth = len(order) // 5
    score, choice, fit = order[:fifth], order[fifth : 2 * fifth], order[2 * fifth :]
    design = features(embeddings[fit])
    mean = latents[fit].mean(0)
    values, vectors = np.linalg.eigh(design.T @ design / len(fit))
    target = vectors.T @ (design.T @ (latents[fit] - mean)) / len(fit)
    solutions = [vectors @ (target / (np.maximum(values, 0) + one)[:, None]) for one in _PENALTIES]
    chosen = features(embeddings[choice])
    best = min(solutions, key=lambda matrix: float(((latents[choice] - mean - chosen @ matrix) ** 2).sum()))

    def decode(queries: np.ndarray) -> np.ndarray:
        return np.asarray(mean + features(queries) @ best)

    residual, spread = errors(latents[score], decode(embeddings[score]))
    return LatentDecoder("learned", decode, float(r2_of(residual.sum(0), spread.sum(0)).mean()))


DECODERS: dict[str, Callable[[np.ndarray, np.ndarray, int], LatentDecoder]] = {
    "nearest": _nearest,
    "local": _local,
    "learned": _learned,
}


STEPS, PAIRS = 15, 30  # as published
_DRAWS = 2_000  # of the bootstrap
_ROUNDING = 1e-9  # difference of lengths that is none
_BLOCK = 256  # pairs whose lines are decoded at once


@dataclass(frozen=True)
class LineSpec:
    """How lines are drawn and decoded.

    Attributes:
        decoder: nearest, local or learned.
        k: neighbors; the decoder's own default if None.
        steps: T.
        held_out: whether start and goal are taken out of the library; the paper leaves them in.
        least_chord: pairs nearer than this share of the root mean square distance of two states are left out.
        confidence: of the intervals.
        seed: of the bootstrap and of a learned decoder.
    """

    decoder: str = "nearest"
    k: int | None = None
    steps: int = STEPS
    held_out: bool = True
    least_chord: float = 0.1
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        validate_fields(self)
        check_count("steps", self.steps)
        check_number("least_chord", self.least_chord, "be finite and not negative", lambda value: value >= 0)
        check_number("confidence", self.confidence, "lie in (0, 1)", lambda value: 0 < value < 1)


@dataclass(frozen=True)
class LineErrors:
    """Decoded lines of one embedding.

    Attributes:
        pairs: (K, 2) rows of start and goal that count.
        paths: (K, T + 1, dim) decoded latents, endpoints as decoded.
        lengths, deviations, errors, endpoint_errors: (K,) of each pair; the last is the mean distance of the
            decoded start and goal to the true ones.
        length, deviation, error, endpoint_error: their means, with intervals.
        excluded: pairs that were left out because start and goal are too near.
        library: states that lines were decoded by.
        decoder: its name.
        decoder_r2: held-out R^2 of a learned decoder; None for others.
    """

    pairs: np.ndarray = field(repr=False)
    paths: np.ndarray = field(repr=False)
    lengths: np.ndarray = field(repr=False)
    deviations: np.ndarray = field(repr=False)
    errors: np.ndarray = field(repr=False)
    endpoint_errors: np.ndarray = field(repr=False)
    length: Interval
    deviation: Interval
    error: Interval
    endpoint_error: Interval
    excluded: int
    library: int
    decoder: str
    decoder_r2: float | None

    def to_dict(self) -> dict[str, Any]:
        """The means with their ends, for JSON."""
        names = ("length", "deviation", "error", "endpoint_error")
        means = {name: vars(getattr(self, name)) for name in names}
        counts = {"pairs": len(self.pairs), "excluded": self.excluded, "library": self.library}
        return {**means, **counts, "decoder": self.decoder, "decoder_r2": self.decoder_r2}


@dataclass(frozen=True)
class LineComparison:
    """An encoder's lines beside the oracle's, over the same pairs and library.

    Attributes:
        encoder, oracle: their lines.
        length, deviation, error: mean differences, encoder less oracle, with intervals over pairs.
    """

    encoder: LineErrors
    oracle: LineErrors
    length: Interval
    deviation: Interval
    error: Interval

    @property
    def verdict(self) -> str:
        """Paths against the oracle's: `indistinguishable`, `longer` or `shorter`.

        Indistinguishable means that 0 lies in the interval of the difference of lengths; its upper end says
        how much longer paths may still be.
        """
        if self.length.low <= _ROUNDING and self.length.high >= -_ROUNDING:
            return "indistinguishable"
        return "longer" if self.length.low > 0 else "shorter"

    def to_dict(self) -> dict[str, Any]:
        """Both and their differences, for JSON."""
        differences = {name: vars(getattr(self, name)) for name in ("length", "deviation", "error")}
        both = {"encoder": self.encoder.to_dict(), "oracle": self.oracle.to_dict()}
        return {"verdict": self.verdict, "difference": differences, **both}

    def __str__(self) -> str:
        return (
            f"length over chord {self.encoder.length}, oracle {self.oracle.length}, "
            f"difference {self.length}: {self.verdict}\n"
            f"deviation {self.encoder.deviation}, oracle {self.oracle.deviation}, "
            f"difference {self.deviation}\n"
            f"{len(self.encoder.pairs)} pairs ({self.encoder.excluded} too near), "
            f"{self.encoder.library} states, {self.encoder.decoder}"
        )


@validate_types
def draw_pairs(states: int, count: int = PAIRS, seed: int = 0) -> np.ndarray:
    """Draw (count, 2) rows of start and goal, uniformly, no state with itself; the same for every encoder.

    Raises:
        ValueError: fewer than 2 states.
    """
    check_count("states", states, least=2)
    check_count("count", count)
    source = generator(seed, "plan", "pairs")
    start = torch.randint(states, (count,), generator=source)
    further = torch.randint(1, states, (count,), generator=source)
    return torch.stack((start, (start + further) % states), dim=1).numpy()


@validate_types
def measure_lines(embeddings: Any, latents: Any, pairs: Any, spec: LineSpec | None = None) -> LineErrors:
    """Decode straight lines between pairs of states and measure how straight they are.

    Args:
        embeddings: (n, d) of the library, start and goal among them.
        latents: (n, dim) of the same states.
        pairs: (K, 2) rows of start and goal.
        spec: how.

    Raises:
        ValueError: rows do not match or are not finite, pairs are no rows of the library, all of them are too
            near, or the library is smaller than the decoder needs.
    """
    spec = LineSpec() if spec is None else spec
    embeddings, latents = library(embeddings, latents)
    pairs = _check_pairs(pairs, len(embeddings))
    start, goal = latents[pairs[:, 0]], latents[pairs[:, 1]]
    chords = np.linalg.norm(goal - start, axis=1)
    typical = float(np.sqrt(2 * latents.var(0).sum()))
    far = chords > spec.least_chord * typical
    if far.sum() < 2:  # one has no interval
        raise ValueError(
            f"at least 2 pairs must lie apart, got {far.sum()} of {len(pairs)} with a distance of more than "
            f"{spec.least_chord} of the typical {typical:.3g}: draw more, or lower least_chord"
        )
    pairs, start, goal, chords = pairs[far], start[far], goal[far], chords[far]
    unused = np.ones(len(embeddings), dtype=bool)
    unused[pairs.ravel()] = not spec.held_out
    if not unused.any():
        raise ValueError("the library must have states besides the starts and goals, got none")
    decoder = make_decoder(spec.decoder, embeddings[unused], latents[unused], spec.k, spec.seed)
    t = np.linspace(0.0, 1.0, spec.steps + 1)[:, None]
    ends = embeddings[pairs]
    paths = np.concatenate(
        [_decoded(decoder.decode, ends[i : i + _BLOCK], t) for i in range(0, len(pairs), _BLOCK)]
    )
    along = (goal - start) / chords[:, None]
    straight = start[:, None] + t * (goal - start)[:, None]
    off = paths - start[:, None]
    across = off - np.einsum("ktd,kd->kt", off, along)[..., None] * along[:, None]
    misses = np.linalg.norm(paths - straight, axis=2)
    lengths = np.linalg.norm(np.diff(paths, axis=1), axis=2).sum(1) / chords
    deviations, errors = np.linalg.norm(across, axis=2).mean(1), misses.mean(1)
    endpoint_errors = misses[:, [0, -1]].mean(1)
    return LineErrors(
        pairs=pairs,
        paths=paths,
        lengths=lengths,
        deviations=deviations,
        errors=errors,
        endpoint_errors=endpoint_errors,
        length=_bootstrap(lengths, spec),
        deviation=_bootstrap(deviations, spec),
        error=_bootstrap(errors, spec),
        endpoint_error=_bootstrap(endpoint_errors, spec),
        excluded=int((~far).sum()),
        library=int(unused.sum()),
        decoder=decoder.name,
        decoder_r2=decoder.r2,
    )


@validate_types
def compare_lines(embeddings: Any, latents: Any, pairs: Any, spec: LineSpec | None = None) -> LineComparison:
    """Measure an encoder's lines beside the oracle's: true latents as embeddings, everything else the same.

    Args:
        embeddings, latents, pairs, spec: as of `measure_lines`.

    Example:
        >>> z = torch.randn(500, 2, generator=generator(0, "example")).numpy()
        >>> compare_lines(z @ [[0.6, -0.8], [0.8, 0.6]], z, draw_pairs(500)).verdict
        'indistinguishable'
    """
    spec = LineSpec() if spec is None else spec
    encoder = measure_lines(embeddings, latents, pairs, spec)
    oracle = measure_lines(latents, latents, pairs, spec)
    differences = {
        name: _bootstrap(getattr(encoder, f"{name}s") - getattr(oracle, f"{name}s"), spec)
        for name in ("length", "deviation", "error")
    }
    return LineComparison(encoder, oracle, **differences)


@validate_types
def density_curve(
    embeddings: Any, latents: Any, pairs: Any, sizes: Sequence[int], spec: LineSpec | None = None
) -> dict[int, LineComparison]:
    """The comparison for libraries of several sizes, each a random part of the next; starts and goals stay.

    Args:
        embeddings, latents, pairs, spec: as of `measure_lines`.
        sizes: numbers of states besides the starts and goals, ascending or not.

    Raises:
        ValueError: a size is larger than what there is.
    """
    spec = LineSpec() if spec is None else spec
    embeddings, latents = library(embeddings, latents)
    pairs = _check_pairs(pairs, len(embeddings))
    ends, places = np.unique(pairs, return_inverse=True)
    others = np.setdiff1d(np.arange(len(embeddings)), ends)
    order = torch.randperm(len(others), generator=generator(spec.seed, "plan", "density")).numpy()
    measures = {}
    for size in sizes:
        check_count("sizes", size)
        if size > len(others):
            raise ValueError(
                f"sizes must be at most the {len(others)} states besides starts and goals, got {size}"
            )
        rows = np.concatenate((ends, others[order[:size]]))
        measures[size] = compare_lines(embeddings[rows], latents[rows], places.reshape(pairs.shape), spec)
    return measures


def _decoded(decode: Callable[[np.ndarray], np.ndarray], ends: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Latents (K, T + 1, dim) along the lines between ends (K, 2, d)."""
    lines = (1 - t) * ends[:, :1] + t * ends[:, 1:]
    return np.asarray(decode(lines.reshape(-1, lines.shape[-1])).reshape(*lines.shape[:2], -1))


def _check_pairs(pairs: Any, states: int) -> np.ndarray:
    array = np.asarray(pairs)
    if array.ndim != 2 or array.shape[1] != 2 or not len(array) or array.dtype.kind not in "iu":
        raise ValueError(f"pairs must be (K, 2) rows of start and goal, got {short_repr(pairs)}")
    if array.min() < 0 or array.max() >= states:
        raise ValueError(
            f"pairs must be rows 0 to {states - 1} of the library, got {array.min()} to {array.max()}"
        )
    return array


def _bootstrap(values: np.ndarray, spec: LineSpec) -> Interval:
    """The mean with its studentized bootstrap interval over redrawn pairs.

    Lengths have a long tail, for which percentile intervals undercover.
    """
    count, middle = len(values), float(values.mean())
    source = generator(spec.seed, "plan", "bootstrap")  # the same pairs for every number
    resamples = values[torch.randint(count, (_DRAWS, count), generator=source).numpy()]
    spreads = resamples.std(1, ddof=1)
    varied = spreads > 1e-12 * max(float(np.abs(values).max()), np.finfo(float).tiny)
    error = float(values.std(ddof=1))
    if not varied.any():
        return Interval(middle, middle, middle)
    scores = (resamples.mean(1)[varied] - middle) / spreads[varied]
    outside = (1 - spec.confidence) / 2
    low, high = np.quantile(scores, (outside, 1 - outside))
    return Interval(middle, middle - float(high) * error, middle - float(low) * error)
