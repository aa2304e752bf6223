r"""The transition of an embedding under actions: h' = A s + B a + c, fitted in closed form and certified.

The state s_t = (h_t, ..., h_{t-k+1}) holds the last k embeddings, the newest first; action t leaves step t.
If h = Q z with Q orthogonal and z' = A z + B a + noise, then h' = Q A Q^T h + Q B a + Q noise: the fitted map
is the world's in rotated coordinates. `certify_dynamics` measures, in float64,

    excitation   S = Cov(a) - Cov(a, s) Cov(s)^-1 Cov(s, a), what the state leaves of the actions. Where
                 u^T s + v^T a is constant, all (A + d u^T, B + d v^T) predict the same: not identifiable
    linearity    three tests of the residuals e of the linear fit, below
    invariants   see `isojepa.certificates.invariants`
    agreement    with latents: D_A = A_h - Q A_z Q^T and D_B = B_h - Q B_z, Q the Procrustes rotation on one
                 half of the groups, transitions fitted on the other; and the angle of the skew K that makes
                 K A - A K and K B closest to D_A and D_B: 0 if one Q serves states and transitions

**Groups and draws.** Rows are grouped by episodes if there are at least 30, else into pieces of successive
rows. Leaving out group g moves the coefficients by (M - M_g)^-1 X_g^T e_g, M = X^T X. Draws of their error
are sums of these moves with normal multipliers over the root of a chi-squared of as many degrees (a
multiplier bootstrap), which allows any dependence within a group.

**Tests.** With features phi of a row whose linear part in (s, a) is taken out, E[e phi] = 0 under a linear
transition with independent noise of any distribution, also one that depends on the state.
`isojepa.statistics.residuals` estimates the fraction of the variance that phi explains, with p by random
signs of the groups. Rows far out in (s, a) are weighted down (`isojepa.statistics.nulls.shrink_far`), and
residuals of more than 100 median sizes are left out, so that no row decides.

    nonlinear   phi: random cosines of (s, a) of several bandwidths, joined by the largest statistic
    fast        e_i . e_j in place of the products, j the row of the other half of the groups with the
                nearest state: cosines of every bandwidth at which rows still have neighbors
    memory      phi: state and action of the step before, for successive rows

Holm's procedure keeps the level for the three. Approximate: independence of groups, the null for few rows.

**Recovery error.** Let h = Q z + e with E |e|^2 <= eta^2, E |e'|^2 <= eta'^2 after the step. The residual of
the true, rotated transition is w + e' - A_Q e, and least squares is off by the projection of e' - A_Q e on
the inputs: with r^2 = lambda_min Cov(s | a), Frobenius norms and |A| spectral, if eta < r,

    |A_h - Q A Q^T| <= (eta' + |A| eta) / r,         |A| <= (|A_h| + eta' / r) / (1 - eta / r)
    |B_h - Q B|     <= (eta' + |A| eta) / sqrt(lambda_min Cov(a | s)).
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa.arrays import real_array
from isojepa.certificates.checks import FAILS, HOLDS, CheckResult, CheckSample, Effect, check, together
from isojepa.certificates.invariants import (
    Invariants,
    companion,
    measure_invariants,
    singular_intervals,
)
from isojepa.certificates.sentences import Line, row_of
from isojepa.data.trajectories import Trajectories
from isojepa.linear import ROUNDING, least_squares, nearest_rotation
from isojepa.seeds import generator, numpy_generator
from isojepa.statistics.intervals import Interval, from_blocks, r2_interval
from isojepa.statistics.nulls import shrink_far
from isojepa.statistics.residuals import explained_fraction, group_edges, group_pairs, group_products, whiten
from isojepa.validation import check_count, check_number, validate_types

# verdicts
MIN_EXCITATION = 1e-8  # fraction of a standardized variance; below, it is rounding of float32
MIN_FREE_SHARE = 0.01  # of an action's variance given the state; below, the error of B is ten times as large
MIN_NONLINEAR = 0.01  # fraction of the variance that a nonlinear transition predicts more
MIN_MEMORY = 0.01  # fraction of the residual variance that the step before predicts: a correlation of 0.1
MIN_TURN = 1e-6  # radians; below, a rotation is rounding
EXACT = 1e-10  # residuals of this fraction of the variance are rounding of float32

# sizes
MIN_ROWS_PER_UNKNOWN = 4  # fits see one half, less a group
MAX_DRAWS, MIN_DRAWS, MAX_DRAWN_DIM = 500, 100, 32  # of the error; fewer for larger states
MAX_RESIDUAL = 100.0  # median sizes beyond which a residual is an outlier, left out of the tests
BANDWIDTHS = (2.0, 1.0, 0.5, 0.25)  # of the cosines, in units of sqrt(inputs)
MAX_COSINES, ROWS_PER_COSINE = 128, 16  # per bandwidth
MAX_TEST_ROWS, MAX_NEIGHBOR_ROWS, MAX_NEIGHBOR_DIM = 100_000, 2_000, 8  # the second where states are wide

Verdict = Literal["unidentifiable", "nonlinear", "linear", "true", "other", "unclear"]


@dataclass(frozen=True)
class Transition:
    """h' = A s + B a + c + noise, s = (h_t, h_{t-1}, ...) the newest first.

    Attributes:
        A: (dim, history * dim).
        B: (dim, actions).
        c: (dim,).
        noise: (dim, dim) covariance of the residual.
        history: embeddings in a state; also the `context` of `isojepa.encoders.Dynamics`.
        rows: transitions of the fit; 0 without one.

    Raises:
        ValueError: shapes do not fit, or values are not finite.

    Example:
        >>> shift = Transition(np.eye(2), np.ones((2, 1)), np.zeros(2), np.zeros((2, 2)))
        >>> shift.rollout(torch.zeros(1, 2), torch.ones(3, 1))[-1]
        tensor([3., 3.])
    """

    A: np.ndarray
    B: np.ndarray
    c: np.ndarray
    noise: np.ndarray
    history: int = 1
    rows: int = 0

    def __post_init__(self) -> None:
        dim, m = self.dim, self.B.shape[-1]
        shapes = {"A": (dim, self.history * dim), "B": (dim, m), "c": (dim,), "noise": (dim, dim)}
        for name, shape in shapes.items():
            value = getattr(self, name)
            if value.shape != shape or not np.isfinite(value).all():
                raise ValueError(f"{name} must be finite and of shape {shape}, got shape {value.shape}")

    @property
    def dim(self) -> int:
        """Dimensions of one embedding."""
        return len(self.c)

    @property
    def context(self) -> int:
        """Latents that a prediction starts from."""
        return self.history

    def encode(self, observations: Any) -> Tensor:
        """Observations are embeddings already."""
        return torch.as_tensor(observations)

    def rollout(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Embeddings (..., horizon, dim) after each of the actions (..., horizon, m).

        Args:
            latents: (..., history, dim) in the order of time.
            actions: (..., horizon, m).
        """
        A, B, c = (torch.from_numpy(matrix).to(latents) for matrix in (self.A, self.B, self.c))
        state, predictions = latents.flip(-2).flatten(-2), []
        for action in actions.unbind(-2):
            predictions.append(state @ A.T + action @ B.T + c)
            state = torch.cat((predictions[-1], state[..., : -self.dim]), -1)
        return torch.stack(predictions, -2)

    def stacked(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A, B and c of the stacked state, s' = A s + B a + c, as a linear regulator takes them."""
        a, b = companion(np.concatenate((self.A, self.B), axis=1), self.history)
        return a, b, np.concatenate((self.c, np.zeros(len(a) - self.dim)))


@dataclass(frozen=True)
class Unidentified:
    """A direction in which the transition cannot be identified: u^T s + v^T a is constant.

    Attributes:
        kind: "constant" or "collinear" actions, "feedback" from the state, or a collinear "state".
        action: v, (actions,), of length 1 unless it is 0.
        state: u, (history * dim,).
    """

    kind: str
    action: tuple[float, ...]
    state: tuple[float, ...]


@dataclass(frozen=True)
class Excitation:
    """Variance of the actions given the state.

    Attributes:
        eigenvalues: of S, the largest first, in the units of the actions.
        directions: (actions, actions), a row for each.
        share: smallest fraction of the variance of a direction of action that the state does not predict.
        unidentified: directions that nothing excites.
    """

    eigenvalues: tuple[Interval, ...]
    directions: tuple[tuple[float, ...], ...]
    share: float
    unidentified: tuple[Unidentified, ...]


@dataclass(frozen=True)
class Agreement:
    """The transition of the embedding beside that of the latents.

    Attributes:
        a, b: |D_A| / |A_z| and |D_B| / |B_z|, Frobenius.
        turn: angle, in radians, of the rotation that the transitions still ask for.
        recovery_error: E |h - Q z|^2, held out.
        rotation: (dim, dim) Q, with h ~ Q z.
    """

    a: Interval
    b: Interval
    turn: Interval
    recovery_error: Interval
    rotation: np.ndarray


class Reason(NamedTuple):
    """A reason for the verdict: a code for programs, a sentence for readers.

    Codes: "unexcited" directions, "weak" excitation; "nonlinear", "fast" or "memory" where a test fails,
    "bent" where one is significant but small or not together with the others; "unreached" directions, an A
    that may be "unstable"; a transition that "differs" from the true one or is "turned", intervals too "wide"
    to decide.
    """

    code: str
    sentence: str


_SENTENCES = {
    "unidentifiable": "The transition cannot be identified: some directions are never excited.",
    "nonlinear": "The transition is not linear in embedding and action alone.",
    "linear": "Actions excite the transition, and neither nonlinearity nor memory was detected: if it is "
    "linear and the embedding a rotation of the world, its invariants are the world's.",
    "true": "A and B are the true ones in one common rotation, to within {tolerance}.",
    "other": "A and B are not the true ones in one common rotation.",
    "unclear": "A and B may be the true ones: too few rows to decide to within {tolerance}.",
    "tested": "Tested: cosines of state and action of several bandwidths, residuals of near states, and the "
    "step before. Not tested: faster functions, and hidden variables that leave no such trace.",
    "untested": "Memory was not tested: too few rows are successive.",
}
_REASONS = {
    "constant": "{action} never varies: its column of B is not identifiable.",
    "collinear": "{action} never varies: actions determine each other, and B is not identifiable along it.",
    "feedback": "{action} is a linear function of the state: along it A and B are not separately "
    "identifiable, only A + BK is. Add noise to the actions.",
    "state": "{state} never varies: A is not identifiable along it.",
    "weak": "The state predicts all but {:.2g} % of a direction of action.",
    "unreached": "Actions reach {} of {} directions of the state beyond doubt.",
    "unstable": "A may be unstable: its spectral radius is {}.",
    "differs": "{} differs from the true one by {:.3g} % [{:.3g}, {:.3g}].",
    "wide": "{} may differ from the true one by up to {:.2g}.",
    "turned": "States and transitions ask for rotations that are {:.2g} degrees apart.",
}


@dataclass(frozen=True)
class DynamicsCertificate:
    """The certificate of a transition.

    Attributes:
        rows, episodes: their number.
        dim, actions, history: of an embedding, of an action, embeddings in a state.
        confidence: of each interval.
        groups: "episodes", or "pieces" where there are too few of them.
        tolerance: relative error up to which (A, B) count as the true ones.
        excitation: of the actions given the state.
        r2: held-out R^2 of the next embedding by A and B; None where directions cannot be identified, as are
            transition and invariants.
        checks: "nonlinear", "fast" and, where rows are successive, "memory".
        transition, invariants: of the fit.
        agreement: with the latents; None without them.
        perturbation: effect of a recovery error: bounds "a" and "b" of the error of A and B, infinite where
            there is none, and their constants; None without a recovery error.
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
    r2: Interval | None = None
    checks: tuple[CheckResult, ...] = ()
    transition: Transition | None = None
    invariants: Invariants | None = None
    agreement: Agreement | None = None
    perturbation: Mapping[str, float] | None = None

    @property
    def verdict(self) -> Verdict:
        """In a word.

        "unidentifiable" if nothing excites some direction; "nonlinear" if a check of the residuals fails;
        else, with latents, "true" if A and B are the true ones in one rotation up to the tolerance, "other"
        if they are not, "unclear" if the intervals are too wide; and without latents "linear".
        """
        if self.invariants is None:
            return "unidentifiable"
        if any(one.verdict == FAILS for one in self.checks):
            return "nonlinear"
        if self.agreement is None:
            return "linear"
        errors = (self.agreement.a, self.agreement.b)
        if all(one.high <= self.tolerance for one in errors):
            return "true"
        return "other" if any(one.low > self.tolerance for one in errors) else "unclear"

    @property
    def sentence(self) -> str:
        """The verdict in a sentence, and what was tested."""
        parts = [_SENTENCES[self.verdict].format(tolerance=f"{100 * self.tolerance:g} %")]
        if self.verdict not in ("unidentifiable", "nonlinear"):
            parts += [_SENTENCES["tested"], *[_SENTENCES["untested"]] * (len(self.checks) < 3)]
        return " ".join(parts)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Reasons for the verdict."""
        reasons = [Reason("unexcited", _describe(one)) for one in self.excitation.unidentified]

        def add(code: str, *values: Any) -> None:
            reasons.append(Reason(code, _REASONS[code].format(*values)))

        if not reasons and self.excitation.share < MIN_FREE_SHARE:
            add("weak", 100 * self.excitation.share)
        for one in self.checks:
            if one.verdict != HOLDS and one.p is not None and one.p <= 1 - self.confidence:
                text = f"{one.sentence} {one.advice}".strip()
                reasons.append(Reason(one.name if one.verdict == FAILS else "bent", text))
        if self.invariants is not None and self.invariants.unreached:
            add("unreached", self.invariants.rank, len(self.invariants.reach))
        if self.invariants is not None and self.invariants.radius.high >= 1:
            add("unstable", self.invariants.radius)
        if self.agreement is not None:
            for name, error in (("A", self.agreement.a), ("B", self.agreement.b)):
                if error.low > self.tolerance:
                    add("differs", name, *(100 * end for end in (error.estimate, error.low, error.high)))
                elif error.high > self.tolerance:
                    add("wide", name, error.high)
            if self.agreement.turn.low > 0 and self.agreement.turn.estimate > MIN_TURN:
                add("turned", math.degrees(self.agreement.turn.estimate))
        return tuple(reasons)

    def lines(self) -> list[Line]:
        """Every number with a sentence."""
        least = self.excitation.eigenvalues[-1]
        rows: list[tuple[str, Interval | float, str]] = [
            ("min Cov(a | s)", least, "Variance of the actions given the state, in the weakest direction."),
            ("share left", self.excitation.share, "The same as a fraction of that direction's variance."),
        ]
        if self.r2 is not None:
            rows.append(("R2 of one step", self.r2, "Of the next embedding, by A and B, held out."))
        rows += [(one.measure, one.interval or one.value, one.sentence) for one in self.checks]
        if self.invariants is not None:
            rows += _invariant_lines(self.invariants)
        if self.agreement is not None:
            rows += [
                ("error of A", self.agreement.a, "Relative to the true one, in one common rotation."),
                ("error of B", self.agreement.b, "Likewise."),
                ("further turn", self.agreement.turn, "Radians that transitions ask for beyond it."),
                ("recovery error", self.agreement.recovery_error, "E |h - Q z|^2, held out."),
            ]
        if self.perturbation is not None:
            constants = ", ".join(f"{name} {value:.3g}" for name, value in self.perturbation.items())
            rows.append(("bound of A", self.perturbation["a"], f"By the recovery error: {constants}."))
            rows.append(("bound of B", self.perturbation["b"], "Likewise, with the same constants."))
        return [number_line(*row, "transition") for row in rows]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        values = asdict(self, dict_factory=_plain_dict)
        checks, r2 = {one["name"]: one for one in values.pop("checks")}, values.pop("r2")
        linearity: dict[str, Any] | None = None
        if checks:
            memory = checks.get("memory", {"value": None, "p": None})
            linearity = {"r2": r2, "gain": checks["nonlinear"]["interval"]}
            linearity |= {"p": checks["nonlinear"]["p"], "features": int(checks["nonlinear"]["detail"][0][1])}
            linearity |= {"fast": checks["fast"]["value"], "fast_p": checks["fast"]["p"]}
            linearity |= {"memory": memory["value"], "memory_p": memory["p"]}
        return {
            **values,
            "linearity": linearity,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "reasons": [reason._asdict() for reason in self.reasons],
            "rank": None if self.invariants is None else self.invariants.rank,
        }

    def __str__(self) -> str:
        title = f"Transition of {self.rows} steps in {self.episodes} episodes, {self.dim} dimensions, "
        rows = [f"{title}{self.actions} actions", f"  {self.sentence}"]
        rows += [f"  - {reason.sentence}" for reason in self.reasons]
        return "\n".join([*rows, "", *map(row_of, self.lines())])


@validate_types
def fit_transition(
    h: Any,
    a: Any,
    h_next: Any = None,
    *,
    episodes: Any = None,
    history: int = 1,
    ridge: float = 0.0,
) -> Transition:
    """Fit a transition to recorded embeddings and actions.

    Args:
        h: paths (steps, dim), (steps, paths, dim) or a list of (steps_i, dim); or rows (n, dim), with h_next.
        a: actions in the same form; action t leaves step t, so the last of a path may be missing or NaN.
        h_next: (n, dim), for rows.
        episodes: (n,) episode of each row, for rows.
        history: embeddings in a state.
        ridge: penalty per row on standardized inputs; 0 is least squares.

    Raises:
        ValueError: there are no actions, too few rows, or directions that nothing excites; the message names
            the columns.

    Example:
        >>> from isojepa.seeds import generator
        >>> source = generator(0, "example")
        >>> h, a = torch.randn(50, 2, generator=source), torch.randn(50, 1, generator=source)
        >>> np.allclose(fit_transition(h, a, 0.5 * h + a).A, [[0.5, 0.0], [0.0, 0.5]])
        True
    """
    check_number("ridge", ridge, "be finite and not negative", lambda value: value >= 0)
    return _fit(_read(h, a, h_next, episodes=episodes, history=history), ridge)


@validate_types
def certify_dynamics(
    h: Any,
    a: Any,
    h_next: Any = None,
    z: Any = None,
    z_next: Any = None,
    episodes: Any = None,
    *,
    history: int = 1,
    recovery_error: float | None = None,
    horizon: int | None = None,
    tolerance: float = 0.1,
    confidence: float = 0.95,
    seed: int = 0,
) -> DynamicsCertificate:
    """Certify the transition of an embedding under actions.

    Args:
        h: paths (steps, dim), (steps, paths, dim) or a list of (steps_i, dim); or rows (n, dim), with h_next.
        a: actions in the same form; action t leaves step t, so the last of a path may be missing or NaN.
        h_next: (n, dim), for rows.
        z, z_next: latents, in the form of h and h_next, of as many dimensions as h.
        episodes: (n,) episode of each row, for rows; without it rows are one episode.
        history: embeddings in a state, for paths; one embedding has no velocity.
        recovery_error: bound of E |h - Q z|^2 without latents, such as Theorem 3's.
        horizon: steps of the Gramian; None for all where A is stable.
        tolerance: relative error up to which A and B count as the true ones.
        confidence: of each interval.
        seed: of everything drawn.

    Returns:
        A certificate; without A and B where nothing excites some direction, which it names.

    Raises:
        ValueError: lengths differ, values are not finite, a column of h is constant, or there are fewer than
            four rows for each unknown.

    Example:
        >>> from isojepa.seeds import generator
        >>> source = generator(0, "example")
        >>> h, a, noise = (torch.randn(400, k, generator=source, dtype=torch.float64) for k in (2, 1, 2))
        >>> certificate = certify_dynamics(h, a, 0.5 * h + a + 0.1 * noise)
        >>> certificate.verdict, certificate.invariants.rank
        ('linear', 1)
    """
    check_number("confidence", confidence, "lie in (0, 1)", lambda value: 0 < value < 1)
    check_number("tolerance", tolerance, "be positive", lambda value: value > 0)
    if horizon is not None:
        horizon = check_count("horizon", horizon)
    if recovery_error is not None:
        check_number("recovery_error", recovery_error, "not be negative", lambda value: value >= 0)
    steps = _read(h, a, h_next, z, z_next, episodes, history)
    _check_rows(steps, MIN_ROWS_PER_UNKNOWN)
    edges = group_edges(steps.episode)
    inside = edges[1:-1]
    whole = len(inside) > 0 and bool((steps.episode[inside] != steps.episode[inside - 1]).all())
    draws = _Draws(steps.state.shape[1], confidence, seed)
    certificate = DynamicsCertificate(
        rows=len(steps.state),
        episodes=len(np.unique(steps.episode)),
        dim=steps.dim,
        actions=steps.action.shape[1],
        history=steps.history,
        confidence=confidence,
        groups="episodes" if whole else "pieces",
        tolerance=tolerance,
        excitation=_excitation(steps, edges, draws),
    )
    if certificate.excitation.unidentified:
        return certificate
    fit = _regress(steps.inputs, steps.next, edges)
    agreement = None
    if steps.z_next is not None:
        agreement = _agreement(steps, edges, draws)
        recovery_error = agreement.recovery_error.high
    errors = draws("transition", fit.changes)
    r2, checks = _linearity(steps, fit.held_out, edges, confidence, seed)
    return replace(
        certificate,
        r2=r2,
        checks=checks,
        transition=_fit(steps),
        invariants=measure_invariants(fit.matrix, errors, steps.history, confidence, horizon),
        agreement=agreement,
        perturbation=None if recovery_error is None else _perturbation(steps, fit.matrix, recovery_error),
    )


# ---- sentences and plain values --------------------------------------------------------------------------


def _describe(one: Unidentified) -> str:
    """The direction in words, with its largest weights."""
    names = {}
    for letter, weights in (("a", one.action), ("s", one.state)):
        order = [i for i in np.argsort(-np.abs(weights)) if abs(weights[i]) > 1e-3][:4]
        terms = " ".join(f"{weights[i]:+.3g} {letter}[{i}]" for i in order).lstrip("+")
        names[letter] = f"{letter}[{order[0]}]" if len(order) == 1 else terms
    return _REASONS[one.kind].format(action=names["a"], state=names["s"])


def number_line(name: str, value: Interval | float, sentence: str, section: str) -> Line:
    """The line of a number or of an estimate with its interval."""
    if isinstance(value, Interval):
        return Line(name, value.estimate, value, sentence, section)
    return Line(name, value, None, sentence, section)


def _invariant_lines(values: Invariants) -> Iterable[tuple[str, Interval | float, str]]:
    for i, one in enumerate(values.eigenvalues):
        if one.imag == Interval(0.0, 0.0, 0.0):
            yield f"A eigenvalue {i}", one.real, "Real."
        else:
            yield f"A |eigenvalue {i}|", one.modulus, f"The modulus of {one.estimate:.3g}."
    for i, value in enumerate(values.singular_values):
        yield f"B singular {i}", value, "A singular value of B."
    ahead = f"over {values.horizon} steps" if values.horizon else "over all steps"
    for i, value in enumerate(values.gramian):
        yield f"Gramian {i}", value, f"An eigenvalue of the controllability Gramian {ahead}."
    yield "rank [B, AB, ...]", values.rank, f"Of {len(values.reach)} directions, reached by actions."


def _plain_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in pairs}


# ---- rows ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Steps:
    """Transitions by episode: state (n, history * dim), action (n, m), next (n, dim), episode (n,)."""

    state: np.ndarray
    action: np.ndarray
    next: np.ndarray
    episode: np.ndarray
    z_state: np.ndarray | None
    z_next: np.ndarray | None
    history: int

    @property
    def dim(self) -> int:
        return int(self.next.shape[1])

    @property
    def inputs(self) -> np.ndarray:
        return np.concatenate((self.state, self.action), axis=1)


def _read(
    h: Any,
    a: Any,
    h_next: Any = None,
    z: Any = None,
    z_next: Any = None,
    episodes: Any = None,
    history: int = 1,
) -> _Steps:
    """Transitions of rows or paths, checked."""
    history = check_count("history", history)
    if a is None:
        raise ValueError("actions must be recorded, got None: pairs that no action made do not identify B")
    if h_next is None:
        if z_next is not None or episodes is not None:
            raise ValueError("z_next and episodes go with rows and h_next; paths bring both themselves")
        arrays = _along_paths({"h": h, "a": a, "z": z}, history)
    else:
        if history > 1:
            raise ValueError(f"history must be 1 for rows, got {history}: pass paths")
        if (z is None) != (z_next is None):
            raise ValueError("z and z_next must be given together, got one of them")
        arrays = {"h": h, "a": a, "h_next": h_next, "z": z, "z_next": z_next, "episodes": episodes}
    named = {name: real_array(name, _columns(x), "rows, dim") for name, x in arrays.items() if x is not None}
    n, dim = len(named["h"]), named["h"].shape[1] // history
    named.setdefault("episodes", np.zeros((n, 1)))
    for name, array in named.items():
        if len(array) != n:
            raise ValueError(f"{name} must have as many rows as h, {n}, got {len(array)}")
        if name in ("h_next", "z_next") and array.shape[1] != dim:
            raise ValueError(
                f"{name} must have as many dimensions as h, {dim}, got {array.shape[1]}: leave z out, or "
                "certify a linear map of h onto the latents"
            )
        if name in ("h", "z") and (constant := _constant_columns(array[:, :dim])):
            columns = list_columns(constant)
            raise ValueError(f"{name} must vary in every column, got a constant in {columns}: leave it out")
    episode = np.unique(named["episodes"][:, 0], return_inverse=True)[1]
    order = np.argsort(episode, kind="stable")
    latents = [named[name][order] if name in named else None for name in ("z", "z_next")]
    state, action, after = (named[name][order] for name in ("h", "a", "h_next"))
    return _Steps(state, action, after, episode[order], latents[0], latents[1], history)


def _along_paths(values: Mapping[str, Any], history: int) -> dict[str, np.ndarray]:
    """Rows of paths of h, a and z: every state that has a next step."""
    paths = {name: Trajectories(name, _columns(x)) for name, x in values.items() if x is not None}
    lengths = paths["h"].lengths
    for name, one in paths.items():
        if len(one.lengths) != len(lengths):
            raise ValueError(f"{name} must have as many paths as h, {len(lengths)}, got {len(one.lengths)}")
        missing = lengths - one.lengths
        for i in np.flatnonzero(missing if name != "a" else (missing < 0) | (missing > 1))[:1]:
            requirement = f"as many steps as h{' or one fewer' * (name == 'a')}, {lengths[i]} in path {i}"
            raise ValueError(f"{name} must have {requirement}, got {one.lengths[i]}")
    counts = np.maximum(lengths - history, 0)
    if not counts.any():
        raise ValueError(f"h must have a path of more than {history} steps, got {lengths.max()}")
    path = np.repeat(np.arange(len(counts)), counts)
    step = np.arange(len(path)) - np.repeat(np.cumsum(counts) - counts, counts) + history - 1
    rows = {"a": paths["a"].gather(path, step), "episodes": path}
    for name in paths.keys() - {"a"}:
        states = [paths[name].gather(path, step - k) for k in range(history)]
        rows |= {name: np.concatenate(states, axis=1), f"{name}_next": paths[name].gather(path, step + 1)}
    return rows


def _columns(values: Any) -> Any:
    """One column with its axis."""
    if isinstance(values, list | tuple):
        return [_columns(path) for path in values]
    return values[:, None] if getattr(values, "ndim", 0) == 1 else values


def list_columns(columns: Sequence[int]) -> str:
    """Columns in words.

    Example:
        >>> list_columns([0, 2])
        'columns 0, 2'
    """
    return f"column{'s' * (len(columns) != 1)} {', '.join(map(str, columns))}"


def _constant_columns(values: np.ndarray) -> list[int]:
    spread = np.ptp(values, axis=0)
    return np.flatnonzero(spread <= ROUNDING * np.abs(values).max(0, initial=0.0)).tolist()


def _check_rows(steps: _Steps, factor: int = 1) -> None:
    rows, unknowns = len(steps.state), factor * (steps.inputs.shape[1] + 1)
    if rows <= unknowns:
        times = f"{factor} times " * (factor > 1)
        raise ValueError(
            f"there must be more rows than {times}state dimensions, actions and one, {unknowns}, got {rows}"
        )


# ---- fits ------------------------------------------------------------------------------------------------


def _fit(steps: _Steps, ridge: float = 0.0) -> Transition:
    _check_rows(steps)
    if unidentified := _unidentified(steps):
        reasons = " ".join(map(_describe, unidentified))
        raise ValueError(f"actions and states must vary freely for A and B to follow from them: {reasons}")
    fit = least_squares(steps.inputs, steps.next, ridge=ridge)
    residual = steps.next - fit(steps.inputs)
    noise = residual.T @ residual / (len(residual) - len(fit.matrix) - 1)
    offset, size = fit.offset - fit.center @ fit.matrix, steps.state.shape[1]
    return Transition(
        fit.matrix.T[:, :size], fit.matrix.T[:, size:], offset, noise, steps.history, len(residual)
    )


class _Regression(NamedTuple):
    """Least squares of y on (1, x) with its groups.

    matrix (out, in); residual and held_out (n, out), the second of the fit without the row's group; changes
    (groups, out, in) that leaving out each group makes to the matrix.
    """

    matrix: np.ndarray
    residual: np.ndarray
    held_out: np.ndarray
    changes: np.ndarray


def _regress(x: np.ndarray, y: np.ndarray, edges: np.ndarray) -> _Regression:
    """Fit y (n, out) on (1, x (n, in)); groups begin and end at the edges (groups + 1,)."""
    scale = np.where(x.std(0) > 0, x.std(0), 1.0)
    design = np.concatenate((np.ones((len(x), 1)), (x - x.mean(0)) / scale), axis=1)
    spans = [slice(*pair) for pair in itertools.pairwise(edges)]
    inner = np.stack([design[span].T @ design[span] for span in spans])
    try:
        theta = np.linalg.solve(inner.sum(0), design.T @ (y - y.mean(0)))
        residual = y - y.mean(0) - design @ theta
        moves = np.stack([design[span].T @ residual[span] for span in spans])
        changes = np.linalg.solve(inner.sum(0) - inner, moves)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"the inputs must span all of their {x.shape[1]} dimensions without any one of {len(spans)} "
            "groups of rows, got collinear ones: more rows are needed"
        ) from None
    held_out = np.concatenate(
        [residual[span] + design[span] @ change for span, change in zip(spans, changes, strict=True)]
    )
    in_units = (changes[:, 1:] / scale[:, None]).transpose(0, 2, 1)
    return _Regression((theta[1:] / scale[:, None]).T, residual, held_out, in_units)


@dataclass(frozen=True)
class _Draws:
    """Draws of the error of a statistic from the changes that leaving out each group makes."""

    size: int
    confidence: float
    seed: int

    def __call__(self, name: str, changes: np.ndarray) -> np.ndarray:
        """(draws, ...) from changes (groups, ...)."""
        source = generator(self.seed, "certify dynamics", name)
        count, groups = MAX_DRAWS * min(1.0, MAX_DRAWN_DIM / self.size), len(changes)
        shape = (max(MIN_DRAWS, int(count)), groups)
        normal = torch.randn(shape, generator=source, dtype=torch.float64).numpy()
        chi = torch.randn(shape[0], groups - 1, generator=source, dtype=torch.float64).numpy()
        weights = (groups - 1) / math.sqrt(groups) * normal / np.linalg.norm(chi, axis=1, keepdims=True)
        return np.asarray(np.tensordot(weights, changes, 1))

    def norm(self, value: np.ndarray, errors: np.ndarray, unit: float = 1.0) -> Interval:
        """|value| / unit -+ the quantile of the norm of its error, not below 0."""
        size = float(np.linalg.norm(value))
        radius = float(np.quantile(np.linalg.norm(errors.reshape(len(errors), -1), axis=1), self.confidence))
        return Interval(size / unit, max(0.0, size - radius) / unit, (size + radius) / unit)


def _explain(values: np.ndarray, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (k, m) of values (n, m) on inputs (n, k), and the residual (n, m)."""
    fit = least_squares(inputs - inputs.mean(0), values, rounding=math.sqrt(EXACT))
    return fit.matrix, values - fit(inputs - inputs.mean(0))


# ---- excitation ------------------------------------------------------------------------------------------


def _unidentified(steps: _Steps) -> tuple[Unidentified, ...]:
    """Every direction that nothing excites, with its kind."""
    m, size = steps.action.shape[1], steps.state.shape[1]
    directions: list[Unidentified] = []

    def add(kind: str, action: np.ndarray, state: np.ndarray) -> None:
        length = float(np.linalg.norm(state if kind == "state" else action))
        parts = (np.where(np.abs(part) > 1e-9 * length, part, 0.0) / length for part in (action, state))
        directions.append(Unidentified(kind, *(tuple(part.tolist()) for part in parts)))

    constant = _constant_columns(steps.action)
    for i in constant:
        add("constant", np.eye(m)[i], np.zeros(size))
    varying = np.delete(np.arange(m), constant)
    state, _, null_states = whiten(steps.state)
    if len(varying):
        action, lift = steps.action[:, varying], np.eye(m)[varying]
        white, _, null_actions = whiten(action)
        for v in null_actions:
            add("collinear", v @ lift, np.zeros(size))
        residual = _explain(white, state)[1]
        values, vectors = np.linalg.eigh(residual.T @ residual / len(residual))
        for vector in vectors[:, values <= MIN_EXCITATION].T:
            along = (white @ vector)[:, None]
            add("feedback", _explain(along, action)[0][:, 0] @ lift, -_explain(along, steps.state)[0][:, 0])
    for u in null_states:
        add("state", np.zeros(m), u)
    return tuple(directions)


def _excitation(steps: _Steps, edges: np.ndarray, draws: _Draws) -> Excitation:
    n, size = steps.state.shape
    residual = _explain(steps.action, steps.state)[1] * math.sqrt(n / (n - size - 1))
    covariance = residual.T @ residual / n
    pairs = list(itertools.pairwise(edges))
    changes = np.stack([residual[i:j].T @ residual[i:j] - (j - i) * covariance for i, j in pairs]) / n
    errors = draws("actions", changes)
    vectors = np.linalg.eigh(covariance)[1]
    unidentified = _unidentified(steps)
    share = 0.0
    if not unidentified:
        residual = _explain(whiten(steps.action)[0], steps.state)[1]
        share = float(np.linalg.eigvalsh(residual.T @ residual / (n - size - 1))[0])
    intervals = singular_intervals(covariance, covariance + errors, draws.confidence)
    return Excitation(intervals, tuple(map(tuple, vectors.T[::-1].tolist())), share, unidentified)


# ---- tests of the residuals ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Residuals(CheckSample):
    """Whitened residuals (n, k) of the linear fit to inputs (n, p), with groups (n,) of the rows.

    Rows far out are weighted down, in inputs and residuals alike, so that none decides. The weights (k,) turn
    sums over the columns of the residual into fractions of the variance.
    """

    state: np.ndarray
    inputs: np.ndarray
    residual: np.ndarray
    group: np.ndarray
    weights: np.ndarray
    successive: np.ndarray


def _linearity(
    steps: _Steps, held_out: np.ndarray, edges: np.ndarray, confidence: float, seed: int
) -> tuple[Interval, tuple[CheckResult, ...]]:
    """Held-out R^2 of the linear fit, and the checks of the residuals."""
    group = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    y = steps.next - steps.next.mean(0)
    r2, _ = r2_interval((held_out**2).sum(1), (y**2).sum(1), group, confidence)
    x = steps.inputs - np.median(steps.inputs, axis=0)
    lengths = np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.finfo(float).tiny)
    near = np.linalg.norm(shrink_far(steps.inputs), axis=1, keepdims=True) / lengths
    design = np.column_stack((np.ones(len(x)), x / (near * x).std(0)))
    for _ in range(2):
        basis = np.linalg.qr(near * design)[0]
        errors = near * y - basis @ (basis.T @ (near * y))
        sizes = np.linalg.norm(errors / steps.next.std(0), axis=1, keepdims=True)
        near = near * (sizes <= MAX_RESIDUAL * np.median(sizes) + math.sqrt(EXACT))
    inputs = near * design
    residual, variances, _ = whiten(errors, EXACT, steps.next.std(0))
    joined = steps.episode[1:] == steps.episode[:-1]
    joined &= (steps.state[1:, : steps.dim] == steps.next[:-1]).all(1)
    sample = _Residuals(
        of="transition",
        total=len(group),
        seed=seed,
        level=1 - confidence,
        state=steps.state / steps.state.std(0),
        inputs=inputs,
        residual=residual,
        group=group,
        weights=variances / steps.dim,
        successive=1 + np.flatnonzero(joined),
    )
    checks = [_nonlinear(sample), _fast(sample)]
    if joined.sum() > MIN_ROWS_PER_UNKNOWN * inputs.shape[1]:
        checks.append(_memory(sample))
    return r2, together(checks, sample.level)


_ADVICE = "Use a nonlinear predictor, or an embedding in which the world is linear."


@check("nonlinear", measure="nonlinear gain", threshold=MIN_NONLINEAR, advice=_ADVICE, order=1.0)
def _nonlinear(sample: _Residuals) -> Effect:
    """Random cosines of state and action, of several bandwidths."""
    stride = -(-sample.total // MAX_TEST_ROWS)
    x, e, group = (part[::stride] for part in (sample.inputs, sample.residual, sample.group))
    rng = numpy_generator(sample.seed, "certify dynamics", "features")
    count = min(MAX_COSINES, max(4, len(x) // ROWS_PER_COSINE))
    white, kernels = whiten(x[:, 1:])[0], []
    for width in BANDWIDTHS:
        directions = rng.normal(size=(white.shape[1], count)) / (width * math.sqrt(white.shape[1]))
        angles = white @ directions + rng.uniform(0, 2 * np.pi, count)
        torch.from_numpy(angles).cos_()  # NumPy's is 4 times as slow without AVX-512
        kernels.append(_products(e, x, angles, group))
    text = (
        f"{count} cosines of each of {len(BANDWIDTHS)} bandwidths explain {{}} of the variance beyond A and B"
    )
    return _effect(sample, kernels, group_pairs(group), text, count * len(BANDWIDTHS))


@check("fast", measure="fast gain", threshold=MIN_NONLINEAR, advice=_ADVICE)
def _fast(sample: _Residuals) -> Effect:
    """Products of the residuals of rows with near states in other groups."""
    states, groups = sample.state, int(sample.group[-1]) + 1
    limit = MAX_TEST_ROWS if states.shape[1] <= MAX_NEIGHBOR_DIM else MAX_NEIGHBOR_ROWS
    nearest = np.empty(len(states), int)
    for half in (0, 1):
        others = np.flatnonzero(sample.group % 2 != half)
        others = others[:: max(1, len(others) // limit)]
        queries = sample.group % 2 == half
        nearest[queries] = others[scipy.spatial.cKDTree(states[others]).query(states[queries])[1]]
    cells = sample.group * groups + sample.group[nearest]
    products = (sample.residual * sample.residual[nearest]).T
    sums = [np.bincount(cells, row, groups**2).reshape(groups, groups) for row in products]
    pairs = np.bincount(cells, minlength=groups**2).reshape(groups, groups)
    text = "Residuals of rows with near states have {} of the variance in common"
    return _effect(sample, [np.array(sums).reshape(-1, groups, groups)], pairs, text)


@check("memory", measure="memory", threshold=MIN_MEMORY, advice="Raise history.", order=1.0)
def _memory(sample: _Residuals) -> Effect:
    """State and action of the step before."""
    after, k = sample.successive, sample.residual.shape[1]
    x, e, group = (part[after] for part in (sample.inputs, sample.residual, sample.group))
    kernel = _products(e, x, sample.inputs[after - 1], group)
    text = "State and action of the step before explain {} of the residual variance"
    return _effect(replace(sample, weights=np.full(k, 1 / max(1, k))), [kernel], group_pairs(group), text)


def _products(
    residual: np.ndarray, inputs: np.ndarray, features: np.ndarray, group: np.ndarray
) -> np.ndarray:
    """Products of features without their linear part in the inputs (n, p) of the fit."""
    basis = np.linalg.qr(inputs)[0]
    features = features - basis @ (basis.T @ features)
    return group_products(residual, features, group, (basis**2).sum(1))


def _effect(
    sample: _Residuals, kernels: Sequence[np.ndarray], pairs: np.ndarray, text: str, features: int = 0
) -> Effect:
    weights = sample.weights
    fraction, interval, p, by_chance, _ = explained_fraction(
        kernels, pairs, weights, sample.confidence, sample.seed
    )
    text, detail = text.format(f"{100 * fraction:.2g} %"), [("features", features)] * bool(features)
    return Effect(text, fraction, interval, p, by_chance, detail, f"{sample.total} rows")


# ---- latents ---------------------------------------------------------------------------------------------


def _agreement(steps: _Steps, edges: np.ndarray, draws: _Draws) -> Agreement:
    """Compare the transitions of embeddings and latents in one common rotation."""
    half = np.repeat(np.arange(len(edges) - 1), np.diff(edges)) % 2
    ends = [np.append(0, np.cumsum(np.diff(edges)[k::2])) for k in (0, 1)]
    h, z = (
        [x[half == k] - x[half == k].mean(0) for k in (0, 1)] for x in (steps.next, np.asarray(steps.z_next))
    )
    products = np.stack([h[0][i:j].T @ z[0][i:j] for i, j in itertools.pairwise(ends[0])])
    q = nearest_rotation(products.sum(0))
    fit, fit_z = (
        _regress(np.concatenate((state, steps.action), axis=1)[half == 1], after[1], ends[1])
        for state, after in ((steps.state, h), (np.asarray(steps.z_state), z))
    )
    truth = _rotated(fit_z.matrix, q, steps.history)
    rotations = [nearest_rotation(products.sum(0) - product) for product in products]
    by_rotation = np.stack([_rotated(fit_z.matrix, one, steps.history) for one in rotations]) - truth
    changes = np.concatenate((fit.changes - _rotated(fit_z.changes, q, steps.history), by_rotation))
    difference, errors = fit.matrix - truth, draws("latents", changes)
    size = steps.state.shape[1]
    to_skew = _skew_part(truth, steps.dim, steps.history)
    turn, turn_errors = (np.tensordot(one, to_skew, ((-2, -1), (-2, -1))) for one in (difference, errors))
    sums = np.add.reduceat(((h[1] - z[1] @ q.T) ** 2).sum(1), ends[1][:-1])
    rows = np.diff(ends[1])
    recovery_error = from_blocks(
        sums.sum() / rows.sum(), (sums.sum() - sums) / (rows.sum() - rows), draws.confidence
    )
    parts = (np.s_[..., :size], np.s_[..., size:])
    a, b = (draws.norm(difference[one], errors[one], float(np.linalg.norm(truth[one]))) for one in parts)
    return Agreement(a, b, draws.norm(turn, turn_errors), recovery_error, q)


def _rotated(matrix: np.ndarray, q: np.ndarray, history: int) -> np.ndarray:
    """(Q A Q^T, Q B) of (A, B) beside each other, (..., dim, history * dim + actions)."""
    size = history * len(q)
    parts = ((q @ matrix)[..., :size] @ np.kron(np.eye(history), q.T), (q @ matrix)[..., size:])
    return np.concatenate(parts, axis=-1)


def _skew_part(matrix: np.ndarray, dim: int, history: int) -> np.ndarray:
    """(planes, dim, inputs): map from differences to the skew K whose K A - A K and K B explain them best.

    Its coordinates are those of K in the planes of the axes, with root sum of squares |K|_F / sqrt(2).
    """
    size, moves = history * dim, [np.zeros(matrix.size)]  # one dimension has no rotations
    for i, j in itertools.combinations(range(dim), 2):
        k = np.zeros((dim, dim))
        k[i, j], k[j, i] = 1.0, -1.0
        moved = k @ matrix
        moved[:, :size] -= matrix[:, :size] @ np.kron(np.eye(history), k)
        moves.append(moved.ravel())
    rows = np.stack(moves)
    solution = np.linalg.pinv(rows @ rows.T, rcond=1e-10, hermitian=True) @ rows
    return np.asarray(solution.reshape(-1, *matrix.shape))


def _perturbation(steps: _Steps, matrix: np.ndarray, error: float) -> dict[str, float]:
    """The bounds of the module's docstring with their constants, for E |h - Q z|^2 <= error."""
    eta, eta_next = math.sqrt(steps.history * error), math.sqrt(error)
    norm = float(np.linalg.norm(matrix[:, : steps.state.shape[1]], 2))
    pairs = ((steps.state, steps.action), (steps.action, steps.state))
    residuals = [_explain(*pair)[1] for pair in pairs]
    state_left, action_left = (float(np.linalg.eigvalsh(x.T @ x / len(x))[0]) for x in residuals)
    root = math.sqrt(state_left)
    norm_true = (norm + eta_next / root) / (1 - eta / root) if eta < root else math.inf
    wrong = eta_next + (norm_true * eta if eta else 0.0)
    return {
        "a": wrong / root,
        "b": wrong / math.sqrt(action_left),
        "eta": eta,
        "eta_next": eta_next,
        "norm": norm,
        "norm_true": norm_true,
        "state_left": state_left,
        "action_left": action_left,
        "epsilon": float(np.linalg.norm(np.cov(steps.next, rowvar=False) - np.eye(steps.dim))),
    }
