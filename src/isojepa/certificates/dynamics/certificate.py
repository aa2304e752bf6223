"""The transition certificate: what is known of z' = A z + B a from embeddings and actions, with a verdict."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from isojepa.certificates.dynamics.agreement import Agreement, Perturbation
from isojepa.certificates.dynamics.excitation import Excitation
from isojepa.certificates.dynamics.invariants import Invariants
from isojepa.certificates.dynamics.linearity import Linearity
from isojepa.certificates.dynamics.sentences import lines
from isojepa.certificates.dynamics.transition import Transition
from isojepa.certificates.sentences import Line, format_value
from isojepa.statistics.intervals import Interval

Verdict = Literal["unidentifiable", "nonlinear", "linear", "true", "other", "unclear"]
Code = Literal[
    "unexcited",
    "weak",
    "nonlinear",
    "bent",
    "unreached",
    "unstable",
    "differs",
    "turned",
    "wide",
    "fast",
    "memory",
]
WEAK = 0.01  # share of an action's variance that the state leaves, below which excitation is called weak
BENT = 0.01  # share of the variance predicted beyond A and B, above which a transition is not called linear
REMEMBERED = 0.1  # correlation of successive residuals, above which a transition is not called linear


@dataclass(frozen=True)
class Reason:
    """Something that the verdict rests on, or that is to be known of it.

    Attributes:
        code: for programs: "unexcited" directions, "weak" excitation, a "nonlinear" transition or one that is
            "bent" a little, states "unreached" by actions, an A that may be "unstable", a transition that
            "differs" from the true one or is "turned" against it, intervals too "wide" to tell; "fast"
            functions of the state, and "memory" of earlier steps.
        sentence: for people.
    """

    code: Code
    sentence: str


@dataclass(frozen=True)
class DynamicsCertificate:
    """What embeddings and actions say of the transition.

    Attributes:
        rows, episodes: how many.
        dim, actions, history: of an embedding, of an action, embeddings in a state.
        confidence: of each interval.
        groups: "episodes" if intervals compare whole episodes, "pieces" if there are too few of them.
        tolerance: relative error up to which (A, B) count as the true ones.
        excitation: what the state leaves of the actions.
        linearity, transition, invariants: None where directions cannot be identified.
        agreement: with the latents; None without them.
        perturbation: what a recovery error can do; None where none is known.
    """

    rows: int
    episodes: int
    dim: int
    actions: int
    history: int
    confidence: float
    groups: Literal["episodes", "pieces"]
    tolerance: float
    excitation: Excitation
    linearity: Linearity | None = None
    transition: Transition | None = None
    invariants: Invariants | None = None
    agreement: Agreement | None = None
    perturbation: Perturbation | None = None

    @property
    def verdict(self) -> Verdict:
        """In a word.

        "unidentifiable" if nothing excites some direction; "nonlinear" if a flexible regressor, near rows or
        the step before predict more;
        else, with latents, "true" if A and B are the true ones in one rotation up to the tolerance, "other"
        if they are not, "unclear" if the intervals are too wide; and without latents "linear".
        """
        if self.invariants is None or self.linearity is None:
            return "unidentifiable"
        if self._is_nonlinear and self.linearity.gain.high > BENT:
            return "nonlinear"
        if self._is_fast or self._has_memory:
            return "nonlinear"
        if self.agreement is None:
            return "linear"
        errors = (self.agreement.a, self.agreement.b)
        if all(one.high <= self.tolerance for one in errors):
            return "true"
        return "other" if any(one.low > self.tolerance for one in errors) else "unclear"

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        tolerance = f"{100 * self.tolerance:g} %"
        sentence = _SENTENCES[self.verdict].format(tolerance=tolerance)
        if self.linearity is None or self.verdict == "nonlinear":
            return sentence
        memory = " Memory was not tested: no rows are successive." if self.linearity.memory is None else ""
        return f"{sentence} {_TESTED}{memory}"

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """What the verdict rests on."""
        found = [Reason("unexcited", one.sentence) for one in self.excitation.unidentified]
        if not found and self.excitation.share < WEAK:
            share = f"{100 * self.excitation.share:.2g} %"
            found.append(Reason("weak", f"The state foretells all but {share} of a direction of action."))
        if self._is_nonlinear and self.linearity is not None:
            code: Code = "nonlinear" if self.linearity.gain.high > BENT else "bent"
            gain = f"{100 * self.linearity.gain.estimate:.2g} % (p = {self.linearity.p:.1g})"
            found.append(
                Reason(code, f"A flexible regressor predicts {gain} of the variance beyond A and B.")
            )
        if self._is_fast and self.linearity is not None:
            share = f"{100 * self.linearity.fast:.2g} % of the variance (p = {self.linearity.fast_p:.1g})"
            found.append(Reason("fast", f"What A and B leave of rows with near states agrees: {share}."))
        if self._has_memory and self.linearity is not None:
            chance = f"correlation {self.linearity.memory:.2g}, p = {self.linearity.memory_p:.1g}"
            found.append(
                Reason("memory", f"What A and B leave of successive steps agrees ({chance}): raise history.")
            )
        if self.invariants is not None:
            found += _of_invariants(self.invariants)
        if self.agreement is not None:
            found += self._of_agreement(self.agreement)
        return tuple(found)

    @property
    def _is_nonlinear(self) -> bool:
        return self.linearity is not None and self.linearity.p < self._level(self.linearity)

    @property
    def _is_fast(self) -> bool:
        found = self.linearity
        return found is not None and found.fast_p < self._level(found) and found.fast > BENT

    @property
    def _has_memory(self) -> bool:
        found = self.linearity
        if found is None or found.memory is None or found.memory_p is None:
            return False
        return found.memory_p < self._level(found) and abs(found.memory) > REMEMBERED

    def _level(self, found: Linearity) -> float:
        """Of each of the tests, so that they keep the level together."""
        return (1 - self.confidence) / found.tests

    def _of_agreement(self, agreement: Agreement) -> list[Reason]:
        found = []
        for name, error in (("A", agreement.a), ("B", agreement.b)):
            if error.low > self.tolerance:
                found.append(Reason("differs", f"{name} differs from the true one by {_share(error)}."))
            elif error.high > self.tolerance:
                found.append(
                    Reason("wide", f"{name} may differ from the true one by up to {error.high:.2g}.")
                )
        if agreement.turn.low > 0 and agreement.turn.estimate > 1e-6:
            angle = f"{math.degrees(agreement.turn.estimate):.2g} degrees"
            found.append(
                Reason("turned", f"States and transitions ask for rotations that are {angle} apart.")
            )
        return found

    def lines(self) -> list[Line]:
        """Every measured number with a plain sentence."""
        return lines(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {
            **_lists(asdict(self)),
            "verdict": self.verdict,
            "sentence": self.sentence,
            "reasons": [asdict(reason) for reason in self.reasons],
            "rank": None if self.invariants is None else self.invariants.rank,
        }

    def __str__(self) -> str:
        rows = [
            f"Transition of {self.rows} steps in {self.episodes} episodes, {self.dim} dimensions, "
            f"{self.actions} actions",
            f"  {self.sentence}",
            *(f"  - {reason.sentence}" for reason in self.reasons),
            "",
        ]
        rows += [f"  {one.name:<24} {format_value(one):<34} {one.sentence}" for one in self.lines()]
        return "\n".join(rows)


_SENTENCES = {
    "unidentifiable": "The transition cannot be identified: some directions are never excited.",
    "nonlinear": "The transition is not linear in embedding and action alone.",
    "linear": "Actions excite the transition, and neither nonlinearity nor memory was found: if it is linear "
    "and the embedding a rotation of the world, its invariants are the world's.",
    "true": "A and B are the true ones in one common rotation, to within {tolerance}.",
    "other": "A and B are not the true ones in one common rotation.",
    "unclear": "A and B may be the true ones: too few rows to tell to within {tolerance}.",
}

_TESTED = (
    "Tested: smooth functions of state and action, functions of the state that near rows share, and memory "
    "of the step before. Not tested: faster functions, and hidden variables that leave no such trace."
)


def _of_invariants(invariants: Invariants) -> list[Reason]:
    found = []
    size = len(invariants.reach)
    if invariants.rank < size:
        found.append(
            Reason(
                "unreached", f"Actions reach {invariants.rank} of {size} directions of the state for certain."
            )
        )
    if invariants.radius.high >= 1:
        found.append(Reason("unstable", f"A may be unstable: its spectral radius is {invariants.radius}."))
    return found


def _share(interval: Interval) -> str:
    return f"{100 * interval.estimate:.3g} % [{100 * interval.low:.3g}, {100 * interval.high:.3g}]"


def _lists(value: Any) -> Any:
    """The same with lists in the place of arrays."""
    if isinstance(value, dict):
        return {name: _lists(part) for name, part in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value
