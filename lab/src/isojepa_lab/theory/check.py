"""A check: one lemma of a proof, derived or measured anew each time it runs.

A check is a function that yields parts. A part is one statement with the error that was reached and the error
that is allowed: 0 for what computer algebra derives, a small number for what is computed in floating point.
The check passes if every part does. Its parameters default to the true statement, so that a test can feed a
wrong one (another exponent, another law, a matrix that is not orthogonal) and see the check fail.

    @check("parity", theorem="forward", step="Setup", method="symbolic", covers="degrees 0 to {degree}")
    def parity(degree: int = 12) -> Parts:
        '''He_k is even or odd as k is.

        He_k(-x) = (-1)^k He_k(x)
        '''
        for k in range(degree + 1):
            yield vanishes(f"degree {k}", ...)

The first paragraph of the docstring is the claim in words, the second the claim in symbols.
"""

import inspect
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import sympy as sp

from isojepa.validation import unknown

THEOREMS = {
    "forward": "Theorem 1: LeJEPA recovers a Gaussian world up to a rotation",
    "converse": "Theorem 2: only the Gaussian is recovered linearly",
    "stability": "Theorem 3: approximate optima recover approximately",
    "planning": "Theorem 4: planning in the embedding is planning in the world",
    "dirichlet": "The second proof of Theorem 1: Dirichlet energy",
    "alignment": "Social-JEPA: encoders of one world that differ by an invertible linear map",
    "dynamics": "Transitions under actions: what a rotation leaves of A and B, and what data identify",
    "naming": "Beyond the Gaussian: which latents an embedding lets one name, up to what",
    "lejepa": "LeJEPA: why the isotropic Gaussian, and what finitely many moments do not see",
}

_EXACT = ("symbolic", "exact rational", "Groebner basis")


@dataclass(frozen=True)
class Part:
    """One statement of a check.

    Attributes:
        claim: what is stated.
        error: how far from true it was found; NaN fails.
        tolerance: the error that is allowed; 0 for exact statements.
        value: a number worth knowing, such as a margin or a ratio.
    """

    claim: str
    error: float
    tolerance: float = 0.0
    value: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance."""
        return bool(self.error <= self.tolerance)


Parts = Iterator[Part]


@dataclass(frozen=True)
class Outcome:
    """What a check found.

    Attributes:
        name: of the check.
        theorem: key of `THEOREMS`.
        step: of the published proof.
        claim: in words.
        formula: in symbols.
        method: "symbolic", "exact rational", "quadrature", "random matrices", ... or several, by semicolons.
        covers: for which degrees, dimensions, correlations or laws.
        general: whether the derivation covers the whole claim, or a finite family of cases.
        precision: the error of the part nearest to its tolerance, or beyond it; 0 if all is exact.
        tolerance: of that part.
        passed: whether every part passed.
        axiom_in_lean: whether the published Lean files assume this step.
        lean: the names of the axioms.
        note: what to know of the published statement.
        seconds: time taken.
        parts: the statements.
    """

    name: str
    theorem: str
    step: str
    claim: str
    formula: str
    method: str
    covers: str
    general: bool
    precision: float
    tolerance: float
    passed: bool
    axiom_in_lean: bool
    lean: tuple[str, ...]
    note: str
    seconds: float
    parts: list[Part] = field(repr=False)

    @property
    def failures(self) -> list[Part]:
        """Parts that did not pass."""
        return [part for part in self.parts if not part.passed]

    @property
    def exact(self) -> bool:
        """Whether nothing was computed in floating point."""
        return all(method in _EXACT for method in self.method.split("; "))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "exact": self.exact}


@dataclass(frozen=True)
class Check:
    """A lemma and the function that checks it; see `Outcome` for the fields."""

    name: str
    theorem: str
    step: str
    method: str
    covers: str
    general: bool
    lean: tuple[str, ...]
    note: str
    run: Callable[..., Parts]

    @property
    def claim(self) -> str:
        """The claim in words."""
        return _paragraphs(self.run)[0]

    @property
    def formula(self) -> str:
        """The claim in symbols."""
        return _paragraphs(self.run)[1]

    def __call__(self, **options: Any) -> Outcome:
        """Run it.

        Args:
            options: other parameters than those of the published statement.

        Raises:
            ValueError: the check takes no such option.
        """
        taken = inspect.signature(self.run).parameters
        for option in options:
            if option not in taken:
                listed = ", ".join(taken) or "none"
                raise ValueError(f"check {self.name!r} takes no option {option!r}; it takes {listed}")
        start = time.perf_counter()
        parts: list[Part] = []
        try:
            parts.extend(self.run(**options))
        except Exception as error:  # what cannot be carried out has not passed; the others can
            parts.append(Part(f"carried out to its end, but: {type(error).__name__}: {error}", math.inf))
        if not parts:
            parts.append(Part("something was checked", math.inf))
        worst = max(parts, key=lambda part: (_distance(part), part.tolerance))
        settings = {name: parameter.default for name, parameter in taken.items()} | options
        return Outcome(
            name=self.name,
            theorem=self.theorem,
            step=self.step,
            claim=self.claim,
            formula=self.formula,
            method=self.method,
            covers=self.covers.format(**settings),
            general=self.general,
            precision=worst.error,
            tolerance=worst.tolerance,
            passed=all(part.passed for part in parts),
            axiom_in_lean=bool(self.lean),
            lean=self.lean,
            note=self.note,
            seconds=time.perf_counter() - start,
            parts=parts,
        )


def check(
    name: str,
    *,
    theorem: str,
    step: str,
    method: str,
    covers: str,
    general: bool = False,
    lean: tuple[str, ...] = (),
    note: str = "",
) -> Callable[[Callable[..., Parts]], Check]:
    """Make a function that yields parts into a `Check`."""
    if theorem not in THEOREMS:
        raise ValueError(unknown("theorem", theorem, THEOREMS))

    def wrap(function: Callable[..., Parts]) -> Check:
        return Check(name, theorem, step, method, covers, general, lean, " ".join(note.split()), function)

    return wrap


def vanishes(claim: str, *expressions: Any) -> Part:
    """Let computer algebra reduce expressions to zero; matrices entry by entry."""
    entries = [entry for expression in expressions for entry in _entries(expression)]
    if not entries:
        raise ValueError("expressions must not be empty, got none")
    nonzero = [entry for entry in entries if not _is_zero(entry)]
    return Part(claim, math.inf if nonzero else 0.0)


def holds(claim: str, truth: Any, value: float | None = None) -> Part:
    """State what is true or false; what computer algebra cannot decide counts as false."""
    certain = truth is True or truth is sp.true or (isinstance(truth, np.bool_) and bool(truth))
    return Part(claim, 0.0 if certain else math.inf, value=value)


def close(claim: str, found: Any, expected: Any, tolerance: float) -> Part:
    """Compare numbers or arrays: the largest absolute difference."""
    difference = np.abs(np.asarray(found, dtype=float) - np.asarray(expected, dtype=float))
    return Part(claim, float(difference.max()), tolerance)


def at_least(claim: str, value: Any, floor: float, tolerance: float = 0.0) -> Part:
    """State that the smallest of some numbers is no less than a floor."""
    smallest = float(np.min(np.asarray(value, dtype=float)))
    error = math.nan if math.isnan(smallest) else max(0.0, floor - smallest)
    return Part(claim, error, tolerance, value=smallest)


def select(checks: Iterable[Check], names: Iterable[str] | None = None) -> list[Check]:
    """Return the named checks, in the order of the proofs; a theorem's key stands for all of its checks.

    Raises:
        ValueError: a name is unknown; the message lists the choices.
    """
    listed = list(checks)
    if names is None:
        return listed
    required = set([names] if isinstance(names, str) else names)
    choices = [*THEOREMS, *(entry.name for entry in listed)]
    for name in sorted(required):
        if name not in choices:
            raise ValueError(unknown("check", name, choices))
    return [entry for entry in listed if entry.name in required or entry.theorem in required]


def _distance(part: Part) -> float:
    """How near a part is to failing: above 1 it has."""
    if not part.passed:
        return math.inf
    return part.error / part.tolerance if part.tolerance else 0.0


def _is_zero(expression: Any) -> bool:
    if getattr(expression, "ring", None) is not None:  # an element of a polynomial ring: already canonical
        return not expression
    expression = sp.sympify(expression)
    return bool(expression == 0 or sp.expand(expression) == 0 or sp.simplify(expression) == 0)


def _entries(expression: Any) -> list[Any]:
    if isinstance(expression, sp.MatrixBase):
        return list(expression)
    return list(expression) if isinstance(expression, list | tuple) else [expression]


def _paragraphs(function: Callable[..., Any]) -> list[str]:
    text = inspect.getdoc(function) or ""
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")] + [""] * 2
