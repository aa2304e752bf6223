r"""Nonlinear regression: y ~ features(x) beta with a ridge penalty chosen by generalized cross-validation.

Features of the standardized inputs: themselves, which are next to unpenalized; hinges max(x_j - t, 0) at
quantiles t of each input, for functions of one input; and cosines cos(w.x + b) with w at two length scales
(random Fourier features, Rahimi & Recht 2007), for functions of several. The penalty of each output minimizes

    GCV = n RSS / (n - df)^2,      df = sum_k s_k / (s_k + penalty),

with s_k the eigenvalues of the features' products.
"""

import math

import numpy as np
import torch

_KNOTS = (0.05, 0.2, 0.4, 0.6, 0.8, 0.95)  # quantiles of the hinges
_LINEAR_SCALE = 30.0  # linear features are scaled up by this, so that the penalty hardly reaches them
_PENALTIES = np.logspace(-6, 6, 25)  # per sample
_MIN_ROWS_PER_FEATURE = 3
_MAX_COSINE_INPUTS = 32  # random directions in more dimensions approximate nothing
_LENGTH_SCALES = (0.7, 2.0)  # of the cosines, in units of sqrt(inputs)


class NonlinearRegression:
    """A fitted regression: call it with inputs (n, in) to get predictions (n, out).

    Args:
        x, y: (n, in) and (n, out).
        source: draws frequencies and phases.
        cosines: features of several inputs; fewer where there are few samples.
        hinges: features of one input; left out where there are few samples.

    Example:
        >>> x = np.linspace(-2, 2, 200)[:, None]
        >>> fit = NonlinearRegression(x, x**2, torch.Generator().manual_seed(0))
        >>> bool(np.abs(fit(x) - x**2).max() < 0.1)
        True
    """

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray,
        source: torch.Generator,
        *,
        cosines: int = 128,
        hinges: bool = True,
    ) -> None:
        n, inputs = x.shape
        self._center, self._scale = x.mean(0), np.maximum(x.std(0), np.finfo(float).tiny)
        room = n // _MIN_ROWS_PER_FEATURE - inputs
        knots = _KNOTS if hinges and room >= len(_KNOTS) * inputs else ()
        self._knots = np.quantile((x - self._center) / self._scale, knots, axis=0).reshape(-1, inputs)
        count = 0 if inputs > _MAX_COSINE_INPUTS else max(0, min(cosines, room - self._knots.size))
        lengths = np.take(_LENGTH_SCALES, np.arange(count) % 2) * math.sqrt(inputs)
        normal = torch.randn((inputs, count), generator=source, dtype=torch.float64)
        self._frequencies = normal.numpy() / lengths
        self._phases = 2 * np.pi * torch.rand(count, generator=source, dtype=torch.float64).numpy()
        self._mean, self._deviation = np.zeros(1), np.ones(1)
        features = self._features(x)
        deviation = features.std(0)
        self._mean, self._deviation = features.mean(0), np.where(deviation > 1e-12, deviation, np.inf)
        self._deviation[:inputs] /= _LINEAR_SCALE
        design = (features - self._mean) / self._deviation
        values, self._vectors = np.linalg.eigh(design.T @ design)
        values = np.maximum(values, 0.0)
        self._offset = y.mean(0)
        moments = self._vectors.T @ (design.T @ (y - self._offset))
        inverses = 1 / (values + n * _PENALTIES[:, None])  # (penalties, features)
        explained = (2 * inverses - values * inverses**2) @ moments**2
        residual = np.maximum(((y - self._offset) ** 2).sum(0) - explained, 0.0)
        freedom = (values * inverses).sum(1) + 1
        best = (residual / np.maximum(n - freedom, 1e-9)[:, None] ** 2).argmin(0)
        self._coefficients = inverses[best].T * moments
        self._spread = values[:, None] * inverses[best].T ** 2

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Predict (n, out) from inputs (n, in)."""
        predicted: np.ndarray = self._features(x) @ (self._vectors @ self._coefficients) + self._offset
        return predicted

    def relative_variance(self, x: np.ndarray) -> np.ndarray:
        """Variance of the predictions at inputs (n, in) over that of the noise, (n, out)."""
        variance: np.ndarray = (self._features(x) @ self._vectors) ** 2 @ self._spread
        return variance

    def _features(self, x: np.ndarray) -> np.ndarray:
        scaled = (x - self._center) / self._scale
        hinges = [np.maximum(scaled - knot, 0.0) for knot in self._knots]
        angles = scaled @ self._frequencies + self._phases
        torch.from_numpy(angles).cos_()  # NumPy's is 4 times as slow without AVX-512
        features: np.ndarray = (np.concatenate([scaled, *hinges, angles], 1) - self._mean) / self._deviation
        return features
