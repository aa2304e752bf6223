r"""Whether (A, B) of the embedding are the true ones in one common rotation, and what a recovery error does.

Groups of rows are halved. Q is the Procrustes rotation of the latents onto the embedding on one half; the
transitions (A_h, B_h) of the embedding and (A_z, B_z) of the latents are fitted on the other. Compared are

    D_A = A_h - Q A_z Q^T,   D_B = B_h - Q B_z,

and the rotation that the transitions themselves would still ask for: the skew K that makes K A - A K and K B,
A and B turned by Q, closest to D_A and D_B. It is 0 if one rotation serves states and transitions alike.
Norms have intervals |D| -+ r, r the quantile of the norm of the error, which hold without any condition on D.

**The bound.** Let h = Q z + e with E |e|^2 = eta^2 before and eta'^2 after the step, e a function of the
state (and noise of its own). The residual h' - A_Q h - B_Q a of the true, turned transition is w + e' - A_Q
e, and only e' - A_Q e correlates with (h, a). A population least squares is off by the projection of that on
the inputs, whose length is at most that of the thing projected, so in the Frobenius norm

    |A_h - Q A Q^T| <= (eta' + |A| eta) / sqrt(lambda_min Cov(h | a))
    |B_h - Q B|     <= (eta' + |A| eta) / sqrt(lambda_min Cov(a | h)),

|A| the spectral norm. It is not known without the truth, but |A| <= (|A_h| + eta' / s) / (1 - eta / s), with
s the first root, if eta < s; else there is no bound. Theorem 3 bounds eta^2 by its epsilon and delta without
latents, and lambda_min Cov(h) >= 1 - epsilon.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from isojepa.certificates.dynamics.regression import foretold, multiplied, regress
from isojepa.certificates.dynamics.steps import Steps
from isojepa.linear import nearest_rotation
from isojepa.statistics.intervals import Interval, from_blocks


@dataclass(frozen=True)
class Perturbation:
    """What a recovery error can do to the transition, with every constant.

    Attributes:
        a, b: bounds of |A_h - Q A Q^T| and |B_h - Q B|, Frobenius; infinite where there is none.
        eta, eta_next: roots of the recovery errors E |s - Q z_s|^2 of the state and E |h' - Q z'|^2.
        norm: |A_h|, the spectral norm of the fitted A.
        norm_true: the bound of |A| that follows.
        state_left, action_left: lambda_min of Cov(s | a) and of Cov(a | s).
        epsilon: |Cov(h) - I|, Frobenius, of this sample.
    """

    a: float
    b: float
    eta: float
    eta_next: float
    norm: float
    norm_true: float
    state_left: float
    action_left: float
    epsilon: float


@dataclass(frozen=True)
class Agreement:
    """The transition of the embedding beside that of the latents.

    Attributes:
        a, b: |D_A| / |A_z| and |D_B| / |B_z|, Frobenius.
        turn: the angle, in radians, by which the transitions still ask to be turned.
        recovery_error: E |h - Q z|^2, held out.
        rotation: (dim, dim) Q, with h ~ Q z.
    """

    a: Interval
    b: Interval
    turn: Interval
    recovery_error: Interval
    rotation: np.ndarray


def measure_agreement(
    steps: Steps, edges: np.ndarray, confidence: float, draws: int, generator: torch.Generator
) -> Agreement:
    """Compare the transitions of embeddings and latents in one common rotation.

    Args:
        steps: transitions with latents.
        edges: of the groups of rows.
        confidence: of the intervals.
        draws: around the estimates.
        generator: for the draws.
    """
    if steps.z_state is None or steps.z_next is None:
        raise ValueError("an agreement needs latents")
    group = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    turning, other = steps.rows(group % 2 == 0), steps.rows(group % 2 == 1)
    q, without = _rotations(turning, group[group % 2 == 0])
    ends = np.concatenate(([0], np.flatnonzero(np.diff(group[group % 2 == 1])) + 1, [len(other)]))
    h = regress(other.inputs, other.next, ends)
    z = regress(np.concatenate((other.z_state, other.action), axis=1), other.z_next, ends)  # type: ignore[arg-type]
    truth = _turned(z.matrix, q, steps.history)
    difference = h.matrix - truth
    changes = np.concatenate(
        (
            h.changes[:, :, 1:] - _turned(z.changes[:, :, 1:], q, steps.history),
            np.stack([_turned(z.matrix, one, steps.history) for one in without]) - truth,
        )
    )
    errors = multiplied(changes, draws, generator)
    size = steps.history * steps.dim
    to_skew = _skew_part(truth, steps.dim, steps.history)
    turn, turn_errors = (np.tensordot(one, to_skew, ((-2, -1), (-2, -1))) for one in (difference, errors))
    return Agreement(
        _norm(difference[:, :size], errors[:, :, :size], truth[:, :size], confidence),
        _norm(difference[:, size:], errors[:, :, size:], truth[:, size:], confidence),
        # of a turn in one plane the norm is the angle; of several it is at least the largest
        _norm(turn[None], turn_errors[:, None], np.ones((1, 1)), confidence),
        _recovery_error(other, q, ends, confidence),
        q,
    )


def measure_perturbation(steps: Steps, matrix: np.ndarray, error: float) -> Perturbation:
    """The bounds of the module's docstring.

    Args:
        steps: the transitions.
        matrix: (dim, history * dim + actions), the fitted one.
        error: E |h - Q z|^2, or a bound of it, before and after the step.
    """
    size = steps.history * steps.dim
    eta, eta_next = math.sqrt(steps.history * error), math.sqrt(error)
    norm = float(np.linalg.norm(matrix[:, :size], 2))
    state_left, action_left = _left(steps.state, steps.action), _left(steps.action, steps.state)
    s = math.sqrt(state_left)
    norm_true = (norm + eta_next / s) / (1 - eta / s) if eta < s else math.inf
    wrong = eta_next + (norm_true * eta if eta else 0.0)
    return Perturbation(
        a=wrong / s if s else math.inf,
        b=wrong / math.sqrt(action_left) if action_left else math.inf,
        eta=eta,
        eta_next=eta_next,
        norm=norm,
        norm_true=norm_true,
        state_left=state_left,
        action_left=action_left,
        epsilon=float(np.linalg.norm(np.cov(steps.next, rowvar=False) - np.eye(steps.dim))),
    )


def _left(values: np.ndarray, given: np.ndarray) -> float:
    """Smallest eigenvalue of the covariance of values given others, linearly."""
    _, left = foretold(values, given)
    return max(0.0, float(np.linalg.eigvalsh(left.T @ left / len(left))[0]))


def _rotations(steps: Steps, group: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Q with h' ~ Q z', and Q without each of the groups."""
    h, z = steps.next - steps.next.mean(0), steps.z_next - steps.z_next.mean(0)  # type: ignore[union-attr]
    products = np.stack([h[group == one].T @ z[group == one] for one in np.unique(group)])
    whole = products.sum(0)
    return nearest_rotation(whole), [nearest_rotation(whole - one) for one in products]


def _turned(matrix: np.ndarray, q: np.ndarray, history: int) -> np.ndarray:
    """(Q A Q^T, Q B) of (A, B) beside each other, (..., dim, history * dim + actions)."""
    dim = len(q)
    turned = q @ matrix
    blocks = [turned[..., k * dim : (k + 1) * dim] @ q.T for k in range(history)]
    return np.concatenate((*blocks, turned[..., history * dim :]), axis=-1)


def _skew_part(matrix: np.ndarray, dim: int, history: int) -> np.ndarray:
    """(planes, dim, inputs): the linear map from differences to the skew K that explains them best.

    Its coordinates are those of K in the planes of coordinates, whose root sum of squares is |K|_F / sqrt(2).
    """
    moves = []
    for i, j in zip(*np.triu_indices(dim, 1), strict=True):
        k = np.zeros((dim, dim))
        k[i, j], k[j, i] = 1.0, -1.0
        moved = k @ matrix
        for block in range(history):
            span = slice(block * dim, (block + 1) * dim)
            moved[:, span] -= matrix[:, span] @ k
        moves.append(moved.ravel())
    if not moves:
        return np.zeros((1, *matrix.shape))  # a line has no rotations to choose from
    rows = np.stack(moves)
    solved = np.linalg.pinv(rows @ rows.T, rcond=1e-10, hermitian=True) @ rows  # what no K moves is left out
    return np.asarray(solved.reshape(-1, *matrix.shape))


def _norm(value: np.ndarray, errors: np.ndarray, unit: np.ndarray, confidence: float) -> Interval:
    """|value| / |unit| -+ the quantile of the norm of its error, not below 0."""
    radius = float(np.quantile(np.linalg.norm(errors, axis=(1, 2)), confidence))
    size, scale = float(np.linalg.norm(value)), float(np.linalg.norm(unit))
    return Interval(size / scale, max(0.0, size - radius) / scale, (size + radius) / scale)


def _recovery_error(steps: Steps, q: np.ndarray, edges: np.ndarray, confidence: float) -> Interval:
    h, z = steps.next - steps.next.mean(0), steps.z_next - steps.z_next.mean(0)  # type: ignore[union-attr]
    missed = np.add.reduceat(((h - z @ q.T) ** 2).sum(1), edges[:-1])
    rows = np.diff(edges)
    without = (missed.sum() - missed) / (len(h) - rows)
    return from_blocks(missed.sum() / len(h), without, confidence)
