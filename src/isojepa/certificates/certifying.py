"""certify: from an encoder in a world, embeddings or trajectories to a certificate."""

import math
import numbers
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isojepa.arguments import checked
from isojepa.certificates.assumptions import Assumption, check_assumptions
from isojepa.certificates.bound import NoBound, bound_of, too_few
from isojepa.certificates.certificate import Certificate
from isojepa.certificates.eigenfunctions import Prediction, predict_process
from isojepa.certificates.embeddings import Embeddings, check_dense, check_rho, to_float64
from isojepa.certificates.inputs import Brought, Given, draw_pairs, is_paths, is_record, of_paths, read_given
from isojepa.certificates.lags import LagSpectrum, measure_lags
from isojepa.certificates.recovery import RecoveryReading
from isojepa.certificates.spectrum import Spectrum, measure_spectrum
from isojepa.certificates.views import Views, block_edges
from isojepa.encoders.modes import embed
from isojepa.laws import SpectrumWarning
from isojepa.linear import spread_of
from isojepa.seeds import generator
from isojepa.worlds import Copula, Langevin, OrnsteinUhlenbeck, Source, World
from isojepa.worlds.brought import as_source
from isojepa.worlds.source import moving, observable

_SUREST = 0.9995  # confidence of the checks: it takes 2 / (1 - confidence) permutations
_OF_WORLD = ("stationarity", "Gaussianity", "independence", "additive noise", "isotropy")
_CHECKED = 4_000  # rows that the assumptions are checked on
_ORDERED = 64  # latents of a world whose eigenfunctions are put in order
_REGRESSED = 40_000  # rows that the spectrum is fitted to
_DECAYS = 4.0  # times the latents forget along a trajectory drawn from a world
_DRAWN = 100_000, 10_000_000  # embeddings and numbers of all trajectories at most


@dataclass(frozen=True)
class _Case:
    """What certify was given, in one form."""

    embeddings: Embeddings
    rho: float | None
    missing: NoBound | None  # why there can be no bound
    trajectories: np.ndarray | None = None
    encoder: Callable[[Tensor], Tensor] | None = None
    world: Source | None = None


@checked
def certify(
    source: nn.Module | Callable[[Tensor], Tensor] | Brought,
    world: Source | Any | None = None,
    *,
    next: Brought | None = None,
    latents: Brought | None = None,
    latents_next: Brought | None = None,
    rho: float | None = None,
    trajectory: bool = False,
    drop: bool = False,
    checks: bool = True,
    samples: int | None = None,
    seed: int = 1,
    confidence: float = 0.95,
    progress: Callable[[int, int, str], None] | None = None,
) -> Certificate:
    """Certify an encoder in a world, embeddings that are already there, or embeddings along trajectories.

    Rows may depend on their neighbours, as along a recorded path: intervals compare 20 blocks of successive
    rows, and are right as long as a block is long against the memory of the path.

    Args:
        source: an encoder, with `world`; or (n, m) embeddings; or trajectories of them, (steps, paths, m), or
            a list of paths (steps_i, m) of unequal lengths. Arrays may be memory maps or HDF5 datasets: they
            are read once, in pieces. Or a file of them by name, as the command takes it, which may also hold
            second views and latents; or the folder of a record.
        world: where pairs are sampled from for an encoder; or pairs `(x, x_next)`, or a DataLoader of them.
        next: (n, m) embeddings of the second view of each pair: without them there is no bound. Trajectories
            bring their own: the next step.
        latents: true latents, shaped like the embeddings: without them there is no recovery.
        latents_next: true latents of the second views; the assumptions are checked on both.
        rho: correlation of the latents across a pair: without it there is no bound. A world mostly knows its
            own; pairs and recordings do not.
        trajectory: the rows of (n, m) embeddings are the successive steps of one path.
        drop: leave out rows with NaN or Inf instead of refusing them.
        checks: also measure spectrum and assumptions, which takes a few seconds.
        samples: number of fresh pairs for an encoder; by default 100,000, fewer above 32 latents.
        seed: draws them, and the permutations of the checks.
        confidence: of the intervals.
        progress: called with rows read, their number, and what is being done.

    Raises:
        ValueError: the embeddings are not finite, too few, or do not match each other.

    Example:
        >>> import torch
        >>> z = torch.randn(1000, 2, generator=generator(0, "data"))
        >>> certify(z @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), latents=z, checks=False).grade
        'rotation'
    """
    if not (isinstance(confidence, numbers.Real) and 0 < confidence < 1):
        raise ValueError(f"confidence must lie in (0, 1), got {confidence!r}")
    if checks and confidence > _SUREST:
        raise ValueError(
            f"confidence must be at most {_SUREST} with checks, got {confidence}: leave them out"
        )
    if world is None and is_record(source):
        from isojepa import runs  # all of training: only for those who name a record

        source, world, _ = runs.load_run(Path(source))
    if world is not None:
        known = as_source(world)
        if any(given is not None for given in (next, latents, latents_next)) or trajectory:
            raise ValueError("an encoder with a world brings its own next and latents")
        if rho is not None and known.facts.correlation is not None:
            raise ValueError(
                f"an encoder with a world brings its own rho, {known.facts.correlation}: leave rho out"
            )
        if not callable(source):
            raise ValueError(f"with a world, the source must be an encoder, got {type(source).__name__}")
        case = _in_world(source, known, rho, samples, seed, drop, checks)
    else:
        if callable(source):
            raise ValueError("an encoder needs a world to be certified in: certify(encoder, world)")
        if samples is not None:
            raise ValueError("samples are drawn in a world; arrays have those they have: leave samples out")
        given = read_given(Given(source, next, latents, latents_next))
        case = _of_arrays(given.h, given.h_next, given.z, given.z_next, rho, trajectory, drop)
    return _certificate(case, checks, seed, confidence, progress or (lambda done, total, name: None))


def default_samples(dim: int) -> int:
    """Pairs to draw for a certificate: many in few dimensions, where they cost nothing."""
    return max(20_000, min(100_000, 3_200_000 // dim))


def _in_world(
    encoder: Callable[[Tensor], Tensor],
    world: Source,
    rho: float | None,
    samples: int | None,
    seed: int,
    drop: bool,
    checks: bool,
) -> _Case:
    facts = world.facts
    count = default_samples(facts.dim or 1) if samples is None else samples
    batch = draw_pairs(world, count, seed)
    if len(batch.views) < 2:
        raise ValueError(f"a certificate needs two views of each state, got {len(batch.views)}")
    z, z_next = (None, None) if batch.z is None else batch.z[:2]
    h, h_next = (embed(encoder, view) for view in batch.views[:2])
    embeddings = Embeddings(h, h_next, z, z_next, drop)
    if rho is None:
        rho, missing = _usable_rho(world)
    else:
        rho, missing = check_rho(rho), None
    trajectories = None
    if checks and rho is not None and facts.dim is not None and moving(world):
        steps, count = _lengths(rho, facts.dim)
        path = world.trajectory(count, steps, generator(seed, "trajectories")).x
        flat = embed(encoder, path.flatten(0, 1))
        trajectories = flat.unflatten(0, path.shape[:2]).double().numpy()
    return _Case(embeddings, rho, missing, trajectories, encoder, world)


def _lengths(rho: float, dim: int) -> tuple[int, int]:
    """Steps and number of trajectories: long enough to see the decay, as many as memory allows."""
    rho = min(max(rho, 1e-300), 1 - 1e-15)  # what rounding made 0 or 1
    steps = int(np.clip(_DECAYS / -math.log(rho), 16, 256))
    return steps, max(100, min(_DRAWN[0], _DRAWN[1] // dim) // steps)


def _of_arrays(
    source: Any,
    second: Any,
    latents: Any,
    latents_next: Any,
    rho: float | None,
    trajectory: bool,
    drop: bool,
) -> _Case:
    rho = None if rho is None else check_rho(rho)
    missing = None if rho is not None else NoBound("rho", "the correlation rho of the pairs is not known")
    if is_paths(source):
        return _of_paths(source, second, latents, latents_next, rho, missing, drop)
    shape = _shape(source)
    if trajectory and len(shape) == 2:
        source, latents = (
            None if array is None else _as_array(array)[:, None] for array in (source, latents)
        )
        shape = (shape[0], 1, shape[1])
    elif trajectory and len(shape) != 3:
        raise ValueError(f"a trajectory must be (steps, dim) or (steps, paths, dim), got shape {shape}")
    if len(shape) != 3:
        if second is None and missing is None:
            missing = NoBound("pairs", "it needs embeddings of both views of each pair")
        return _Case(Embeddings(source, second, latents, latents_next, drop), rho, missing)
    if second is not None or latents_next is not None:
        raise ValueError("trajectories bring their own second views, the next steps: leave next out")
    if shape[0] < 2 or 0 in shape:
        raise ValueError(
            f"trajectories must have at least 2 steps, 1 path and 1 dimension, got shape {shape}"
        )
    h = _as_array(source)
    z = None if latents is None else _as_array(latents)
    if z is not None and z.shape[:2] != h.shape[:2]:
        raise ValueError(
            f"latents must have the steps and paths of the embeddings, {h.shape[:2]}, got {z.shape}"
        )
    first, following = _pairs(h)
    z_first, z_following = (None, None) if z is None else _pairs(z)
    return _Case(Embeddings(first, following, z_first, z_following, drop), rho, missing, trajectories=h)


def _of_paths(
    source: Any,
    second: Any,
    latents: Any,
    latents_next: Any,
    rho: float | None,
    missing: NoBound | None,
    drop: bool,
) -> _Case:
    """A list of paths (steps_i, dim): pairs within each, and a block of equal lengths for the spectrum."""
    if second is not None or latents_next is not None:
        raise ValueError("trajectories bring their own second views, the next steps: leave next out")
    embeddings, block = of_paths(source, latents, drop)
    return _Case(embeddings, rho, missing, trajectories=block)


def _shape(source: Any) -> tuple[int, ...]:
    if source is None:
        raise ValueError("embeddings must be an array (samples, dim), got None")
    try:
        return tuple(np.shape(source))
    except ValueError as error:
        raise ValueError(
            "embeddings must be one array, (samples, dim) or (steps, paths, dim), or a list of arrays "
            "(steps, dim), one for each path, got a list of something else"
        ) from error


def _as_array(value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        check_dense("embeddings", value)
    if isinstance(value, np.ma.MaskedArray) or (isinstance(value, Tensor) and value.dtype == torch.bfloat16):
        return to_float64(value.detach().cpu() if isinstance(value, Tensor) else value)
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


def _pairs(h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each step with the next, path after path, so that a block of rows is a piece of time."""
    by_path = h.swapaxes(0, 1)
    return by_path[:, :-1].reshape(-1, h.shape[2]), by_path[:, 1:].reshape(-1, h.shape[2])


def _usable_rho(world: Source) -> tuple[float | None, NoBound | None]:
    correlation = world.facts.correlation
    if correlation is None:
        return None, NoBound("world", "this world does not say how its pairs correlate")
    if not world.facts.gaussian:
        return None, NoBound("world", "Theorem 3 asks for Gaussian latents and this world's are not")
    if isinstance(correlation, tuple) and len(set(correlation)) > 1:
        return None, NoBound(
            "world", "Theorem 3 asks for one correlation for all latents and this world's differ"
        )
    return (correlation[0] if isinstance(correlation, tuple) else correlation), None


def _certificate(
    case: _Case, checks: bool, seed: int, confidence: float, progress: Callable[[int, int, str], None]
) -> Certificate:
    """Everything that one pass over the embeddings shows, and the checks."""
    embeddings, rho, missing = case.embeddings, case.rho, case.missing
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
    smallest, mean = spread_of(views.covariance())
    progress(rows, rows, "spectrum")
    spectrum, lags, spectrum_missing = _spectra(case, seed, confidence) if checks else (None, None, None)
    progress(rows, rows, "assumptions")
    assumptions = _assumptions(case, seed, confidence) if checks else ()
    return Certificate(
        samples=views.n,
        dim=dim,
        confidence=confidence,
        smallest_variance=smallest,
        mean_variance=mean,
        recovery=reading.result(confidence) if reading is not None else None,
        bound=bound_of(views, rho, confidence) if missing is None and rho is not None else None,
        bound_missing=None if missing is None else missing.sentence,
        bound_lacks=None if missing is None else missing.lacks,
        dropped=embeddings.dropped,
        correlation=views.correlation(confidence),
        spectrum=spectrum,
        lags=lags,
        spectrum_missing=spectrum_missing,
        prediction=_prediction(case) if checks else None,
        assumptions=assumptions,
    )


def _spectra(
    case: _Case, seed: int, confidence: float
) -> tuple[Spectrum | None, LagSpectrum | None, str | None]:
    """The spectrum with latents and without, and why there is none."""
    spectrum = lags = missing = None
    if case.trajectories is not None:
        rate = None if case.rho is None else -math.log(case.rho)
        try:
            lags = measure_lags(case.trajectories, rate=rate, confidence=confidence, seed=seed)
        except ValueError as error:
            missing = str(error)
    try:
        if case.encoder is not None and case.world is not None:
            if not case.world.facts.gaussian or not observable(case.world):
                raise ValueError("degrees belong to Gaussian latents, which this world does not promise")
            spectrum = measure_spectrum(case.encoder, case.world, seed=seed, confidence=confidence)
        elif case.embeddings.latent_dim is not None:
            spectrum = _regressed(case.embeddings, seed, confidence)
        elif lags is None:
            missing = missing or "it needs latents, or embeddings along trajectories"
    except ValueError as error:
        missing = str(error)
    return spectrum, lags, missing


def _prediction(case: _Case) -> Prediction | None:
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


def _regressed(embeddings: Embeddings, seed: int, confidence: float) -> Spectrum:
    """The spectrum of samples, up to the highest degree that they allow."""
    some = embeddings.some(_REGRESSED)
    dim = embeddings.latent_dim or 0
    allowed = min(len(some) // 10, 4000)
    degree = next((d for d in range(6, 1, -1) if math.comb(dim + d, d) <= allowed), None)
    if degree is None:
        raise ValueError(
            f"{dim} latents have {math.comb(dim + 2, 2)} products of degree 2, too many for {len(some)} "
            "samples; an encoder with its world has no such limit"
        )
    return measure_spectrum(some.h, latents=some.z, degree=degree, seed=seed, confidence=confidence)


def _assumptions(case: _Case, seed: int, confidence: float) -> tuple[Assumption, ...]:
    """The assumptions, checked on the latents where they are known, else on the embeddings.

    Whether the embedding has room for the latents is a question to the embedding alone.
    """
    some = case.embeddings.some(_CHECKED)
    draws = max(199, math.ceil(2 / (1 - confidence)))
    options: dict[str, Any] = {"seed": seed, "confidence": confidence, "draws": draws}
    if some.z is None or (some.z_next is None and some.h_next is not None):
        return check_assumptions(some.h, some.h_next, of="embeddings", **options)
    return (
        *check_assumptions(some.z, some.z_next, of="latents", only=_OF_WORLD, **options),
        *check_assumptions(some.h, some.h_next, of="embeddings", only=("dimension",), **options),
    )
