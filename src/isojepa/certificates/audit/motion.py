r"""States along episodes: is velocity visible from a few of them, and do angles wrap?

Velocity: a regression that bends predicts the recorded speeds, or where there are none the step to the next
state, from k consecutive states, fitted on one half of the episodes and scored on the other by R^2 of the
worst dimension. An encoder that sees k frames cannot know more of velocity than k states do.

Wrapping: a step of nearly 2 pi is a wrapped angle, which no linear map follows. Angles beyond +-pi look in a
frame as those within: what an encoder can know of them is their remainder.
"""

import numpy as np

from isojepa.certificates.assumptions.line import FAILS, HOLDS, UNCLEAR, Assumption, bounded, unmeasured
from isojepa.certificates.assumptions.regression import fit_regression
from isojepa.certificates.audit.lines import blocks_of, jackknifed
from isojepa.certificates.audit.material import Material, draw_rows

VELOCITY = "consecutive states from which velocity is told with an R2 of 0.9 or more, held out"
WRAPPING = "share of the states beyond -pi or pi, in the dimension where it is largest"
MOST = 4  # consecutive states
_TOLD = 0.9  # R2 from which velocity counts as visible
_FRAMES = 3.0  # that are no trouble to give
_BEYOND = 0.001
_JUMP, _JUMPS = 0.5, 3  # radians around 2 pi, and how many such steps are no accident
_FITTED, _JUDGED, _LEAST, _EPISODES = 4000, 8000, 100, 8
_TURN = 2 * np.pi


def check_velocity(material: Material, confidence: float) -> Assumption:
    """From how many consecutive states can velocity be told?"""
    name = "visible velocity"
    if material.states is None:
        reason = "The file has no column of states that is known."
        return unmeasured(name, "states", VELOCITY, _FRAMES, reason, "Name one with --state.")
    usable = [part for part in material.states if len(part) > MOST]
    if len(usable) < 2 * _EPISODES or sum(len(part) - MOST for part in usable) < 2 * _LEAST:
        reason = f"Episodes of more than {MOST} steps are too few: {len(usable)}."
        return unmeasured(name, "states", VELOCITY, _FRAMES, reason, "Take more or longer episodes.")
    recorded = material.speeds is not None
    scores = [_score(material, k) for k in range(1, MOST + 1)]
    enough = next((k for k, (score, _) in enumerate(scores, 1) if score >= _TOLD), 0)
    told = ", ".join(f"{max(score, 0):.3g} from {k}" for k, (score, _) in enumerate(scores, 1))
    what = f"velocity ({material.names[1]})" if recorded else "the step to the next state"
    sentence = f"R2 of {what}, held out, in the worst dimension: {told} consecutive states"
    verdict = HOLDS if 0 < enough <= _FRAMES else UNCLEAR if not recorded else FAILS
    advice = ""
    if enough > 1:
        advice = f"Give an encoder {enough} consecutive frames, and a model of the dynamics as many."
    elif not enough:
        advice = (
            "Record velocity, or take frames closer in time: these states do not tell it."
            if recorded
            else "The action of the step is not among what it is told from; record velocity to be sure."
        )
    value = float(enough) if enough else float("inf")
    detail = [
        (f"R2 of dimension {at} from {k}", one)
        for k, (_, each) in enumerate(scores, 1)
        for at, one in enumerate(each)
    ]
    return Assumption(
        name, "states", VELOCITY, value, None, _FRAMES, None, verdict, sentence + ".", advice, bounded(detail)
    )


def _score(material: Material, frames: int) -> tuple[float, np.ndarray]:
    """R2 of the velocity from so many consecutive states: of the worst dimension, and of all."""
    states, speeds = material.states or [], material.speeds
    inputs, outcomes = [], []
    for number, part in enumerate(states):
        end = max(len(part) - 1, MOST - 1)
        seen = [part[MOST - 1 : end]]
        # differences say the same as the states themselves, in numbers of one size
        seen += [
            part[MOST - back : end + 1 - back] - part[MOST - 1 - back : end - back]
            for back in range(1, frames)
        ]
        inputs.append(np.concatenate(seen, 1))
        step = part[MOST : end + 1] - part[MOST - 1 : end]
        outcomes.append(step if speeds is None else speeds[number][MOST - 1 : end])
    halves = material.halves()
    drawn = [
        draw_rows(inputs, half, most, material.stream("velocity", place))
        for place, (half, most) in enumerate(zip(halves, (_FITTED, _JUDGED), strict=True))
    ]
    x, y = ([np.concatenate(parts)[rows] for rows, _ in drawn] for parts in (inputs, outcomes))
    moving = x[0].std(0) > 1e-12 * (np.abs(x[0]).max(0) + 1e-300)
    if not moving.any():
        return 0.0, np.zeros(y[0].shape[1])
    scale = np.maximum(y[0].std(0), 1e-300)
    fit = fit_regression(x[0][:, moving], y[0] / scale, material.stream("velocity", "regression"))
    left = ((y[1] / scale - fit(x[1][:, moving])) ** 2).mean(0)
    spread = np.maximum((y[1] / scale).var(0), 1e-300)
    found: np.ndarray = 1 - left / spread
    return float(found.min()), found


def check_wrapping(material: Material, confidence: float) -> Assumption:
    """Are there angles that wrap, or that a frame cannot tell from others?"""
    name = "no wrapping"
    if material.states is None:
        reason = "The file has no column of states that is known."
        return unmeasured(name, "states", WRAPPING, _BEYOND, reason, "Name one with --state.")
    rows = np.concatenate(material.states)
    numbers = np.repeat(np.arange(len(material.states)), [len(part) for part in material.states])
    steps = np.abs(np.concatenate([np.diff(part, axis=0) for part in material.states]))
    within = np.abs(rows).max(0) <= np.pi + 1e-6
    jumps = (np.abs(steps - _TURN) < _JUMP).sum(0) * within
    beyond = np.abs(rows) > np.pi
    worst = int(beyond.mean(0).argmax())
    value = float(beyond[:, worst].mean())
    left_out = [float(beyond[mask, worst].mean()) for mask in blocks_of(numbers)]
    interval = jackknifed(left_out, value, confidence)
    detail = [(f"share of dimension {at} beyond pi", one) for at, one in enumerate(beyond.mean(0))]
    detail += [(f"steps of 2 pi in dimension {at}", one) for at, one in enumerate(jumps)]
    verdict, advice = HOLDS, ""
    sentence = "No state lies beyond pi, and no step is one of 2 pi"
    if jumps.max() > _JUMPS:
        at = int(jumps.argmax())
        verdict = FAILS
        sentence = f"Dimension {at} has {int(jumps[at]):,} steps of about 2 pi: it is a wrapped angle"
        advice = "Unwrap it along each episode (numpy.unwrap), or use its sine and cosine."
    elif value > _BEYOND:
        verdict = UNCLEAR
        sentence = f"Dimension {worst} lies beyond pi in {100 * value:.3g} % of the states"
        advice = (
            "If it is an angle, frames show its remainder only, and no encoder of them can recover it there: "
            "start episodes nearer to 0, or squash it into (-pi, pi)."
        )
    elif value > 0:
        sentence = f"Dimension {worst} lies beyond pi in {100 * value:.2g} % of the states only"
    return Assumption(
        name,
        "states",
        WRAPPING,
        value,
        interval,
        _BEYOND,
        None,
        verdict,
        sentence + ".",
        advice,
        bounded(detail),
    )
