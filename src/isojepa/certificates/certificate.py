"""The certificate: is this representation a world model, i.e. a rotation of the true latents?

It joins what labels show (`recovery`, `spectrum`) with what can be said without them (`bound`, `lags`), and
with whether the world is one the theorems speak of (`assumptions`).
"""

from dataclasses import asdict, dataclass
from typing import Any

from isojepa.certificates import grades, sentences, verdicts
from isojepa.certificates.bound import Bound, Lack
from isojepa.certificates.checks import CheckResult
from isojepa.certificates.decay import DecaySpectrum
from isojepa.certificates.eigenfunctions import Prediction
from isojepa.certificates.named import IdentifiedLatents
from isojepa.certificates.recovery import Recovery
from isojepa.certificates.rho import BoundCurve, MaximalCorrelation, RhoOrigin
from isojepa.certificates.spectrum import Spectrum
from isojepa.statistics.intervals import Interval

_UNPAIRED = 0.1  # correlation of the views below which their rows may belong to different pairs


@dataclass(frozen=True)
class Certificate:
    """What is known about a representation.

    Attributes:
        samples, dim: number and dimension of the embeddings.
        dropped: rows left out because they held NaN or Inf.
        confidence: of every interval.
        smallest_variance, mean_variance: of the embedding's principal directions.
        leading_variance: the smallest of as many as there are latents; None without them.
        correlation: of the two views, over all dimensions together; None without second views.
        recovery: comparison with the latents; None without them.
        bound: Theorem 3; None where it does not apply.
        bound_missing: why there is no bound.
        bound_lacks: the same for programs, see `isojepa.certificates.bound.NoBound`.
        rho_from: where rho comes from, see `isojepa.certificates.rho`; None without one.
        maximal: the largest correlation across views over all functions of the embedding, as far as it was
            searched: in a Gaussian world rho is no less; None in a world, which knows its rho, and unless
            asked for.
        curve: the bound for every rho that the pairs leave possible; None without pairs.
        spectrum: energy of the embedding at each degree of nonlinearity; None without Gaussian latents.
        lags: the same from the decay along trajectories, without latents; None without trajectories.
        spectrum_missing: why there is neither.
        prediction: what theory says the best white embedding of the world reaches; None for arrays, and for
            worlds that Theorem 1 speaks of, where it is all.
        assumptions: what the theorems ask of the world, measured; empty if not asked for.
        named: components that are latents of their own, see `isojepa.certificates.named`; None
            unless asked for. It changes nothing else.
        holds: whether the measured error lies within the bound, up to their intervals; None if unknown.
    """

    samples: int
    dim: int
    confidence: float
    smallest_variance: float
    mean_variance: float
    recovery: Recovery | None
    bound: Bound | None
    bound_missing: str | None
    dropped: int = 0
    bound_lacks: Lack | None = None
    correlation: Interval | None = None
    spectrum: Spectrum | None = None
    lags: DecaySpectrum | None = None
    spectrum_missing: str | None = None
    prediction: Prediction | None = None
    assumptions: tuple[CheckResult, ...] = ()
    rho_from: RhoOrigin | None = None
    maximal: MaximalCorrelation | None = None
    curve: BoundCurve | None = None
    leading_variance: float | None = None
    named: IdentifiedLatents | None = None

    @property
    def holds(self) -> bool | None:
        if self.bound is None or self.recovery is None or self.recovery.procrustes_error is None:
            return None
        if self.refuted:
            return None
        return self.recovery.procrustes_error.low <= self.bound.bound.high

    @property
    def unpaired(self) -> bool:
        """Whether the two views correlate so little that their rows seem to belong to different pairs.

        A small correlation is no sign of it in a world whose latents correlate as little.
        """
        if self.correlation is None or self.correlation.high >= _UNPAIRED:
            return False
        return self.bound is None or self.rho_from == "data" or self.bound.rho > 2 * _UNPAIRED

    @property
    def refuted(self) -> bool:
        """Whether rho and Gaussian latents together contradict the pairs, beyond chance (1 in 1,000).

        Some function of the embedding correlates by more than rho, which none can in a Gaussian world.
        """
        if self.bound is None or self.rho_from == "data":
            return False
        above = self.maximal is not None and self.bound.rho < self.maximal.sure
        return self.bound.refuted or above

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the assumptions that fail."""
        return grades.failed(self)

    @property
    def certified(self) -> bool:
        """Whether it is a world model: by its labels, or by a bound with nothing left to be shown."""
        return grades.satisfies(self.grade, "bounded")

    @property
    def grade(self) -> str:
        """The verdict in a word, see `isojepa.certificates.grades`.

        One of rotation, linear, partial, none and collapsed; without labels bounded, linear, conditional,
        unproven, refuted and unpaired.
        """
        return grades.grade_of(self)

    @property
    def verdict(self) -> str:
        """The certificate in a sentence or two."""
        return verdicts.verdict(self)

    @property
    def next_step(self) -> str:
        """What to do next, in a sentence."""
        return verdicts.next_step(self)

    def lines(self) -> list[sentences.Line]:
        """Every measured number with a plain sentence."""
        return sentences.lines(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {
            **asdict(self),
            "named": None if self.named is None else self.named.to_dict(),
            "grade": self.grade,
            "certified": self.certified,
            "failed": self.failed,
            "refuted": self.refuted,
            "holds": self.holds,
            "verdict": self.verdict,
            "next_step": self.next_step,
        }

    def __str__(self) -> str:
        rows = [f"Certificate of {self.samples} embeddings in {self.dim} dimensions", f"  {self.verdict}", ""]
        rows += [sentences.row_of(line) for line in self.lines() if line.section != "named"]
        rows += [f"  {note}" for note in self.notes()]
        if self.assumptions:
            rows += ["", "  Assumptions"]
        for item in self.assumptions:
            rows.append(f"  {item.verdict:<8} {item.name:<16} {item.sentence} {item.advice}".rstrip())
        if self.named is not None:
            rows += ["", "  Identified latents", f"  {self.named.verdict}"]
            rows += [sentences.row_of(line) for line in self.named.lines()]
            rows += [f"  {note}" for note in self.named.notes()]
        rows += ["", f"  Next: {self.next_step}"]
        return "\n".join(rows)

    def notes(self) -> list[str]:
        """What is missing and why, in sentences."""
        return sentences.notes(self)
