r"""A regression that bends: y ~ features(x) beta with a ridge penalty chosen by generalised cross-validation.

Features of the standardised inputs: themselves, which are next to unpenalised; hinges max(x_j - t, 0) at
quantiles t of each input, for functions of one input; and cosines cos(w.x + b) with w at two length scales
(random Fourier features, Rahimi & Recht 2007), for functions of several. The penalty of each output minimises

    GCV = n RSS / (n - df)^2,      df = sum_k s_k / (s_k + penalty),

with s_k the eigenvalues of the features' products.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

_KNOTS = (0.05, 0.2, 0.4, 0.6, 0.8, 0.95)
_FREE = 30.0  # linear features are scaled up by this, so that the penalty hardly reaches them
_PENALTIES = np.logspace(-6, 6, 25)  # relative to the number of samples
_SHARE = 3  # samples per feature at least
_LONG, _SHORT = 2.0, 0.7  # length scales of the cosines, in units of sqrt(inputs)


@dataclass(frozen=True)
class Regression:
    """A fitted regression: call it with inputs (n, in) to get predictions (n, out)."""

    center: np.ndarray
    scale: np.ndarray
    knots: np.ndarray
    frequencies: np.ndarray
    phases: np.ndarray
    feature_mean: np.ndarray
    feature_scale: np.ndarray
    vectors: np.ndarray
    spread: np.ndarray
    coefficients: np.ndarray
    offset: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Predict (n, out) from inputs (n, in)."""
        predicted: np.ndarray = self._standardized(x) @ (self.vectors @ self.coefficients) + self.offset
        return predicted

    def errors(self, x: np.ndarray) -> np.ndarray:
        """Variance of the predictions at inputs (n, in), over that of the noise: (n, out)."""
        variance: np.ndarray = (self._standardized(x) @ self.vectors) ** 2 @ self.spread
        return variance

    def _standardized(self, x: np.ndarray) -> np.ndarray:
        scaled = (x - self.center) / self.scale
        features = _features(scaled, self.knots, self.frequencies, self.phases)
        standardized: np.ndarray = (features - self.feature_mean) / self.feature_scale
        return standardized


def fit_regression(
    x: np.ndarray, y: np.ndarray, source: torch.Generator, *, cosines: int = 128, hinges: bool = True
) -> Regression:
    """Fit outputs y (n, out) to inputs x (n, in).

    Args:
        x, y: the samples.
        source: draws frequencies and phases.
        cosines: features of several inputs; fewer where there are few samples, none above 32 inputs.
        hinges: features of one input; left out where there are few samples.
    """
    n, inputs = x.shape
    center, scale = x.mean(0), np.maximum(x.std(0), np.finfo(float).tiny)
    scaled = (x - center) / scale
    room = n // _SHARE - inputs
    bend = hinges and room >= len(_KNOTS) * inputs
    knots = np.quantile(scaled, _KNOTS, axis=0) if bend else np.empty((0, inputs))
    room -= knots.size
    count = 0 if inputs > 32 else max(0, min(cosines, room))
    lengths = np.where(np.arange(count) % 2, _LONG, _SHORT) * math.sqrt(inputs)
    frequencies = _normal((inputs, count), source) / lengths
    phases = 2 * np.pi * torch.rand(count, generator=source, dtype=torch.float64).numpy()
    features = _features(scaled, knots, frequencies, phases)
    feature_mean = features.mean(0)
    deviation = features.std(0)
    feature_scale = np.where(deviation > 1e-12, deviation, np.inf)
    feature_scale[:inputs] /= _FREE
    design = (features - feature_mean) / feature_scale
    values, vectors = np.linalg.eigh(design.T @ design)
    values = np.maximum(values, 0.0)
    offset = y.mean(0)
    moments = vectors.T @ (design.T @ (y - offset))
    inverse = _chosen_penalties(values, moments, ((y - offset) ** 2).sum(0), n)
    return Regression(
        center,
        scale,
        knots,
        frequencies,
        phases,
        feature_mean,
        feature_scale,
        vectors,
        values[:, None] * inverse**2,
        inverse * moments,
        offset,
    )


def _chosen_penalties(values: np.ndarray, moments: np.ndarray, total: np.ndarray, n: int) -> np.ndarray:
    """1 / (s_k + penalty) for the penalty of least GCV, of each output: (features, out)."""
    best, chosen = np.full(len(total), np.inf), np.zeros_like(moments)
    for penalty in _PENALTIES * n:
        inverse = 1 / (values + penalty)
        freedom = (values * inverse).sum() + 1
        explained = ((2 * inverse - values * inverse**2)[:, None] * moments**2).sum(0)
        score = np.maximum(total - explained, 0.0) / max(n - freedom, 1e-9) ** 2
        better = score < best
        best = np.where(better, score, best)
        chosen[:, better] = inverse[:, None]
    return chosen


def _features(x: np.ndarray, knots: np.ndarray, frequencies: np.ndarray, phases: np.ndarray) -> np.ndarray:
    hinges = [np.maximum(x - knot, 0.0) for knot in knots]
    return np.concatenate([x, *hinges, torch.from_numpy(x @ frequencies + phases).cos_().numpy()], axis=1)


def _normal(shape: tuple[int, ...], source: torch.Generator) -> np.ndarray:
    return torch.randn(shape, generator=source, dtype=torch.float64).numpy()
