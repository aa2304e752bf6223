"""certify: from an encoder in a world, embeddings or trajectories to a certificate."""

import math
import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from torch import Tensor, nn
from torch.utils.data import DataLoader

from isojepa.certificates.assumptions import check_assumptions
from isojepa.certificates.bound import NoBound, bound_of, too_few
from isojepa.certificates.cases import Case, in_world, of_arrays
from isojepa.certificates.certificate import Certificate
from isojepa.certificates.checks import CheckResult, together
from isojepa.certificates.decay import DecaySpectrum, measure_decay
from isojepa.certificates.eigenfunctions import Prediction, predict_process
from isojepa.certificates.embeddings import Embeddings
from isojepa.certificates.grades import CLOSE
from isojepa.certificates.inputs import Brought, Given, is_record, read_given
from isojepa.certificates.named import measure_named
from isojepa.certificates.recovery import RecoveryReading
from isojepa.certificates.rho import (
    MaximalCorrelation,
    RhoOrigin,
    bound_curve,
    estimate_correlation,
    resolve_rho,
)
from isojepa.certificates.spectrum import Spectrum, measure_spectrum
from isojepa.certificates.views import Views, block_edges
from isojepa.certificates.world_model import WorldModelCertificate, certify_world_model
from isojepa.data import Copula, Langevin, OrnsteinUhlenbeck, Source, World
from isojepa.data.as_source import as_source
from isojepa.data.episodes import Episodes
from isojepa.data.source import observable
from isojepa.distributions import SpectrumWarning
from isojepa.encoders.world_model import Dynamics
from isojepa.linear import spread_of
from isojepa.training.run import Run
from isojepa.validation import validate_types

_SUREST = 0.998  # confidence of the checks: they take 14 / (1 - confidence) permutations
_OF_WORLD = ("stationarity", "Gaussianity", "independence", "additive noise", "joint Gaussianity", "isotropy")
_CHECKED = 4_000  # rows that the assumptions are checked on
_ORDERED = 64  # latents of a world whose eigenfunctions are put in order
_REGRESSED = 40_000  # rows that the spectrum is fitted to


@overload
def certify(
    source: Run | Dynamics | nn.Module,
    world: Episodes,
    *,
    angles: Sequence[int] = ...,
    horizon: int = ...,
    seed: int = ...,
    confidence: float = ...,
    allow_train: bool = ...,
    progress: Callable[[int, int, str], None] | None = ...,
) -> WorldModelCertificate: ...


@overload
def certify(
    source: Run | nn.Module | Callable[[Tensor], Tensor] | Brought,
    world: Source | tuple[Any, ...] | DataLoader[Any] | Mapping[str, Any] | None = ...,
    *,
    next: Brought | None = ...,
    latents: Brought | None = ...,
    latents_next: Brought | None = ...,
    rho: float | None = ...,
    rho_from: str | None = ...,
    rate: float | None = ...,
    trajectory: bool = ...,
    drop: bool = ...,
    checks: bool = ...,
    unmix: bool = ...,
    samples: int | None = ...,
    seed: int = ...,
    confidence: float = ...,
    progress: Callable[[int, int, str], None] | None = ...,
) -> Certificate: ...


@validate_types
def certify(
    source: Any,
    world: Any = None,
    *,
    next: Brought | None = None,
    latents: Brought | None = None,
    latents_next: Brought | None = None,
    rho: float | None = None,
    rho_from: str | None = None,
    rate: float | None = None,
    trajectory: bool = False,
    drop: bool = False,
    checks: bool = True,
    unmix: bool = False,
    samples: int | None = None,
    seed: int = 1,
    confidence: float = 0.95,
    angles: Sequence[int] = (),
    horizon: int = 20,
    allow_train: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> Certificate | WorldModelCertificate:
    """Certify an encoder in a world, a world model on episodes, or embeddings that are already there.

    Rows may depend on their neighbours, as along a recorded path: intervals compare 20 blocks of successive
    rows, and are right as long as a block is long against the memory of the path.

    Args:
        source: an encoder, with `world`; or (n, m) embeddings; or trajectories of them, (steps, paths, m), or
            a list of paths (steps_i, m) of unequal lengths. Arrays may be memory maps or HDF5 datasets: they
            are read once, in pieces. Or a file of them by name, as the command takes it, which may also hold
            second views and latents; or the folder of a record.
        world: where pairs are sampled from for an encoder; or pairs `(x, x_next)`, or a DataLoader of them;
            or held-out `Episodes` with actions for a world model, see `certify_world_model`.
        next: (n, m) embeddings of the second view of each pair: without them there is no bound. Trajectories
            bring their own: the next step.
        latents: true latents, shaped like the embeddings: without them there is no recovery.
        latents_next: true latents of the second views; the assumptions are checked on both.
        rho: correlation of the latents across a pair. A world mostly knows its own; pairs and recordings do
            not. Without it, it is measured on the latents if both views have them, else estimated from the
            embeddings, and what rests on that is at most conditional.
        rho_from: where rho comes from: "design" of the pairs, true "states" or a known "rate". Without it
            the certificate is at most conditional.
        rate: in place of rho, at which the latents forget per step or pair: rho = exp(-rate). Where it comes
            from is told by `rho_from` too.
        trajectory: the rows of (n, m) embeddings are the successive steps of one path.
        drop: leave out rows with NaN or Inf instead of refusing them.
        checks: also measure spectrum and assumptions, which takes a few seconds. Without them nothing is
            certified without labels.
        unmix: also say which axes of the embedding are latents of their own, and how straight, see
            `isojepa.unmix`; changes nothing else of the certificate.
        samples: number of fresh pairs for an encoder; by default 100,000, fewer above 32 latents.
        seed: draws them, and the permutations of the checks.
        confidence: of the intervals.
        angles: for a world model, numbers of the state dimensions that are angles.
        horizon: for a world model, steps of its predictions.
        allow_train: certify a world model on episodes that it was trained on, too.
        progress: called with rows read, their number, and what is being done.

    Raises:
        ValueError: the embeddings are not finite, too few, or do not match each other.

    Example:
        >>> import torch
        >>> from isojepa.seeds import generator
        >>> z = torch.randn(1000, 2, generator=generator(0, "data"))
        >>> certify(z @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), latents=z, checks=False).grade
        'rotation'
    """
    if not (isinstance(confidence, numbers.Real) and 0 < confidence < 1):
        raise ValueError(f"confidence must lie in (0, 1), got {confidence!r}")
    if isinstance(world, Episodes):
        others = (next, latents, latents_next, rho, rho_from, rate, samples)
        if any(value is not None for value in others) or trajectory or drop or unmix:
            raise ValueError("next, latents, rho and the like are for embeddings, not for Episodes")
        options = {"angles": angles, "horizon": horizon, "confidence": confidence, "seed": seed}
        return _on_episodes(source, world, allow_train, **options, progress=progress)
    source = source.encoder if isinstance(source, Run) else source
    if checks and confidence > _SUREST:
        raise ValueError(
            f"confidence must be at most {_SUREST} with checks, got {confidence}: leave them out"
        )
    known = resolve_rho(rho, rho_from, rate)
    if world is None and is_record(source):
        from isojepa import runs  # all of training: only for those who name a record

        source, world, _ = runs.load_run(Path(source))
    if world is not None:
        place = as_source(world)
        if any(one is not None for one in (next, latents, latents_next)) or trajectory:
            raise ValueError("an encoder with a world brings its own next and latents")
        if known is not None and place.facts.correlation is not None:
            raise ValueError(
                f"an encoder with a world brings its own rho, {place.facts.correlation}: leave rho out"
            )
        if not callable(source):
            raise ValueError(f"with a world, the source must be an encoder, got {type(source).__name__}")
        case = in_world(source, place, known, samples, seed, drop, checks)
    else:
        if callable(source):
            raise ValueError("an encoder needs a world to be certified in: certify(encoder, world)")
        if samples is not None:
            raise ValueError("samples are drawn in a world; arrays have those they have: leave samples out")
        given = read_given(Given(source, next, latents, latents_next))
        case = of_arrays(given.h, given.h_next, given.z, given.z_next, known, trajectory, drop)
    tell = progress or (lambda done, total, name: None)
    certificate = _certificate(case, checks, seed, confidence, tell)
    if not unmix:
        return certificate
    named = measure_named(case.embeddings, seed=seed, confidence=confidence, progress=tell)
    return replace(certificate, named=named)


def _on_episodes(source: Any, episodes: Episodes, allow_train: bool, **options: Any) -> WorldModelCertificate:
    """The certificate of a world model, on episodes that its run was not trained on."""
    model: Any = source.encoder if isinstance(source, Run) else source
    overlap = 0
    if isinstance(source, Run):
        overlap = episodes.check_held_out(source.source.get("episodes", ()), allow_train)
    certificate = certify_world_model(model, episodes, **options)
    note = f"{overlap} of {len(episodes)} episodes are among those that the model was trained on."
    return replace(certificate, notes=(*certificate.notes, note)) if overlap else certificate


def _certificate(
    case: Case, checks: bool, seed: int, confidence: float, progress: Callable[[int, int, str], None]
) -> Certificate:
    """Everything that one pass over the embeddings shows, and the checks."""
    embeddings, rho, missing, origin = case.embeddings, case.rho, case.missing, case.origin
    dim, latent_dim = embeddings.dim, embeddings.latent_dim
    edges = block_edges(len(embeddings), dim)
    views = Views(edges, dim)
    reading = RecoveryReading(embeddings, edges) if latent_dim is not None else None
    rows = len(embeddings)
    for chunk in embeddings.chunks(edges):
        progress(chunk.start, rows, "embeddings")
        views.add(chunk)
        if reading is not None:
            reading.add(chunk)
    if views.n < 2:
        raise ValueError(f"at least 2 samples without NaN or Inf are needed, got {views.n}")
    missing = missing or too_few(views)
    if missing is None and latent_dim not in (None, dim):
        missing = NoBound(
            "dimension",
            f"Theorem 3 asks for as many embedding dimensions as latents, {latent_dim}, got {dim}",
        )
    covariance = views.covariance()
    smallest, mean = spread_of(covariance)
    leading = None if latent_dim is None else spread_of(covariance, leading=latent_dim)[0]
    maximal = None
    correlation = views.correlation(confidence)
    asked = case.world is None or case.world.facts.correlation is None
    if checks and asked and correlation is not None and too_few(views) is None:
        progress(rows, rows, "correlation")
        maximal = estimate_correlation(embeddings, views=views, confidence=confidence, seed=seed)
        if missing is not None and missing.lacks == "rho":
            rho, origin, missing = _own_rho(embeddings, maximal)
    progress(rows, rows, "spectrum")
    spectrum, lags, spectrum_missing = _spectra(case, seed, confidence) if checks else (None, None, None)
    progress(rows, rows, "assumptions")
    assumptions = _assumptions(case, seed, confidence) if checks else ()
    bound = bound_of(views, rho, confidence) if missing is None and rho is not None else None
    return Certificate(
        samples=views.n,
        dim=dim,
        confidence=confidence,
        smallest_variance=smallest,
        mean_variance=mean,
        recovery=reading.result(confidence) if reading is not None else None,
        bound=bound,
        bound_missing=None if missing is None else missing.sentence,
        bound_lacks=None if missing is None else missing.lacks,
        dropped=embeddings.dropped,
        correlation=correlation,
        spectrum=spectrum,
        lags=lags,
        spectrum_missing=spectrum_missing,
        prediction=_prediction(case) if checks else None,
        assumptions=assumptions,
        rho_from=origin if rho is not None else None,
        maximal=maximal,
        curve=None if bound is None else bound_curve(views, confidence, 1 - CLOSE),
        leading_variance=leading,
    )


def _own_rho(
    embeddings: Embeddings, maximal: MaximalCorrelation
) -> tuple[float | None, RhoOrigin | None, NoBound | None]:
    """The correlation of the states where both views have them, else the upper end of the estimate."""
    states = embeddings.some(_REGRESSED)
    if states.z is not None and states.z_next is not None:
        spread = sum(float(((view - view.mean(0)) ** 2).sum()) for view in (states.z, states.z_next))
        cross = float(((states.z - states.z.mean(0)) * (states.z_next - states.z_next.mean(0))).sum())
        if spread > 0 and 0 < 2 * cross < spread:
            return 2 * cross / spread, "states", None
    if 0 < maximal.value.high < 1:
        return maximal.value.high, "data", None
    reach = f"{maximal.value.low:.2g} to {maximal.value.high:.2g}"
    return None, None, NoBound("rho", f"rho is not known, and the embeddings leave {reach} open")


def _spectra(
    case: Case, seed: int, confidence: float
) -> tuple[Spectrum | None, DecaySpectrum | None, str | None]:
    """The spectrum with latents and without, and why there is none."""
    spectrum = lags = missing = None
    if case.trajectories is not None:
        rate = None if case.rho is None else -math.log(case.rho)
        try:
            lags = measure_decay(case.trajectories, rate=rate, confidence=confidence, seed=seed)
        except ValueError as error:
            missing = str(error)
    try:
        if case.encoder is not None and case.world is not None:
            if not case.world.facts.gaussian or not observable(case.world):
                raise ValueError("degrees belong to Gaussian latents, which this world does not promise")
            spectrum = measure_spectrum(case.encoder, case.world, seed=seed, confidence=confidence)
        elif case.embeddings.latent_dim is not None:
            some = case.embeddings.some(_REGRESSED)
            spectrum = measure_spectrum(some.h, latents=some.z, seed=seed, confidence=confidence)
        elif lags is None:
            missing = missing or "it needs latents, or embeddings along trajectories"
    except ValueError as error:
        missing = str(error)
    return spectrum, lags, missing


def _prediction(case: Case) -> Prediction | None:
    """What theory says of a world that Theorem 1 does not speak of."""
    process = case.world.process if isinstance(case.world, World) else None
    if case.rho is not None or not isinstance(process, Langevin | Copula | OrnsteinUhlenbeck):
        return None
    if process.dim > _ORDERED:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpectrumWarning)
        prediction = predict_process(process, case.embeddings.dim)
    return prediction if prediction.discrete else None  # no optimum is attained in a continuous spectrum


def _assumptions(case: Case, seed: int, confidence: float) -> tuple[CheckResult, ...]:
    """The assumptions, checked on the latents where they are known, else on the embeddings.

    Whether the embedding has room for the latents is a question to the embedding alone.
    """
    some = case.embeddings.some(_CHECKED)
    level = 1 - confidence
    draws = math.ceil(2 * (len(_OF_WORLD) + 1) / level)  # so that each of them can fail beside all others
    options: dict[str, Any] = {"seed": seed, "confidence": confidence, "draws": draws}
    if some.z is None or (some.z_next is None and some.h_next is not None):
        return together(check_assumptions(some.h, some.h_next, of="embeddings", **options), level)
    of_world = check_assumptions(some.z, some.z_next, of="latents", only=_OF_WORLD, **options)
    of_embedding = check_assumptions(some.h, some.h_next, of="embeddings", only=("dimension",), **options)
    return together((*of_world, *of_embedding), level)
