r"""Maximum-entropy weights: the smallest change of a sample's weights that gives its features wanted means.

For base weights q_k and features f_k, the weights nearest to q in Kullback-Leibler divergence with mean m
are

    w_k = q_k exp(theta . f_k) / Z(theta),    theta = argmin log Z(theta) - theta . m + ridge |theta|^2 / 2,

a convex problem in as many unknowns as features, solved by Newton steps within a trust region (scipy). The
ridge lets a mean that no weights can give be missed by ridge |theta|; `missed` says by how much, in
standard deviations of the feature. Reference: Csiszar (1975), I-divergence geometry; Hainmueller (2012),
entropy balancing.
"""

from dataclasses import dataclass

import numpy as np
import scipy

RIDGE = 1e-4
_ITERATIONS = 200


@dataclass(frozen=True)
class Tilt:
    """A fitted tilting: log w = coefficients . features, up to a constant.

    Attributes:
        coefficients: (features,).
        missed: largest distance of a reached mean from the wanted one, in standard deviations.
    """

    coefficients: np.ndarray
    missed: float

    def log_weights(self, features: np.ndarray) -> np.ndarray:
        """(n,) of features (n, features), up to a constant."""
        logarithms: np.ndarray = features @ self.coefficients
        return logarithms


def fit_tilt(
    features: np.ndarray,
    target: np.ndarray,
    base: np.ndarray | None = None,
    strength: float = 1.0,
    ridge: float = RIDGE,
) -> Tilt:
    """Find the tilting under which the features have the target as their mean.

    Args:
        features: (n, features); a constant one is ignored.
        target: (features,) wanted means.
        base: (n,) weights to start from; all alike by default.
        strength: how far to go from the means as they are, 0, to the target, 1.
        ridge: how far a mean may be missed for the sake of smaller coefficients.
    """
    share = np.full(len(features), 1 / len(features)) if base is None else base / base.sum()
    mean = share @ features
    deviation = np.sqrt(share @ (features - mean) ** 2)
    moving = deviation > 1e-12 * (np.abs(mean) + deviation)
    scaled = (features[:, moving] - mean[moving]) / deviation[moving]
    wanted = strength * (target - mean)[moving] / deviation[moving]
    dual = _Dual(scaled, wanted, share, ridge)
    found = scipy.optimize.minimize(
        dual.value,
        np.zeros(len(wanted)),
        jac=dual.slope,
        hess=dual.curvature,
        method="trust-exact",
        options={"maxiter": _ITERATIONS, "gtol": 1e-6},
    )
    coefficients = np.zeros(len(target))
    coefficients[moving] = found.x / deviation[moving]
    missed = np.abs(dual.weights(found.x) @ scaled - wanted).max(initial=0.0)
    return Tilt(coefficients, float(missed))


class _Dual:
    """The dual function of standardised features, its gradient and its Hessian."""

    def __init__(self, features: np.ndarray, target: np.ndarray, base: np.ndarray, ridge: float) -> None:
        self.features, self.target, self.ridge = features, target, ridge
        with np.errstate(divide="ignore"):
            self.log_base = np.log(base)  # -inf for a pair of weight 0, which stays at 0
        self._at: np.ndarray | None = None
        self._weights, self._log_total = base, 0.0

    def weights(self, theta: np.ndarray) -> np.ndarray:
        """(n,) weights that sum to 1."""
        if self._at is None or not np.array_equal(theta, self._at):
            logits = self.log_base + self.features @ theta
            top = logits.max()
            raised = np.exp(logits - top)
            total = raised.sum()
            self._at, self._weights, self._log_total = theta.copy(), raised / total, top + np.log(total)
        return self._weights

    def value(self, theta: np.ndarray) -> float:
        self.weights(theta)
        return float(self._log_total - theta @ self.target + self.ridge / 2 * theta @ theta)

    def slope(self, theta: np.ndarray) -> np.ndarray:
        return np.asarray(self.weights(theta) @ self.features - self.target + self.ridge * theta)

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        weights = self.weights(theta)
        mean = weights @ self.features
        second = (self.features * weights[:, None]).T @ self.features
        return np.asarray(second - np.outer(mean, mean) + self.ridge * np.eye(len(theta)))
