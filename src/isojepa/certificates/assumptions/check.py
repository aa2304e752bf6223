"""Check what the theorems assume of a world: every line at once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from isojepa.certificates.assumptions import (
    dependence,
    dimension,
    joint,
    noise,
    rates,
    shape,
    stationarity,
)
from isojepa.certificates.assumptions.line import Assumption, unmeasured
from isojepa.certificates.assumptions.sample import LEAST, Sample, draw_sample
from isojepa.validation import choose, validate_types

_TWO_VIEWS = "It needs both views of each pair, got one."
_GIVE_BOTH = "Give z_next as well."


@validate_types
def check_assumptions(
    z: Any,
    z_next: Any = None,
    *,
    of: str = "latents",
    only: Sequence[str] | None = None,
    samples: int = 2000,
    draws: int = 199,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[Assumption, ...]:
    """Check latents, or embeddings where there are none, against what the theorems assume.

    A rotation of Gaussian latents with one rate has all of these properties too, so the embeddings of a
    recovered world pass. To pass is no proof of it: embeddings can be made Gaussian and independent by force.

    Neighbours on one trajectory depend on each other. How far apart rows must be is measured from the rows
    in their order, paths one after the other, and rows in between are left out: `effective` of a line is the
    number that is left. Rows that were shuffled do not show their memory, and count as independent.

    Args:
        z: (n, dim) latents or embeddings of the first view, array or tensor, in the order of time where there
            is one.
        z_next: (n, dim) of the second view; without it, the lines that need pairs are unclear.
        of: "latents" or "embeddings".
        only: names of the lines to measure; by default all.
        samples: rows for the tests, chosen at random of those that are independent. Rates and covariances
            use more.
        draws: permutations behind each p-value; the smallest is 1 / (draws + 1).
        seed: draws rows, directions and permutations.
        confidence: of the intervals; tests have level 1 - confidence.

    Returns:
        Lines in the order stationarity, Gaussianity, independence, additive noise, joint Gaussianity,
        isotropy, dimension.

    Raises:
        ValueError: the arrays do not match or are not finite, or an option is out of its range.

    Example:
        >>> from isojepa.seeds import generator
        >>> from isojepa.data import OrnsteinUhlenbeck
        >>> z, z_next = OrnsteinUhlenbeck(dim=2, rho=[0.9, 0.5]).sample(4000, generator(0, "data"))
        >>> [line.name for line in check_assumptions(z, z_next) if line.verdict == "fails"]
        ['isotropy']
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}")
    if samples < LEAST:
        raise ValueError(f"samples must be at least {LEAST}, got {samples}")
    if draws < 1 or 2 / (draws + 1) > 1 - confidence + 1e-12:
        least = 2 / (1 - confidence) - 1
        raise ValueError(f"draws must be at least {least:.0f} for confidence {confidence:g}, got {draws}")
    names = tuple(_MEASURES) if only is None else tuple(only)
    for name in names:
        choose("assumption", name, _MEASURES)
    sample = draw_sample(z, z_next, of, seed)
    lines = _lines(sample, names, int(samples), int(draws), confidence)
    return tuple(replace(line, effective=sample.effective, memory=sample.memory) for line in lines)


def _lines(
    sample: Sample, names: Sequence[str], rows: int, draws: int, confidence: float
) -> list[Assumption]:
    reason = _reason(sample)
    if reason:
        constant = len(sample) >= LEAST
        advice = "Check the data." if constant else "Take more samples."
        if not constant and sample.memory > 1:
            advice = "Take more or longer paths; draws that are independent but were sorted, shuffle."
        return [
            dimension.degenerate(sample)
            if constant and name == "dimension"
            else _missing(sample, name, reason, advice)
            for name in names
        ]
    found = cache(lambda: shape.search_directions(sample, rows))
    speeds = cache(lambda: rates.measure_rates(sample) if sample.z_next is not None else None)
    checks: dict[str, Callable[[], Assumption]] = {
        "stationarity": lambda: stationarity.check_stationarity(sample, rows, draws, confidence),
        "Gaussianity": lambda: shape.check_gaussianity(sample, found(), rows, confidence),
        "independence": lambda: dependence.check_independence(sample, rows, draws, confidence),
        "additive noise": lambda: noise.check_noise(sample, rows, draws, confidence),
        "joint Gaussianity": lambda: joint.check_joint(sample, rows, draws, confidence),
        "isotropy": lambda: rates.check_isotropy(sample, speeds(), confidence),  # type: ignore[arg-type]
        "dimension": lambda: dimension.check_dimension(sample, speeds(), found(), rows, confidence),
    }
    alone = sample.z_next is None
    return [
        _missing(sample, name, _TWO_VIEWS, _GIVE_BOTH) if alone and name in _OF_PAIRS else checks[name]()
        for name in names
    ]


_OF_PAIRS = ("stationarity", "additive noise", "joint Gaussianity", "isotropy")
_MEASURES = {
    "stationarity": stationarity,
    "Gaussianity": shape,
    "independence": dependence,
    "additive noise": noise,
    "joint Gaussianity": joint,
    "isotropy": rates,
    "dimension": dimension,
}


def _reason(sample: Sample) -> str:
    """Why nothing can be tested, or nothing."""
    if len(sample) < LEAST:
        if sample.memory > 1:
            return (
                f"At least {LEAST} independent samples are needed, got {len(sample)} of {sample.given}: "
                f"neighbours in the file depend on each other."
            )
        return f"At least {LEAST} samples are needed, got {len(sample)}."
    if sample.dim == 0:
        return "Every dimension is constant."
    return ""


def _missing(sample: Sample, name: str, reason: str, advice: str) -> Assumption:
    module = _MEASURES[name]
    return unmeasured(name, sample.of, module.MEASURE, module.THRESHOLD, reason, advice)
