r"""The linear probe: multinomial logistic regression on frozen features, its penalty chosen by a part.

For features x, standardised by the mean and the standard deviation of the training examples, and labels y

    min over W, b of  (1/n) sum_i [ logsumexp_c (W x_i + b)_c - (W x_i + b)_{y_i} ]  +  (penalty/2) ||W||^2 ,

which is scikit-learn's LogisticRegression with C = 1 / (n penalty). The offset b is free.

The penalty is the same in any orthogonal basis, so the features are turned once into their principal
directions, of variances v_j, of which n rows have n at most. In this basis the curvature is near
v_j/K + penalty along direction j, and L-BFGS is run on weights that are scaled by its root: on features whose
variances differ by orders of magnitude it takes tens of steps where the plain one takes hundreds. Penalties
go from strong to weak, each from the solution of the one before; the end is in float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa.arguments import check_number
from isojepa.evaluations.scores import Examples, Score, examples, held_out, score_of
from isojepa.seeds import generator as make_generator

PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
_SHARE = 0.2  # of the training examples of each class, which choose the penalty
_STEPS = 500  # of L-BFGS for one penalty, at most
_TOLERANCE = 1e-6  # largest entry of the scaled gradient at the end
_ROUGH = 1e-3  # the same while penalties are compared: accuracies do not change below it
_NEAR = 1e-4  # the same up to which float32 is enough
_BLOCK = 8_192  # rows that are turned into float64 at once
_LEAST = 1e-12  # variance of a direction against the largest that is more than rounding, in float64


@dataclass(frozen=True)
class Logistic:
    """A fitted classifier: the largest of x weight + bias.

    Attributes:
        weight: (dim, classes), for features as they were given.
        bias: (classes,).
    """

    weight: np.ndarray
    bias: np.ndarray

    def logits(self, x: np.ndarray) -> np.ndarray:
        """Of features (n, dim): (n, classes)."""
        found: np.ndarray = x @ self.weight.astype(x.dtype, copy=False) + self.bias.astype(
            x.dtype, copy=False
        )
        return found

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Labels (n,) of features (n, dim)."""
        labels: np.ndarray = self.logits(x).argmax(1)
        return labels


def fit_logistic(x: np.ndarray, y: np.ndarray, classes: int, penalty: float) -> Logistic:
    """The multinomial logistic regression of one penalty.

    Args:
        x: (n, dim) float32 or float64.
        y: (n,) labels below `classes`.
        classes: number of classes.
        penalty: on the squared weights of standardised features, against the mean log-loss.

    Example:
        >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
        >>> fit_logistic(x, np.array([0, 0, 1, 1]), 2, penalty=0.1)(x).tolist()
        [0, 0, 1, 1]
    """
    penalty = check_number("penalty", penalty, "be positive and finite", lambda value: value > 0)
    return _fitted(x, y, classes, penalty)


def linear_probe(
    x: Any,
    y: Any,
    test_x: Any,
    test_y: Any,
    *,
    penalties: Sequence[float] = PENALTIES,
    confidence: float = 0.95,
    generator: torch.Generator | None = None,
) -> Score:
    """Accuracy of a linear classifier of frozen features.

    A fifth of the training examples of each class chooses the penalty by its accuracy, of equal ones by its
    log-loss; then all of them are fitted. Where that fifth has fewer examples than there are classes, nothing
    is chosen: the penalty is 1/n, scikit-learn's default.

    Args:
        x, y: training features (n, dim) and labels (n,), whole numbers from 0 on.
        test_x, test_y: those that are scored.
        penalties: to choose from.
        confidence: of the interval.
        generator: draws the fifth; by default always the same.

    Raises:
        ValueError: features or labels are no such thing, or a penalty is not positive.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(300, 2))
        >>> score = linear_probe(x[:200], x[:200, 0] > 0, x[200:], x[200:, 0] > 0)
        >>> score.accuracy > 0.95, score.interval[0] < score.accuracy
        (True, True)
    """
    data = examples(x, y, test_x, test_y)
    penalty, classifier = choose_logistic(data, penalties, generator)
    chosen = {"penalty": penalty}
    return score_of(
        "linear", classifier(data.test_x), data.test_y, data.classes, chosen=chosen, confidence=confidence
    )


def choose_logistic(
    data: Examples, penalties: Sequence[float] = PENALTIES, generator: torch.Generator | None = None
) -> tuple[float, Logistic]:
    """The penalty that the training examples choose, and the fit of all of them."""
    grid = sorted({check_number("penalty", p, "be positive and finite", lambda v: v > 0) for p in penalties})
    if not grid:
        raise ValueError("penalties must be one at least, got none")
    aside = held_out(data.y, _SHARE, generator or make_generator(0, "validation"))
    if len(grid) == 1 or aside.sum() < len(np.unique(data.y)):
        penalty = grid[0] if len(grid) == 1 else 1 / len(data.y)
        return penalty, fit_logistic(data.x, data.y, data.classes, penalty)
    path = _Path(data.x[~aside], data.y[~aside], data.classes)
    found: list[tuple[tuple[float, float], float, Logistic]] = []
    for candidate in reversed(grid):
        path.solve(candidate, _ROUGH)
        classifier = path.classifier()
        found.append((_quality(classifier.logits(data.x[aside]), data.y[aside]), candidate, classifier))
    _, penalty, start = max(found, key=lambda one: one[:2])  # of equals the larger penalty
    return penalty, _fitted(data.x, data.y, data.classes, penalty, start)


def _fitted(
    x: np.ndarray, y: np.ndarray, classes: int, penalty: float, start: Logistic | None = None
) -> Logistic:
    path = _Path(x, y, classes)
    if start is not None:
        path.begin(start)
    path.solve(penalty, _NEAR)
    path.solve(penalty, _TOLERANCE, exact=True)
    return path.classifier()


def _quality(logits: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Accuracy and mean log-likelihood: the larger the better, in this order."""
    likelihood = torch.from_numpy(logits).double().log_softmax(1)[torch.arange(len(y)), torch.from_numpy(y)]
    return float((logits.argmax(1) == y).mean()), float(likelihood.mean())


class _Path:
    """Solutions for one set of examples along penalties from strong to weak."""

    def __init__(self, x: np.ndarray, y: np.ndarray, classes: int) -> None:
        rows = torch.from_numpy(np.ascontiguousarray(x))
        self.mean = rows.mean(0, dtype=torch.float64)
        deviation = rows.var(0, correction=0).double().sqrt()
        flat = deviation <= 1e-6 * self.mean.abs() + torch.finfo(torch.float32).tiny  # rounding is no spread
        self.scale = torch.where(flat, 0.0, 1 / deviation.where(~flat, torch.ones_like(deviation)))
        standard = (rows - self.mean.to(rows.dtype)).mul_(self.scale.to(rows.dtype))
        self.basis, self.variances = _principal(standard)
        self.z = standard @ self.basis.to(rows.dtype)
        self.y, self.classes = torch.from_numpy(y), classes
        self.counts = torch.bincount(self.y, minlength=classes).double() / len(y)
        # sums of rows by class: the part of the gradient that no weight moves
        self.moments = torch.zeros(classes, self.z.shape[1], dtype=torch.float64)
        for part, labels in zip(self.z.split(_BLOCK), self.y.split(_BLOCK), strict=True):
            self.moments.index_add_(0, labels, part.double())
        self.moments /= len(y)
        self.weight = torch.zeros(self.z.shape[1], classes, dtype=torch.float64)
        self.bias = torch.zeros(classes, dtype=torch.float64)

    def begin(self, start: Logistic) -> None:
        """Take the solution of other examples to start from."""
        weight = torch.from_numpy(start.weight)
        inverse = torch.where(self.scale > 0, 1 / self.scale.where(self.scale > 0, 1.0), 0.0)
        self.weight = self.basis.T @ (inverse[:, None] * weight)
        self.bias = torch.from_numpy(start.bias) + self.mean @ weight
        self.bias -= (
            self.bias.mean()
        )  # only differences count: what is left of them by rounding must not grow

    def solve(self, penalty: float, tolerance: float, exact: bool = False) -> None:
        """Move weight and bias from where they are to the optimum of a penalty."""
        shape = self.weight.shape
        scale = (self.variances / self.classes + penalty).rsqrt()[:, None]
        step = self.classes**0.5  # of the bias, whose curvature is near 1/K

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            packed = torch.from_numpy(flat)
            weight, bias = packed[: -self.classes].view(shape) * scale, packed[-self.classes :] * step
            value, by_weight, by_bias = self._loss(weight, bias, exact)
            value += 0.5 * penalty * float(weight.square().sum())
            gradient = torch.cat((((by_weight + penalty * weight) * scale).flatten(), by_bias * step))
            return value, gradient.numpy()

        start = torch.cat(((self.weight / scale).flatten(), self.bias / step)).numpy()
        found = scipy.optimize.minimize(
            loss,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _STEPS, "maxcor": 10, "gtol": tolerance, "ftol": 0.0},
        )
        packed = torch.from_numpy(found.x)
        self.weight = packed[: -self.classes].view(shape) * scale
        self.bias = packed[-self.classes :] * step

    def _loss(self, weight: Tensor, bias: Tensor, exact: bool) -> tuple[float, Tensor, Tensor]:
        """Mean log-loss of the examples and its gradients, in float64 or the precision of the rows."""
        n, dtype = len(self.z), torch.float64 if exact else self.z.dtype
        total, by_weight, by_bias = 0.0, -self.moments.T, -self.counts
        for part in self.z.split(_BLOCK):
            rows = part.to(dtype)
            logits = torch.addmm(bias.to(dtype), rows, weight.to(dtype))
            total += float(logits.logsumexp(1).sum(dtype=torch.float64)) / n
            p = logits.softmax(1)
            by_weight = by_weight + (rows.T @ p).double() / n
            by_bias = by_bias + p.sum(0, dtype=torch.float64) / n
        return total - float((self.moments * weight.T).sum() + self.counts @ bias), by_weight, by_bias

    def classifier(self) -> Logistic:
        """The solution for features as they were given."""
        weight = self.scale[:, None] * (self.basis @ self.weight)
        return Logistic(weight.numpy(), (self.bias - self.mean @ weight).numpy())


def _principal(standard: Tensor) -> tuple[Tensor, Tensor]:
    """Orthonormal directions (dim, rank) that rows (n, dim) lie in, nearly principal, and their variances.

    In float64. Where there are more rows than columns all directions are kept, also those of next to no
    variance: they may be the ones that tell classes apart.
    """
    n, dim = standard.shape
    if dim <= n:
        gram = torch.zeros(dim, dim, dtype=torch.float64)
        for part in standard.split(_BLOCK):
            gram += (part.T @ part).double() / n
        values, vectors = torch.linalg.eigh(gram)
        return vectors, values.clamp_min(0)  # rounding
    rows = standard.double()
    values, vectors = torch.linalg.eigh(rows @ rows.T / n)
    kept = values > _LEAST * values[-1].clamp_min(torch.finfo(torch.float64).tiny)
    values, vectors = values[kept], vectors[:, kept]
    return rows.T @ vectors / (n * values).sqrt(), values
