"""certify: from an encoder in a world, embeddings or trajectories to a certificate."""

import math
import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

from torch import Tensor, nn
from torch.utils.data import DataLoader

from isojepa.certificates.assumptions import check_assumptions
from isojepa.certificates.bound import NoBound, bound_of, too_few
from isojepa.certificates.certificate import Certificate
from isojepa.certificates.checks import CheckResult, together
from isojepa.certificates.decay import DecaySpectrum, measure_decay
from isojepa.certificates.eigenfunctions import Prediction, predict_process
from isojepa.certificates.grades import CLOSE
from isojepa.certificates.named import measure_named
from isojepa.certificates.pairs import (
    ArrayLike,
    PairRows,
    ViewMoments,
    block_edges,
    embed_pairs,
    is_run_directory,
    read_pairs,
)
from isojepa.certificates.recovery import RecoveryReading
from isojepa.certificates.rho import (
    MaximalCorrelation,
    RhoOrigin,
    bound_curve,
    estimate_correlation,
    resolve_rho,
)
from isojepa.certificates.spectrum import Spectrum, measure_spectrum
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

MAX_CONFIDENCE = 0.998  # of the checks: they take 14 / (1 - confidence) permutations
CHECKED_ROWS = 4_000  # sample for the assumptions
SPECTRUM_ROWS = 40_000  # sample for the spectrum, and for the correlation of the states
MAX_PREDICTED_DIM = 64  # latents of a world whose eigenfunctions are sorted
_OF_WORLD = ("stationarity", "Gaussianity", "independence", "additive noise", "joint Gaussianity", "isotropy")


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
    source: Run | nn.Module | Callable[[Tensor], Tensor] | ArrayLike,
    world: Source | tuple[Any, ...] | DataLoader[Any] | Mapping[str, Any] | None = ...,
    *,
    next: ArrayLike | None = ...,
    latents: ArrayLike | None = ...,
    latents_next: ArrayLike | None = ...,
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
    next: ArrayLike | None = None,
    latents: ArrayLike | None = None,
    latents_next: ArrayLike | None = None,
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
    if checks and confidence > MAX_CONFIDENCE:
        raise ValueError(
            f"confidence must be at most {MAX_CONFIDENCE} with checks, got {confidence}: leave them out"
        )
    known = resolve_rho(rho, rho_from, rate)
    if world is None and is_run_directory(source):
        from isojepa import runs  # imports all of training: only for run directories

        source, world, _ = runs.load_run(Path(source))
    if world is not None:
        world = as_source(world)
        if any(one is not None for one in (next, latents, latents_next)) or trajectory:
            raise ValueError("an encoder with a world brings its own next and latents")
        if known is not None and world.facts.correlation is not None:
            raise ValueError(
                f"an encoder with a world brings its own rho, {world.facts.correlation}: leave rho out"
            )
        if not callable(source):
            raise ValueError(f"with a world, the source must be an encoder, got {type(source).__name__}")
        rho, missing = _rho_of_world(world) if known is None else (known[0], None)
        pairs = embed_pairs(source, world, samples, seed, drop, rho if checks else None)
        case = _Case(pairs, rho, missing, "world" if known is None else known[1], source, world)
    else:
        if callable(source):
            raise ValueError("an encoder needs a world to be certified in: certify(encoder, world)")
        if samples is not None:
            raise ValueError("samples are drawn in a world; arrays have those they have: leave samples out")
        pairs = read_pairs(source, next, latents, latents_next, trajectory=trajectory, drop=drop)
        rho, origin = known or (None, None)
        missing = None if rho is not None else NoBound("rho", "the correlation rho of the pairs is not known")
        if not pairs.paired:
            missing = NoBound("pairs", "it needs embeddings of both views of each pair")
        case = _Case(pairs, rho, missing, origin)
    report = progress or (lambda done, total, name: None)
    certificate = _certificate(case, checks, seed, confidence, report)
    if not unmix:
        return certificate
    return replace(certificate, named=measure_named(pairs, seed=seed, confidence=confidence, progress=report))


@dataclass(frozen=True)
class _Case:
    """The rows, their rho and its origin, or why there can be no bound; the encoder in a world."""

    pairs: PairRows
    rho: float | None
    missing: NoBound | None
    origin: RhoOrigin | None
    encoder: Callable[[Tensor], Tensor] | None = None
    world: Source | None = None


def _rho_of_world(world: Source) -> tuple[float | None, NoBound | None]:
    correlation = world.facts.correlation
    if correlation is None:
        return None, NoBound("rho", "this world does not say how its pairs correlate")
    if not world.facts.gaussian:
        return None, NoBound("world", "Theorem 3 asks for Gaussian latents and this world's are not")
    if isinstance(correlation, tuple) and len(set(correlation)) > 1:
        return None, NoBound(
            "world", "Theorem 3 asks for one correlation for all latents and this world's differ"
        )
    return (correlation[0] if isinstance(correlation, tuple) else correlation), None


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
    case: _Case, checks: bool, seed: int, confidence: float, progress: Callable[[int, int, str], None]
) -> Certificate:
    """One pass over all rows, then the checks on samples of them."""
    pairs, rho, missing, origin = case.pairs, case.rho, case.missing, case.origin
    rows, dim, latent_dim = len(pairs), pairs.dim, pairs.latent_dim
    edges = block_edges(rows, dim)
    moments = ViewMoments(edges, dim)
    reading = None if latent_dim is None else RecoveryReading(pairs)
    for block in pairs.blocks(edges):
        progress(block.start, rows, "embeddings")
        moments.add(block)
        if reading is not None:
            reading.add(block)
    if moments.n < 2:
        raise ValueError(f"at least 2 samples without NaN or Inf are needed, got {moments.n}")
    missing = missing or too_few(moments)
    if missing is None and latent_dim not in (None, dim):
        sentence = f"Theorem 3 asks for as many embedding dimensions as latents, {latent_dim}, got {dim}"
        missing = NoBound("dimension", sentence)
    covariance = moments.covariance()
    smallest, mean = spread_of(covariance)
    correlation, maximal = moments.correlation(confidence), None
    unknown_rho = case.world is None or case.world.facts.correlation is None
    if checks and unknown_rho and correlation is not None and too_few(moments) is None:
        progress(rows, rows, "correlation")
        maximal = estimate_correlation(pairs, moments=moments, confidence=confidence, seed=seed)
        if missing is not None and missing.lacks == "rho":
            rho, origin, missing = _estimated_rho(pairs, maximal)
    progress(rows, rows, "spectrum")
    spectrum, lags, spectrum_missing = _spectra(case, seed, confidence) if checks else (None, None, None)
    progress(rows, rows, "assumptions")
    bound = bound_of(moments, rho, confidence) if missing is None and rho is not None else None
    return Certificate(
        samples=moments.n,
        dim=dim,
        confidence=confidence,
        smallest_variance=smallest,
        mean_variance=mean,
        recovery=None if reading is None else reading.result(confidence),
        bound=bound,
        bound_missing=None if missing is None else missing.sentence,
        bound_lacks=None if missing is None else missing.lacks,
        dropped=pairs.dropped,
        correlation=correlation,
        spectrum=spectrum,
        lags=lags,
        spectrum_missing=spectrum_missing,
        prediction=_prediction(case) if checks else None,
        assumptions=_assumptions(pairs, seed, confidence) if checks else (),
        rho_from=origin if rho is not None else None,
        maximal=maximal,
        curve=None if bound is None else bound_curve(moments, confidence, 1 - CLOSE),
        leading_variance=None if latent_dim is None else spread_of(covariance, leading=latent_dim)[0],
    )


def _estimated_rho(
    pairs: PairRows, maximal: MaximalCorrelation
) -> tuple[float | None, RhoOrigin | None, NoBound | None]:
    """The correlation of the states where both views have them, else the upper end of the estimate."""
    states = pairs.sample(SPECTRUM_ROWS)
    if states.z is not None and states.z_next is not None:
        z, z_next = (view - view.mean(0) for view in (states.z, states.z_next))
        spread, cross = float((z**2).sum()) + float((z_next**2).sum()), float((z * z_next).sum())
        if spread > 0 and 0 < 2 * cross < spread:
            return 2 * cross / spread, "states", None
    if 0 < maximal.value.high < 1:
        return maximal.value.high, "data", None
    reach = f"{maximal.value.low:.2g} to {maximal.value.high:.2g}"
    return None, None, NoBound("rho", f"rho is not known, and the embeddings leave {reach} open")


def _spectra(
    case: _Case, seed: int, confidence: float
) -> tuple[Spectrum | None, DecaySpectrum | None, str | None]:
    """The spectrum with latents and without, and why there is none."""
    spectrum = lags = missing = None
    options: dict[str, Any] = {"seed": seed, "confidence": confidence}
    if case.pairs.paths is not None:
        rate = None if case.rho is None else -math.log(case.rho)
        try:
            lags = measure_decay(case.pairs.paths, rate=rate, **options)
        except ValueError as error:
            missing = str(error)
    try:
        if case.encoder is not None and case.world is not None:
            if not case.world.facts.gaussian or not observable(case.world):
                raise ValueError("degrees belong to Gaussian latents, which this world does not promise")
            spectrum = measure_spectrum(case.encoder, case.world, **options)
        elif case.pairs.latent_dim is not None:
            sample = case.pairs.sample(SPECTRUM_ROWS)
            spectrum = measure_spectrum(sample.h, latents=sample.z, **options)
        elif lags is None:
            missing = missing or "it needs latents, or embeddings along trajectories"
    except ValueError as error:
        missing = str(error)
    return spectrum, lags, missing


def _prediction(case: _Case) -> Prediction | None:
    """What theory predicts for a world outside Theorem 1; None where no embedding attains the optimum."""
    process = case.world.process if isinstance(case.world, World) else None
    if case.rho is not None or not isinstance(process, Langevin | Copula | OrnsteinUhlenbeck):
        return None
    if process.dim > MAX_PREDICTED_DIM:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpectrumWarning)
        prediction = predict_process(process, case.pairs.dim)
    return prediction if prediction.discrete else None  # a continuous spectrum has no attained optimum


def _assumptions(pairs: PairRows, seed: int, confidence: float) -> tuple[CheckResult, ...]:
    """The assumptions, checked on the latents where they are known, else on the embeddings.

    Whether the embedding has enough dimensions for the latents is checked on the embedding alone.
    """
    sample, level = pairs.sample(CHECKED_ROWS), 1 - confidence
    draws = math.ceil(2 * (len(_OF_WORLD) + 1) / level)  # so that each of them can fail beside all others
    options: dict[str, Any] = {"seed": seed, "confidence": confidence, "draws": draws}
    if sample.z is None or (sample.z_next is None and sample.h_next is not None):
        results = check_assumptions(sample.h, sample.h_next, of="embeddings", **options)
    else:
        results = (
            *check_assumptions(sample.z, sample.z_next, of="latents", only=_OF_WORLD, **options),
            *check_assumptions(sample.h, sample.h_next, of="embeddings", only=("dimension",), **options),
        )
    return together(results, level)
