r"""Probes of frozen features: linear, nearest-neighbor, radius and kernel probes, with intervals.

What a probe is worth: its accuracy on held-out examples, with an interval, and by class.

The interval is Clopper and Pearson's (1934): from k right answers of n it goes from the share at which k or
more would be as rare as alpha/2 to that at which k or fewer would,

    low = BetaInv(alpha/2; k, n-k+1),    high = BetaInv(1 - alpha/2; k+1, n-k),

and it covers the true share in at least 1 - alpha of test sets, whatever n and the share. It speaks of the
test examples alone: another training set, or another seed of the model, moves the accuracy besides.

The linear probe: multinomial logistic regression on frozen features, its penalty chosen by a part.

For features x, standardized by the mean and the standard deviation of the training examples, and labels y

    min over W, b of  (1/n) sum_i [ logsumexp_c (W x_i + b)_c - (W x_i + b)_{y_i} ]  +  (penalty/2) ||W||^2 ,

which is scikit-learn's LogisticRegression with C = 1 / (n penalty). The offset b is free.

The penalty is the same in any orthogonal basis, so the features are turned once into their principal
directions, of variances v_j, of which n rows have n at most. In this basis the curvature is near
v_j/K + penalty along direction j, and L-BFGS is run on weights that are scaled by its root: on features whose
variances differ by orders of magnitude it takes tens of steps where the plain one takes hundreds. Penalties
go from strong to weak, each from the solution of the one before; the end is in float64.

Probes without anything to fit: what the nearest training examples say.

k-NN as in DINO (Caron et al., 2021): of the k training examples with the largest cosine s_i to a query,
each votes for its own label with weight exp(s_i / temperature), temperature 0.07. A feature of length 0 has
cosine 0 with all.

Radius neighbors (Section 3.2 of LeJEPA): all training examples within a Euclidean distance vote alike,

    y(q) = mean of y_i over { i : ||z_i - q|| <= radius };

a query without a neighbor in the radius is answered with the most common label, and their fraction is
reported.

Queries and training examples are compared block by block, so that no (n, n) matrix is ever held. Of training
examples that are equally near at the k-th place, any may be the one that counts.

The kernel probe: ridge regression of the classes on Gaussian bumps around training examples.

With k(x, x') = exp(-||x - x'||^2 / (2 b^2)), b the median distance of two training examples, m of them as
landmarks, and K_nm the kernel between all examples and those, the rows of

    Phi = K_nm K_mm^(-1/2)    (Williams and Seeger, 2001: Nystroem)

are regressed on y_ic = [class of i is c] - 1/C with penalty ridge ||w||^2. Where all examples are landmarks
this is kernel ridge regression itself. The ridge is chosen by leaving one out, which needs no second fit:
with Phi^T Phi = V diag(s) V^T and z = Phi V,

    h_i = sum_j z_ij^2 / (s_j + ridge),    residual without i = (y_i - fitted_i) / (1 - h_i).

Features are standardized. Rows pass in blocks: nothing of size (n, m) is held. float64 but for the kernel.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa.seeds import generator as make_generator
from isojepa.validation import check_count, check_number


@dataclass(frozen=True)
class Score:
    """How a probe did on held-out examples.

    Attributes:
        probe: its name.
        accuracy: share of right answers.
        interval: of the accuracy, 95 % unless another confidence was asked for.
        per_class: accuracy on the examples of each class, NaN where there are none.
        samples: number of test examples.
        chosen: settings that were chosen from the training examples, such as the penalty.
    """

    probe: str
    accuracy: float
    interval: tuple[float, float]
    per_class: tuple[float, ...]
    samples: int
    chosen: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "probe": self.probe,
            "accuracy": self.accuracy,
            "interval": list(self.interval),
            "per_class": list(self.per_class),
            "samples": self.samples,
            "chosen": dict(self.chosen),
        }


def share_interval(right: int, samples: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share.

    Args:
        right: how many times it was so.
        samples: of how many.
        confidence: with which the interval covers the share, at least.

    Example:
        >>> low, high = share_interval(87, 100)
        >>> round(low, 3), round(high, 3)
        (0.788, 0.929)
    """
    samples = check_count("samples", samples)
    right = check_count("right", right, 0, samples)
    confidence = check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    tail = (1 - confidence) / 2
    low = 0.0 if right == 0 else float(scipy.stats.beta.ppf(tail, right, samples - right + 1))
    high = 1.0 if right == samples else float(scipy.stats.beta.ppf(1 - tail, right + 1, samples - right))
    return low, high


def score_of(
    probe: str,
    predicted: np.ndarray,
    labels: np.ndarray,
    classes: int,
    *,
    chosen: Mapping[str, float] | None = None,
    confidence: float = 0.95,
) -> Score:
    """The score of predicted labels (n,) against true ones (n,)."""
    hits = predicted == labels
    counts = np.bincount(labels, minlength=classes)
    hits_by_class = np.bincount(labels[hits], minlength=classes)
    with np.errstate(invalid="ignore", divide="ignore"):
        per_class = hits_by_class / counts  # 0 / 0 is NaN: no example of the class
    interval = share_interval(int(hits.sum()), len(hits), confidence)
    return Score(probe, float(hits.mean()), interval, tuple(per_class.tolist()), len(hits), chosen or {})


def chance_level(labels: np.ndarray) -> float:
    """Accuracy of always answering the most common of the labels (n,).

    Example:
        >>> chance_level(np.array([0, 1, 2, 2]))
        0.5
    """
    return float(np.bincount(labels).max() / len(labels))


@dataclass(frozen=True)
class Examples:
    """Features with labels, as probes take them, looked at once.

    Attributes:
        x, y: training features (n, dim), float32 or float64, and labels (n,) int64 below `classes`.
        test_x, test_y: held-out ones.
        classes: number of classes.
    """

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    classes: int


def examples(x: Any, y: Any, test_x: Any, test_y: Any) -> Examples:
    """Arrays or tensors as a probe needs them.

    Raises:
        ValueError: features are not finite numbers (n, dim) of one dimension, labels are not whole numbers
            from 0 on, one for each row, or the training examples have one class alone.
    """
    train, held = _features("features", x), _features("test features", test_x)
    if train.shape[1] != held.shape[1]:
        raise ValueError(
            f"test features must have {train.shape[1]} columns as the training features have, "
            f"got {held.shape[1]}"
        )
    labels, held_labels = _labels("labels", y, len(train)), _labels("test labels", test_y, len(held))
    if len(np.unique(labels)) < 2:
        raise ValueError(f"labels must have two classes at least, got only {labels[0]}")
    unknown = np.setdiff1d(held_labels, labels)
    if len(unknown):
        raise ValueError(
            f"test labels must be among those of the training examples, got {unknown[:5].tolist()} besides"
        )
    return Examples(train, labels, held, held_labels, int(labels.max()) + 1)


def _features(name: str, value: Any) -> np.ndarray:
    array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} must be numbers (samples, dim), got shape {array.shape} of {array.dtype.name}"
        )
    array = array if array.dtype == np.float64 else array.astype(np.float32, copy=False)
    bad = ~np.isfinite(array).all(1)
    if bad.any():
        raise ValueError(
            f"{name} must be finite, got NaN or Inf in {int(bad.sum())} of {len(array)} rows, "
            f"the first is row {int(bad.argmax())}"
        )
    return array


def _labels(name: str, value: Any, rows: int) -> np.ndarray:
    array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    if array.shape != (rows,) or array.dtype.kind not in "iub":
        raise ValueError(
            f"{name} must be {rows} whole numbers, one for each row of features, got shape {array.shape} "
            f"of {array.dtype.name}"
        )
    if array.min() < 0:
        raise ValueError(f"{name} must not be negative, got {array.min()}")
    return array.astype(np.int64)


def held_out(labels: np.ndarray, share: float, generator: torch.Generator) -> np.ndarray:
    """Which examples (n,) are put aside: of each class this share, rounded down, drawn at random."""
    aside = np.zeros(len(labels), dtype=bool)
    order = torch.randperm(len(labels), generator=generator).numpy()
    for label in np.unique(labels):
        members = order[labels[order] == label]
        aside[members[: int(share * len(members))]] = True
    return aside


PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
_SHARE = 0.2  # of the training examples of each class, which choose the penalty
_STEPS = 500  # of L-BFGS for one penalty, at most
_TOLERANCE = 1e-6  # largest entry of the scaled gradient at the end
_ROUGH = 1e-3  # the same while penalties are compared: accuracies do not change below it
_FLOAT32_TOLERANCE = 1e-4  # the same up to which float32 is enough
_BLOCK = 8_192  # rows that are turned into float64 at once
# variance of a direction against the largest that is more than rounding, in float64
_MIN_VARIANCE_RATIO = 1e-12


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
        logits: np.ndarray = x @ self.weight.astype(x.dtype, copy=False) + self.bias.astype(
            x.dtype, copy=False
        )
        return logits

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
        penalty: on the squared weights of standardized features, against the mean log-loss.

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
    scores: list[tuple[tuple[float, float], float, Logistic]] = []
    for candidate in reversed(grid):
        path.solve(candidate, _ROUGH)
        classifier = path.classifier()
        scores.append((_quality(classifier.logits(data.x[aside]), data.y[aside]), candidate, classifier))
    _, penalty, start = max(scores, key=lambda one: one[:2])  # of equals the larger penalty
    return penalty, _fitted(data.x, data.y, data.classes, penalty, start)


def _fitted(
    x: np.ndarray, y: np.ndarray, classes: int, penalty: float, start: Logistic | None = None
) -> Logistic:
    path = _Path(x, y, classes)
    if start is not None:
        path.begin(start)
    path.solve(penalty, _FLOAT32_TOLERANCE)
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
        optimum = scipy.optimize.minimize(
            loss,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _STEPS, "maxcor": 10, "gtol": tolerance, "ftol": 0.0},
        )
        packed = torch.from_numpy(optimum.x)
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
    variance: they may be the ones that separate classes.
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
    numerical_rank = values > _MIN_VARIANCE_RATIO * values[-1].clamp_min(torch.finfo(torch.float64).tiny)
    values, vectors = values[numerical_rank], vectors[:, numerical_rank]
    return rows.T @ vectors / (n * values).sqrt(), values


K = (20, 200)
TEMPERATURE = 0.07
_QUERIES, _KEYS = 512, 16_384  # rows of a block
_LOOKED_AT = 1_000  # training examples whose 20th neighbors give the radius


def neighbors_probe(
    x: Any,
    y: Any,
    test_x: Any,
    test_y: Any,
    *,
    k: Sequence[int] = K,
    temperature: float = TEMPERATURE,
    confidence: float = 0.95,
) -> tuple[Score, ...]:
    """Accuracy of weighted k-NN on cosines, for each k.

    Args:
        x, y: training features (n, dim) and labels (n,), whole numbers from 0 on.
        test_x, test_y: those that are scored.
        k: numbers of neighbors, n at most.
        temperature: of the weights.
        confidence: of the intervals.

    Raises:
        ValueError: features or labels are no such thing, k exceeds n, or the temperature is not positive.

    Example:
        >>> x = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
        >>> neighbors_probe(x, [0, 0, 1, 1], x, [0, 0, 1, 1], k=(3,))[0].accuracy
        1.0
    """
    data = examples(x, y, test_x, test_y)
    temperature = check_number("temperature", temperature, "be positive and finite", lambda v: v > 0)
    ks = [check_count("k", one) for one in k]
    if not ks or max(ks) > len(data.x):
        raise ValueError(f"k must be at most the {len(data.x)} training examples, got {list(k)}")
    keys, queries = directions(data.x), directions(data.test_x)
    labels = torch.from_numpy(data.y)
    predicted: dict[int, list[Tensor]] = {one: [] for one in ks}
    for part in queries.split(_QUERIES):
        cosines, places = _largest(part, keys, max(ks))
        # against the largest one: exp(1 / temperature) may be beyond float32
        votes, voters = ((cosines - cosines[:, :1]) / temperature).exp(), labels[places]
        for one in ks:
            ballot = torch.zeros(len(part), data.classes)
            predicted[one].append(ballot.scatter_add_(1, voters[:, :one], votes[:, :one]).argmax(1))
    return tuple(
        score_of(
            f"{one}-nn", torch.cat(predicted[one]).numpy(), data.test_y, data.classes, confidence=confidence
        )
        for one in ks
    )


def radius_probe(
    x: Any,
    y: Any,
    test_x: Any,
    test_y: Any,
    *,
    radius: float | None = None,
    confidence: float = 0.95,
) -> Score:
    """Accuracy of the vote of all training examples within a radius.

    Args:
        x, y: training features (n, dim) and labels (n,), whole numbers from 0 on.
        test_x, test_y: those that are scored.
        radius: Euclidean distance; by default the median distance of a training example to its 20th nearest
            other one, from a thousand of them.
        confidence: of the interval.

    Returns:
        The score; `chosen` has the radius, and as "alone" the fraction of queries without a neighbor in the
        radius.

    Raises:
        ValueError: features or labels are no such thing, or the radius is not positive.
    """
    data = examples(x, y, test_x, test_y)
    keys, queries, labels = torch.from_numpy(data.x), torch.from_numpy(data.test_x), torch.from_numpy(data.y)
    keys, queries = keys.float(), queries.float()
    middle = keys.mean(0)  # distances are differences of large numbers unless the origin is near
    keys, queries = keys - middle, queries - middle
    if radius is None:
        radius = usual_radius(keys)
    radius = check_number("radius", radius, "be finite and not negative", lambda v: v >= 0)
    common = int(torch.bincount(labels).argmax())
    predicted, alone = [], 0
    for part in queries.split(_QUERIES):
        ballot = torch.zeros(len(part), data.classes)
        for start, squares in _squared_distances(part, keys):
            near = (squares <= radius**2).float()
            block = torch.nn.functional.one_hot(labels[start : start + near.shape[1]], data.classes).float()
            ballot += near @ block
        empty = ballot.sum(1) == 0
        ballot[empty, common] = 1
        alone += int(empty.sum())
        predicted.append(ballot.argmax(1))
    chosen = {"radius": radius, "alone": alone / len(queries)}
    predictions = torch.cat(predicted).numpy()
    return score_of("radius", predictions, data.test_y, data.classes, chosen=chosen, confidence=confidence)


def usual_radius(keys: Tensor, k: int = 20) -> float:
    """Median distance of examples (n, dim) to their k-th nearest other one, from a thousand of them."""
    k = min(k, len(keys) - 1)
    order = torch.randperm(len(keys), generator=make_generator(0, "radius"))[:_LOOKED_AT]
    radii = []
    for part in keys[order].split(_QUERIES):
        nearest: Tensor | None = None
        for _, squares in _squared_distances(part, keys):
            whole = squares if nearest is None else torch.cat((nearest, squares), 1)
            nearest = whole.topk(min(k + 1, whole.shape[1]), largest=False).values
        assert nearest is not None
        radii.append(nearest[:, -1])  # the example itself is the nearest of all
    return float(torch.cat(radii).median().sqrt())


def directions(x: np.ndarray) -> Tensor:
    """Rows (n, dim) divided by their lengths, float32; one of length 0 stays as it is."""
    rows = torch.from_numpy(x).float()
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    unit_rows: Tensor = rows / lengths.clamp_min(torch.finfo(torch.float32).tiny)
    return unit_rows


def _largest(queries: Tensor, keys: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest products with keys, in falling order, and where they are: (queries, k)."""
    values, places = torch.empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.int64)
    for start in range(0, len(keys), _KEYS):
        products = queries @ keys[start : start + _KEYS].T
        top, at = products.topk(min(k, products.shape[1]), dim=1)
        values, places = torch.cat((values, top), 1), torch.cat((places, at + start), 1)
        if values.shape[1] > k:
            values, largest = values.topk(k, dim=1)
            places = places.gather(1, largest)
    values, order = values.sort(dim=1, descending=True)
    return values, places.gather(1, order)


def _squared_distances(queries: Tensor, keys: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Blocks of squared distances (queries, some keys), with the number of the first key."""
    lengths = queries.square().sum(1, keepdim=True)
    for start in range(0, len(keys), _KEYS):
        block = keys[start : start + _KEYS]
        squares = torch.addmm(block.square().sum(1)[None], queries, block.T, alpha=-2).add_(lengths)
        yield start, squares.clamp_min_(0)  # rounding


RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2)
LANDMARKS = 1_024
_ROWS = 4_096  # rows at once
_PAIRS = 1_000  # training examples among which the median distance is taken
_FLOOR = 1e-7  # of the landmarks' kernel, against its largest eigenvalue: below it is float32's rounding


def kernel_probe(
    x: Any,
    y: Any,
    test_x: Any,
    test_y: Any,
    *,
    ridges: Sequence[float] = RIDGES,
    landmarks: int = LANDMARKS,
    confidence: float = 0.95,
    generator: torch.Generator | None = None,
) -> Score:
    """Accuracy of kernel ridge regression with a Gaussian kernel.

    Args:
        x, y: training features (n, dim) and labels (n,), whole numbers from 0 on.
        test_x, test_y: those that are scored.
        ridges: to choose from, by the accuracy and then the squared error on examples left out.
        landmarks: training examples that bumps stand on; all of them where there are not more.
        confidence: of the interval.
        generator: draws the landmarks; by default always the same.

    Raises:
        ValueError: features or labels are no such thing, or a ridge is not positive.

    Example:
        >>> x = torch.linspace(-1, 1, 200)[:, None]
        >>> y = (x[:, 0].abs() > 0.5).long()  # not linearly separable
        >>> kernel_probe(x[::2], y[::2], x[1::2], y[1::2]).accuracy > 0.95
        True
    """
    data = examples(x, y, test_x, test_y)
    grid = sorted({check_number("ridge", one, "be positive and finite", lambda v: v > 0) for one in ridges})
    if not grid:
        raise ValueError("ridges must be one at least, got none")
    landmarks = check_count("landmarks", landmarks)
    rows, labels = torch.from_numpy(data.x).float(), torch.from_numpy(data.y)
    fitted = _Bumps(rows, landmarks, generator or make_generator(0, "landmarks"))
    ridge, weight = fitted.choose(rows, labels, data.classes, grid)
    test = torch.from_numpy(data.test_x).float()
    predicted = torch.cat([(phi @ weight).argmax(1) for phi in fitted.blocks(test)])
    chosen = {"ridge": ridge, "bandwidth": fitted.bandwidth, "landmarks": float(len(fitted.centers))}
    return score_of(
        "kernel", predicted.numpy(), data.test_y, data.classes, chosen=chosen, confidence=confidence
    )


class _Bumps:
    """The features Phi of a kernel on landmarks, and ridge regression on them."""

    def __init__(self, rows: Tensor, landmarks: int, generator: torch.Generator) -> None:
        self.mean = rows.mean(0)
        spread = rows.std(0, correction=0)
        flat = spread <= 1e-6 * self.mean.abs() + torch.finfo(torch.float32).tiny
        self.scale = torch.where(flat, 0.0, 1 / spread.where(~flat, torch.ones_like(spread)))
        order = torch.randperm(len(rows), generator=generator)
        few = self._standard(rows[order[:_PAIRS]])
        distances = torch.pdist(few)
        self.bandwidth = float(distances.median()) or 1.0  # all alike: any width does
        chosen = order[:landmarks].sort().values
        self.centers = self._standard(rows[chosen])
        values, vectors = torch.linalg.eigh(self._kernel(self.centers))
        significant = values > _FLOOR * values[-1]
        self.root = vectors[:, significant] / values[significant].sqrt()

    def _standard(self, rows: Tensor) -> Tensor:
        return (rows - self.mean) * self.scale

    def _kernel(self, rows: Tensor) -> Tensor:
        squares = torch.cdist(rows, self.centers).double().square()
        return squares.mul_(-0.5 / self.bandwidth**2).exp_()

    def blocks(self, rows: Tensor) -> Iterator[Tensor]:
        """Phi, block by block: (rows, rank)."""
        for part in rows.split(_ROWS):
            yield self._kernel(self._standard(part)) @ self.root

    def choose(
        self, rows: Tensor, labels: Tensor, classes: int, ridges: Sequence[float]
    ) -> tuple[float, Tensor]:
        """The ridge that does best on examples left out, the larger of equals, and its weights."""
        targets = torch.nn.functional.one_hot(labels, classes).double() - 1 / classes
        rank = self.root.shape[1]
        gram, products = torch.zeros(rank, rank).double(), torch.zeros(rank, classes).double()
        for phi, y in zip(self.blocks(rows), targets.split(_ROWS), strict=True):
            gram += phi.T @ phi
            products += phi.T @ y
        s, v = torch.linalg.eigh(gram)
        s = s.clamp_min(0)  # rounding
        rotated = v.T @ products
        hits, errors = dict.fromkeys(ridges, 0), dict.fromkeys(ridges, 0.0)
        blocks = zip(self.blocks(rows), targets.split(_ROWS), labels.split(_ROWS), strict=True)
        for phi, y, members in blocks:
            z = phi @ v
            for ridge in ridges:
                leverage = z.square() @ (1 / (s + ridge))
                residual = (y - z @ (rotated / (s + ridge)[:, None])) / (1 - leverage)[:, None]
                hits[ridge] += int(((y - residual).argmax(1) == members).sum())
                errors[ridge] += float(residual.square().sum())
        best = max(ridges, key=lambda ridge: (hits[ridge], -errors[ridge], ridge))
        return best, v @ (rotated / (s + best)[:, None])
