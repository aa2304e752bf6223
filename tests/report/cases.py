"""Certificates of every kind, made from data by the package itself: one for each way a page can look."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

import isojepa as ij
from isojepa.certificates.assumptions import check_assumptions
from isojepa.certificates.checks import CheckResult
from isojepa.certificates.decay import measure_decay
from isojepa.certificates.spectrum import measure_spectrum
from isojepa.data import OrnsteinUhlenbeck
from isojepa.seeds import generator
from isojepa.statistics.intervals import Interval

RATE = -math.log(0.9)  # of the paths, per step
METRICS = [
    {"step": 10 * k, "loss": 1 / k, "alignment": 0.5 / k, "regularizer": 5 / k, "r2": 1 - 0.5 / k**2}
    | {"smallest_variance": 1.0, "learning_rate": 0.001}
    for k in range(1, 31)
]


@dataclass(frozen=True)
class Case:
    """What `write_page` is given."""

    certificate: ij.Certificate
    latents: np.ndarray | None = None
    observations: np.ndarray | None = None
    embeddings: np.ndarray | None = None
    metrics: Sequence[dict[str, float]] = ()
    status: str = ""
    reason: str = ""

    def arguments(self) -> dict[str, Any]:
        return {**vars(self), "title": "a small world", "config": {"seed": 0}, "seconds": None}


def pairs(n: int, dim: int, rho: float | list[float] = 0.95) -> tuple[np.ndarray, np.ndarray]:
    z, z_next = OrnsteinUhlenbeck(dim, rho).sample(n, generator(0, "cases"))
    return z.double().numpy(), z_next.double().numpy()


def checked(z: np.ndarray, z_next: np.ndarray | None = None, **options: Any) -> tuple[CheckResult, ...]:
    """The assumptions, on few samples: what they say is not what is tested here."""
    return check_assumptions(z, z_next, samples=400, draws=39, **options)


def bent(z: np.ndarray) -> np.ndarray:
    """A map with a little energy of degree 3, and unit variance."""
    cubic = (z**3 - 3 * z) / np.sqrt(6)
    return np.sqrt(0.97) * z + np.sqrt(0.03) * cubic


def paths(count: int = 1200, steps: int = 24, noise: float = 0.0) -> np.ndarray:
    z = OrnsteinUhlenbeck(2, 0.9).trajectory(count, steps, generator(0, "paths")).double().numpy()
    return bent(z) + noise * np.random.default_rng(0).normal(size=z.shape)


@cache
def labelled() -> Case:
    """A record: everything is known."""
    z, z_next = pairs(6000, 2)
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(2, 2)))[0]
    h, h_next = bent(z) @ turn, bent(z_next) @ turn
    certificate = replace(
        ij.certify(h, next=h_next, latents=z, rho=0.95, checks=False),
        spectrum=measure_spectrum(h, latents=z),
        lags=measure_decay(paths(), rate=RATE, draws=40),
        assumptions=checked(z, z_next),
    )
    return Case(certificate, z, np.tanh(z), h, METRICS)


def label_free() -> Case:
    """Embeddings of pairs, and rho."""
    h, h_next = pairs(8000, 3)
    lines = checked(h, h_next, of="embeddings")
    certificate = replace(
        ij.certify(h, next=h_next, rho=0.95, checks=False),
        assumptions=lines,
        spectrum_missing="it needs latents, or embeddings along trajectories",
    )
    return Case(certificate, embeddings=h[:1000])


def trajectories() -> Case:
    """Paths of embeddings, no labels, some noise."""
    h = paths(noise=0.2)
    certificate = replace(
        ij.certify(h, checks=False),
        lags=measure_decay(h, rate=RATE, draws=40),
        assumptions=checked(h[:-1].reshape(-1, 2), h[1:].reshape(-1, 2), of="embeddings"),
    )
    return Case(certificate, embeddings=h.reshape(-1, 2))


def short_paths() -> Case:
    """Too few of them: the spectrum cannot be told."""
    h = paths(count=60, steps=12)
    lags = measure_decay(h, draws=40)
    return Case(replace(ij.certify(h, checks=False), lags=lags), embeddings=h.reshape(-1, 2))


def refuted() -> Case:
    """The rho that was given is too small."""
    z, z_next = pairs(20_000, 2)
    lines = checked(z * [1.0, 3.0], z_next * [1.0, 3.0], of="embeddings")
    return Case(
        replace(ij.certify(z, next=z_next, rho=0.9, checks=False), assumptions=lines), embeddings=z[:500]
    )


def unpaired() -> Case:
    """The rows of one view are in another order."""
    h, h_next = pairs(4000, 2)
    h_next = h_next[np.random.default_rng(0).permutation(len(h_next))]
    lines = checked(h, h_next, of="embeddings")
    return Case(replace(ij.certify(h, next=h_next, rho=0.95, checks=False), assumptions=lines), embeddings=h)


def collapsed() -> Case:
    """One direction has no variance."""
    z, _ = pairs(4000, 3)
    h = z * [1.0, 0.5, 0.0]
    lines = checked(h, of="embeddings")
    return Case(
        replace(ij.certify(h, checks=False), assumptions=lines),
        embeddings=h,
        status="diverged",
        reason="loss is NaN",
    )


def nothing() -> Case:
    """Embeddings alone, two of them, unchecked, and no points to show."""
    return Case(ij.certify(np.array([[0.0, 1.0], [1.0, 3.0]]), checks=False))


def many() -> Case:
    """A thousand latents, some of them lost; one dimension of the embedding does not vary."""
    dim = 1024
    z, _ = pairs(1200, dim)
    certificate = ij.certify(z[:, :8] + 0.1, latents=z[:, :8], checks=False)
    assert certificate.recovery is not None
    quality = tuple(
        float(q) for q in np.random.default_rng(0).permutation(1 - 10.0 ** -np.linspace(-0.5, 5, dim))
    )
    recovery = replace(certificate.recovery, r2_per_latent=quality, r2_per_embedding=(math.nan, *quality[1:]))
    return Case(replace(certificate, dim=dim, recovery=recovery), z, z, z + 0.1)


def extreme() -> Case:
    """Numbers as no good data gives them: NaN, infinite, tiny, huge and negative."""
    case = labelled()
    c = case.certificate
    assert c.recovery is not None
    assert c.bound is not None
    assert c.spectrum is not None
    assert c.lags is not None
    unknown = Interval(math.nan, math.nan, math.nan)
    endless = Interval(1e-300, -math.inf, math.inf)
    huge = Interval(-1e300, -2e300, 3e300)
    return replace(
        case,
        certificate=replace(
            c,
            dropped=1,
            smallest_variance=math.nan,
            recovery=replace(
                c.recovery,
                r2_h_to_z=huge,
                r2_z_to_h=unknown,
                r2_per_latent=(math.nan, -math.inf),
                gap=endless,
            ),
            bound=replace(
                c.bound, epsilon=unknown, bound=endless, per_dimension=endless, delta=unknown, d=huge
            ),
            spectrum=replace(
                c.spectrum,
                shares=(unknown, huge, endless, *c.spectrum.shares[3:]),
                linear=unknown,
                above=huge,
            ),
            lags=replace(
                c.lags, curve=(unknown, huge, *c.lags.curve[2:]), rates=(endless, huge), noise=unknown
            ),
            assumptions=tuple(
                replace(
                    item,
                    value=value,
                    interval=interval,
                    p=math.nan,
                    detail=tuple(
                        (f"thing {k}", v) for k, v in enumerate((math.nan, math.inf, 1e-300, 1e300))
                    ),
                )
                for item, value, interval in zip(
                    c.assumptions,
                    (math.nan, math.inf, 1e300, -1e-300),
                    (unknown, endless, huge, None),
                    strict=False,
                )
            ),
        ),
        metrics=({"step": 1, "loss": 1e-300, "r2": -1e300}, {"step": 2, "loss": 1e300, "r2": 1.0}),
    )


def line() -> Case:
    """One dimension."""
    z, z_next = pairs(4000, 1)
    certificate = replace(
        ij.certify(z, next=z_next, latents=z, rho=0.95, checks=False),
        spectrum=measure_spectrum(bent(z), latents=z),
        assumptions=checked(z, z_next),
    )
    return Case(certificate, z, None, z)


CASES: dict[str, Callable[[], Case]] = {
    one.__name__: cache(one)
    for one in (
        labelled,
        label_free,
        trajectories,
        short_paths,
        refuted,
        unpaired,
        collapsed,
        nothing,
        many,
        line,
        extreme,
    )
}
