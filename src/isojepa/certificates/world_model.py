r"""The certificate of a world model: what its predictions can be trusted for, measured on held-out episodes.

The episodes are halved once. Probes and linear fits see one half; every score is of the other half. With
h_t = encode(x_t), s_t the last `context` latents and p_k(t) the model's prediction of h_{t+k} from s_t and
the recorded actions a_t .. a_{t+k-1}, six things are measured:

    states       held-out R^2 of each recorded state dimension from h_t, and from s_t where context > 1, by a
                 ridge and by a small network; an angle counts by its sine and cosine together
    prediction   e_k = E |h_{t+k} - p_k(t)|^2 / sum Var(h), beside standing still, p_k = h_t, and beside a
                 linear fit of h_{t+1} to (s_t, a_t), rolled out like the model; the mean of h has error 1
    horizon      the largest k such that the upper ends of e_1 .. e_k are below 1, and where e_k crosses 1
    excitation   share of the variance of each action that a linear map of s_t leaves unexplained
    memory       R^2 of the one-step residuals r_t = h_{t+1} - p_1(t) from the three steps before the context
    distance     Spearman correlation of |h_{T-g} - h_T| with the steps to go g = 1 .. horizon

Intervals leave out one scored episode at a time (jackknife, Student's t). The interval of the crossing ends
where the bands of e_k cross 1. In `memory`, residuals and past are first regressed on (s_t, a_t) by smooth
features, so that a misfit of the model does not count as memory; R^2, a fraction of all of the residual
variance, and its p-value are those of `isojepa.statistics.residuals`. Without noise, the features leave a
little of any misfit, which the test detects: memory is reported if p is small and R^2 is at least MIN_MEMORY.

At most MAX_EPISODES episodes are read, MAX_FRAMES frames of them in one piece per episode, and MAX_ROWS
evenly spaced windows of each half are used.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import scipy
import torch
from torch import Tensor, nn

from isojepa.arrays import to_float64
from isojepa.certificates.sentences import Line, row_of
from isojepa.certificates.transition import list_columns, number_line
from isojepa.data.episodes import Episodes
from isojepa.encoders.world_model import Dynamics
from isojepa.io import to_jsonable
from isojepa.seeds import generator
from isojepa.statistics.intervals import Interval, from_blocks
from isojepa.statistics.regression import NonlinearRegression
from isojepa.statistics.residuals import explained_fraction, group_edges, group_pairs, group_products
from isojepa.training.fine_tuning import fit_network
from isojepa.validation import check_count, check_number, validate_types

Verdict = Literal["collapsed", "uninformative", "static", "short", "predictive"]

# what decides a verdict or a note
MIN_VARIANCE = 1e-6  # of the latents per dimension, which are of the order of 1 where training is regularized
MIN_FREE_SHARE = 0.01  # of an action's variance given the state; below, its effect has ten times the error
MIN_ACTION_SPREAD = 0.01  # standard deviation of an action against its root mean square
MIN_MEMORY = 0.05  # share of the residual variance; what a misfit to smooth features leaves is below 0.03
MIN_STATE_R2 = 0.5  # R^2 of a state dimension; below, a range of more than a turn suggests an angle
MAX_MISFIT = 1.2  # residuals beside the features against all; above, the features overfit few rows
MIN_EPISODES = 4  # two to fit on, two to score
MIN_SCORED_EPISODES = 5  # for intervals that are worth reading

MAX_EPISODES = 1_000
MAX_FRAMES = 40_000
MAX_ROWS = 4_096
MEMORY_LAGS, MEMORY_FEATURES = 3, 512
NETWORK_STEPS = 500
EXACT = 1e-10  # residuals with this share of the variance are rounding of float32

_LIMITS = {
    "states": "Does not say that predictions preserve it.",
    "prediction": "Does not say that actions unlike the recorded ones are predicted.",
    "horizon": "Does not say that plans of this length succeed: planners seek actions where the model errs.",
    "excitation": "Does not say that the model has learned its effect; nonlinear feedback goes unnoticed.",
    "memory": "Does not say that the context suffices: nonlinear and longer memory go unnoticed.",
    "distance": "Does not say that latents off the recorded paths are ordered, or that a goal is reachable.",
}


@dataclass(frozen=True)
class StateScore:
    """Held-out R^2 of one state dimension.

    Attributes:
        name: column and dimension, such as "qpos[1]"; an angle is scored by its sine and cosine.
        linear, network: from the latent of one frame.
        context_linear, context_network: from the latents of the context; None where it is one frame.
    """

    name: str
    linear: Interval
    network: Interval
    context_linear: Interval | None = None
    context_network: Interval | None = None


@dataclass(frozen=True)
class WorldModelCertificate:
    """What the predictions of a world model can be trusted for.

    Attributes:
        episodes: scored.
        dim, context: of the model.
        horizon: steps predicted.
        confidence: of every interval.
        variance: of the latents, all dimensions together: the unit of the errors.
        states: R^2 of each recorded state dimension that varies.
        errors, still, linear: of the model, standing still and the linear fit at 1 .. horizon steps; empty
            for collapsed latents.
        minus_still, minus_linear: error of the model minus theirs; negative where the model is better.
        trusted: steps for which the model is better than the mean.
        crossing: steps at which the error reaches that of the mean; infinite beyond the horizon.
        free_shares: of the variance of each action given the state.
        unexcited: actions whose effect these episodes do not show.
        memory, memory_p: R^2 of one-step residuals from the past, and its p-value; None if not measured.
        distance: correlation of latent distance with the steps to go; None if not measured.
        notes: on the data.
    """

    episodes: int
    dim: int
    context: int
    horizon: int
    confidence: float
    variance: float
    states: tuple[StateScore, ...]
    errors: tuple[Interval, ...]
    still: tuple[Interval, ...]
    linear: tuple[Interval, ...]
    minus_still: tuple[Interval, ...]
    minus_linear: tuple[Interval, ...]
    trusted: int
    crossing: Interval | None
    free_shares: tuple[Interval, ...]
    unexcited: tuple[int, ...]
    memory: float | None
    memory_p: float | None
    distance: Interval | None
    notes: tuple[str, ...]

    @property
    def has_memory(self) -> bool:
        """Whether the one-step residuals depend on the steps before the context."""
        r2, p = self.memory, self.memory_p
        return r2 is not None and p is not None and r2 >= MIN_MEMORY and p <= 1 - self.confidence

    @property
    def verdict(self) -> Verdict:
        """In a word.

        "collapsed" if the latents hardly vary; "uninformative" if one-step predictions do not beat the mean;
        "static" if predictions beat standing still at no trusted step; "short" if they beat the mean, but not
        up to the horizon; else "predictive". To beat is to have a smaller error by the whole interval.
        """
        if not self.errors:
            return "collapsed"
        if not self.trusted:
            return "uninformative"
        if all(one.high >= 0 for one in self.minus_still[: self.trusted]):
            return "static"
        return "predictive" if self.trusted == self.horizon else "short"

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        if self.verdict == "collapsed":
            return f"The encoder has collapsed: the latents have variance {self.variance:.2g}."
        if self.verdict == "uninformative":
            return "Predictions are no better than the mean of the latents, even at one step."
        steps = f"{self.trusted} step{'s' * (self.trusted != 1)}"
        mean = f"the mean for {'at least ' * (self.trusted == self.horizon)}{steps}"
        if self.verdict == "static":
            return f"Predictions beat {mean}, but standing still at none of them."
        first = next(k for k, one in enumerate(self.minus_still, 1) if one.high < 0)
        gain = -self.minus_still[0].estimate
        still = f"by {gain:.2g} at one step" if first == 1 else f"from step {first} on"
        fit = "; a linear fit of the latents is better at one step" * (self.minus_linear[0].low > 0)
        return f"Predictions beat {mean}, standing still {still}{fit}."

    @property
    def warnings(self) -> tuple[str, ...]:
        """What limits the use of the model, or of this certificate."""
        warnings = list(self.notes)
        if self.unexcited:
            effect = (
                f"The effect of action {list_columns(self.unexcited)} cannot be known from these episodes"
            )
            warnings.append(f"{effect}: it hardly varies, or follows from the state. Add noise to actions.")
        if self.has_memory:
            size = f"R2 {self.memory:.2g}, p = {self.memory_p:.2g}"
            warnings.append(f"One-step residuals depend on the past ({size}): train with a longer context.")
        return tuple(warnings)

    def lines(self) -> list[Line]:
        """Every number with what it says; the first of each measure also with what it does not say."""
        rows: list[Line] = []

        def add(section: str, name: str, value: Interval | float, sentence: str) -> None:
            limit = "" if any(row.section == section for row in rows) else f" {_LIMITS[section]}"
            rows.append(number_line(name, value, sentence + limit, section))

        for one in self.states:
            says = f"From the latent of one frame; linear {one.linear.estimate:.3g}"
            if one.context_network is not None and one.context_linear is not None:
                stacked, linear = one.context_network.estimate, one.context_linear.estimate
                says += f"; {self.context} frames {stacked:.3g}, linear {linear:.3g}"
            add("states", f"R2 of {one.name}", one.network, f"{says}.")
        if self.crossing is not None:
            for k in sorted({1, (self.horizon + 1) // 2, self.horizon}):
                still, linear = (values[k - 1].estimate for values in (self.still, self.linear))
                says = f"Standing still {still:.3g}, linear fit {linear:.3g}, mean 1."
                add("prediction", f"error at {k} step{'s' * (k > 1)}", self.errors[k - 1], says)
            says = "Difference of the errors at one step; negative: the model is better."
            add("prediction", "minus standing still", self.minus_still[0], says)
            add("prediction", "minus linear fit", self.minus_linear[0], says)
            bound = " at least (all that were tested)" * (self.trusted == self.horizon)
            add("horizon", "trusted horizon", self.trusted, f"Steps{bound} with errors below the mean's.")
            if math.isfinite(self.crossing.estimate):
                add("horizon", "error reaches mean", self.crossing, "Steps until the error is the mean's.")
        for number, share in enumerate(self.free_shares):
            add("excitation", f"free share of a[{number}]", share, "Of its variance, given the state.")
        if self.memory is not None:
            says = f"Of one-step residuals from the steps before the context; p = {self.memory_p:.2g}."
            add("memory", "memory R2", self.memory, says)
        if self.distance is not None:
            says = "Rank correlation of latent distance with the steps to go; 1 is monotone."
            add("distance", "distance to go", self.distance, says)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON; infinite steps are "inf"."""
        values = {"verdict": self.verdict, "sentence": self.sentence, "warnings": self.warnings}
        return dict(to_jsonable({**values, **asdict(self)}))

    def __str__(self) -> str:
        title = f"World model: {self.dim} dimensions, context {self.context}, {self.episodes} episodes scored"
        rows = [title, f"  {self.sentence}", *(f"  - {one}" for one in self.warnings), ""]
        return "\n".join([*rows, *map(row_of, self.lines())])


@validate_types
def certify_world_model(
    model: Dynamics,
    episodes: Episodes,
    *,
    observation: str = "observation",
    action: str = "action",
    states: Sequence[str] | None = None,
    angles: Sequence[int] = (),
    horizon: int = 20,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
) -> WorldModelCertificate:
    """Certify a world model on held-out episodes.

    Args:
        model: a trained `WorldModel`, or any other `Dynamics`.
        episodes: at least four that the model was not trained on.
        observation: column of the model's input.
        action: column of the actions; the last of an episode is not used.
        states: columns of true states; None takes `state`, else `qpos` and `qvel`; () none.
        angles: numbers of the dimensions of the concatenated states that are angles.
        horizon: steps to predict; fewer where half of the episodes are shorter.
        confidence: of the intervals.
        seed: splits the episodes and draws the features and networks.
        progress: called with stages done, their number and the current one.

    Raises:
        ValueError: a column is missing, values are not finite, there are too few episodes, or the model
            returns NaN or a wrong shape.

    Example:
        >>> from isojepa.encoders.world_model import Stepwise
        >>> class Integrator(Stepwise):
        ...     def step(self, h, a):
        ...         return h + a
        >>> actions = torch.randn(20, 30, 1, generator=generator(0, "example"), dtype=torch.float64)
        >>> positions = np.cumsum(actions.numpy(), axis=1) - actions.numpy()
        >>> episodes = Episodes.of({"observation": positions, "action": actions.numpy()})
        >>> print(certify_world_model(Integrator(), episodes, horizon=10).sentence)
        Predictions beat the mean for at least 10 steps, standing still by 0.11 at one step.
    """
    check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    if not isinstance(model, Dynamics):
        raise ValueError(f"model must have context, encode and rollout, got {type(model).__name__}")
    context, horizon = check_count("context", model.context), check_count("horizon", horizon)
    if states is None:
        states = ["state"] if "state" in episodes else [name for name in ("qpos", "qvel") if name in episodes]
    sizes = {name: math.prod(episodes.shape(name)) for name in states}
    names = [f"{name}[{k}]" if size > 1 else name for name, size in sizes.items() for k in range(size)]
    angles = [check_count("angles", angle, 0, len(names) - 1) for angle in angles]
    report = progress or (lambda done, total, name: None)
    numbers, steps, notes = _select(episodes, context, horizon, seed)
    columns = [observation, action, *states]
    if isinstance(model, nn.Module):  # dropout would draw from the global generator
        model = copy.deepcopy(model).eval()
    report(0, 3, "latents")
    parts = np.array_split(numbers, 2)[::-1]
    fit, test = (_read(model, episodes, part, columns, context + steps, confidence) for part in parts)
    report(1, 3, "prediction")
    predictions = _predict(model, fit, test, steps)
    memory, memory_p = _memory(model, fit, test, seed) if predictions["errors"] else (None, None)
    report(2, 3, "states")
    scores = _probe(fit, test, names, angles, seed)
    shares = _free_shares(fit, test)
    if constant := sorted(set(names) - {score.name for score in scores}):
        notes.append(f"Constant, without a score: {', '.join(constant)}.")
    widths = dict(zip(names, np.ptp(test.states, axis=0), strict=True))
    low = {
        one.name for one in scores if one.network.estimate < MIN_STATE_R2 and widths[one.name] > 2 * math.pi
    }
    if turning := sorted(low - {names[angle] for angle in angles}):
        notes.append(f"{', '.join(turning)}: low R2 over more than a turn. Pass the numbers of angles.")
    if len(parts[1]) < MIN_SCORED_EPISODES:
        notes.append(f"Intervals of {len(parts[1])} scored episodes are wide: collect at least 10 episodes.")
    if predictions["errors"] and memory is None:
        frames = context + MEMORY_LAGS + 1
        long = min(int((half.lengths >= frames).sum()) for half in (fit, test))
        reason = f"{len(parts[1])} scored episodes are too few to separate it from the model's misfit"
        reason = f"it takes episodes of at least {frames} rows" if long < 2 else reason
        notes.append(f"Memory is not tested: {reason}.")
    return WorldModelCertificate(
        episodes=len(parts[1]),
        dim=test.h.shape[1],
        context=context,
        horizon=steps,
        confidence=confidence,
        states=tuple(scores),
        free_shares=shares,
        unexcited=tuple(k for k, share in enumerate(shares) if share.estimate < MIN_FREE_SHARE),
        memory=memory,
        memory_p=memory_p,
        notes=tuple(notes),
        **predictions,
    )


def _select(episodes: Episodes, context: int, horizon: int, seed: int) -> tuple[np.ndarray, int, list[str]]:
    """Shuffled numbers of the episodes to use, the steps to predict, and notes on what was left out."""
    lengths, notes = episodes.lengths, []
    usable = int((lengths > context).sum())
    if usable < MIN_EPISODES:
        requirement = f"episodes must be at least {MIN_EPISODES} of {context + 1} steps or more (context + 1)"
        raise ValueError(f"{requirement}, got {usable}: collect {MIN_EPISODES - usable} more")
    steps = min(horizon, int(np.sort(lengths)[-max(MIN_EPISODES, (usable + 1) // 2)]) - context)
    if steps < horizon:
        notes.append(f"The horizon is {steps} in place of {horizon}: half of the episodes are no longer.")
    numbers = np.flatnonzero(lengths >= context + steps)
    if short := len(lengths) - len(numbers):
        notes.append(f"{short} of {len(lengths)} episodes are left out: fewer than {context + steps} steps.")
    order = torch.randperm(len(numbers), generator=generator(seed, "certify world model", "split")).numpy()
    return numbers[order[:MAX_EPISODES]], steps, notes


@dataclass(frozen=True)
class _Half:
    """Frames of one half of the episodes, a piece of each: latents, actions and states (frames, ...)."""

    context: int
    confidence: float
    latents: Tensor
    h: np.ndarray
    actions: np.ndarray
    states: np.ndarray
    lengths: np.ndarray

    def rows(self, before: int, after: int) -> tuple[np.ndarray, np.ndarray]:
        """Thinned frames with so many others before and after in their episode, and the episode of each."""
        counts = np.maximum(self.lengths - before - after, 0)
        stride = max(1, math.ceil(counts.sum() / MAX_ROWS))
        starts = np.cumsum(self.lengths) - self.lengths + before
        parts = [np.arange(first, first + n, stride) for first, n in zip(starts, counts, strict=True)]
        return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])

    def stack(self, rows: np.ndarray, lags: range) -> np.ndarray:
        """(n, lags * dim) latents of the frames at lags before each row."""
        return np.hstack([self.h[rows - lag] for lag in lags])

    def inputs(self, rows: np.ndarray) -> np.ndarray:
        """(n, context * dim + m) latents of the context, the newest first, and the actions."""
        return np.hstack((self.stack(rows, range(self.context)), self.actions[rows]))

    def sums(self, values: np.ndarray, episode: np.ndarray) -> np.ndarray:
        """(episodes, k) sums of values (n, k) over each episode."""
        totals = np.zeros((len(self.lengths), values.shape[1]))
        np.add.at(totals, episode, values)
        return totals

    def intervals(self, statistic: Callable[..., np.ndarray], *sums: np.ndarray) -> tuple[Interval, ...]:
        """Intervals of the outputs (k,) of a function of sums over episodes, each (episodes, ...)."""
        totals = [part.sum(0) for part in sums]
        without = statistic(*(total - part for total, part in zip(totals, sums, strict=True)))
        estimates = zip(statistic(*totals), without.T, strict=True)
        return tuple(from_blocks(float(value), left_out, self.confidence) for value, left_out in estimates)

    def r2(self, episode: np.ndarray, values: np.ndarray, forecast: np.ndarray) -> tuple[Interval, ...]:
        """R^2 of each column of real or complex values (n, k)."""
        squares = (np.abs(values - one) ** 2 for one in (forecast, values.mean(0)))
        sums = (self.sums(part, episode) for part in squares)
        return self.intervals(lambda error, total: 1 - error / total, *sums)


@torch.no_grad()
def _read(
    model: Dynamics, episodes: Episodes, index: np.ndarray, names: list[str], window: int, confidence: float
) -> _Half:
    """Encode a piece of each episode, with its actions and states."""
    observation, action, *states = names
    size = max(window + MEMORY_LAGS, MAX_FRAMES // (2 * len(index)))
    parameter = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    count = episodes.actions(action)[0].shape[1]  # checks them, without the last of an episode
    vectors = [episodes.vectors(name) for name in (action, *states)]
    latents, tables = [], []
    for place, number in enumerate(map(int, index)):  # pieces start at evenly spaced fractions of the room
        room = max(int(episodes.lengths[number]) - size, 0)
        first = room * place // (len(index) - 1)
        part = slice(first, first + size)
        frames = episodes.rows(observation, number)[part]
        tables.append(np.hstack([values[number][part] for values in vectors]))
        for name, rows in ((observation, frames), (", ".join(states), tables[-1][:, count:])):
            if not np.isfinite(rows).all():
                raise ValueError(f"{name} must be finite, got NaN or Inf in episode {number}: leave it out")
        inputs = torch.from_numpy(frames.copy())
        if parameter is not None:
            inputs = inputs.to(parameter if inputs.is_floating_point() else parameter.device)
        h = model.encode(inputs)
        latents.append(_check_latents("encode", h, (len(frames), *h.shape[-1:])))
    sequence, (actions, values) = torch.cat(latents), np.hsplit(np.concatenate(tables), [count])
    lengths, h64 = np.array([len(part) for part in latents]), to_float64(sequence.cpu())
    return _Half(model.context, confidence, sequence, h64, actions, values, lengths)


def _check_latents(verb: str, latents: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The latents that a model returned, of the shape that they must have."""
    if tuple(latents.shape) != shape:
        raise ValueError(f"model.{verb} must return latents {shape}, got {tuple(latents.shape)}")
    if not latents.isfinite().all():
        raise ValueError(f"model.{verb} must return finite latents, got NaN or Inf: the model has diverged")
    return latents


@torch.no_grad()
def _rollout(model: Dynamics, half: _Half, rows: np.ndarray, steps: int) -> np.ndarray:
    """(n, steps, dim) the model's predictions from each row."""
    index = rows[:, None]
    start = half.latents[torch.from_numpy(index + np.arange(1 - half.context, 1))]
    actions = torch.from_numpy(half.actions[index + np.arange(steps)]).to(start)
    shape = (len(rows), steps, half.h.shape[1])
    return to_float64(_check_latents("rollout", model.rollout(start, actions), shape).cpu())


def _ridge(x: np.ndarray, y: np.ndarray) -> NonlinearRegression:
    """A linear map with the penalty of least generalized cross-validation error, of each output."""
    return NonlinearRegression(x, y, generator(0, "certify world model", "ridge"), cosines=0, hinges=False)


def _predict(model: Dynamics, fit: _Half, test: _Half, steps: int) -> dict[str, Any]:
    """Variance, errors, trusted horizon and distance to go: fields of the certificate."""
    frames, episode = test.rows(0, 0)
    deviations = ((test.h[frames] - test.h[frames].mean(0)) ** 2).sum(1, keepdims=True)
    variance = float(deviations.mean())
    names = ("errors", "still", "linear", "minus_still", "minus_linear")
    fields: dict[str, Any] = {"variance": variance, "trusted": 0, "crossing": None, "distance": None}
    if variance < MIN_VARIANCE * test.h.shape[1]:
        return fields | dict.fromkeys(names, ())
    units = [test.sums(part, episode) for part in (deviations, np.ones_like(deviations))]

    rows, episode = test.rows(test.context - 1, steps)
    path = test.h[rows[:, None] + np.arange(steps + 1)]
    predictions = (
        _rollout(model, test, rows, steps),
        path[:, :1],
        _linear_rollout(fit, test, rows, steps),
    )
    errors = [test.sums(((path[:, 1:] - one) ** 2).sum(-1), episode) for one in predictions]
    counts = test.sums(np.ones((len(rows), 1)), episode)
    curves = [*errors, errors[0] - errors[1], errors[0] - errors[2]]
    for name, sums in zip(names, curves, strict=True):
        fields[name] = test.intervals(lambda e, n, v, m: (e / n) / (v / m), sums, counts, *units)
    bands = ([getattr(one, end) for one in fields["errors"]] for end in ("estimate", "high", "low"))
    trusted = next((k for k, one in enumerate(fields["errors"]) if one.high >= 1), steps)
    fields |= {"crossing": Interval(*map(_crossing, bands)), "trusted": trusted}
    if steps > 2:  # the last frame of each window is a goal, and the frames before it have steps to go
        distances = np.linalg.norm(path[:, -2::-1] - path[:, -1:], axis=-1)
        correlation = test.sums(_rank_correlation(distances)[:, None], episode) / counts
        (fields["distance"],) = test.intervals(np.divide, correlation, np.ones_like(correlation))
    return fields


def _linear_rollout(fit: _Half, test: _Half, rows: np.ndarray, steps: int) -> np.ndarray:
    """(n, steps, dim) predictions of the linear fit."""
    index, _ = fit.rows(fit.context - 1, 1)
    linear = _ridge(fit.inputs(index), fit.h[index + 1])
    state, parts = test.stack(rows, range(test.context)), []
    for k in range(steps):
        parts.append(linear(np.hstack((state, test.actions[rows + k]))))
        state = np.hstack((parts[-1], state))[:, : state.shape[1]]
    return np.stack(parts, axis=1)


def _crossing(curve: list[float]) -> float:
    """Steps at which a curve first reaches 1, interpolated from 0 at 0 steps; infinite if it does not."""
    for k, (before, after) in enumerate(zip([0.0, *curve], curve, strict=False)):
        if after >= 1:
            return k + (1 - before) / (after - before)
    return math.inf


def _rank_correlation(distances: np.ndarray) -> np.ndarray:
    """Spearman correlation of each row (n, k) with its position; 0 for a constant row."""
    ranks = scipy.stats.rankdata(distances, axis=1) - (distances.shape[1] + 1) / 2
    position = np.arange(ranks.shape[1]) - (ranks.shape[1] - 1) / 2
    norm = np.sqrt((ranks**2).sum(1) * (position**2).sum())
    return np.asarray(ranks @ position / np.where(norm > 0, norm, 1.0))


def _memory(model: Dynamics, fit: _Half, test: _Half, seed: int) -> tuple[float | None, float | None]:
    """Fraction of the one-step residuals that the steps before the context explain, and its p-value."""
    before, dim = test.context - 1 + MEMORY_LAGS, test.h.shape[1]
    values, presents = [], []
    for half in (fit, test):
        rows, episode = half.rows(before, 1)
        if len(np.unique(episode)) < 2:
            return None, None
        residuals = half.h[rows + 1] - _rollout(model, half, rows, 1)[:, 0]
        # rollouts take no action before the current one, so those within the context belong to the past
        actions = [half.actions[rows - lag] for lag in range(1, before + 1)]
        values.append(np.hstack((residuals, half.stack(rows, range(half.context, before + 1)), *actions)))
        presents.append(half.inputs(rows))
    total = float((residuals**2).sum())
    if total <= EXACT * len(residuals) * test.h.var(0).sum():
        return 0.0, 1.0
    source = generator(seed, "certify world model", "memory")
    present = NonlinearRegression(presents[0], values[0], source, cosines=MEMORY_FEATURES)
    residuals, past = np.hsplit(values[1] - present(presents[1]), [dim])
    if (residuals**2).sum() > MAX_MISFIT * total:  # of white noise about 1 times
        return None, None
    edges = group_edges(episode)
    group = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    kernel = group_products(residuals / math.sqrt(total / len(residuals)), past, group)
    explained = explained_fraction([kernel], group_pairs(group), np.ones(dim), test.confidence, seed)
    return explained.fraction, explained.p


def _probe(fit: _Half, test: _Half, names: list[str], angles: list[int], seed: int) -> list[StateScore]:
    """Held-out R^2 of each state dimension that varies in both halves; angles are points e^(i angle)."""
    (fit_rows, _), (rows, episode) = (half.rows(half.context - 1, 0) for half in (fit, test))
    fit_values, values = fit.states[fit_rows], test.states[rows]
    dims = np.flatnonzero(np.minimum(np.ptp(fit_values, axis=0), np.ptp(values, axis=0)))
    if not len(dims):
        return []
    parts, is_angle = (fit_values[:, dims], values[:, dims]), np.isin(dims, angles)
    mean, scale = parts[0].mean(0), parts[0].std(0)
    fit_values, values = (np.where(is_angle, np.exp(1j * part), (part - mean) / scale) for part in parts)
    y, scores = np.hstack((fit_values.real, fit_values.imag)), []
    for frames in map(range, sorted({1, fit.context})):
        x, x_test = fit.stack(fit_rows, frames), test.stack(rows, frames)
        network = fit_network(torch.from_numpy(x), torch.from_numpy(y), steps=NETWORK_STEPS, seed=seed)
        outputs = to_float64(network(torch.from_numpy(x_test).float()))
        for forecast in (_ridge(x, y)(x_test), outputs):
            real, imaginary = np.hsplit(forecast, 2)
            scores.append(test.r2(episode, values, real + 1j * imaginary))
    columns = zip(dims, *scores, strict=True)
    return [StateScore(names[dim], *intervals) for dim, *intervals in columns]


def _free_shares(fit: _Half, test: _Half) -> tuple[Interval, ...]:
    """Shares of the actions' variance that a linear map of the state leaves; 0 for those that hardly vary."""
    (index, _), (rows, episode) = (half.rows(half.context - 1, 1) for half in (fit, test))
    frames, actions = range(fit.context), test.actions[rows]
    varies = np.flatnonzero(actions.std(0) > MIN_ACTION_SPREAD * np.sqrt((actions**2).mean(0)))
    linear = _ridge(fit.stack(index, frames), fit.actions[index][:, varies])
    scores = test.r2(episode, actions[:, varies], linear(test.stack(rows, frames)))
    shares = [Interval(0.0, 0.0, 0.0)] * actions.shape[1]
    for k, r2 in zip(varies, scores, strict=True):
        shares[k] = Interval(1 - r2.estimate, 1 - r2.high, 1 - r2.low)
    return tuple(shares)
