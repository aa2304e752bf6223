r"""Random-matrix theory of regression: what a map fitted on N pairs is expected to miss.

Inputs x of covariance S = V diag(l) V^T, targets y = W x + n, N = Cov(n). A share epsilon of the fitted
pairs is mismatched, which makes the target of the fit (1 - epsilon) W and its residual R = N + epsilon (2 -
epsilon) W S W^T (`isojepa theory`, pair-noise). A ridge fit with penalty a on m = N - 1 centered rows behaves
as one of the population with penalty kappa,

    m = df1 + a / kappa,     df1 = sum l / (l + kappa),     df2 = sum (l / (l + kappa))^2,

the deterministic equivalent (Bach 2023; Hastie et al. 2022). With M = (1 - epsilon) W S (S + kappa)^-1 for
its mean and B = (1 - epsilon)^2 kappa^2 sum l_i |W v_i|^2 / (l_i + kappa)^2 for its bias, the error on right
pairs whose inputs have second moments T is

    E |y - W_N x|^2 = tr N + tr (M - W) T (M - W)^T + (B + tr R) (1 / N + tr T S (S + kappa)^-2 / (m - df2)).

For least squares kappa = 0, df2 = d and m - df2 becomes m - d - 1, exact for Gaussian inputs. What is
approximate: inputs as if Gaussian (or of independent parts), residuals as if independent of them.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from isojepa.validation import check_count, check_number


@dataclass(frozen=True)
class Equivalent:
    """A ridge fit as one of the population.

    Attributes:
        level: kappa, the penalty on the covariance that has the same effect.
        freedom: df1, directions that are fitted.
        squared: df2.
        rows: m, centered rows.
    """

    level: float
    freedom: float
    squared: float
    rows: int

    @property
    def room(self) -> float:
        """What the variance is divided by: m - df2, less one for least squares; infinite error at 0."""
        return max(self.rows - self.squared - (1.0 if self.level == 0 else 0.0), 0.0)


def equivalent(values: np.ndarray, pairs: int, penalty: float) -> Equivalent:
    """The deterministic equivalent of a centered ridge fit.

    Args:
        values: (d,) eigenvalues of the covariance of the inputs, positive.
        pairs: N that are fitted on, at least 2.
        penalty: a of (x^T x + a I)^-1; 0 is least squares, of least norm where there are fewer rows than d.

    Example:
        >>> fit = equivalent(np.ones(50), 101, 50.0)
        >>> round(fit.level, 4), round(fit.freedom, 2)
        (0.7071, 29.29)
    """
    check_count("pairs", pairs, 2)
    check_number("penalty", penalty, "be at least 0", lambda value: value >= 0)
    rows = pairs - 1
    if penalty == 0 and rows >= len(values):
        return Equivalent(0.0, float(len(values)), float(len(values)), rows)

    def excess(log_level: float) -> float:
        level = math.exp(log_level)
        return float((values / (values + level)).sum()) + penalty / level - rows

    top = math.log((float(values.sum()) + penalty) / rows) + 1e-9  # there nothing is in excess
    low = top - 1.0
    while excess(low) <= 0:
        low -= 4.0
    level = math.exp(float(scipy.optimize.brentq(excess, low, top, xtol=1e-12)))
    share = values / (values + level)
    return Equivalent(level, float(share.sum()), float((share**2).sum()), rows)


@dataclass(frozen=True)
class RegressionTask:
    """What there is to be regressed, in the eigenbasis of the inputs.

    Attributes:
        values: (d,) eigenvalues l of S.
        gram: (d, d) V^T W^T W V.
        noise: tr N.
    """

    values: np.ndarray
    gram: np.ndarray
    noise: float

    @property
    def signal(self) -> float:
        """tr W S W^T."""
        return float((np.diagonal(self.gram) * self.values).sum())

    def error(
        self, pairs: int, penalty: float, mismatch: float = 0.0, moments: np.ndarray | None = None
    ) -> float:
        """Expected squared error on right pairs.

        Args:
            pairs: N.
            penalty: a.
            mismatch: epsilon.
            moments: (d, d) T in the eigenbasis, about the mean of the fitted inputs; S by default.
        """
        fit = equivalent(self.values, pairs, penalty)
        shrinkage = (1 - mismatch) * self.values / (
            self.values + fit.level
        ) - 1  # M - W, direction by direction
        t = np.diag(self.values) if moments is None else moments
        bias = float(shrinkage @ (self.gram * t) @ shrinkage)
        residual = self._residual(fit, mismatch)
        if fit.room <= 0:
            return math.inf
        spread = float((np.diagonal(t) * self.values / (self.values + fit.level) ** 2).sum())
        return self.noise + bias + residual * (1 / pairs + spread / fit.room)

    def error_alike(self, pairs: int, penalty: float, mismatch: float) -> float:
        """The same on pairs of which as many are mismatched as of those fitted: what leave-one-out sees."""
        fit = equivalent(self.values, pairs, penalty)
        if fit.room <= 0:
            return math.inf
        return self._residual(fit, mismatch) * (1 + 1 / pairs + fit.squared / fit.room)

    def best_penalty(self, pairs: int, mismatch: float = 0.0) -> float:
        """The penalty that leave-one-out would choose: the least `error_alike`."""
        size = pairs * float(self.values.mean())
        optimum = scipy.optimize.minimize_scalar(
            lambda power: self.error_alike(pairs, size * 10.0**power, mismatch),
            bounds=(-8.0, 4.0),
            method="bounded",
        )
        return float(size * 10.0**optimum.x)

    def _residual(self, fit: Equivalent, mismatch: float) -> float:
        """tr R + B."""
        lost = self.values * (fit.level / (self.values + fit.level)) ** 2
        missed = (1 - mismatch) ** 2 * float((lost * np.diagonal(self.gram)).sum())
        return self.noise + mismatch * (2 - mismatch) * self.signal + missed
