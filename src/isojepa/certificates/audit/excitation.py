r"""Actions given the state: do they follow from it, and what of them is free to show what actions do?

A regression that bends (`assumptions.regression`) predicts actions from states, speeds and context on one
half of the episodes and is judged on the other.

Feedback: the share of the variance of the ranks' functions cos(pi u), cos(2 pi u) of an action that is
predicted, 1 - SSE / SST, held out. The test is Student's, over episodes, of the products of prediction and
outcome: neighbouring steps may depend on each other as they like.

Excitation: 1 less the smallest eigenvalue of the covariance of what is not predicted, of actions scaled to
variance 1. In z' = A z + B a + noise the variance of the estimate of B along a direction is that of the
noise, over that eigenvalue times the rows: where it is 0, A and B cannot be told apart along that direction.

Persistence: the same over windows of a few steps without any regression: how often does a direction of the
actions rest for a whole window?
"""

import numpy as np
import scipy

from isojepa.certificates.assumptions.line import (
    FAILS,
    HOLDS,
    UNCLEAR,
    Assumption,
    bounded,
    chance,
    judge,
    unmeasured,
)
from isojepa.certificates.assumptions.regression import fit_regression
from isojepa.certificates.audit.actions import constant, rank_waves, varying
from isojepa.certificates.audit.lines import blocks_of, direction, jackknifed, judge_interval
from isojepa.certificates.audit.material import Material, draw_rows

FEEDBACK = "share of an action's variance that follows from the state, held out"
EXCITATION = "share of a direction's variance that is not free given the state: 1 - smallest eigenvalue"
PERSISTENCE = "share of windows in which a direction of the actions rests"
_FOLLOWS, _BOUND, _RESTING = 0.05, 0.98, 0.05  # thresholds
_REST = 0.01  # variance of a direction in a window, over that of all, which counts as rest
_FITTED, _JUDGED = 6000, 20_000  # rows
_LEAST, _EPISODES = 200, 8  # rows and episodes of each half below which nothing is fitted
_WINDOWS = 20_000
_NO_STATE = "The file has no column of states that is known."
_NAME_STATE = "Name one with --state."


class Prediction:
    """What the state says of the actions: predictions and outcomes on the episodes that judge.

    Args:
        material: with states.
        kept: numbers of the actions that vary.

    Attributes:
        numbers: (rows,) of the episode of each row.
        waves, waves_predicted: (rows, 2 actions) functions of the actions' ranks.
        actions, actions_predicted: (rows, actions), scaled to variance 1.
    """

    def __init__(self, material: Material, kept: np.ndarray) -> None:
        known = material.known()
        if known is None:
            raise ValueError("a prediction needs states, got none")
        waves = rank_waves(material, kept)
        actions = np.concatenate(material.actions)[:, kept]
        scaled = (actions - actions.mean(0)) / actions.std(0)
        halves = material.halves()
        drawn = [
            draw_rows(known, half, most, material.stream("rows", place))
            for place, (half, most) in enumerate(zip(halves, (_FITTED, _JUDGED), strict=True))
        ]
        each = np.concatenate(known)
        both = np.concatenate([np.concatenate(waves), scaled], 1)
        inputs, outcomes = ([whole[rows] for rows, _ in drawn] for whole in (each, both))
        moving = inputs[0].std(0) > 1e-12 * (np.abs(inputs[0]).max(0) + 1e-300)
        predicted = np.zeros_like(outcomes[1])
        if moving.any():
            fit = fit_regression(inputs[0][:, moving], outcomes[0], material.stream("regression"))
            predicted = fit(inputs[1][:, moving])
        count = waves[0].shape[1]
        self.numbers = drawn[1][1]
        self.waves, self.actions = outcomes[1][:, :count], outcomes[1][:, count:]
        self.waves_predicted, self.actions_predicted = predicted[:, :count], predicted[:, count:]


def predict(material: Material) -> Prediction | None:
    """The prediction, or None where there is too little to make one from."""
    kept, halves = varying(material), material.halves()
    rows = [sum(len(material.actions[at]) for at in half) for half in halves]
    few = min(map(len, halves)) < _EPISODES or min(rows) < _LEAST
    return None if material.known() is None or few or not len(kept) else Prediction(material, kept)


def check_feedback(material: Material, found: Prediction | None, confidence: float) -> Assumption:
    """Do actions depend on the state?"""
    name = "independence of the state"
    if found is None:
        return unmeasured(name, "actions", FEEDBACK, _FOLLOWS, *_why(material))
    errors = (found.waves - found.waves_predicted) ** 2
    spread = (found.waves - found.waves.mean(0)) ** 2
    share = 1 - errors.sum(0) / np.maximum(spread.sum(0), 1e-300)
    agreement = (found.waves_predicted - found.waves_predicted.mean(0)) * (found.waves - found.waves.mean(0))
    _, place = np.unique(found.numbers, return_inverse=True)
    sums = np.stack([np.bincount(place, column) for column in agreement.T], 1)
    episodes = len(sums)
    deviation = np.maximum(sums.std(0, ddof=1), 1e-300)
    ps = scipy.special.stdtr(episodes - 1, -sums.mean(0) * np.sqrt(episodes) / deviation) * share.size
    worst = int(share.argmax())
    p = float(min(1.0, ps.min()))
    left_out = [
        float(1 - errors[mask, worst].sum() / max(spread[mask, worst].sum(), 1e-300))
        for mask in blocks_of(found.numbers)
    ]
    value = float(share[worst])
    interval = jackknifed(left_out, value, confidence)
    verdict = judge(p, 1 - confidence, value, _FOLLOWS, (interval.high - interval.low) / 2)
    kept = varying(material)
    what = f"{'the size of ' if worst % 2 else ''}action {kept[worst // 2]}"
    sentence = f"The state tells {100 * max(value, 0):.2g} % of the variance of {what} ({chance(p)})"
    if verdict == HOLDS:
        sentence = f"Actions do not follow from the state: it tells {100 * max(value, 0):.2g} % of any"
    advice = "" if verdict == HOLDS else (
        "Effects of the state and of the actions mix: add independent noise to the actions, and fit dynamics "
        "on state and action together."
    )  # fmt: skip
    return Assumption(
        name, "actions", FEEDBACK, value, interval, _FOLLOWS, p, verdict, sentence + ".", advice,
        bounded([
            (f"share of {'the size of ' if at % 2 else ''}action {kept[at // 2]}", one)
            for at, one in enumerate(share)
        ]),
    )  # fmt: skip


def check_excitation(material: Material, found: Prediction | None, confidence: float) -> Assumption:
    """Is every direction of the actions free of the state?"""
    name = "excitation"
    still = constant(material)
    if len(still):
        listed = ", ".join(map(str, still[:8]))
        return Assumption(
            name, "actions", EXCITATION, 1.0, None, _BOUND, None, FAILS,
            f"Action {listed} never varies, so nothing shows what it does.", "Vary it.",
        )  # fmt: skip
    if found is None:
        return unmeasured(name, "actions", EXCITATION, _BOUND, *_why(material))
    left = found.actions - found.actions_predicted
    values, vectors = np.linalg.eigh(np.cov(left.T).reshape(material.dim, material.dim))
    value = 1 - float(values[0])
    left_out = [
        1 - float(np.linalg.eigvalsh(np.cov(left[mask].T).reshape(material.dim, material.dim))[0])
        for mask in blocks_of(found.numbers)
    ]
    interval = jackknifed(left_out, value, confidence)
    verdict = judge_interval(interval, _BOUND)
    told = direction(vectors[:, 0])
    sentence = (
        f"Given the state, {100 * (1 - value):.3g} % of the variance is left along {told}, where it is least"
    )
    advice = "" if verdict == HOLDS else (
        f"Add noise to the actions along {told}, of {100 * np.sqrt(1 - _BOUND):.0f} % of their deviation."
    )  # fmt: skip
    return Assumption(
        name, "actions", EXCITATION, value, interval, _BOUND, None, verdict, sentence + ".", advice,
        bounded([(f"variance {k} given the state", one) for k, one in enumerate(values)]),
    )  # fmt: skip


def check_persistence(material: Material, confidence: float) -> Assumption:
    """Do actions excite in every window of a few steps, or only at times?"""
    name, kept = "persistent excitation", varying(material)
    states = 0 if material.states is None else material.states[0].shape[1]
    window = max(10, 2 * (material.dim + states))
    scale = np.concatenate(material.actions)[:, kept].std(0)
    smallest, numbers = [], []
    for number, part in enumerate(material.actions):
        count = len(part) // window if len(kept) else 0
        if count:
            cut = (part[: count * window, kept] / scale).reshape(count, window, len(kept))
            cut = cut - cut.mean(1, keepdims=True)
            smallest.append(np.linalg.eigvalsh(cut.transpose(0, 2, 1) @ cut / (window - 1))[:, 0])
            numbers += [number] * count
        if len(numbers) > _WINDOWS:
            break
    if not numbers:
        reason = f"No episode has {window} actions in a row." if len(kept) else "No action varies."
        return unmeasured(name, "actions", PERSISTENCE, _RESTING, reason, "Record longer episodes.")
    values = np.concatenate(smallest)
    resting = values < _REST
    value = float(resting.mean())
    left_out = [float(resting[mask].mean()) for mask in blocks_of(np.array(numbers))]
    interval = jackknifed(left_out, value, confidence)
    verdict = HOLDS if value <= _RESTING else FAILS if interval.low > _RESTING else UNCLEAR
    sentence = (
        f"In {100 * value:.3g} % of windows of {window} steps a direction of the actions rests (the smallest "
        f"variance in a window is {np.median(values):.2g} in the middle)"
    )
    advice = "" if verdict == HOLDS else "Keep moving after a goal is reached, or leave those steps out."
    return Assumption(
        name, "actions", PERSISTENCE, value, interval, _RESTING, None, verdict, sentence + ".", advice,
        bounded([(f"smallest variance at {q} %", np.quantile(values, q / 100)) for q in (5, 25, 50)]),
    )  # fmt: skip


def _why(material: Material) -> tuple[str, str]:
    if material.known() is None:
        return _NO_STATE, _NAME_STATE
    if not len(varying(material)):
        return "No action varies.", "Record episodes in which actions vary."
    return (
        f"{len(material.actions)} episodes of {material.rows} actions are too few to fit on one half.",
        "Take more or longer episodes.",
    )
