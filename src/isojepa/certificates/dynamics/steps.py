"""Recorded transitions row by row: state, action, next embedding, and the episode each row is of.

Two forms are understood. Rows: h (n, dim), a (n, m), h_next (n, dim), and perhaps the episode of each row.
Paths: h (steps, dim), (steps, paths, dim) or a list of (steps_i, dim), with actions of as many steps or of
one fewer: action t leaves step t, so the last action of a path leads nowhere, is not looked at and may be
NaN.

With a history of k the state is s_t = (h_t, h_{t-1}, ..., h_{t-k+1}), the newest first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from isojepa.arrays import check_dense, real_array, to_array, to_float64
from isojepa.validation import check_count

_FLAT = 1e-12  # spread of a column against its size, below which it is constant


@dataclass(frozen=True)
class Steps:
    """Transitions in the order of the episodes.

    Attributes:
        state: (n, history * dim).
        action: (n, actions).
        next: (n, dim).
        episode: (n,) whole numbers; rows of one episode stand together.
        history: embeddings in a state.
        z_state, z_next: the same of the latents, where they are known.
    """

    state: np.ndarray
    action: np.ndarray
    next: np.ndarray
    episode: np.ndarray
    history: int = 1
    z_state: np.ndarray | None = None
    z_next: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.state)

    @property
    def dim(self) -> int:
        """Dimensions of one embedding."""
        return int(self.next.shape[1])

    @property
    def actions(self) -> int:
        """Dimensions of one action."""
        return int(self.action.shape[1])

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        return len(np.unique(self.episode))

    @property
    def inputs(self) -> np.ndarray:
        """(n, history * dim + actions) what the next embedding is predicted from."""
        return np.concatenate((self.state, self.action), axis=1)

    def rows(self, index: np.ndarray | slice) -> "Steps":
        """Some of the transitions."""
        known = self.z_state is not None and self.z_next is not None
        z_state, z_next = (self.z_state[index], self.z_next[index]) if known else (None, None)  # type: ignore[index]
        return Steps(
            self.state[index],
            self.action[index],
            self.next[index],
            self.episode[index],
            self.history,
            z_state,
            z_next,
        )


def read_steps(
    h: Any,
    a: Any,
    h_next: Any = None,
    z: Any = None,
    z_next: Any = None,
    episodes: Any = None,
    history: int = 1,
) -> Steps:
    """Transitions of arrays or paths, checked.

    Args:
        h: (n, dim) with `h_next`; else (steps, dim), (steps, paths, dim) or a list of (steps_i, dim).
        a: the actions in the same form.
        h_next: (n, dim), where rows are given.
        z, z_next: latents, in the form of h and h_next.
        episodes: (n,) which episode each row is of, where rows are given; else they are one.
        history: embeddings in a state; above 1 for paths only.

    Raises:
        ValueError: shapes or lengths differ, values are not finite, or a column of h never varies.
    """
    history = check_count("history", history)
    if a is None:
        raise ValueError(
            "actions must be recorded, got None: a transition is fitted on what actions made, and pairs that "
            "no action made say nothing of it"
        )
    if h_next is None:
        if z_next is not None or episodes is not None:
            raise ValueError("z_next and episodes go with rows and h_next; paths bring both themselves")
        steps = _of_paths(h, a, z, history)
    else:
        if history > 1:
            raise ValueError(f"history must be 1 for rows, got {history}: give paths, which know the past")
        steps = _of_rows(h, a, h_next, z, z_next, episodes)
    for name, values in (("h", steps.state), ("z", steps.z_state)):
        if values is not None and (still := constant_columns(values[:, : steps.dim])):
            raise ValueError(
                f"{name} must vary in every column, got a constant in {listed(still)}: leave those out"
            )
    return steps


def constant_columns(values: np.ndarray) -> list[int]:
    """Columns of (n, dim) that never vary, but for rounding."""
    spread = np.ptp(values, axis=0)
    return [int(i) for i in np.flatnonzero(spread <= _FLAT * np.abs(values).max(0, initial=0.0))]


def listed(columns: Sequence[int]) -> str:
    """Columns in words."""
    return f"column{'s' * (len(columns) != 1)} {', '.join(map(str, columns))}"


def _of_rows(h: Any, a: Any, h_next: Any, z: Any, z_next: Any, episodes: Any) -> Steps:
    state, after = real_array("h", h, "rows, dim"), real_array("h_next", h_next, "rows, dim")
    action = _finite_actions(_matrix("a", a), "row")
    if state.shape != after.shape:
        raise ValueError(f"h_next must have the shape of h, {state.shape}, got {after.shape}")
    if (z is None) != (z_next is None):
        raise ValueError("z and z_next must be given together, got one of them")
    latents: tuple[np.ndarray | None, np.ndarray | None] = (None, None)
    if z is not None:
        latents = (real_array("z", z, "rows, dim"), real_array("z_next", z_next, "rows, dim"))
    ids = np.zeros(len(state), dtype=np.int64) if episodes is None else _ids(episodes)
    named = {"a": action, "z": latents[0], "z_next": latents[1], "episodes": ids}
    for name, part in named.items():
        if part is not None and len(part) != len(state):
            raise ValueError(f"{name} must have as many rows as h, {len(state)}, got {len(part)}")
    _check_latents(state.shape[1], *latents)
    order = np.argsort(ids, kind="stable")
    if (np.diff(ids) >= 0).all():
        order = np.arange(len(ids))
    return Steps(state, action, after, ids, 1, *latents).rows(order)


def _of_paths(h: Any, a: Any, z: Any, history: int) -> Steps:
    paths, actions = _paths("h", h), _paths("a", a)
    latents = None if z is None else _paths("z", z)
    for name, others in (("a", actions), ("z", latents)):
        if others is not None and len(others) != len(paths):
            raise ValueError(f"{name} must have as many paths as h, {len(paths)}, got {len(others)}")
    parts: list[Steps] = []
    for number, (path, done) in enumerate(zip(paths, actions, strict=True)):
        count = len(path) - history
        if len(done) not in (len(path), len(path) - 1):
            raise ValueError(
                f"a must have as many steps as h or one fewer, {len(path)} or {len(path) - 1} in path "
                f"{number}, got {len(done)}"
            )
        hidden = None if latents is None else latents[number]
        if hidden is not None and len(hidden) != len(path):
            raise ValueError(
                f"z must have as many steps as h, {len(path)} in path {number}, got {len(hidden)}"
            )
        if count < 1:
            continue
        taken = _finite_actions(done[history - 1 : len(path) - 1], f"path {number}, step", history - 1)
        seen = None if hidden is None else _stacked(hidden, history)
        after = None if hidden is None else hidden[history:]
        ids = np.full(count, number)
        parts.append(Steps(_stacked(path, history), taken, path[history:], ids, history, seen, after))
    if not parts:
        raise ValueError(f"h must have a path of more than {history} steps, got {max(map(len, paths))}")
    _check_latents(parts[0].dim, parts[0].z_next)
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("state", "action", "next", "episode")
    }
    if latents is not None:
        joined |= {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in ("z_state", "z_next")
        }
    return Steps(history=history, **joined)


def _stacked(path: np.ndarray, history: int) -> np.ndarray:
    """(steps - history, history * dim): every state that has a next step, the newest embedding first."""
    last = len(path) - 1
    return np.concatenate([path[history - 1 - k : last - k] for k in range(history)], axis=1)


def _paths(name: str, values: Any) -> list[np.ndarray]:
    """A list of (steps, dim) of whatever form paths have; actions may end in NaN."""
    if isinstance(values, list | tuple):
        if not values:
            raise ValueError(f"{name} must have a path at least, got none")
        paths = [_matrix(name, path) for path in values]
    else:
        array = _plain(name, values)
        if array.ndim not in (2, 3):
            raise ValueError(
                f"{name} must be (steps, dim), (steps, paths, dim) or a list of (steps, dim), got shape "
                f"{array.shape}"
            )
        paths = [array] if array.ndim == 2 else list(array.transpose(1, 0, 2))
    widths = {path.shape[1] for path in paths}
    if len(widths) > 1:
        raise ValueError(f"{name} must have one dimension in all paths, got {sorted(widths)}")
    if name != "a":
        for number, path in enumerate(paths):
            if not np.isfinite(path).all():
                bad = int((~np.isfinite(path)).any(1).sum())
                raise ValueError(f"{name} must be finite, got NaN or Inf in {bad} steps of path {number}")
            real_array(name, path, "steps, dim")
    return paths


def _matrix(name: str, values: Any) -> np.ndarray:
    """(rows, dim); one column may come without its axis."""
    array = _plain(name, values)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] < 1:
        raise ValueError(f"{name} must be (steps, dim), got shape {array.shape}")
    return array


def _plain(name: str, values: Any) -> np.ndarray:
    if isinstance(values, Tensor):
        check_dense(name, values)
        return to_float64(values.detach().cpu())
    array = to_array(name, values)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must hold real numbers, got {array.dtype}")
    return to_float64(array)


def _finite_actions(actions: np.ndarray, where: str, first: int = 0) -> np.ndarray:
    bad = np.argwhere(~np.isfinite(actions))
    if len(bad):
        columns = sorted({int(column) for _, column in bad})
        raise ValueError(
            f"actions must be finite wherever a step follows, got NaN or Inf in {listed(columns)}, first at "
            f"{where} {int(bad[0, 0]) + first}: cut the paths there"
        )
    return real_array("a", actions, "steps, actions")


def _ids(episodes: Any) -> np.ndarray:
    array = np.asarray(episodes.detach().cpu() if isinstance(episodes, Tensor) else episodes)
    if array.ndim != 1:
        raise ValueError(f"episodes must be (rows,), got shape {array.shape}")
    return np.unique(array, return_inverse=True)[1]


def _check_latents(dim: int, *latents: np.ndarray | None) -> None:
    for part in latents:
        if part is not None and part.shape[1] != dim:
            raise ValueError(
                f"z must have as many dimensions as h, {dim}, got {part.shape[1]}: one rotation is between "
                "equals; leave z out, or certify a linear map of h onto the latents"
            )
