"""The certificate: is this representation a world model, i.e. a rotation of the true latents?

It joins what labels show (`recovery`) with what Theorem 3 promises without them (`bound`), and says in
words what the numbers mean.
"""

import numbers
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from isojepa.certificates.bound import Bound, measure_bound
from isojepa.certificates.embeddings import Embeddings
from isojepa.certificates.intervals import Interval
from isojepa.certificates.recovery import Recovery, measure_recovery
from isojepa.encoders.modes import embed
from isojepa.linear import collapsed, spread
from isojepa.seeds import generator
from isojepa.worlds import World

_LINEAR = 0.99  # R^2 from which the latents count as recovered
_CLOSE = 0.9  # R^2 from which they count as mostly recovered


@dataclass(frozen=True)
class Line:
    """One line of a certificate: a number, its interval where it has one, and what it means."""

    name: str
    value: float
    interval: Interval | None
    sentence: str


@dataclass(frozen=True)
class Certificate:
    """What is known about a representation.

    Attributes:
        samples, dim: number and dimension of the embeddings.
        confidence: of every interval.
        smallest_variance, mean_variance: of the embedding's principal directions.
        recovery: comparison with the latents; None without them.
        bound: Theorem 3; None where it does not apply.
        bound_missing: why there is no bound.
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

    @property
    def holds(self) -> bool | None:
        if self.bound is None or self.recovery is None or self.recovery.procrustes_error is None:
            return None
        if self.bound.refuted:
            return None
        return self.recovery.procrustes_error.low <= self.bound.bound.high

    @property
    def grade(self) -> str:
        """One of rotation, linear, collapsed, partial, none; without labels bounded, refuted, unproven."""
        if self.recovery is not None and self.recovery.r2_h_to_z.estimate >= _LINEAR:
            orthogonal = self.recovery.r2_orthogonal
            return "rotation" if orthogonal and orthogonal.estimate >= 2 * _LINEAR - 1 else "linear"
        # with few samples some direction always looks empty
        if self.samples > 2 * self.dim and collapsed(self.smallest_variance, self.mean_variance):
            return "collapsed"
        if self.recovery is not None:
            return "partial" if self.recovery.r2_h_to_z.estimate >= _CLOSE else "none"
        if self.bound is not None and self.bound.refuted:
            return "refuted"
        if self.bound is not None and self.bound.per_dimension.high <= 1 - _CLOSE:
            return "bounded"
        return "unproven"

    @property
    def verdict(self) -> str:
        """The certificate in a sentence or two."""
        return _verdict(self)

    def lines(self) -> list[Line]:
        """Every measured number with a plain sentence."""
        return _lines(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {**asdict(self), "grade": self.grade, "holds": self.holds, "verdict": self.verdict}

    def __str__(self) -> str:
        rows = [f"Certificate of {self.samples} embeddings in {self.dim} dimensions", f"  {self.verdict}", ""]
        for line in self.lines():
            rows.append(f"  {line.name:<24} {format_value(line):<34} {line.sentence}")
        if self.bound_missing:
            rows.append(f"  No bound: {self.bound_missing}.")
        return "\n".join(rows)


def certify(
    source: nn.Module | Callable[[Tensor], Tensor] | Tensor | np.ndarray,
    world: World | None = None,
    *,
    next: Tensor | np.ndarray | None = None,
    latents: Tensor | np.ndarray | None = None,
    rho: float | None = None,
    samples: int | None = None,
    seed: int = 1,
    confidence: float = 0.95,
) -> Certificate:
    """Certify an encoder in a world, or embeddings that are already there.

    The intervals take the samples as independent of each other. Neighbours on one recorded trajectory are
    not: take pairs far enough apart.

    Args:
        source: an encoder, with `world`; or (n, m) embeddings.
        world: where pairs are sampled from for an encoder.
        next: (n, m) embeddings of the second view of each pair: without them there is no bound.
        latents: (n, d) true latents: without them there is only the bound.
        rho: correlation of the latents across a pair: without it there is no bound.
        samples: number of fresh pairs for an encoder; by default 100,000, fewer above 32 latents.
        seed: draws them.
        confidence: of the intervals.

    Raises:
        ValueError: the embeddings are not finite, too few, or do not match each other.

    Example:
        >>> import torch
        >>> z = torch.randn(1000, 2, generator=generator(0, "data"))
        >>> certify(z @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), latents=z).grade
        'rotation'
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}")
    if world is not None:
        if next is not None or latents is not None or rho is not None:
            raise ValueError("an encoder with a world brings its own next, latents and rho")
        if not callable(source):
            raise ValueError(f"with a world, the source must be an encoder, got {type(source).__name__}")
        count = default_samples(world.dim) if samples is None else samples
        pairs = world.sample(count, generator(seed, "certify"))
        embeddings = Embeddings(embed(source, pairs.x), embed(source, pairs.x_next), pairs.z)  # type: ignore[arg-type]
        rho, missing = _usable_rho(world)
    else:
        if callable(source):
            raise ValueError("an encoder needs a world to be certified in: certify(encoder, world)")
        embeddings = Embeddings(source, next, latents)  # type: ignore[arg-type]
        if rho is not None and not (isinstance(rho, numbers.Real) and 0 < rho < 1):
            raise ValueError(f"rho must lie in (0, 1), got {rho}")
        missing = None if rho is not None else "the correlation rho of the pairs is not known"
    if embeddings.h_next is None and missing is None:
        missing = "it needs embeddings of both views of each pair"
    return _certificate(embeddings, rho, missing, confidence)


def default_samples(dim: int) -> int:
    """Pairs to draw for a certificate: many in few dimensions, where they cost nothing."""
    return max(20_000, min(100_000, 3_200_000 // dim))


def _usable_rho(world: World) -> tuple[float | None, str | None]:
    correlation = getattr(world, "correlation", None)
    if correlation is None:
        return None, "this world does not say how its pairs correlate"
    if not getattr(world, "gaussian", False):
        return None, "Theorem 3 asks for Gaussian latents and this world's are not"
    if isinstance(correlation, tuple) and len(set(correlation)) > 1:
        return None, "Theorem 3 asks for one correlation for all latents and this world's differ"
    return (correlation[0] if isinstance(correlation, tuple) else correlation), None


def _certificate(
    embeddings: Embeddings, rho: float | None, missing: str | None, confidence: float
) -> Certificate:
    h, h_next, z = embeddings.h, embeddings.h_next, embeddings.z
    if missing is None and len(h) < 8:
        missing = f"it needs at least 8 pairs, got {len(h)}"
    if missing is None and z is not None and z.shape[1] != h.shape[1]:
        missing = (
            f"Theorem 3 asks for as many embedding dimensions as latents, {z.shape[1]}, got {h.shape[1]}"
        )
    bound = None
    if missing is None and h_next is not None and rho is not None:
        bound = measure_bound(h, h_next, rho, confidence)
    smallest, mean = spread(h)
    return Certificate(
        samples=len(h),
        dim=h.shape[1],
        confidence=confidence,
        smallest_variance=smallest,
        mean_variance=mean,
        recovery=measure_recovery(h, z, confidence) if z is not None else None,
        bound=bound,
        bound_missing=missing,
    )


def format_value(line: Line) -> str:
    """A line's number with its interval, with digits where R^2 near 1 needs them."""

    def number(value: float) -> str:
        near_one = 0.9 < value < 1
        return f"{value:.6f}" if near_one else f"{value:.4g}"

    if line.interval is None:
        return number(line.value)
    return f"{number(line.value)}  [{number(line.interval.low)}, {number(line.interval.high)}]"


_REFUTED = (
    "There is no bound: the pairs lie closer together than any embedding of a Gaussian world with "
    "rho = {rho:g} can bring them, so rho is wrong or the world is another."
)


def _verdict(c: Certificate) -> str:
    if c.grade == "collapsed":
        return (
            f"Collapsed: the embedding does not fill its {c.dim} dimensions; its smallest variance is "
            f"{c.smallest_variance:.2g} where the mean is {c.mean_variance:.2g}."
        )
    if c.recovery is not None:
        return _labelled_verdict(c, c.recovery)
    if c.bound is None:
        return f"Nothing can be certified: there are no latents, and no bound because {c.bound_missing}."
    share = 100 * c.bound.per_dimension.high
    if c.grade == "bounded":
        return (
            f"World model, certified without labels: if the latents are {c.dim} Gaussians with "
            f"rho = {c.bound.rho:g}, the embedding is a rotation of them up to at most {share:.2g} % "
            "of their variance."
        )
    if c.grade == "refuted":
        return _REFUTED.format(rho=c.bound.rho)
    return (
        f"Not certified without labels: the bound allows {share:.3g} % of the latents' variance to be wrong. "
        "The encoder may still be good; the training may not have converged."
    )


def _labelled_verdict(c: Certificate, r: Recovery) -> str:
    r2 = r.r2_h_to_z.estimate
    lost = 100 * (1 - r2)
    if c.grade == "rotation" and r.r2_orthogonal:
        turned = 100 * (1 - r.r2_orthogonal.estimate)
        text = (
            f"World model: the embedding is a rotation of the latents up to {turned:.2g} % of their variance."
        )
    elif c.grade == "linear":
        text = (
            f"Linear but not a rotation: a linear map reads the latents up to {lost:.2g} % of their "
            "variance, but the embedding stretches or mixes them."
        )
    elif c.grade == "partial":
        text = (
            f"Mostly recovered: a linear map of the embedding misses {lost:.2g} % of the latents' variance."
        )
    else:
        text = (
            f"Not a world model: a linear map of the embedding misses {lost:.3g} % of the latents' variance."
        )
    if c.holds is True:
        text += " Theorem 3's bound holds."
    if c.holds is False:
        text += " The error exceeds Theorem 3's bound: the world breaks one of its assumptions."
    if c.bound is not None and c.bound.refuted:
        text += " " + _REFUTED.format(rho=c.bound.rho)
    return text


def _lines(c: Certificate) -> list[Line]:
    lines: list[Line] = []

    def add(name: str, interval: Interval | None, sentence: str) -> None:
        if interval is not None:
            lines.append(Line(name, interval.estimate, interval, sentence))

    if c.recovery is not None:
        r = c.recovery
        add("R2 h -> z", r.r2_h_to_z, "how much of the latents a linear map reads off the embedding")
        add("R2 z -> h", r.r2_z_to_h, "how much of the embedding is a linear function of the latents")
        worst = min(r.r2_per_latent)
        lines.append(Line("R2 of the worst latent", worst, None, "the latent that is recovered least"))
        add("R2 by rotation", r.r2_orthogonal, "the same with a rotation in place of a linear map")
        add("gap to a rotation", r.gap, "what stretching gains over turning; 0 for a rotation")
        add("orthogonality error", r.orthogonality_error, "how far the fitted linear map is from a rotation")
        add("Procrustes error", r.procrustes_error, "squared distance to the best rotation of the latents")
    if c.bound is not None:
        b = c.bound
        add(
            "bound D + (eps + D)^2",
            b.bound,
            "what Theorem 3 allows the Procrustes error, without labels",
        )
        add("eps, debiased", b.epsilon, "distance of the embedding's covariance from the identity")
        lines.append(Line("eps, plain", b.epsilon_plain, None, "the same with the noise of a finite sample"))
        add("delta, raw", b.delta, "alignment loss above that of a linear encoder; below 0 only by chance")
        add("D, raw", b.d, "bound on the embedding's nonlinear energy")
    variance = "smallest variance of any direction; 1 is ideal, far below the others is collapse"
    lines.append(Line("smallest variance", c.smallest_variance, None, variance))
    return lines
