r"""Probe transfer: a head of encoder 1 on rows of encoder 2 (Social-JEPA, Algorithm 2), and what it is worth.

The map goes from encoder 1 to encoder 2, z2 ~ W z1; the head A x + b was fitted on rows of encoder 1. With
V = diag(s1) W_inv diag(1/s2), scales s1, s2 and means m1, m2 of the map,

    A2 = A V            b2 = b + A m1 - A2 m2

so that A2 z + b2 = A inverse_transform(z) + b for every row z of encoder 2. W_inv is
`AlignmentMap.inverse_`. The inverse amplifies the part of z2 that z1 does not explain if W is far from a
rotation; a map fitted backwards, from encoder 2 to encoder 1, does not (`backwards=True`).

`share_probe` compares, on held-out states,

    own           a probe fitted to rows of encoder 2 and the labels
    naive         the head of encoder 1, unchanged
    transferred   the head of encoder 1 behind the map's inverse: no labels, no training
    regressed     the same with a map fitted backwards
    distilled     a probe of encoder 2 fitted to the predictions of encoder 1's head on paired rows: no labels

Accuracies have Clopper-Pearson intervals. Where states have several rows, n is divided by the design
effect, the variance of the accuracy between states over that of as many independent rows (Korn & Graubard
1998). Differences of two heads have Wald's interval with half a row added to each of the four counts
(Agresti & Min 2005), times the root of the design effect.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import scipy
import torch
from torch import nn

from isojepa.alignment.maps import AlignmentMap
from isojepa.alignment.pairs import as_rows, check_pairs, split_states
from isojepa.io import parse_json
from isojepa.linear import LinearMap
from isojepa.probes.linear import Examples, Logistic, choose_logistic, share_interval
from isojepa.statistics.splits import Split
from isojepa.training.checkpoints import load_tensors, save_tensors
from isojepa.validation import check_number, short_repr
from isojepa.version import __version__

_NOTE = "isojepa-head"
_TENSORS = ("weight", "bias", "mean", "scale", "classes")


@dataclass(frozen=True, eq=False)
class LinearHead:
    """A linear classifier, or a linear readout of any kind, of rows as the encoder gives them.

    Args:
        weight: A, (outputs, dim) as torch and scikit-learn have it, or (dim,) for one output.
        bias: b, (outputs,) or a number; 0 by default.
        classes: names of the classes in the order of the outputs; a single output distinguishes two by its
            sign; their numbers by default.
        mean, scale: (dim,) of the rows that the head was trained on, if those were standardized.

    Raises:
        ValueError: shapes do not fit, a number is not finite, or a scale is not positive.

    Example:
        >>> head = LinearHead([[2.0, 0.0], [0.0, 1.0]], [0.0, 1.0], classes=("left", "right"))
        >>> head([[3.0, 0.0], [0.0, 0.0]]).tolist(), head.named([[3.0, 0.0]])
        ([0, 1], ['left'])
    """

    weight: Any
    bias: Any = 0.0
    classes: tuple[str, ...] = ()
    mean: Any = None
    scale: Any = None

    def __post_init__(self) -> None:
        weight = np.atleast_2d(_array("weight", self.weight))
        if weight.ndim != 2 or 0 in weight.shape:
            raise ValueError(f"weight must be (outputs, dim), got shape {weight.shape}")
        outputs, dim = weight.shape
        bias = _array("bias", self.bias)
        bias = np.full(outputs, bias) if bias.ndim == 0 else bias
        if bias.shape != (outputs,):
            raise ValueError(f"bias must be {outputs} numbers, one for each output, got shape {bias.shape}")
        mean = np.zeros(dim) if self.mean is None else _array("mean", self.mean)
        scale = np.ones(dim) if self.scale is None else _array("scale", self.scale)
        for name, part in (("mean", mean), ("scale", scale)):
            if part.shape != (dim,):
                raise ValueError(f"{name} must be {dim} numbers as weight has columns, got {part.shape}")
        if (scale <= 0).any():
            raise ValueError(f"scale must be positive, got {scale.min()}")
        classes = tuple(map(str, self.classes))
        if classes and len(classes) != max(outputs, 2):
            raise ValueError(
                f"classes must be {max(outputs, 2)} for a head of {outputs} outputs, got {len(classes)}"
            )
        weight = weight / scale
        for name, value in {"weight": weight, "bias": bias - weight @ mean, "classes": classes}.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "mean", None)  # folded in
        object.__setattr__(self, "scale", None)

    @classmethod
    def of(cls, classifier: Logistic, classes: tuple[str, ...] = ()) -> "LinearHead":
        """The head of a logistic regression of this package."""
        return cls(classifier.weight.T, classifier.bias, classes)

    @property
    def dim(self) -> int:
        """Width of the rows that it takes."""
        return int(self.weight.shape[1])

    @property
    def outputs(self) -> int:
        """How many numbers it gives for a row."""
        return int(self.weight.shape[0])

    def logits(self, rows: Any) -> np.ndarray:
        """A x + b of rows (n, dim): (n, outputs).

        Raises:
            ValueError: the rows are not finite, or have another width.
        """
        x = as_rows("rows", rows)
        if x.shape[1] != self.dim:
            raise ValueError(f"rows must have {self.dim} columns as the head takes, got {x.shape[1]}")
        return np.asarray(x @ self.weight.T + self.bias)

    def __call__(self, rows: Any) -> np.ndarray:
        """Numbers of the classes (n,): of the largest output, or whether the only one is positive."""
        outputs = self.logits(rows)
        return np.asarray(outputs[:, 0] > 0, dtype=np.int64) if self.outputs == 1 else outputs.argmax(1)

    def named(self, rows: Any) -> list[str]:
        """Names of the classes of rows."""
        names = self.classes or tuple(map(str, range(max(self.outputs, 2))))
        return [names[number] for number in self(rows)]

    def save(self, path: str | Path, notes: dict[str, Any] | None = None) -> None:
        """Write the head to a safetensors file: weight and bias in float64, and the classes' names.

        Args:
            path: of the file.
            notes: plain values that say where the head comes from.
        """
        description = {"version": __version__, "classes": list(self.classes), **(notes or {})}
        tensors = {"weight": torch.from_numpy(self.weight), "bias": torch.from_numpy(self.bias)}
        save_tensors(Path(path), tensors, {_NOTE: json.dumps(description, allow_nan=False)})

    @classmethod
    def load(cls, path: str | Path) -> "LinearHead":
        """Read a head: what `save` wrote, or tensors weight and, where there are any, bias, mean, scale.

        Names are torch's, so that the saved weights of an `nn.Linear` are a head; whole numbers "classes"
        name the outputs.

        Raises:
            ValueError: the file is missing, damaged, or something else.
        """
        tensors, header = load_tensors(Path(path))
        if "weight" not in tensors or not set(tensors) <= set(_TENSORS):
            raise ValueError(
                f"{path} must be a linear head: a tensor weight (outputs, dim), and bias, mean, scale, "
                f"classes where there are any; got {', '.join(sorted(tensors)[:6]) or 'no tensors'}"
            )
        try:
            notes = parse_json(header[_NOTE].encode()) if _NOTE in header else {}
            classes = tuple(notes.get("classes") or ())
        except (ValueError, AttributeError, TypeError) as error:
            raise ValueError(f"{path} has notes that cannot be read: {error}") from error
        if "classes" in tensors:
            classes = tuple(tensors.pop("classes").reshape(-1).tolist())
        try:
            return cls(**{name: tensor.numpy() for name, tensor in _plain(tensors)}, classes=classes)
        except ValueError as error:
            raise ValueError(f"{path} is no linear head: {error}") from error


def _plain(tensors: dict[str, torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
    return [
        (name, tensor.double() if tensor.is_floating_point() else tensor) for name, tensor in tensors.items()
    ]


def _array(name: str, value: Any) -> np.ndarray:
    raw = value.detach().cpu() if isinstance(value, torch.Tensor) else value
    array = np.asarray(raw.float() if isinstance(raw, torch.Tensor) and raw.dtype == torch.bfloat16 else raw)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must hold numbers, got {array.dtype}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or Inf")
    return array.astype(np.float64)


T = TypeVar("T")


def transfer_head(head: T, fitted: AlignmentMap, *, backwards: bool = False) -> T:
    """The head for encoder 2 from a head for encoder 1.

    Args:
        head: of encoder 1: a `LinearHead`, a `Logistic` of this package, an `nn.Linear`, or a fitted
            estimator of scikit-learn. Linear ones of it, also at the end of a pipeline of StandardScalers,
            become a new estimator of their class; any other estimator, and any other module of torch, is
            put behind the map's inverse.
        fitted: the map from encoder 1 to encoder 2.
        backwards: whether the map goes from encoder 2 to encoder 1 instead; nothing is inverted then.

    Raises:
        ValueError: the head takes rows of another width than the map starts from, or is none of these.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z1, w = rng.normal(size=(200, 3)), rng.normal(size=(3, 3))
        >>> fitted = AlignmentMap("ols").fit(z1, z1 @ w.T + 5)
        >>> head = LinearHead([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]], [0.5, 0.0])
        >>> bool(np.allclose(transfer_head(head, fitted).logits(z1 @ w.T + 5), head.logits(z1)))
        True
    """
    backward = fitted.affine() if backwards else backward_map(fitted)
    transferred: Any
    if isinstance(head, LinearHead):
        transferred = LinearHead(*_carried(head.weight, head.bias, backward), classes=head.classes)
    elif isinstance(head, Logistic):
        weight, bias = _carried(head.weight.T, head.bias, backward)
        transferred = Logistic(np.ascontiguousarray(weight.T), bias)
    elif isinstance(head, nn.Linear) and type(head) is nn.Linear:
        transferred = _carried_layer(head, backward)
    elif isinstance(head, nn.Module):
        transferred = nn.Sequential(_layer(backward, head), head)
    elif is_estimator(head):
        transferred = Translated(head, backward)
    else:
        raise ValueError(
            "head must be a LinearHead, a Logistic, a torch module or an estimator of scikit-learn, got "
            f"{short_repr(head)}"
        )
    return cast(T, transferred)


def backward_map(fitted: AlignmentMap) -> LinearMap:
    """`fitted.inverse_transform` as one affine map of rows: z1 ~ (z2 - center) matrix + offset."""
    matrix = fitted.scale_in_[:, None] * fitted.inverse_ / fitted.scale_out_
    return LinearMap(np.ascontiguousarray(matrix.T), fitted.mean_out_, fitted.mean_in_)


def _carried(weight: np.ndarray, bias: np.ndarray, backward: LinearMap) -> tuple[np.ndarray, np.ndarray]:
    """Weight (outputs, dim 1) and bias (outputs,) to weight (outputs, dim 2) and bias, in float64."""
    if weight.shape[1] != backward.matrix.shape[1]:
        raise ValueError(
            f"the head must take the {backward.matrix.shape[1]} columns that the map starts from, got "
            f"{weight.shape[1]}: a map goes from the head's encoder to the other"
        )
    carried = weight.astype(np.float64) @ backward.matrix.T
    return carried, bias + weight @ backward.offset - carried @ backward.center


def _carried_layer(layer: nn.Linear, backward: LinearMap) -> nn.Linear:
    weight = layer.weight.detach().cpu().double().numpy()
    bias = np.zeros(len(weight)) if layer.bias is None else layer.bias.detach().cpu().double().numpy()
    return _filled(*_carried(weight, bias, backward), like=layer.weight)


def _layer(backward: LinearMap, head: nn.Module) -> nn.Linear:
    """The map as a layer, of the type and on the device of the module that it stands before."""
    like = next(head.parameters(), torch.zeros(()))
    return _filled(backward.matrix.T, backward.offset - backward.center @ backward.matrix, like=like)


def _filled(weight: np.ndarray, bias: np.ndarray, like: torch.Tensor) -> nn.Linear:
    layer = nn.utils.skip_init(nn.Linear, weight.shape[1], weight.shape[0])
    layer = layer.to(device=like.device, dtype=like.dtype)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(weight)))
        layer.bias.copy_(torch.from_numpy(bias))
    return cast(nn.Linear, layer)


_ANSWERS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


def is_estimator(head: Any) -> bool:
    """Whether something is an estimator in scikit-learn's sense: it has predict and get_params."""
    return callable(getattr(head, "predict", None)) and callable(getattr(head, "get_params", None))


class Translated:
    """An estimator behind a map: rows of the second encoder are turned into rows of the first, then answered.

    Args:
        estimator: fitted on rows of the first; its predict, predict_proba, predict_log_proba and
            decision_function are there where it has them.
        backward: from rows of the second to rows of the first.
    """

    def __init__(self, estimator: Any, backward: LinearMap) -> None:
        self.estimator, self.backward = estimator, backward
        self.n_features_in_ = len(backward.center)

    @property
    def classes_(self) -> Any:
        """Of the estimator."""
        return self.estimator.classes_

    def __getattr__(self, name: str) -> Any:
        if name not in _ANSWERS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        answer = getattr(self.estimator, name)
        return lambda rows: answer(self.backward(np.asarray(rows, np.float64)))

    def score(self, rows: Any, labels: Any) -> float:
        """What the estimator's own score says of rows of the second."""
        return float(self.estimator.score(self.backward(np.asarray(rows, np.float64)), labels))

    def __repr__(self) -> str:
        return f"Translated({self.estimator!r})"


_EACH = 2  # rows that a class needs among those that are fitted


@dataclass(frozen=True)
class ProbeScore:
    """Accuracy of one head for encoder 2.

    Attributes:
        head: "own", "naive", "transferred", "regressed" or "distilled".
        accuracy: share of right answers; NaN where there is no such head.
        interval: of it.
        difference: accuracy less that of the own probe, on the same rows.
        difference_interval: of it.
        reason: why there is no such head; else empty.
    """

    head: str
    accuracy: float
    interval: tuple[float, float]
    difference: float
    difference_interval: tuple[float, float]
    reason: str = ""


@dataclass(frozen=True)
class ProbeTransfer:
    """The heads, and the map between the encoders.

    Attributes:
        scores: of own, naive, transferred, regressed and distilled, in this order.
        r2: of the map on the held-out rows; NaN where rows of encoder 1 were not given.
        condition: of the map.
        pseudo: whether its inverse is a pseudo-inverse.
        fitted_rows, scored_rows, scored_states: how many.
        confidence: of the intervals.
    """

    scores: tuple[ProbeScore, ...]
    r2: float
    condition: float
    pseudo: bool
    fitted_rows: int
    scored_rows: int
    scored_states: int
    confidence: float = field(default=0.95)

    def __getitem__(self, head: str) -> ProbeScore:
        return {score.head: score for score in self.scores}[head]

    def to_dict(self) -> dict[str, Any]:
        """Plain values by name."""
        return {**vars(self), "scores": [dict(vars(score)) for score in self.scores]}


def share_probe(
    second: Any,
    labels: Any,
    *,
    first: Any = None,
    head: Any = None,
    fitted: AlignmentMap | None = None,
    backwards: bool = False,
    ids: Any = None,
    share: float = 0.5,
    seed: int = 0,
    confidence: float = 0.95,
) -> ProbeTransfer:
    """Score own, naive, transferred, regressed and distilled probe of encoder 2 on held-out states.

    Args:
        second: (n, dim 2), rows of encoder 2.
        labels: (n,) whole numbers from 0 on.
        first: (n, dim 1), rows of encoder 1 of the same states; what is distilled and fitted needs them.
        head: of encoder 1, as `transfer_head` takes it; by default a linear probe fitted on the fitted
            states.
        fitted: the map from encoder 1 to encoder 2; by default "ridge" on the fitted states. One that was
            fitted elsewhere must not have seen the states that are scored.
        backwards: whether `fitted` goes from encoder 2 to encoder 1; it is then applied as it is.
        ids: (n,) of the states; by default each row is a state of its own.
        share: of the states that are fitted on.
        seed: draws which.
        confidence: of all intervals.

    Raises:
        ValueError: rows, labels or ids do not fit each other, or something is to be fitted that needs
            `first`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(600, 4))
        >>> turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
        >>> shared = share_probe(z @ turn, (z[:, 0] > 0).astype(int), first=z)
        >>> shared["transferred"].accuracy > 0.95, shared.r2 > 0.99
        (True, True)
    """
    check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    if first is not None:
        first, second = check_pairs(first, second)
        first = as_rows("first", first)
    elif head is None or fitted is None:
        raise ValueError("first must be given, rows of encoder 1, unless head and map are fitted already")
    second = as_rows("second", second)
    y = _labels(labels, len(second))
    split = split_states(len(second), ids, share, seed)
    fit, held = split.fit, split.score
    if head is None:
        head = _probe(first[fit], y[fit])
    if fitted is None:
        pair = (second[fit], first[fit]) if backwards else (first[fit], second[fit])
        fitted = AlignmentMap().fit(*pair)
    transferred = transfer_head(head, fitted, backwards=backwards)
    width = len(fitted.mean_out_ if backwards else fitted.mean_in_)
    answers: dict[str, np.ndarray | str] = {
        "own": _answers(_probe(second[fit], y[fit]), second[held]),
        "naive": (
            f"encoder 1 has {width} columns and encoder 2 {second.shape[1]}: "
            "its head as it is does not take these rows"
            if width != second.shape[1]
            else _answers(head, second[held])
        ),
        "transferred": _answers(transferred, second[held]),
        "regressed": (
            "the map goes backwards already" if backwards else _regressed(head, fitted, first, second, split)
        ),
        "distilled": _distilled(head, first, second, split),
    }
    state = np.arange(len(held)) if ids is None else np.unique(_as_array(ids)[held], return_inverse=True)[1]
    own_right = np.asarray(answers["own"] == y[held])
    return ProbeTransfer(
        scores=tuple(
            _score(name, predicted, own_right, y[held], state, confidence)
            for name, predicted in answers.items()
        ),
        r2=_r2(fitted, first, second, held, backwards),
        condition=fitted.condition_,
        pseudo=not backwards and fitted.pseudo_,
        fitted_rows=len(fit),
        scored_rows=len(held),
        scored_states=int(state.max()) + 1,
        confidence=confidence,
    )


def _r2(
    fitted: AlignmentMap, first: np.ndarray | None, second: np.ndarray, held: np.ndarray, backwards: bool
) -> float:
    if first is None:
        return float("nan")
    pair = first[held], second[held]
    return fitted.score(*(reversed(pair) if backwards else pair))


def _probe(x: np.ndarray, y: np.ndarray) -> Logistic:
    kinds, counts = np.unique(y, return_counts=True)
    if len(kinds) < 2 or counts.min() < _EACH:
        raise ValueError(
            f"the fitted states must have {_EACH} rows at least of two classes at least, got "
            f"{dict(zip(kinds.tolist(), counts.tolist(), strict=True))}: bring more states"
        )
    return choose_logistic(Examples(x, y, x, y, int(y.max()) + 1))[1]


def _regressed(
    head: Any, fitted: AlignmentMap, first: np.ndarray | None, second: np.ndarray, split: Split
) -> np.ndarray | str:
    if first is None:
        return "rows of encoder 1 were not given: no map can be fitted backwards"
    backwards = AlignmentMap(**{**fitted.get_params(), "ridge": None}).fit(
        second[split.fit], first[split.fit]
    )
    return _answers(transfer_head(head, backwards, backwards=True), second[split.score])


def _distilled(head: Any, first: np.ndarray | None, second: np.ndarray, split: Split) -> np.ndarray | str:
    if first is None:
        return "rows of encoder 1 were not given: there is nothing to learn its answers from"
    taught = _answers(head, first[split.fit])
    kinds, counts = np.unique(taught, return_counts=True)
    if len(kinds) < 2:
        return f"the head answers {kinds[0]} on all paired rows: there is nothing to learn"
    rare = np.isin(taught, kinds[counts < _EACH])
    student = _probe(second[split.fit][~rare], taught[~rare])
    return _answers(student, second[split.score])


def _answers(head: Any, rows: np.ndarray) -> np.ndarray:
    """Labels (n,) that a head gives."""
    if isinstance(head, Logistic | LinearHead):
        return head(rows)
    if is_estimator(head) or callable(getattr(head, "predict", None)):
        return np.asarray(head.predict(rows))
    import torch

    like = next(head.parameters(), torch.zeros(()))
    with torch.no_grad():
        logits = head(torch.from_numpy(rows).to(like))
    found: np.ndarray = LinearHead(np.eye(logits.shape[1]))(logits.double().cpu().numpy())
    return found


def _score(
    name: str, found: np.ndarray | str, own: np.ndarray, y: np.ndarray, state: np.ndarray, confidence: float
) -> ProbeScore:
    if isinstance(found, str):
        nothing = (float("nan"), float("nan"))
        return ProbeScore(name, float("nan"), nothing, float("nan"), nothing, found)
    right = found == y
    difference, around = (0.0, (0.0, 0.0)) if name == "own" else _difference(right, own, state, confidence)
    return ProbeScore(name, float(right.mean()), _share(right, state, confidence), difference, around)


def _share(right: np.ndarray, state: np.ndarray, confidence: float) -> tuple[float, float]:
    n, states = len(right), int(state.max()) + 1
    if states == n:
        return share_interval(int(right.sum()), n, confidence)
    spread = right.var()
    # all right or all wrong: the spread within states is unknown, so states count
    rows = n / _design(right.astype(float), state) if spread > 0 else states
    hits, tail = float(right.mean()) * rows, (1 - confidence) / 2
    low = 0.0 if hits == 0 else float(scipy.stats.beta.ppf(tail, hits, rows - hits + 1))
    high = 1.0 if hits == rows else float(scipy.stats.beta.ppf(1 - tail, hits + 1, rows - hits))
    return low, high


def _difference(
    right: np.ndarray, own: np.ndarray, state: np.ndarray, confidence: float
) -> tuple[float, tuple[float, float]]:
    gained, lost, n = int((right & ~own).sum()), int((~right & own).sum()), len(own)
    b, c, rows = gained + 0.5, lost + 0.5, n + 2
    error = np.sqrt(b + c - (b - c) ** 2 / rows) / rows
    if gained + lost:
        error *= np.sqrt(_design(right.astype(float) - own, state))
    around, reach = (b - c) / rows, scipy.stats.norm.ppf((1 + confidence) / 2) * error
    return (gained - lost) / n, (float(max(around - reach, -1)), float(min(around + reach, 1)))


def _design(values: np.ndarray, state: np.ndarray) -> float:
    """Variance of the mean of rows that come in states, over that of as many single rows; at least 1."""
    centered = values - values.mean()
    sums = np.bincount(state, weights=centered)
    states = len(sums)
    if states == len(values) or states < 2:
        return 1.0
    return max(1.0, float((sums**2).sum() * states / (states - 1) / (centered**2).sum()))


def _labels(labels: Any, rows: int) -> np.ndarray:
    array = _as_array(labels)
    if array.shape != (rows,) or array.dtype.kind not in "iub" or array.min() < 0:
        raise ValueError(
            f"labels must be {rows} whole numbers from 0 on, one for each row, got shape {array.shape} of "
            f"{array.dtype.name}"
        )
    return array.astype(np.int64)


def _as_array(values: Any) -> np.ndarray:
    import torch

    return np.asarray(values.detach().cpu() if isinstance(values, torch.Tensor) else values)
