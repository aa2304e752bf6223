"""Are these embeddings N(0, I)? Every test of the library at once, and the directions in which they are not.

Each line is a test with its p-value, calibrated by simulating N(0, I) with the same number of samples and
dimensions. Samples must be independent: of rows that repeat one is tested for each state, and of successive
rows that depend on each other one in `memory` (`statistics.memory`). At most a few hundred to a thousand
samples are used: with very many, every real embedding is rejected, and the question becomes how far it is,
which the statistics say.

The worst directions are searched on one half of the samples, by ascent of the Epps-Pulley statistic from
coordinate axes, random directions and independent components (Hyvarinen 1999), and judged on the other half,
so that the search is not mistaken for a finding. The worst of them is one more test.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa import ranks
from isojepa.certificates.pairs import PairRows
from isojepa.data.array_files import read_embeddings
from isojepa.objectives.directions import draw_directions
from isojepa.objectives.gaussianity import MULTIVARIATE, UNIVARIATE, EppsPulley, Sliced
from isojepa.objectives.gaussianity.epps_pulley import plain_epps_pulley, plain_slopes
from isojepa.objectives.gaussianity.sliced import SharedSample, Test, simulate_together
from isojepa.objectives.gaussianity.statistic import warn_if_swapped, whitened
from isojepa.seeds import generator
from isojepa.statistics.memory import measure_memory, repeated_states
from isojepa.validation import validate_types

_PAIRS = 500  # samples for the tests that compare all pairs
_START, _ASCENT, _ITERATIONS = 256, 40, 30  # directions and steps of the search
_LEAST = 20  # rows
_LARGEST = 1e6  # size beyond which float32 has no digits left for the tests
_LOOKED = 20_000  # rows that dependence is measured on
_SEARCH = 4000  # samples for the search and its judgement
_SAME = 0.8  # cosine above which two directions count as one
_SKIPPED = ("epps-pulley-exact",)  # the same number as epps-pulley, for more work


@dataclass(frozen=True)
class Outcome:
    """One test.

    Attributes:
        name: of the test.
        kind: "slices" for the mean over slices, "worst slice" for the maximum, "searched slice" for the worst
            direction that a search found, or "all dimensions".
        statistic: its value.
        p: its p-value.
        samples: how many were used.
        floor: the smallest p-value that the simulation can give.
        reason: why the test has no value, where it has none: then statistic and p are NaN.
    """

    name: str
    kind: str
    statistic: float
    p: float
    samples: int
    floor: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class Slice:
    """One direction.

    Attributes:
        direction: (dim,) unit vector.
        statistic: Epps-Pulley, of samples that did not choose the direction.
        p: of that statistic.
        projections: of those samples.
    """

    direction: np.ndarray = field(repr=False)
    statistic: float
    p: float
    projections: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class Examination:
    """What the tests say of embeddings.

    Attributes:
        lines: one per test.
        worst: the least Gaussian directions found, worst first.
        samples, dim: of the embeddings.
        effective: rows that are nearly independent; only these are tested.
        mean_norm: length of the mean; 0 for N(0, I).
        variances: smallest and largest eigenvalue of the covariance; both 1 for N(0, I).
        standardized: whether the tests are for a normal law of any mean and covariance.
        draws: simulations behind each p-value.
        dropped: rows with NaN or Inf that were left out.
    """

    lines: list[Outcome]
    worst: list[Slice]
    samples: int
    effective: int
    dim: int
    mean_norm: float
    variances: tuple[float, float]
    standardized: bool
    draws: int
    dropped: int = 0

    @property
    def assumption(self) -> str:
        """What the p-values assume, and the rows that they are of."""
        if self.effective == self.samples:
            return f"p assumes independent rows; no dependence shows in the order of the {self.samples}."
        return f"p assumes independent rows: of {self.samples}, {self.effective} effective ones are tested."

    @property
    def law(self) -> str:
        """The null."""
        return "a normal law" if self.standardized else "N(0, I)"

    @property
    def defined(self) -> list[Outcome]:
        """Tests that have a value for these embeddings."""
        return [line for line in self.lines if not line.reason]

    def level(self, line: Outcome) -> float:
        """The p-value that counts: 5 % over the number of tests, or the smallest that simulation can give."""
        return max(0.05 / len(self.defined), line.floor)

    @property
    def false_alarm(self) -> float:
        """At most this often one test or more rejects embeddings that are Gaussian."""
        return min(1.0, sum(self.level(line) for line in self.defined))

    @property
    def rejected(self) -> list[Outcome]:
        """Tests that reject."""
        return [line for line in self.defined if line.p <= self.level(line)]

    @property
    def verdict(self) -> str:
        """One sentence."""
        count, total = len(self.rejected), len(self.defined)
        if count == 0:
            return f"No test tells these embeddings from {self.law}."
        return f"Not {self.law}: {count} of {total} tests reject it."

    def to_dict(self) -> dict[str, Any]:
        """Plain nested values, without projections."""
        rejected = self.rejected
        return {
            "verdict": self.verdict,
            "assumption": self.assumption,
            "samples": self.samples,
            "effective": self.effective,
            "dim": self.dim,
            "mean_norm": self.mean_norm,
            "variances": list(self.variances),
            "standardized": self.standardized,
            "draws": self.draws,
            "dropped": self.dropped,
            "false_alarm": self.false_alarm,
            "tests": [{**vars(line), "rejects": line in rejected} for line in self.lines],
            "worst": [
                {"direction": one.direction.tolist(), "statistic": one.statistic, "p": one.p}
                for one in self.worst
            ],
        }


@ranks.alone()  # these are all the embeddings, also in a distributed job
@validate_types
def examine(
    h: Any,
    *,
    samples: int = 1000,
    slices: int = 32,
    sampler: str = "orthogonal",
    draws: int = 499,
    worst: int = 6,
    standardize: bool = False,
    drop: bool = False,
    seed: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
) -> Examination:
    """Run every test of Gaussianity on embeddings.

    Args:
        h: (n, dim) embeddings, array or tensor, if possible in the order of time; or the name of their file.
        samples: rows to test, chosen at random; the tests of all pairs take at most 500.
        slices: directions of the univariate tests.
        sampler: how they are drawn, see `isojepa.objectives.directions`.
        draws: simulations of the null; the smallest p-value is 1 / (draws + 1), twice that if two-sided.
        worst: directions to return.
        standardize: test for a normal law of any mean and covariance.
        drop: leave out rows with NaN or Inf instead of refusing them.
        seed: draws rows, directions and simulations.
        progress: called with simulations done, their number, and what they are for.

    Raises:
        ValueError: h is not a finite matrix, or has too few independent rows.

    Example:
        >>> h = np.random.default_rng(0).standard_t(3, (300, 4))
        >>> examine(h, slices=8, draws=19).verdict[:16]
        'Not N(0, I): 23 '
    """
    embeddings = PairRows(read_embeddings(h) if isinstance(h, str | Path) else h, drop=drop)
    checked = embeddings.whole()
    n, dim = checked.shape
    _check(checked, samples, worst, standardize)
    warn_if_swapped(torch.empty(checked.shape, device="meta"))
    alone = _independent(checked, seed)
    needed = max(_LEAST, dim + 1) if standardize else _LEAST
    if len(alone) < needed:
        raise ValueError(
            f"embeddings must have at least {needed} independent rows to be tested, got {len(alone)} "
            f"effective rows of {n}: rows repeat, or successive ones depend on each other"
        )
    order = torch.randperm(len(alone), generator=generator(seed, "rows"))[: max(samples, _SEARCH)].numpy()
    x = torch.from_numpy(checked[alone[order]]).float()
    lines = []
    for tests, rows in (
        (list(_sliced_tests(slices, sampler, seed, standardize)), samples),
        (list(_whole_tests(standardize)), min(samples, _PAIRS)),
    ):
        lines += _outcomes(tests, x[:rows], draws, seed, progress)
    found = worst_slices(x, worst, standardize, seed)
    if not standardize:  # else the judging half was whitened by itself, and is no sample of its own
        p = min(1.0, len(found) * min(one.p for one in found))
        line = Outcome("epps-pulley", "searched slice", found[0].statistic, p, len(found[0].projections))
        lines.insert(sum(line.kind != "all dimensions" for line in lines), line)
    eigenvalues = np.linalg.eigvalsh(np.atleast_2d(np.cov(checked, rowvar=False)))
    return Examination(
        lines,
        found,
        n,
        len(alone),
        dim,
        float(np.linalg.norm(checked.mean(0))),
        (max(0.0, float(eigenvalues[0])), float(eigenvalues[-1])),
        standardize,
        draws,
        embeddings.dropped,
    )


def _independent(h: np.ndarray, seed: int) -> np.ndarray:
    """Numbers of rows that are nearly independent: the first of each state, and one in `memory` of these."""
    rows = np.linspace(0, len(h) - 1, min(len(h), _LOOKED)).round().astype(int)
    states = repeated_states(h[rows])
    if states is not None:
        rows = rows[np.sort(np.unique(states, return_index=True)[1])]
    memory = measure_memory(h[rows], None, generator(seed, "memory"))
    return np.arange(len(h)) if states is None and memory == 1 else rows[::memory]


def _check(h: np.ndarray, samples: int, worst: int, standardize: bool) -> None:
    """Say what cannot be tested, before anything is."""
    n, dim = h.shape
    if n < _LEAST:
        raise ValueError(f"embeddings must have at least {_LEAST} rows to be tested, got {n}")
    if samples < _LEAST:
        raise ValueError(f"samples must be at least {_LEAST}, got {samples}")
    if worst < 1:
        raise ValueError(f"worst must be positive, got {worst}")
    if standardize and min(n, samples) <= dim:
        raise ValueError(f"standardize needs more rows than the {dim} dimensions, got {min(n, samples)}")
    largest = float(np.abs(h).max())
    if largest > _LARGEST:
        raise ValueError(
            f"embeddings must be at most {_LARGEST:g} in size, got {largest:.3g}: scale them first"
        )


def _outcomes(
    tests: list[tuple[str, str, Test]],
    x: Tensor,
    draws: int,
    seed: int,
    progress: Callable[[int, int, str], None] | None,
) -> list[Outcome]:
    """A line for each test; without a value, but with the reason, where it is not defined for the samples."""
    sample = SharedSample(x)
    values: dict[int, Tensor] = {}
    lines: dict[int, Outcome] = {}
    for index, (name, kind, test) in enumerate(tests):
        try:
            values[index] = sample.value(test)
        except ValueError as error:
            lines[index] = Outcome(name, kind, math.nan, math.nan, len(x), reason=str(error))
    laws = simulate_together(
        [tests[index][2] for index in values],
        len(x),
        x.shape[-1],
        draws,
        seed,
        None if progress is None else lambda done, total: progress(done, total, tests[0][1]),
    )
    for (index, value), law in zip(values.items(), laws, strict=True):
        name, kind, test = tests[index]
        p = law.pvalue(value.nan_to_num(nan=math.inf), test.two_sided)  # too far out for its own arithmetic
        floor = (2 if test.two_sided else 1) / (draws + 1)
        lines[index] = Outcome(name, kind, float(value), float(p), len(x), floor)
    return [lines[index] for index in sorted(lines)]


def worst_slices(x: Tensor, count: int, standardize: bool = False, seed: int = 0) -> list[Slice]:
    """The least Gaussian directions: found on one half of (n, dim) samples, judged on the other."""
    if standardize:
        x = whitened(x).float()
    search, judge = x[: len(x) // 2], x[len(x) // 2 :]
    test = EppsPulley()
    unit = _ascend(test, search, _starts(test, search, 4 * count, seed))
    projections = judge @ unit.T
    statistics = _epps_pulley(test, projections)
    ps = test.null(len(judge)).pvalue(statistics)
    found: list[int] = []
    for index in _epps_pulley(test, search @ unit.T).argsort(descending=True).tolist():
        if len(found) < count and all(abs(float(unit[index] @ unit[other])) < _SAME for other in found):
            found.append(index)
    found.sort(key=lambda index: -float(statistics[index]))
    return [
        Slice(unit[i].numpy(), float(statistics[i]), float(ps[i]), projections[:, i].numpy()) for i in found
    ]


def _starts(test: EppsPulley, x: Tensor, count: int, seed: int) -> Tensor:
    """The most promising of axes, random directions and independent components."""
    dim = x.shape[1]
    random = draw_directions(dim, _START, generator(seed, "search"))
    candidates = torch.cat((torch.eye(dim, dtype=x.dtype)[:_START], random, _components(x, seed)))
    return candidates[_epps_pulley(test, x @ candidates.T).topk(min(count, len(candidates))).indices]


def _components(x: Tensor, seed: int) -> Tensor:
    """Directions of independent components: the symmetric fixed-point iteration of FastICA, with tanh."""
    n, dim = x.shape
    if n < 2 * dim:
        return x.new_zeros(0, dim)  # too few samples to tell components from chance
    centered = (x - x.mean(0)).double()
    values, vectors = torch.linalg.eigh(centered.T @ centered / n)
    if values[0] <= 1e-9 * values[-1]:
        return x.new_zeros(0, dim)  # not all dimensions vary
    whitening = vectors / values.sqrt()
    y = (centered @ whitening).float()
    w = draw_directions(dim, min(dim, _START), generator(seed, "components"), "orthogonal")
    for _ in range(_ITERATIONS):
        g = torch.tanh(y @ w.T)
        w = g.T @ y / n - (1 - g**2).mean(0).unsqueeze(1) * w
        u, _, v = torch.linalg.svd(w, full_matrices=False)
        w = u @ v
    back = w @ whitening.float().T
    unit: Tensor = back / back.norm(dim=1, keepdim=True)
    return unit


def _ascend(test: EppsPulley, x: Tensor, start: Tensor) -> Tensor:
    """Unit vectors that climb the statistic of the projections of x, by Adam (Kingma & Ba 2015).

    Written out: to make one of torch's optimisers imports its compiler, which takes longer than the search.
    """
    directions, first, second = start.clone(), torch.zeros_like(start), torch.zeros_like(start)
    for step in range(1, 1 + (_ASCENT if x.shape[1] > 1 else 0)):
        length = directions.norm(dim=1, keepdim=True)
        unit = directions / length
        slope = plain_slopes(x @ unit.T, test.grid, test.unbiased).T @ x
        slope = (slope - (slope * unit).sum(1, keepdim=True) * unit) / length  # lengths change nothing
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        scale = (second / (1 - 0.999**step)).sqrt() + 1e-8
        directions = directions + 0.02 * first / (1 - 0.9**step) / scale
    found: Tensor = directions / directions.norm(dim=1, keepdim=True)
    return found


def _epps_pulley(test: EppsPulley, projections: Tensor) -> Tensor:
    """The statistic of each column, without the compiler, whose start takes longer than this."""
    return plain_epps_pulley(projections, test.grid, test.unbiased)


def _sliced_tests(slices: int, sampler: str, seed: int, standardize: bool) -> Iterator[tuple[str, str, Test]]:
    """Name, kind and test of every line that looks at slices."""
    for name, univariate in UNIVARIATE.items():
        if name not in _SKIPPED:
            yield name, "slices", Sliced(univariate(), slices, sampler, seed, "mean", standardize)
    yield "epps-pulley", "worst slice", Sliced(EppsPulley(), slices, sampler, seed, "max", standardize)


def _whole_tests(standardize: bool) -> Iterator[tuple[str, str, Test]]:
    """Name, kind and test of every line that looks at all dimensions at once."""
    for name, multivariate in MULTIVARIATE.items():
        always = name.startswith("mardia")  # by definition
        yield name, "all dimensions", multivariate(standardize=standardize or always)
