r"""Excitation: whether the actions move the state in ways that the state does not foretell.

    S_{a|s} = Cov(a) - Cov(a, s) Cov(s)^-1 Cov(s, a)

is what is left of the actions given the state s, linearly. Where u^T s + v^T a is constant for some (u, v) !=
0, every (A + delta u^T, B + delta v^T), delta any vector, predicts the same: those directions cannot be
identified from any number of rows. There are four kinds:

    constant   an action that never varies                     u = 0, v one column
    collinear  actions that determine each other               u = 0
    feedback   actions that the state determines, a = K s      v and u = -K^T v
    state      states that determine each other                v = 0

Shares are of the variance of standardised columns, so that units do not matter; a share of at most 1e-8
counts as none.
"""

import itertools
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from isojepa.certificates.dynamics.regression import foretold, multiplied
from isojepa.certificates.dynamics.singular import singular_intervals
from isojepa.certificates.dynamics.steps import Steps, constant_columns
from isojepa.statistics.intervals import Interval

Kind = Literal["constant", "collinear", "feedback", "state"]
NONE = 1e-8  # share of a standardised variance that is rounding


@dataclass(frozen=True)
class Unidentified:
    """A direction in which the transition cannot be identified: u^T s + v^T a never varies.

    Attributes:
        kind: why.
        action: v, (actions,), of length 1 unless it is 0.
        state: u, (history * dim,).
    """

    kind: Kind
    action: tuple[float, ...]
    state: tuple[float, ...]

    @property
    def sentence(self) -> str:
        """What it means, in words."""
        return _SENTENCES[self.kind].format(
            action=_combination("a", self.action), state=_combination("s", self.state)
        )


_SENTENCES = {
    "constant": "{action} never varies: its column of B is not identifiable.",
    "collinear": "{action} never varies: actions determine each other, and B is not identifiable along it.",
    "feedback": "{action} is a linear function of the state: along it A and B are not separately "
    "identifiable, only A + BK is. Add noise to the actions.",
    "state": "{state} never varies: A is not identifiable along it.",
}


@dataclass(frozen=True)
class Excitation:
    """What is left of the actions given the state.

    Attributes:
        eigenvalues: of S_{a|s}, largest first, in the units of the actions.
        directions: (actions, actions) of each, a row each.
        share: the smallest share of the variance of any direction of action that the state does not foretell.
        unidentified: directions that nothing excites.
    """

    eigenvalues: tuple[Interval, ...]
    directions: tuple[tuple[float, ...], ...]
    share: float
    unidentified: tuple[Unidentified, ...]

    @property
    def smallest(self) -> Interval:
        """The smallest eigenvalue of the covariance of the actions given the state."""
        return self.eigenvalues[-1]


def find_unidentified(steps: Steps) -> tuple[Unidentified, ...]:
    """Every direction that nothing excites, with its kind."""
    still = constant_columns(steps.action)
    moving = [i for i in range(steps.actions) if i not in still]
    zero_state = np.zeros(steps.state.shape[1])
    found = [_direction("constant", np.eye(steps.actions)[i], zero_state) for i in still]
    state, weak_states = _independent(steps.state)
    found_states = [_direction("state", np.zeros(steps.actions), u) for u in weak_states]
    if not moving:
        return (*found, *found_states)
    action = steps.action[:, moving]
    whole = np.eye(steps.actions)[moving]
    independent, weak_actions = _independent(action)
    found += [_direction("collinear", v @ whole, zero_state) for v in weak_actions]
    # what the state foretells of the directions of action that are left
    _, left = foretold(independent, state)
    values, vectors = np.linalg.eigh(left.T @ left / len(left))
    for vector in vectors[:, values <= NONE].T:
        along = (independent @ vector)[:, None]
        v = foretold(along, action)[0][:, 0] @ whole
        found.append(_direction("feedback", v, -foretold(along, steps.state)[0][:, 0]))
    return (*found, *found_states)


def measure_excitation(
    steps: Steps, edges: np.ndarray, confidence: float, draws: int, generator: torch.Generator
) -> Excitation:
    """Eigenvalues of S_{a|s} with intervals, and the directions that nothing excites.

    Args:
        steps: the transitions.
        edges: of the groups of rows.
        confidence: of the intervals.
        draws: around the estimate.
        generator: for the draws.
    """
    _, left = foretold(steps.action, steps.state)
    n, used = steps.state.shape
    left *= np.sqrt(n / max(1, n - used - 1))  # as many degrees of freedom are gone
    covariance = left.T @ left / n
    parts = np.stack([left[i:j].T @ left[i:j] - (j - i) * covariance for i, j in itertools.pairwise(edges)])
    deviations = multiplied(parts / n, draws, generator)
    values, vectors = np.linalg.eigh(covariance)
    unidentified = find_unidentified(steps)
    share = 0.0
    if not unidentified:  # actions of covariance I: what is left of them is a share
        _, rest = foretold(_independent(steps.action)[0], steps.state)
        share = float(np.linalg.eigvalsh(rest.T @ rest / max(1, n - used - 1))[0])
    return Excitation(
        singular_intervals(covariance, deviations, confidence),
        tuple(tuple(map(float, vector)) for vector in vectors.T[np.argsort(-values)]),
        share,
        unidentified,
    )


def _independent(values: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Uncorrelated coordinates of variance 1 of columns (n, k), and the directions that never vary."""
    scale = values.std(0)
    standard = (values - values.mean(0)) / scale
    found, vectors = np.linalg.eigh(standard.T @ standard / len(standard))
    weak = found <= NONE
    whitened = standard @ vectors[:, ~weak] / np.sqrt(found[~weak])
    return whitened, [vector / scale for vector in vectors[:, weak].T]


def _direction(kind: Kind, action: np.ndarray, state: np.ndarray) -> Unidentified:
    length = float(np.linalg.norm(state if kind == "state" else action))
    action, state = (np.where(np.abs(part) > 1e-9 * length, part, 0.0) / length for part in (action, state))
    return Unidentified(kind, tuple(map(float, action)), tuple(map(float, state)))


def _combination(letter: str, weights: tuple[float, ...]) -> str:
    """The combination of columns that a direction is, its largest weights first."""
    order = sorted((i for i, w in enumerate(weights) if abs(w) > 1e-3), key=lambda i: -abs(weights[i]))[:4]
    if len(order) == 1:
        return f"{letter}[{order[0]}]"
    return " ".join(f"{weights[i]:+.3g} {letter}[{i}]" for i in order).lstrip("+")
