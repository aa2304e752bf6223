"""The certificate: is this representation a world model, i.e. a rotation of the true latents?

It joins what labels show (`recovery`, `spectrum`) with what can be said without them (`bound`, `lags`), and
with whether the world is one the theorems speak of (`assumptions`).
"""

from dataclasses import asdict, dataclass
from typing import Any

from isojepa.certificates import sentences
from isojepa.certificates.assumptions import Assumption
from isojepa.certificates.bound import Bound, Lack
from isojepa.certificates.eigenfunctions import Prediction
from isojepa.certificates.intervals import Interval
from isojepa.certificates.lags import LagSpectrum
from isojepa.certificates.recovery import Recovery
from isojepa.certificates.spectrum import Spectrum
from isojepa.linear import collapsed

_LINEAR = 0.99  # R^2 from which the latents count as recovered
_CLOSE = 0.9  # R^2 from which they count as mostly recovered
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
        spectrum: energy of the embedding at each degree of nonlinearity; None without Gaussian latents.
        lags: the same from the decay along trajectories, without latents; None without trajectories.
        spectrum_missing: why there is neither.
        prediction: what theory says the best white embedding of the world reaches; None for arrays, and for
            worlds that Theorem 1 speaks of, where it is all.
        assumptions: what the theorems ask of the world, measured; empty if not asked for.
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
    lags: LagSpectrum | None = None
    spectrum_missing: str | None = None
    prediction: Prediction | None = None
    assumptions: tuple[Assumption, ...] = ()
    leading_variance: float | None = None

    @property
    def holds(self) -> bool | None:
        if self.bound is None or self.recovery is None or self.recovery.procrustes_error is None:
            return None
        if self.bound.refuted:
            return None
        return self.recovery.procrustes_error.low <= self.bound.bound.high

    @property
    def unpaired(self) -> bool:
        """Whether the two views correlate so little that their rows seem to belong to different pairs.

        A small correlation is no sign of it in a world whose latents correlate as little.
        """
        if self.correlation is None or self.correlation.high >= _UNPAIRED:
            return False
        return self.bound is None or self.bound.rho > 2 * _UNPAIRED

    def _empty(self, smallest: float | None) -> bool:
        """Whether a direction is next to empty; with few samples some direction always looks so."""
        enough = smallest is not None and self.samples > 2 * self.dim
        return enough and collapsed(smallest or 0.0, self.mean_variance)

    @property
    def grade(self) -> str:
        """The verdict in a word.

        One of rotation, linear, partial, none and collapsed; without labels bounded, linear, unproven,
        refuted and unpaired.
        """
        # a linear map may read a latent off a direction that is empty to everybody else; a linear embedding
        # of more dimensions than latents has directions to spare
        if self._empty(self.leading_variance):
            return "collapsed"
        if self.recovery is not None and self.recovery.r2_h_to_z.estimate >= _LINEAR:
            orthogonal = self.recovery.r2_orthogonal
            return "rotation" if orthogonal and orthogonal.estimate >= 2 * _LINEAR - 1 else "linear"
        if self._empty(self.smallest_variance):
            return "collapsed"
        if self.recovery is not None:
            return "partial" if self.recovery.r2_h_to_z.estimate >= _CLOSE else "none"
        if self.unpaired:
            return "unpaired"
        if self.bound is not None and self.bound.refuted:
            return "refuted"
        if self.bound is not None and self.bound.per_dimension.high <= 1 - _CLOSE:
            return "bounded"
        # a clean decay shows a linear embedding of Gaussian latents, not that it is a rotation
        seen = self.lags is not None and self.lags.identifiable and self.lags.linear.low >= _CLOSE
        return "linear" if seen else "unproven"

    @property
    def verdict(self) -> str:
        """The certificate in a sentence or two."""
        return sentences.verdict(self)

    def lines(self) -> list[sentences.Line]:
        """Every measured number with a plain sentence."""
        return sentences.lines(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {**asdict(self), "grade": self.grade, "holds": self.holds, "verdict": self.verdict}

    def __str__(self) -> str:
        rows = [f"Certificate of {self.samples} embeddings in {self.dim} dimensions", f"  {self.verdict}", ""]
        for line in self.lines():
            rows.append(f"  {line.name:<24} {sentences.format_value(line):<34} {line.sentence}")
        rows += [f"  {note}" for note in self.notes()]
        if self.assumptions:
            rows += ["", "  Assumptions"]
        for item in self.assumptions:
            rows.append(f"  {item.verdict:<8} {item.name:<16} {item.sentence} {item.advice}".rstrip())
        return "\n".join(rows)

    def notes(self) -> list[str]:
        """What is missing and why, in sentences."""
        return sentences.notes(self)
