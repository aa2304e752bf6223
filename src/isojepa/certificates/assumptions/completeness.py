r"""Completeness: how much of the observations do the dimensions leave unexplained?

The leading principal components of the observations x are regressed on the dimensions h (`regression`) and
scored on held-out samples:

    value = sum of squared residuals / sum of squares, over the components.

Where x = g(z) and h is a function of z that has lost none, it tends to 0 with the number of samples. It
stays above 0 where latents are missing from h, and also where x has noise of its own: the number alone does
not tell the two apart. And it may still be falling with the number of samples, where g is too intricate for
so few: the line fits on half of them too, and is unclear where the other half lowered the value by a fifth.
"""

import numpy as np
import torch

from isojepa.certificates.assumptions.line import FAILS, HOLDS, UNCLEAR, Assumption, bounded, unmeasured
from isojepa.certificates.assumptions.regression import fit_regression
from isojepa.certificates.assumptions.sample import Sample, halves
from isojepa.certificates.intervals import Interval, from_samples

MEASURE = "share of the observations' variance that is no function of the dimensions, held out"
THRESHOLD = 0.1
_LEAST = 64  # samples
_COMPONENTS = 16
_ROUNDS = 2  # of the search for components
_COSINES = 512
_FALLING = 0.8  # share of the value that half of the samples give
_ADVICE = (
    "Use more dimensions if the observations hold little noise: latents seem to be missing. Noise of the "
    "observations, which is no latent, looks the same here."
)


def check_completeness(sample: Sample, observations: np.ndarray, rows: int, confidence: float) -> Assumption:
    """The line of completeness, for observations (n, size) of the sample."""
    name, n = "completeness", len(sample)
    search, judged = halves(n, rows // 2)
    search = slice(search.start, search.start + rows)
    if judged.stop < _LEAST // 2 or sample.dim == 0:
        reason = f"{sample.count(n, 'samples')} are too few to see what the observations hold."
        return unmeasured(name, sample.of, MEASURE, THRESHOLD, reason, "Take more samples.")
    x_fit, x_score = (observations[part].astype(np.float64) for part in (search, judged))
    centre = x_fit.mean(0)
    x_fit, x_score = x_fit - centre, x_score - centre
    components = principal_components(x_fit, _COMPONENTS, sample.stream("components"))
    y_fit, y_score = x_fit @ components, x_score @ components
    if not (y_fit**2).sum() > 1e-24 * max(1.0, float((centre**2).sum())) * len(y_fit):
        reason = "The observations are constant."
        return unmeasured(name, sample.of, MEASURE, THRESHOLD, reason, "Check the observations.")
    z_fit, z_score = sample.z[search], sample.z[judged]
    half = len(z_fit) // 2
    value = _unexplained(sample, z_fit, y_fit, z_score, y_score, confidence)
    fewer = _unexplained(sample, z_fit[:half], y_fit[:half], z_score, y_score, confidence)
    seen = float((y_score**2).sum() / max(float((x_score**2).sum()), 1e-300))
    sentence = f"The dimensions leave {100 * value.estimate:.3g} % of the observations unexplained"
    falling = value.estimate < _FALLING * fewer.estimate
    verdict, advice = HOLDS, ""
    if value.high > THRESHOLD:
        verdict, advice = (FAILS, _ADVICE) if value.low > THRESHOLD else (UNCLEAR, "Take more samples.")
    if verdict == FAILS and falling:
        verdict, advice = UNCLEAR, "Take more samples: the value still falls with their number."
        sentence += f", and {100 * fewer.estimate:.3g} % when fitted on half as many samples"
    return Assumption(
        name,
        sample.of,
        MEASURE,
        value.estimate,
        value,
        THRESHOLD,
        None,
        verdict,
        sentence + ".",
        advice,
        bounded(
            [
                ("with half the samples", fewer.estimate),
                ("share of the observations' variance looked at", seen),
                *((f"variance of component {k}", v) for k, v in enumerate(y_fit.var(0))),
            ]
        ),
    )


def principal_components(x: np.ndarray, count: int, source: torch.Generator) -> np.ndarray:
    """Leading principal directions (size, k) of centred x (n, size), by a randomised search."""
    width = min(count + 8, *x.shape)
    basis = torch.randn(x.shape[1], width, generator=source, dtype=torch.float64).numpy()
    for _ in range(_ROUNDS):
        basis = np.linalg.qr(x.T @ (x @ basis))[0]
    _, vectors = np.linalg.eigh((x @ basis).T @ (x @ basis))
    leading: np.ndarray = basis @ vectors[:, ::-1][:, :count]
    return leading


def _unexplained(
    sample: Sample,
    z: np.ndarray,
    y: np.ndarray,
    z_score: np.ndarray,
    y_score: np.ndarray,
    confidence: float,
) -> Interval:
    fit = fit_regression(z, y, sample.stream("observations"), cosines=_COSINES)
    residual = ((y_score - fit(z_score)) ** 2).sum(1)
    spread = ((y_score - y_score.mean(0)) ** 2).sum(1)
    share = residual.mean() / spread.mean()
    return from_samples((residual - share * spread) / spread.mean(), confidence, estimate=float(share))
