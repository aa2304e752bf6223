"""The audit of recorded episodes: what made the actions, and which assumptions the data break.

All checks are one verdict: a check with a p-value fails only where Holm's procedure rejects it among them.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from isojepa.certificates.assumptions import check_assumptions
from isojepa.certificates.audit_checks import CHECKS, SPEEDS, STATES, EpisodeSample, distributions, gather
from isojepa.certificates.checks import FAILS, HOLDS, CheckResult, together
from isojepa.certificates.strides import StrideRow, stride_rows
from isojepa.data.episodes import Episodes
from isojepa.data.files import column_names, read_episodes
from isojepa.validation import check_number, validate_types

ASSUMPTIONS = (
    *("stationarity", "Gaussianity", "independence"),
    *("additive noise", "joint Gaussianity", "isotropy"),
)
TARGET_RHO = 0.95  # the stride is chosen whose correlation is nearest: that of the paper
RARE, OFTEN = 0.8, 1.25  # share of a cell over that of a normal distribution, from which advice names it
_CELLS, _MAX_ADVISED = 8, 4  # cells of equal normal probability; dimensions
_PAIRS = 2000  # for the assumptions, about
_ONE_PAIR_EPISODES = 500  # from which on each gives one pair: pairs of one episode depend on each other
_MIN_PAIRS = 40


@dataclass(frozen=True)
class Audit:
    """The result of `audit`.

    Attributes:
        source: the file.
        episodes, steps: their numbers.
        names: of the columns of states, speeds and actions.
        description: what the actions look like, in a sentence.
        laws: distribution of each action, in words.
        lines: results of the checks.
        stride: at which the assumptions on states were checked; 0 if they were not.
        strides: autocorrelation and normality per stride.
        notes: on what was left out.
        advice: what to record next so that the assumptions hold.
    """

    source: str
    episodes: int
    steps: int
    names: tuple[str, str, str]
    description: str
    laws: tuple[str, ...]
    lines: tuple[CheckResult, ...]
    stride: int
    strides: tuple[StrideRow, ...]
    notes: tuple[str, ...]
    advice: tuple[str, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """Names of the checks that fail."""
        return tuple(line.name for line in self.lines if line.verdict == FAILS)

    def line(self, name: str) -> CheckResult:
        """The result of a check."""
        return next(line for line in self.lines if line.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "broken": list(self.broken)}


@validate_types
def audit(
    episodes: Episodes,
    *,
    state: str | None = None,
    action: str = "action",
    speed: str | None = None,
    context: Sequence[str] = (),
    stride: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Audit:
    """Audit recorded episodes.

    Args:
        episodes: see `isojepa.data.episodes`.
        state: the column of states; by default the first of qpos, state, states, proprio, observation.
        action: the column of actions; the last of an episode may be NaN.
        speed: the column of speeds; by default qvel or velocity.
        context: further columns that the actions may depend on, such as a goal.
        stride: steps between the ends of pairs that the assumptions are checked on; 0 for that at which
            states correlate most nearly by 0.95.
        confidence: of intervals; all tests together are wrong about fair data at most as often as
            1 - confidence.
        seed: draws rows, halves and permutations.

    Raises:
        ValueError: a column does not exist, or has NaN or Inf where it must not.

    Example:
        >>> noise = np.random.default_rng(0).uniform(-1, 1, (60, 40, 2))
        >>> audit(Episodes.of({"action": noise})).laws[0][:10]
        'uniform on'
    """
    check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    level = 1 - confidence
    sample = replace(gather(episodes, state, action, speed, context, seed), level=level)
    strides, chosen, assumptions = _of_states(sample, stride)
    lines = together([*(one(sample) for one in CHECKS), *assumptions], level)
    laws = distributions(sample)
    by_name = {line.name: line for line in lines}
    return Audit(
        source=episodes.source,
        episodes=len(episodes),
        steps=episodes.steps,
        names=sample.names,
        description=_describe(by_name["independence over time"], by_name["independence of the state"], laws),
        laws=laws,
        lines=lines,
        stride=chosen,
        strides=strides,
        notes=sample.notes,
        advice=tuple(_advice(sample, by_name)),
    )


def read_for_audit(
    path: Path | str, columns: Sequence[str | None] = (), episode: str | None = None
) -> Episodes:
    """The columns of a file that an audit reads: those named, and those of `STATES` and `SPEEDS`.

    Args:
        path: a file as of `read_episodes`.
        columns: by name; None is skipped.
        episode: column of episode numbers, as of `read_episodes`.

    Raises:
        ValueError: the file is missing, damaged, holds something else, or lacks a column.
    """
    names = [name for name in column_names(Path(path)) if name in (*STATES, *SPEEDS) and name != episode]
    return read_episodes(Path(path), list(dict.fromkeys([*names, *filter(None, columns)])), episode)


def _describe(serial: CheckResult, feedback: CheckResult, laws: Sequence[str]) -> str:
    """What the actions look like, in a sentence."""
    each = "; ".join(f"action {at} {law}" for at, law in enumerate(laws[:4]))
    law = laws[0] if len(set(laws)) == 1 else each
    if all(one.startswith("always") for one in laws):
        return f"The actions never vary: {law}."
    if serial.verdict == HOLDS and feedback.verdict == HOLDS:
        return (
            f"The actions are i.i.d. noise as far as this shows, {law}: independent of the state and of each "
            "other, as no trained policy's are."
        )
    for line, words in (
        (feedback, "follow from the state in part, as a policy's do"),
        (serial, "have a memory but do not clearly follow from the state"),
    ):
        if line.verdict == FAILS:
            return f"The actions {words}: {line.sentence[0].lower()}{line.sentence[1:]}"
    return "What made the actions is unclear from so few of them."


def _of_states(
    sample: EpisodeSample, stride: int
) -> tuple[tuple[StrideRow, ...], int, Sequence[CheckResult]]:
    """Rows per stride, the stride at which assumptions are checked, and their results."""
    if sample.states is None:
        return (), 0, []
    paths = Episodes.of({"state": sample.states})
    per_episode = -(-_PAIRS // len(paths))
    rows: tuple[StrideRow, ...] = ()
    try:
        rows = stride_rows(paths, "state", per_episode=max(10, per_episode), seed=sample.seed)
    except ValueError:  # too few pairs at any stride, or nothing moves
        if not stride:
            return rows, 0, []
    stride = stride or min(rows, key=lambda row: abs(float(np.nanmean(row.rho)) - TARGET_RHO)).stride
    if stride >= (longest := int(paths.lengths.max())):
        raise ValueError(f"stride must be below the {longest} steps of the longest episode, got {stride}")
    few = 1 if len(paths) >= _ONE_PAIR_EPISODES else per_episode
    first, second, _ = paths.pairs(stride, "state", few, sample.seed)
    if len(first) < _MIN_PAIRS:
        return rows, 0, []
    draws = int(
        np.ceil(2 * len((*CHECKS, *ASSUMPTIONS)) / sample.level)
    )  # so that each can fail beside all others
    options: dict[str, Any] = {"draws": draws, "confidence": sample.confidence, "seed": sample.seed}
    return rows, stride, check_assumptions(first, second, only=ASSUMPTIONS, **options)


def _advice(sample: EpisodeSample, lines: dict[str, CheckResult]) -> list[str]:
    """What to record next: the advice of checks that do not hold, and where states should be."""
    advice = [
        f"{line.name[0].upper()}{line.name[1:]}: {line.advice}"
        for line in lines.values()
        if line.of in ("actions", "states") and line.verdict != HOLDS and line.advice
    ]
    open_ = {name for name, line in lines.items() if name in ASSUMPTIONS and line.verdict != HOLDS}
    if sample.states is not None and open_ & {"Gaussianity", "joint Gaussianity"}:
        advice += [f"States: {one}" for one in states_to_visit(np.concatenate(sample.states))]
    if "stationarity" in open_:
        advice.append(
            f"Stationarity: {lines['stationarity'].advice} Or start episodes where earlier ones ended."
        )
    if any(lines[name].verdict == FAILS for name in open_):
        advice.append("Recorded data can be weighed towards the assumptions: isojepa.data.reweighting.")
    return advice


def states_to_visit(states: np.ndarray) -> list[str]:
    """Sentences on where states (rows, dim) should be more, and less, to be normal, the worst first.

    Each dimension is cut into cells that a normal distribution visits equally often.
    """
    advice = []
    for dim, column in enumerate(states.T):
        if column.std() <= 1e-12 * max(1.0, float(np.abs(column).max())):
            continue
        edges = column.mean() + column.std() * scipy.special.ndtri(np.arange(1, _CELLS) / _CELLS)
        shares = np.bincount(np.searchsorted(edges, column), minlength=_CELLS) / len(column)
        ratios = shares * _CELLS
        if ratios.min() <= RARE or ratios.max() >= OFTEN:
            ends = ["-inf", *(f"{edge:.3g}" for edge in edges), "inf"]
            rare, often = (f"between {ends[k]} and {ends[k + 1]}" for k in (ratios.argmin(), ratios.argmax()))
            worst = float(np.abs(np.log(np.maximum(ratios, 1e-3))).max())
            advice.append(
                (
                    worst,
                    f"Visit dimension {dim} more {rare} ({100 * shares.min():.1f} % of the steps, a normal "
                    f"distribution {100 / _CELLS:.1f} %), and less {often} ({100 * shares.max():.1f} %).",
                )
            )
    return [sentence for _, sentence in sorted(advice, reverse=True)[:_MAX_ADVISED]]
