r"""What a transferred probe is worth: heads for encoder 2, scored on the same held-out states.

    own           a probe of encoder 2, fitted to its rows and the labels
    naive         the head of encoder 1 as it is, on rows of encoder 2
    transferred   the head of encoder 1 behind the map's inverse: no label and no step of training
    regressed     the same with a map that is fitted backwards, from encoder 2 to encoder 1
    distilled     a probe of encoder 2 fitted to what the head of encoder 1 answers on paired rows: no label

All that is fitted here is fitted on some states and scored on others. Accuracies have Clopper and Pearson's
interval. Where states have several rows, answers on rows of one state go together: n is then divided by the
design effect, the variance of the share between states over that of as many single rows (Korn & Graubard
1998). The difference of two heads is of the same rows; with b rows that only one has right and c that only
the other, the interval is Wald's with half a row added to each of the four counts (Agresti & Min 2005),
times the root of the design effect.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy

from isojepa.alignment.estimators import is_estimator
from isojepa.alignment.heads import LinearHead
from isojepa.alignment.maps import AlignmentMap
from isojepa.alignment.pairs import Split, split_states
from isojepa.alignment.rows import as_rows, check_pairs
from isojepa.alignment.transfer import transfer_head
from isojepa.probes.linear import Examples, Logistic, choose_logistic, share_interval
from isojepa.validation import check_number

_EACH = 2  # rows that a class needs among those that are fitted


@dataclass(frozen=True)
class HeadScore:
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
class Sharing:
    """The heads, and the map between the encoders.

    Attributes:
        scores: of own, naive, transferred, regressed and distilled, in this order.
        r2: of the map on the held-out rows; NaN where rows of encoder 1 were not given.
        condition: of the map.
        pseudo: whether its inverse is a pseudo-inverse.
        fitted_rows, scored_rows, scored_states: how many.
        confidence: of the intervals.
    """

    scores: tuple[HeadScore, ...]
    r2: float
    condition: float
    pseudo: bool
    fitted_rows: int
    scored_rows: int
    scored_states: int
    confidence: float = field(default=0.95)

    def __getitem__(self, head: str) -> HeadScore:
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
) -> Sharing:
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
        ids: (n,) of the states; by default each row is one of its own.
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
        >>> found = share_probe(z @ turn, (z[:, 0] > 0).astype(int), first=z)
        >>> found["transferred"].accuracy > 0.95, found.r2 > 0.99
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
    own = np.asarray(answers["own"] == y[held])
    return Sharing(
        scores=tuple(_score(name, found, own, y[held], state, confidence) for name, found in answers.items()),
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
) -> HeadScore:
    if isinstance(found, str):
        nothing = (float("nan"), float("nan"))
        return HeadScore(name, float("nan"), nothing, float("nan"), nothing, found)
    right = found == y
    difference, around = (0.0, (0.0, 0.0)) if name == "own" else _difference(right, own, state, confidence)
    return HeadScore(name, float(right.mean()), _share(right, state, confidence), difference, around)


def _share(right: np.ndarray, state: np.ndarray, confidence: float) -> tuple[float, float]:
    n, states = len(right), int(state.max()) + 1
    if states == n:
        return share_interval(int(right.sum()), n, confidence)
    spread = right.var()
    # all right or all wrong: nothing tells how much rows of a state differ, so states count
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
