"""What is audited: states, speeds and actions of some of the episodes, and what was left out of them.

Tests count episodes as independent of each other. Where there are few, long ones are cut into pieces, which
then count as episodes. Of very many, some are taken that lie evenly in the file.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from isojepa.data.episodes import Episodes
from isojepa.data.files import column_names, read_episodes
from isojepa.seeds import generator

STATES = ("qpos", "state", "states", "proprio", "observation", "obs", "position")  # tried in this order
SPEEDS = ("qvel", "velocity")
EPISODES, STEPS = 2000, 500_000  # looked at, at most
_FEW, _PIECE = 40, 25  # episodes below which long ones are cut, and the least steps of a piece
_LARGEST = 1e100


@dataclass(frozen=True)
class Material:
    """Episodes under audit; all arrays are float64 and finite.

    Attributes:
        states: (steps_i, dim) for each episode; None where the file has no column of states.
        speeds: (steps_i, dim) of the states, where they were recorded.
        context: (steps_i, more) further columns that the actions may depend on.
        actions: (steps_i - 1, actions) that lead from each state to the next.
        names: of the columns of states, speeds and actions; empty where there is none.
        notes: sentences on what was left out.
        seed: of everything drawn.
    """

    states: list[np.ndarray] | None
    speeds: list[np.ndarray] | None
    context: list[np.ndarray] | None
    actions: list[np.ndarray]
    names: tuple[str, str, str]
    notes: tuple[str, ...]
    seed: int

    @property
    def rows(self) -> int:
        """Actions of all episodes."""
        return sum(map(len, self.actions))

    @property
    def dim(self) -> int:
        """Of an action."""
        return int(self.actions[0].shape[1])

    def stream(self, *name: str | int) -> torch.Generator:
        """The generator of one named purpose."""
        return generator(self.seed, "audit", *name)

    def halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the episodes to fit on, and of those to judge on."""
        order = torch.randperm(len(self.actions), generator=self.stream("halves")).numpy()
        return np.sort(order[len(order) // 2 :]), np.sort(order[: len(order) // 2])

    def known(self) -> list[np.ndarray] | None:
        """All that an action may depend on, (steps_i - 1, ...): states, speeds, context, at its own step."""
        parts = [part for part in (self.states, self.speeds, self.context) if part is not None]
        if not parts:
            return None
        return [np.concatenate(each, 1)[:-1] for each in zip(*parts, strict=True)]


def read_for_audit(
    path: Path | str, columns: Sequence[str | None] = (), episode: str | None = None
) -> Episodes:
    """The columns of a file that an audit reads: those asked for, and those of `STATES` and `SPEEDS`.

    Args:
        path: a file as of `read_episodes`.
        columns: asked for by name; None is skipped.
        episode: column of episode numbers, as of `read_episodes`.

    Raises:
        ValueError: the file is missing, damaged, holds something else, or lacks a column.
    """
    names = [name for name in column_names(Path(path)) if name in (*STATES, *SPEEDS) and name != episode]
    return read_episodes(Path(path), list(dict.fromkeys([*names, *filter(None, columns)])), episode)


def gather(
    episodes: Episodes,
    state: str | None = None,
    action: str = "action",
    speed: str | None = None,
    context: Sequence[str] = (),
    seed: int = 0,
) -> Material:
    """Read what is audited.

    Args:
        episodes: of any lengths; those without an action are left out.
        state: the column of states; by default the first of `STATES` that there is.
        action: the column of actions.
        speed: the column of the states' speeds; by default the first of `SPEEDS` that there is.
        context: further columns that the actions may depend on, such as a goal.
        seed: of everything drawn.

    Raises:
        ValueError: a column does not exist or has NaN or Inf where it must not.
    """
    names = [state or _first(episodes, STATES), speed or _first(episodes, SPEEDS)]
    notes = []
    long = np.flatnonzero(episodes.lengths >= 3)
    if not len(long):
        raise ValueError(f"{episodes.source}: episodes must have 3 steps or more, got none that has")
    if len(long) < len(episodes):
        notes.append(f"{len(episodes) - len(long)} episodes of fewer than 3 steps were left out.")
    most = min(EPISODES, max(1, int(STEPS / episodes.lengths[long].mean())))
    if len(long) > most:
        notes.append(f"{most:,} of {len(long):,} episodes were looked at, evenly spaced in the file.")
        long = long[np.linspace(0, len(long) - 1, most).round().astype(int)]
    chosen = episodes.subset(list(long))
    actions = chosen.actions(action)
    _check_size(episodes.source, action, actions)
    if all(
        part.shape[1] > 1 and np.isin(part, (0, 1)).all() and (part.sum(1) == 1).all() for part in actions
    ):
        actions = [part[:, :-1] for part in actions]
        notes.append("Actions are one-hot: the last column follows from the others and was left out.")
    columns = [_vectors(chosen, name) for name in (*names, *context)]
    pieces = _cuts(chosen.lengths)
    if len(pieces) > len(long):
        notes.append(
            f"{len(long)} episodes are few: they were cut into {len(pieces)} pieces, which count as episodes."
        )
    states, speeds, *more = [
        None if column is None else [column[at][a:b] for at, a, b in pieces] for column in columns
    ]
    beside = [np.concatenate(each, 1) for each in zip(*[one for one in more if one], strict=True)]
    return Material(
        states,
        speeds if states is not None and speeds is not None and _alike(states, speeds) else None,
        beside or None,
        [np.array(actions[at][a : b - 1]) for at, a, b in pieces],
        (names[0] or "", names[1] or "", action),
        tuple(notes),
        seed,
    )


def draw_rows(
    parts: Sequence[np.ndarray], numbers: np.ndarray, most: int, source: torch.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """At most so many rows of some episodes, in order.

    Args:
        parts: one array for each episode.
        numbers: of the episodes to draw from.
        most: rows.
        source: draws them.

    Returns:
        Places (rows,) in all episodes one after the other, and the number of the episode of each.
    """
    lengths = np.array([len(part) for part in parts])
    owner = np.repeat(np.arange(len(parts)), lengths)
    rows = np.flatnonzero(np.isin(owner, numbers))
    if len(rows) > most:
        rows = rows[np.sort(torch.randperm(len(rows), generator=source)[:most].numpy())]
    return rows, owner[rows]


def _first(episodes: Episodes, names: Sequence[str]) -> str | None:
    return next((name for name in names if name in episodes and len(episodes.shape(name)) <= 1), None)


def _vectors(episodes: Episodes, name: str | None) -> list[np.ndarray] | None:
    if name is None:
        return None
    found = [np.array(part) for part in episodes.vectors(name)]
    _check_size(episodes.source, name, found)
    return found


def _check_size(source: str, name: str, parts: Sequence[np.ndarray]) -> None:
    for number, part in enumerate(parts):
        bad = np.flatnonzero(~(np.abs(part) <= _LARGEST).all(1))  # NaN is not either
        if len(bad):
            raise ValueError(
                f"{source}: {name} must be finite and at most {_LARGEST:g} in size, got {part[bad[0]]} at "
                f"step {bad[0]} of the {number}-th episode looked at"
            )


def _cuts(lengths: np.ndarray) -> list[tuple[int, int, int]]:
    """Pieces of episodes: number, first step, and one beyond the last; neighbours share a state."""
    if len(lengths) >= _FEW:
        return [(at, 0, int(length)) for at, length in enumerate(lengths)]
    target = max(_PIECE, int(lengths.sum()) // (2 * _FEW))
    pieces = []
    for at, length in enumerate(lengths):
        count = max(1, int(length) // target)
        edges = np.linspace(0, int(length) - 1, count + 1).round().astype(int)
        pieces += [(at, int(a), int(b) + 1) for a, b in itertools.pairwise(edges)]
    return pieces


def _alike(states: list[np.ndarray], speeds: list[np.ndarray]) -> bool:
    return states[0].shape[1:] == speeds[0].shape[1:]
