r"""Checks of recorded episodes: are actions fit to show what they do, and states fit to be seen in frames?

    independence over time      correlations of f_i(a_t) with f_j(a_{t + lag}) and the place in the episode
    independence of the state   share of f(a) that a regression on states, speeds and context predicts
    within bounds               share of the steps at which an action is at its largest or smallest value
    excitation                  1 less the smallest eigenvalue of the covariance of actions given the state
    persistent excitation       share of windows of a few steps in which a direction of the actions rests
    visible velocity            consecutive states from which a regression predicts the velocity
    no wrapping                 share of states beyond +-pi, and steps of 2 pi

f are the functions cos(pi u), cos(2 pi u) of the ranks u of each action, centered and scaled. Where actions
are independent and of one distribution, n such correlations of rows in one episode have mean 0 and variance
1 / n; the largest is judged with Bonferroni's correction. The test of independence of the state is Student's,
over episodes, of the products of prediction and outcome: neighboring steps may depend on each other.

In z' = A z + B a + noise the variance of the estimate of B along a direction is that of the noise, over the
variance of the actions given the state times the rows: where it is 0, A and B cannot be told apart there.

An encoder that sees k frames cannot know more of velocity than k states do. A step of nearly 2 pi is a
wrapped angle, which no linear map follows. Angles beyond +-pi look in a frame as those within.

Intervals leave out blocks of episodes, which count as independent of each other. Where there are few, long
ones are cut into pieces (`gather`).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
import torch

from isojepa.arrays import real_array
from isojepa.certificates.assumptions import departure
from isojepa.certificates.checks import FAILS, HOLDS, UNCLEAR, CheckSample, Effect, check
from isojepa.data.episodes import Episodes
from isojepa.seeds import generator
from isojepa.statistics.intervals import jackknife
from isojepa.statistics.memory import rank_waves
from isojepa.statistics.regression import NonlinearRegression

STATES = ("qpos", "state", "states", "proprio", "observation", "obs", "position")  # tried in this order
SPEEDS = ("qvel", "velocity")

MAX_SERIAL_CORRELATION = 0.1  # 1 % of the variance
MAX_FEEDBACK = 0.05  # share of the variance; regressions of 6,000 rows predict 1 % by chance
MAX_SATURATED = 0.05
MAX_FOLLOWED = 0.98  # leaves a seventh of the deviation free
MAX_RESTING = 0.05
REST_VARIANCE = 0.01  # in a window, over that of all
VISIBLE_R2 = 0.9
MAX_FRAMES = 3.0  # consecutive frames that encoders are commonly given
MAX_BEYOND = 0.001  # share of the states
MIN_TURNS = 3  # steps within half a radian of 2 pi, up to which they are accidents
UNIFORM_DISTANCE, NORMAL_DEPARTURE = 0.03, 0.005  # up to which a distribution is named so

_MAX_EPISODES, _MAX_STEPS = 2000, 500_000
_MIN_EPISODES, _MIN_PIECE = 40, 25  # episodes below which long ones are cut; steps of a piece
_MIN_ACTIONS = 100
_LAGS = (1, 2, 3, 4, 8, 16, 32)
_FIT_ROWS, _JUDGE_ROWS = 6000, 20_000
_MIN_HALF_ROWS, _MIN_HALF_EPISODES = 200, 8
_MAX_WINDOWS = 20_000
_HISTORY = 4  # consecutive states
_NAME_STATE = "Name one with --state."
_MORE_EPISODES = "Take more or longer episodes."


@dataclass(frozen=True, kw_only=True)
class EpisodeSample(CheckSample):
    """Episodes under audit; all arrays are float64 and finite.

    Attributes:
        states: (steps_i, dim) for each episode; None without a column of states.
        speeds: (steps_i, dim) of the states, where they were recorded.
        context: (steps_i, more) further columns that the actions may depend on.
        actions: (steps_i - 1, actions) that lead from each state to the next.
        names: of the columns of states, speeds and actions; empty for a missing one.
        notes: sentences on what was left out.
    """

    states: list[np.ndarray] | None
    speeds: list[np.ndarray] | None
    context: list[np.ndarray] | None
    actions: list[np.ndarray]
    names: tuple[str, str, str]
    notes: tuple[str, ...]

    @cached_property
    def rows(self) -> np.ndarray:
        """All actions (rows, actions), episode after episode."""
        return np.concatenate(self.actions)

    @cached_property
    def episode(self) -> np.ndarray:
        """(rows,) number of the episode of each action."""
        return np.repeat(np.arange(len(self.actions)), [len(part) for part in self.actions])

    @cached_property
    def varies(self) -> np.ndarray:
        """Numbers of the actions that vary."""
        low, high = self.rows.min(0), self.rows.max(0)
        return np.flatnonzero(high - low > 1e-12 * np.maximum(1e-300, np.maximum(abs(low), abs(high))))

    @property
    def constant(self) -> np.ndarray:
        """Numbers of the actions that never vary."""
        return np.setdiff1d(np.arange(self.rows.shape[1]), self.varies)

    @cached_property
    def waves(self) -> np.ndarray:
        """Centered and scaled functions of the ranks of each action that varies, (rows, 2 actions)."""
        return rank_waves(self.rows[:, self.varies]).T

    @cached_property
    def inputs(self) -> np.ndarray | None:
        """What an action may depend on, (rows, ...): states, speeds, context, at its own step."""
        parts = [part for part in (self.states, self.speeds, self.context) if part is not None]
        if not parts:
            return None
        return np.concatenate([np.concatenate(each, 1)[:-1] for each in zip(*parts, strict=True)])

    def stream(self, *name: str | int) -> torch.Generator:
        """The generator of one named purpose."""
        return generator(self.seed, "audit", *name)

    def halves(self, episode: np.ndarray, most: tuple[int, int], name: str) -> list[np.ndarray]:
        """Rows to fit on and rows to judge on, of different episodes, at most so many.

        Args:
            episode: (rows,) number of the episode of each.
            most: rows of each half.
            name: of the streams that draw them.
        """
        order = torch.randperm(len(self.actions), generator=self.stream("halves")).numpy()
        parts = order[len(order) // 2 :], order[: len(order) // 2]
        halves = []
        for place, (part, count) in enumerate(zip(parts, most, strict=True)):
            rows = np.flatnonzero(np.isin(episode, part))
            chosen = torch.randperm(len(rows), generator=self.stream(name, place))[:count].numpy()
            halves.append(rows[np.sort(chosen)])
        return halves

    @cached_property
    def prediction(self) -> "Prediction | str":
        """Actions and their ranks' functions as the state predicts them; or why there is none."""
        if self.inputs is None:
            return "The file has no column of states that is known"
        if not len(self.varies):
            return "No action varies"
        fit, judge = self.halves(self.episode, (_FIT_ROWS, _JUDGE_ROWS), "rows")
        half = len(self.actions) // 2
        if half < _MIN_HALF_EPISODES or min(len(fit), len(judge)) < _MIN_HALF_ROWS:
            return f"{len(self.actions)} episodes of {self.total} actions are too few to fit on one half"
        actions = self.rows[:, self.varies]
        outcomes = np.hstack([self.waves, (actions - actions.mean(0)) / actions.std(0)])
        predicted = _regress(self.inputs, outcomes, fit, judge, self.stream("regression"))
        count = self.waves.shape[1]
        residuals = (outcomes[judge] - predicted)[:, count:]
        return Prediction(self.episode[judge], outcomes[judge, :count], predicted[:, :count], residuals)


@dataclass(frozen=True)
class Prediction:
    """Predictions and outcomes on the episodes that judge.

    Attributes:
        episode: (rows,) of each row.
        waves, predicted: (rows, waves) functions of the ranks of actions.
        residuals: (rows, actions) of actions scaled to variance 1.
    """

    episode: np.ndarray
    waves: np.ndarray
    predicted: np.ndarray
    residuals: np.ndarray


def _regress(
    x: np.ndarray, y: np.ndarray, fit: np.ndarray, judge: np.ndarray, source: torch.Generator
) -> np.ndarray:
    """Predictions of y at the rows that judge, from inputs that move; their mean if none does."""
    moving = x[fit].std(0) > 1e-12 * (np.abs(x[fit]).max(0) + 1e-300)
    if not moving.any():
        return np.zeros_like(y[judge])
    return NonlinearRegression(x[fit][:, moving], y[fit], source)(x[judge][:, moving])


def gather(
    episodes: Episodes,
    state: str | None = None,
    action: str = "action",
    speed: str | None = None,
    context: Sequence[str] = (),
    seed: int = 0,
) -> EpisodeSample:
    """Read the columns of an audit, of at most 2,000 episodes that lie evenly in the file.

    Args:
        episodes: of any lengths; those without an action are left out.
        state: the column of states; by default the first of `STATES` in the file.
        action: the column of actions.
        speed: the column of the states' speeds; by default the first of `SPEEDS` in the file.
        context: further columns that the actions may depend on, such as a goal.
        seed: of everything drawn.

    Raises:
        ValueError: a column does not exist or has NaN or Inf where it must not.
    """
    names = [state or _first(episodes, STATES), speed or _first(episodes, SPEEDS)]
    notes = []
    chosen = np.flatnonzero(episodes.lengths >= 3)
    if not len(chosen):
        raise ValueError(f"{episodes.source}: episodes must have 3 steps or more, got none that has")
    if len(chosen) < len(episodes):
        notes.append(f"{len(episodes) - len(chosen)} episodes of fewer than 3 steps were left out.")
    most = min(_MAX_EPISODES, max(1, int(_MAX_STEPS / episodes.lengths[chosen].mean())))
    if len(chosen) > most:
        notes.append(f"{most:,} of {len(chosen):,} episodes were looked at, evenly spaced in the file.")
        chosen = chosen[np.linspace(0, len(chosen) - 1, most).round().astype(int)]
    subset = episodes.subset(list(chosen))
    actions = subset.actions(action)
    rows = real_array(f"{episodes.source}: {action}", np.concatenate(actions), "steps, dim")
    if rows.shape[1] > 1 and np.isin(rows, (0, 1)).all() and (rows.sum(1) == 1).all():
        actions = [part[:, :-1] for part in actions]
        notes.append("Actions are one-hot: the last column follows from the others and was left out.")
    columns = [subset.vectors(name) if name else None for name in (*names, *context)]
    for name, column in zip((*names, *context), columns, strict=True):
        if column is not None:
            real_array(f"{episodes.source}: {name}", np.concatenate(column), "steps, dim")
    pieces = _pieces(subset.lengths)
    if len(pieces) > len(chosen):
        notes.append(
            f"{len(chosen)} episodes are few: they were cut into {len(pieces)} pieces that count as episodes."
        )
    states, speeds, *more = [
        None if column is None else [column[at][a:b] for at, a, b in pieces] for column in columns
    ]
    matched = states is not None and speeds is not None and states[0].shape == speeds[0].shape
    beside = [np.concatenate(each, 1) for each in zip(*[one for one in more if one], strict=True)]
    cut = [actions[at][a : b - 1] for at, a, b in pieces]
    return EpisodeSample(
        of="actions",
        total=sum(map(len, cut)),
        seed=seed,
        states=states,
        speeds=speeds if matched else None,
        context=beside or None,
        actions=cut,
        names=(names[0] or "", names[1] or "", action),
        notes=tuple(notes),
    )


def _first(episodes: Episodes, names: Sequence[str]) -> str | None:
    return next((name for name in names if name in episodes and len(episodes.shape(name)) <= 1), None)


def _pieces(lengths: np.ndarray) -> list[tuple[int, int, int]]:
    """Pieces of episodes: number, first step, and one beyond the last; neighbors share a state."""
    if len(lengths) >= _MIN_EPISODES:
        return [(at, 0, int(length)) for at, length in enumerate(lengths)]
    target = max(_MIN_PIECE, int(lengths.sum()) // (2 * _MIN_EPISODES))
    pieces = []
    for at, length in enumerate(lengths):
        edges = np.linspace(0, int(length) - 1, max(1, int(length) // target) + 1).round().astype(int)
        pieces += [(at, int(a), int(b) + 1) for a, b in itertools.pairwise(edges)]
    return pieces


def _direction(weights: np.ndarray) -> str:
    """A direction of actions in words: its heavy parts, e.g. "0.71 action 0 - 0.71 action 1"."""
    heavy = np.flatnonzero(np.abs(weights) >= 0.2 * np.abs(weights).max())
    if len(heavy) == 1:
        return f"action {heavy[0]}"
    sign = 1 if weights[heavy[0]] > 0 else -1
    terms = [f"{'-' if sign * weights[k] < 0 else '+'} {abs(weights[k]):.2f} action {k}" for k in heavy[:6]]
    return " ".join(terms).removeprefix("+ ") + (" ..." if len(heavy) > 6 else "")


def _wave(sample: EpisodeSample, wave: int) -> str:
    """A function of ranks in words."""
    return f"{'the size of ' if wave % 2 else ''}action {sample.varies[wave // 2]}"


@check(
    "independence over time",
    of="actions",
    measure="largest correlation of an action with a later one, or with the time in its episode",
    threshold=MAX_SERIAL_CORRELATION,
    more="Take more episodes.",
    advice="Neighboring steps repeat each other: take rows farther apart, or draw each action anew.",
)
def serial_independence(sample: EpisodeSample) -> Effect:
    """Are actions independent over time, and of one distribution at all times?"""
    if not len(sample.varies) or sample.total < _MIN_ACTIONS:
        count = sample.total if len(sample.varies) else 0
        text = f"It needs {_MIN_ACTIONS} actions that vary, got {count}"
        return Effect(text, advice="Take more episodes.")
    waves, episode, n = sample.waves, sample.episode, sample.total
    tables = []  # of correlations, number of pairs, and words for the second side
    for lag in _LAGS:
        together = np.flatnonzero(episode[:-lag] == episode[lag:])
        if len(together) < max(_MIN_ACTIONS, n / 2):  # few pairs show large correlations by chance
            break
        table = waves[together].T @ waves[together + lag] / len(together)
        tables.append((table, len(together), f"{lag} step{'s' * (lag > 1)} later"))
    place = np.concatenate([(np.arange(len(part)) + 0.5) / len(part) for part in sample.actions])
    phases = np.cos(np.pi * place[:, None] * (1, 2)) * 2**0.5
    tables.append((waves.T @ phases / n, n, "with the time in its episode"))
    tests = sum(table.size for table, *_ in tables)
    largest = np.array([np.abs(table).max() for table, *_ in tables])
    errors = np.array([count**-0.5 for _, count, _ in tables])
    ps = np.minimum(1.0, 2 * tests * scipy.special.ndtr(-largest / errors))
    rejected = ps <= sample.level if ps.min() <= sample.level else ps == ps.min()
    worst = int(np.where(rejected, largest, -1).argmax())
    table, _, words = tables[worst]
    i, j = np.unravel_index(np.abs(table).argmax(), table.shape)
    other = words if worst == len(tables) - 1 else f"with {_wave(sample, int(j))} {words}"
    reach = -float(scipy.special.ndtri(sample.level / (2 * tests)))
    return Effect(
        f"The largest correlation is {table[i, j]:.3g}, of {_wave(sample, int(i))} {other}",
        float(largest[worst]),
        p=float(ps.min()),
        detectable=reach * float(errors.min()),
        detail=[(f"largest correlation {one[2]}", value) for one, value in zip(tables, largest, strict=True)],
        rows=f"{n} actions",
    )


@check(
    "independence of the state",
    of="actions",
    measure="share of an action's variance that follows from the state, held out",
    threshold=MAX_FEEDBACK,
    more=_MORE_EPISODES,
    advice="Effects of the state and of the actions mix: add independent noise to the actions, and fit "
    "dynamics on state and action together.",
)
def state_independence(sample: EpisodeSample) -> Effect:
    """Do actions not depend on the state?"""
    if isinstance(prediction := sample.prediction, str):
        return Effect(prediction, advice=_NAME_STATE if sample.inputs is None else _MORE_EPISODES)
    outcomes, predicted = prediction.waves, prediction.predicted
    errors, spread = (outcomes - predicted) ** 2, (outcomes - outcomes.mean(0)) ** 2
    shares = 1 - errors.sum(0) / np.maximum(spread.sum(0), 1e-300)
    agreement = (predicted - predicted.mean(0)) * (outcomes - outcomes.mean(0))
    starts = np.unique(prediction.episode, return_index=True)[1]
    sums = np.add.reduceat(agreement, starts)
    t = sums.mean(0) * np.sqrt(len(sums)) / np.maximum(sums.std(0, ddof=1), 1e-300)
    p = float(min(1.0, len(shares) * scipy.special.stdtr(len(sums) - 1, -t).min()))
    worst = int(shares.argmax())

    def share(mask: np.ndarray) -> float:
        return float(1 - errors[mask, worst].sum() / max(spread[mask, worst].sum(), 1e-300))

    interval = jackknife(share, prediction.episode, sample.confidence)
    return Effect(
        f"The state predicts {100 * max(interval.estimate, 0):.2g} % of {_wave(sample, worst)}'s variance",
        interval.estimate,
        interval,
        p,
        (interval.high - interval.low) / 2,
        [(f"share of {_wave(sample, at)}", one) for at, one in enumerate(shares)],
        f"{len(errors)} held-out actions",
    )


def distributions(sample: EpisodeSample) -> tuple[str, ...]:
    """The distribution of each action in words."""
    return tuple(_distribution(column) for column in sample.rows[:: -(-sample.total // _JUDGE_ROWS)].T)


def _distribution(values: np.ndarray) -> str:
    low, high, n = float(values.min()), float(values.max()), len(values)
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-300):
        return f"always {low:.4g}"
    if (different := len(np.unique(values))) <= min(32, n / 4):
        return f"one of {different} values"
    distance = scipy.stats.kstest((values - low) / (high - low), "uniform").statistic
    if distance < max(UNIFORM_DISTANCE, 1.63 / n**0.5):  # 1 % of uniform samples are farther
        return f"uniform on [{low:.2g}, {high:.2g}]"
    if departure(values[:, None] / max(abs(low), abs(high)))[0][0] < max(NORMAL_DEPARTURE, 4 / n):
        return f"Gaussian with mean {values.mean():.3g} and deviation {values.std():.3g}"
    return f"neither uniform nor Gaussian in [{low:.2g}, {high:.2g}]"


@check(
    "within bounds",
    of="actions",
    measure="share of the steps at which an action is at its largest or smallest value",
    threshold=MAX_SATURATED,
    more="Take more episodes.",
    advice="At a bound an action looks like a larger one, and effects look smaller than they are: take "
    "smaller actions.",
)
def within_bounds(sample: EpisodeSample) -> Effect:
    """Do actions rarely sit at their bounds?"""
    words = distributions(sample)
    listed = "; ".join(f"action {at} is {one}" for at, one in enumerate(words[:4]))
    if len(set(words)) == 1 and len(words) > 1:
        listed = f"every action is {words[0]}"
    text = f"{listed[0].upper()}{listed[1:]}"
    low, high = sample.rows.min(0), sample.rows.max(0)
    reach = 1e-6 * np.maximum(high - low, 1e-300)
    at_bound = (sample.rows <= low + reach) | (sample.rows >= high - reach)
    counted = [at for at in sample.varies if not words[at].startswith("one of")]
    if not counted:
        return Effect(text, 0.0, verdict=HOLDS if sample.total >= _MIN_ACTIONS else UNCLEAR)
    shares = at_bound.mean(0)
    worst = max(counted, key=lambda at: shares[at])
    interval = jackknife(lambda mask: float(at_bound[mask, worst].mean()), sample.episode, sample.confidence)
    return Effect(
        f"{text}; at its bounds action {worst} is in {100 * interval.estimate:.2g} % of the steps",
        interval.estimate,
        interval,
        detail=[(f"share of action {at}", shares[at]) for at in counted],
        verdict=None if sample.total >= _MIN_ACTIONS else UNCLEAR,  # the largest of few is one of them
    )


@check(
    "excitation",
    of="actions",
    measure="share of a direction's variance that is not free given the state: 1 - smallest eigenvalue",
    threshold=MAX_FOLLOWED,
    more=_MORE_EPISODES,
)
def excitation(sample: EpisodeSample) -> Effect:
    """Is every direction of the actions free of the state?"""
    if len(sample.constant):
        listed = ", ".join(f"{k} (always {sample.rows[0, k]:.4g})" for k in sample.constant[:8])
        advice = "Record episodes in which they vary, or leave them out."
        return Effect(f"Constant actions show no effect: {listed}", 1.0, verdict=FAILS, advice=advice)
    prediction, condition = sample.prediction, "Given the state, "
    if isinstance(prediction, str):
        condition, episode = f"{prediction}: without it, ", sample.episode
        free = sample.rows / np.maximum(np.abs(sample.rows).max(0), 1e-300)
        free = (free - free.mean(0)) / free.std(0)
    else:
        free, episode = prediction.residuals, prediction.episode
    if len(free) <= free.shape[1]:
        return Effect(f"{len(free)} actions of dimension {free.shape[1]} are too few", advice=_MORE_EPISODES)

    def covariance(mask: np.ndarray) -> np.ndarray:
        return np.cov(free[mask].T).reshape(free.shape[1], -1)

    interval = jackknife(
        lambda mask: 1 - float(np.linalg.eigvalsh(covariance(mask))[0]), episode, sample.confidence
    )
    values, vectors = np.linalg.eigh(covariance(np.ones(len(free), bool)))
    where = _direction(vectors[:, 0])
    return Effect(
        f"{condition}{100 * values[0]:.3g} % of the variance is left along {where}, where it is least",
        interval.estimate,
        interval,
        detail=[(f"variance {k} given the state", one) for k, one in enumerate(values)],
        advice=f"Add noise to the actions along {where}, of {100 * np.sqrt(1 - MAX_FOLLOWED):.0f} % of their "
        "deviation.",
    )


@check(
    "persistent excitation",
    of="actions",
    measure="share of windows in which a direction of the actions rests",
    threshold=MAX_RESTING,
    more="Take more episodes.",
    advice="Keep moving after a goal is reached, or leave those steps out.",
)
def persistent_excitation(sample: EpisodeSample) -> Effect:
    """Do actions excite in every window of a few steps?"""
    varies = sample.varies
    if not len(varies):
        return Effect("No action varies", advice="Record longer episodes.")
    states = 0 if sample.states is None else sample.states[0].shape[1]
    window = max(10, 2 * (sample.rows.shape[1] + states))
    scale = sample.rows[:, varies].std(0)
    cut = [
        part[: len(part) // window * window, varies].reshape(-1, window, len(varies))
        for part in sample.actions
    ]
    episode = np.repeat(np.arange(len(cut)), list(map(len, cut)))[:_MAX_WINDOWS]
    if not len(episode):
        return Effect(f"No episode has {window} actions in a row", advice="Record longer episodes.")
    windows = np.concatenate(cut)[:_MAX_WINDOWS] / scale
    windows = windows - windows.mean(1, keepdims=True)
    values = np.linalg.eigvalsh(windows.transpose(0, 2, 1) @ windows / (window - 1))[:, 0]
    resting = values < REST_VARIANCE
    interval = jackknife(lambda mask: float(resting[mask].mean()), episode, sample.confidence)
    return Effect(
        f"In {100 * interval.estimate:.3g} % of windows of {window} steps a direction of the actions rests "
        f"(the smallest variance in a window is {np.median(values):.2g} in the middle)",
        interval.estimate,
        interval,
        detail=[(f"smallest variance at {q} %", np.quantile(values, q / 100)) for q in (5, 25, 50)],
    )


@check(
    "visible velocity",
    of="states",
    measure="consecutive states from which velocity is predicted with an R2 of 0.9 or more, held out",
    threshold=MAX_FRAMES,
)
def visible_velocity(sample: EpisodeSample) -> Effect:
    """From how many consecutive states can velocity be predicted?"""
    if sample.states is None:
        return Effect("The file has no column of states that is known", advice=_NAME_STATE)
    long = [part for part in sample.states if len(part) > _HISTORY]
    if len(long) < 2 * _MIN_HALF_EPISODES or sum(len(part) - _HISTORY for part in long) < _MIN_HALF_ROWS:
        text = f"Episodes of more than {_HISTORY} steps are too few: {len(long)}"
        return Effect(text, advice=_MORE_EPISODES)
    recorded = sample.speeds is not None
    r2 = np.array([_velocity_r2(sample, k) for k in range(1, _HISTORY + 1)])
    scores = r2.min(1)
    frames = next((k for k, score in enumerate(scores, 1) if score >= VISIBLE_R2), 0)
    listed = ", ".join(f"{max(score, 0):.3g} from {k}" for k, score in enumerate(scores, 1))
    what = f"velocity ({sample.names[1]})" if recorded else "the step to the next state"
    needed = f": an encoder needs {frames} consecutive frames" if frames > 1 else ""
    advice = "The step also depends on the action, which is no input here; record velocity to be sure."
    if recorded:
        advice = "Take frames closer in time: these states do not show the velocity."
    return Effect(
        f"R2 of {what}, held out, in the worst dimension: {listed} consecutive states{needed}",
        float(frames) if frames else float("inf"),
        detail=[(f"R2 of dimension {d} from {k + 1}", one) for (k, d), one in np.ndenumerate(r2)],
        verdict=HOLDS if 0 < frames <= MAX_FRAMES else FAILS if recorded else UNCLEAR,
        advice=advice,
    )


def _velocity_r2(sample: EpisodeSample, frames: int) -> np.ndarray:
    """R2 of each dimension of the velocity from so many consecutive states."""
    states = sample.states or []
    inputs, outcomes = [], []
    last = _HISTORY - 1  # the first state that has enough before it
    for number, part in enumerate(states):
        end = max(len(part) - 1, last)
        steps = np.diff(part, axis=0)
        # differences say the same as the states themselves, in numbers of one size
        history = [part[last:end], *(steps[last - k : end - k] for k in range(1, frames))]
        inputs.append(np.concatenate(history, 1))
        outcomes.append(steps[last:end] if sample.speeds is None else sample.speeds[number][last:end])
    episode = np.repeat(np.arange(len(inputs)), list(map(len, inputs)))
    fit, judge = sample.halves(episode, (_FIT_ROWS, _JUDGE_ROWS), "velocity")
    x, y = np.concatenate(inputs), np.concatenate(outcomes)
    y = y / np.maximum(y[fit].std(0), 1e-300)
    predicted = _regress(x, y, fit, judge, sample.stream("velocity", "regression"))
    return np.asarray(1 - ((y[judge] - predicted) ** 2).mean(0) / np.maximum(y[judge].var(0), 1e-300))


@check(
    "no wrapping",
    of="states",
    measure="share of the states beyond -pi or pi, in the dimension where it is largest",
    threshold=MAX_BEYOND,
)
def no_wrapping(sample: EpisodeSample) -> Effect:
    """Are there no angles that wrap, or that look in a frame like others?"""
    if sample.states is None:
        return Effect("The file has no column of states that is known", advice=_NAME_STATE)
    rows = np.concatenate(sample.states)
    episode = np.repeat(np.arange(len(sample.states)), list(map(len, sample.states)))
    steps = np.abs(np.concatenate([np.diff(part, axis=0) for part in sample.states]))
    within = np.abs(rows).max(0) <= np.pi + 1e-6
    turns = (np.abs(steps - 2 * np.pi) < 0.5).sum(0) * within
    beyond = np.abs(rows) > np.pi
    worst = int(beyond.mean(0).argmax())
    interval = jackknife(lambda mask: float(beyond[mask, worst].mean()), episode, sample.confidence)
    value = interval.estimate
    verdict, advice = HOLDS, ""
    text = "No state lies beyond pi, and no step is one of 2 pi"
    if turns.max() > MIN_TURNS:
        verdict = FAILS
        text = f"Dimension {turns.argmax()} has {turns.max():,} steps of about 2 pi: it is a wrapped angle"
        advice = "Unwrap it along each episode (numpy.unwrap), or use its sine and cosine."
    elif value > 0:
        verdict = UNCLEAR if value > MAX_BEYOND else HOLDS
        text = f"Dimension {worst} lies beyond pi in {100 * value:.2g} % of the states"
        advice = (
            "If it is an angle, frames show its remainder only, and no encoder of them can recover it there: "
            "start episodes nearer to 0, or squash it into (-pi, pi)."
        )
    detail = [(f"share of dimension {at} beyond pi", one) for at, one in enumerate(beyond.mean(0))]
    detail += [(f"steps of 2 pi in dimension {at}", one) for at, one in enumerate(turns)]
    return Effect(text, value, interval, detail=detail, verdict=verdict, advice=advice)


CHECKS = (
    *(serial_independence, state_independence, within_bounds, excitation, persistent_excitation),
    *(visible_velocity, no_wrapping),
)
