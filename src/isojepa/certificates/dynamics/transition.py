r"""The transition of a latent, fitted in closed form: h' = A s + B a + c, with s the last k embeddings.

Least squares, or a ridge whose penalty is counted per row on standardised inputs; float64. It is fitted on
recorded actions only: where actions are absent, never vary, or are a function of the state, A and B do not
follow from the data, and the fit says which columns.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.certificates.dynamics.excitation import find_unidentified
from isojepa.certificates.dynamics.invariants import companion
from isojepa.certificates.dynamics.steps import Steps, read_steps
from isojepa.io import parse_json
from isojepa.linear import least_squares
from isojepa.training.checkpoints import load_tensors, save_tensors
from isojepa.validation import check_number, validate_types
from isojepa.version import __version__

_NOTE = "isojepa-transition"
_TENSORS = ("A", "B", "c", "noise")


@dataclass(frozen=True)
class Transition:
    """h' = A s + B a + c + noise, s = (h_t, h_{t-1}, ...) the newest first.

    Attributes:
        A: (dim, history * dim).
        B: (dim, actions).
        c: (dim,).
        noise: (dim, dim) covariance of what is left.
        history: embeddings in a state.
        rows: transitions it was fitted on; 0 if it was not.

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
        dim = len(self.c)
        wanted = {"A": (dim, self.history * dim), "c": (dim,), "noise": (dim, dim)}
        for name, shape in wanted.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} must be of shape {shape}, got {getattr(self, name).shape}")
        if self.B.ndim != 2 or len(self.B) != dim:
            raise ValueError(f"B must be ({dim}, actions), got {self.B.shape}")
        for name in _TENSORS:
            if not np.isfinite(getattr(self, name)).all():
                raise ValueError(f"{name} must be finite, got NaN or Inf")

    @property
    def dim(self) -> int:
        """Dimensions of one embedding."""
        return len(self.c)

    @property
    def actions(self) -> int:
        """Dimensions of one action."""
        return int(self.B.shape[1])

    def predict(self, state: np.ndarray, action: np.ndarray) -> np.ndarray:
        """The next embeddings (..., dim) of states (..., history * dim) and actions (..., actions)."""
        return np.asarray(state @ self.A.T + action @ self.B.T + self.c)

    def step(self, state: np.ndarray, action: np.ndarray) -> np.ndarray:
        """The next states (..., history * dim), newest embedding first."""
        longer = np.concatenate((self.predict(state, action), state), axis=-1)
        return np.asarray(longer[..., : self.history * self.dim])

    @property
    def context(self) -> int:
        """Latents that a prediction starts from, as of `isojepa.encoders.Dynamics`."""
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
        state, visited = latents.flip(-2).flatten(-2), []
        for action in actions.unbind(-2):
            h = state @ A.T + action @ B.T + c
            visited.append(h)
            state = torch.cat((h, state[..., : -self.dim]), -1)
        return torch.stack(visited, -2)

    def stacked(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A, B and c of the stacked state, s' = A s + B a + c: what a linear regulator takes."""
        a, b = companion(np.concatenate((self.A, self.B), axis=1), self.history)
        return a, b, np.concatenate((self.c, np.zeros(len(a) - self.dim)))

    def save(self, path: str | Path) -> None:
        """Write it as one safetensors file."""
        notes = {"version": __version__, "history": self.history, "rows": self.rows}
        tensors = {name: torch.from_numpy(np.ascontiguousarray(getattr(self, name))) for name in _TENSORS}
        save_tensors(Path(path), tensors, {_NOTE: json.dumps(notes)})

    @classmethod
    def load(cls, path: str | Path) -> "Transition":
        """Read one that was saved.

        Raises:
            ValueError: the file is missing, damaged, or no transition.
        """
        tensors, header = load_tensors(Path(path))
        if _NOTE not in header or set(tensors) != set(_TENSORS):
            raise ValueError(f"{path} must be a transition that isojepa saved, got another safetensors file")
        try:
            notes = parse_json(header[_NOTE].encode())
            history, rows = int(notes["history"]), int(notes["rows"])
            return cls(
                **{name: tensors[name].double().numpy() for name in tensors}, history=history, rows=rows
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is damaged: {error}") from error


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
        a: the actions in the same form; action t leaves step t.
        h_next: (n, dim), where rows are given.
        episodes: (n,) which episode each row is of, where rows are given.
        history: embeddings in a state.
        ridge: penalty per row on standardised inputs; 0 is least squares.

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
    return fit_steps(read_steps(h, a, h_next, episodes=episodes, history=history), ridge)


def fit_steps(steps: Steps, ridge: float = 0.0) -> Transition:
    """Fit a transition to rows that were read; see `fit_transition`."""
    ridge = check_number("ridge", ridge, "be finite and not negative", lambda value: value >= 0)
    check_rows(steps)
    lost = find_unidentified(steps)
    if lost:
        raise ValueError(
            "actions and states must vary freely for A and B to follow from them: "
            + " ".join(one.sentence for one in lost)
        )
    x, y = steps.inputs, steps.next
    fitted = least_squares(x, y, ridge=ridge)
    matrix = fitted.matrix.T
    offset = fitted.offset - matrix @ fitted.center
    residual = y - fitted(x)
    noise = residual.T @ residual / (len(x) - x.shape[1] - 1)
    size = steps.history * steps.dim
    return Transition(matrix[:, :size], matrix[:, size:], offset, noise, steps.history, len(x))


def check_rows(steps: Steps, times: int = 1) -> None:
    """Say that there are too few rows for as many unknowns."""
    unknown = steps.state.shape[1] + steps.actions + 1
    if len(steps) <= times * unknown:
        factor = f"{times} times " if times > 1 else ""
        raise ValueError(
            f"there must be more rows than {factor}state dimensions and actions and one, {times * unknown}, "
            f"got {len(steps)}"
        )
