"""The audit of recorded episodes: what made the actions, and which assumptions the data break."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from isojepa.certificates.assumptions import Assumption, check_assumptions
from isojepa.certificates.assumptions.line import FAILS, HOLDS
from isojepa.certificates.audit.actions import check_law, check_rank, check_serial
from isojepa.certificates.audit.excitation import (
    check_excitation,
    check_feedback,
    check_persistence,
    predict,
)
from isojepa.certificates.audit.material import Material, gather
from isojepa.certificates.audit.motion import check_velocity, check_wrapping
from isojepa.certificates.audit.strides import StrideRow, stride_rows
from isojepa.certificates.audit.visits import places_to_visit, speeds_to_take
from isojepa.data.episodes import Episodes
from isojepa.validation import check_number, validate_types

LINES = ("stationarity", "Gaussianity", "independence", "additive noise", "joint Gaussianity", "isotropy")
_RHO = 0.95  # the correlation nearest to which a stride is chosen
_PAIRS = 2000  # that the assumptions are checked on, about
_ENOUGH = 500  # episodes from which one pair of each is taken
_LEAST = 40  # of them below which they are not


@dataclass(frozen=True)
class Audit:
    """What was found.

    Attributes:
        source: the file.
        episodes, steps: that it has.
        names: of the columns of states, speeds and actions.
        description: in a sentence, what the actions look like.
        laws: of each action, in words.
        lines: one for each question, with value, threshold, verdict and advice.
        stride: at which the assumptions on states were checked; 0 where they were not.
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
    lines: tuple[Assumption, ...]
    stride: int
    strides: tuple[StrideRow, ...]
    notes: tuple[str, ...]
    advice: tuple[str, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """Names of the lines that fail."""
        return tuple(line.name for line in self.lines if line.verdict == FAILS)

    def line(self, name: str) -> Assumption:
        """The line of a name."""
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
        state: the column of states; by default qpos, state, states, proprio, observation, whichever is there.
        action: the column of actions; the last of an episode may be NaN.
        speed: the column of speeds; by default qvel or velocity.
        context: further columns that the actions may depend on, such as a goal.
        stride: steps between the ends of pairs that the assumptions are checked on; 0 for that at which
            states correlate most nearly by 0.95.
        confidence: of intervals; each test alone is wrong about fair data at most as often as 1 - confidence.
        seed: draws rows, halves and permutations.

    Raises:
        ValueError: a column does not exist, or has NaN or Inf where it must not.

    Example:
        >>> noise = np.random.default_rng(0).uniform(-1, 1, (60, 40, 2))
        >>> audit(Episodes.of({"action": noise})).laws[0][:10]
        'uniform on'
    """
    check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    material = gather(episodes, state, action, speed, context, seed)
    law, laws = check_law(material, confidence)
    found = predict(material)
    feedback = check_feedback(material, found, confidence)
    lines = [
        check_rank(material, confidence),
        check_serial(material, confidence),
        feedback,
        law,
        check_excitation(material, found, confidence),
        check_persistence(material, confidence),
        check_velocity(material, confidence),
        check_wrapping(material, confidence),
    ]
    strides, chosen, more = _of_states(material, stride, confidence)
    lines += more
    return Audit(
        source=episodes.source,
        episodes=len(episodes),
        steps=episodes.steps,
        names=material.names,
        description=describe(lines[1], feedback, laws),
        laws=laws,
        lines=tuple(lines),
        stride=chosen,
        strides=strides,
        notes=material.notes,
        advice=tuple(_advice(material, lines, strides, chosen)),
    )


def describe(serial: Assumption, feedback: Assumption, laws: Sequence[str]) -> str:
    """What the actions look like, in a sentence."""
    law = (
        laws[0] if len(set(laws)) == 1 else "; ".join(f"action {at} {law}" for at, law in enumerate(laws[:4]))
    )
    if all(one.startswith("always") for one in laws):
        return f"The actions never vary: {law}."
    if serial.verdict == HOLDS and feedback.verdict == HOLDS:
        return (
            f"The actions are i.i.d. noise as far as this shows, {law}: independent of the state and of each "
            "other, as no trained policy's are."
        )
    if feedback.verdict == FAILS:
        return f"The actions follow from the state in part, as a policy's do: {_lower(feedback.sentence)}"
    if serial.verdict == FAILS:
        return (
            f"The actions have a memory but do not clearly follow from the state: {_lower(serial.sentence)}"
        )
    return "What made the actions is unclear from so few of them."


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


def _of_states(
    material: Material, stride: int, confidence: float
) -> tuple[tuple[StrideRow, ...], int, list[Assumption]]:
    """Rows per stride, the stride at which assumptions are checked, and their lines."""
    if material.states is None:
        return (), 0, []
    paths = Episodes.of({"state": material.states})
    longest = int(paths.lengths.max())
    per_episode = max(10, -(-_PAIRS // len(paths)))
    try:
        rows = stride_rows(paths, "state", per_episode=per_episode, seed=material.seed)
    except ValueError:  # too few pairs at any stride, or nothing moves
        rows = ()
    if not stride:
        if not rows:
            return rows, 0, []
        stride = min(rows, key=lambda row: abs(float(np.nanmean(row.rho)) - _RHO)).stride
    if stride >= longest:
        raise ValueError(f"stride must be below the {longest} steps of the longest episode, got {stride}")
    few = (
        1 if len(paths) >= _ENOUGH else -(-_PAIRS // len(paths))
    )  # pairs of one episode depend on each other
    first, second, _ = paths.pairs(stride, "state", few, material.seed)
    if len(first) < _LEAST:
        return rows, 0, []
    draws = max(199, int(np.ceil(2 / (1 - confidence))))
    return rows, stride, list(
        check_assumptions(first, second, only=LINES, draws=draws, confidence=confidence, seed=material.seed)
    )  # fmt: skip


def _advice(
    material: Material, lines: Sequence[Assumption], strides: Sequence[StrideRow], stride: int
) -> list[str]:
    """What to record next: the advice of lines that do not hold, and where states should be."""
    by_name = {line.name: line for line in lines}
    told = [
        f"{line.name[0].upper()}{line.name[1:]}: {line.advice}"
        for line in lines
        if line.of in ("actions", "states") and line.verdict != HOLDS and line.advice
    ]
    velocity = by_name["visible velocity"]
    if velocity.verdict == HOLDS and velocity.advice:
        told.append(f"Frames: {velocity.advice}")
    if material.states is None:
        return told
    if any(
        by_name[name].verdict != HOLDS for name in ("Gaussianity", "joint Gaussianity") if name in by_name
    ):
        told += [f"States: {one}" for one in places_to_visit(np.concatenate(material.states))]
    row = next((row for row in strides if row.stride == stride), None)
    if row is not None and by_name.get("isotropy", velocity).verdict != HOLDS:
        told += [f"Rates: {one}" for one in speeds_to_take(row)]
    if "stationarity" in by_name and by_name["stationarity"].verdict != HOLDS:
        told.append(
            f"Stationarity: {by_name['stationarity'].advice} Or start episodes where earlier ones ended."
        )
    broken = [name for name in LINES if name in by_name and by_name[name].verdict == FAILS]
    if broken:
        told.append(
            "What is recorded already can be weighed towards the assumptions: isojepa.data.reweighting."
        )
    return told
