"""Episodes: named columns along episodes of any lengths, left on the disk where they are.

A column is flat, (steps of all episodes, ...), and episode i has its rows offset_i .. offset_i + length_i.
The action of a row leaves the state of that row, so that an episode has one action less than states: the last
is NaN, as stable-worldmodel writes it, or leads to a state that nobody recorded, as robomimic has it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isojepa.arguments import check_count, check_number, checked
from isojepa.names import choose
from isojepa.opening import size_of
from isojepa.seeds import generator
from isojepa.worlds.trajectories import Recorded, Trajectories, check_stride, split_paths
from isojepa.worlds.windows import Windows, episode_hashes

HELD = 8 << 30  # bytes of a column that are read into memory


class Episodes:
    """Named columns over episodes.

    Args:
        columns: (steps, ...) each, all with as many rows: arrays, memory maps, or datasets of a file, of
            which only what is asked for is read.
        lengths: (episodes,) steps of each.
        offsets: (episodes,) its first row; by default episodes follow each other.
        source: name in messages, such as the file.
        meta: plain JSON values that describe the episodes, such as environment and policy.

    Raises:
        ValueError: columns are no numbers or differ in length, or an episode lies outside of them or in
            another.

    Example:
        >>> found = Episodes({"qpos": np.zeros((7, 2)), "action": np.ones((7, 1))}, lengths=[3, 4])
        >>> len(found), found.steps, found.episode(1)["qpos"].shape
        (2, 7, (4, 2))
    """

    def __init__(
        self,
        columns: Mapping[str, Any],
        lengths: Any,
        offsets: Any = None,
        *,
        source: str = "episodes",
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        if not columns:
            raise ValueError(f"{source} must have a column, got none")
        self.lengths = _integers(source, "lengths", lengths)
        self.offsets = (
            np.cumsum(self.lengths) - self.lengths
            if offsets is None
            else _integers(source, "offsets", offsets)
        )
        self.source, self.meta = source, dict(meta or {})
        rows = {name: _rows(source, name, column) for name, column in columns.items()}
        first, count = next(iter(rows.items()))
        for name, found in rows.items():
            if found != count:
                raise ValueError(f"{source}: {name} must have as many rows as {first}, {count}, got {found}")
        _check_episodes(source, self.lengths, self.offsets, count)
        self._columns = dict(columns)

    @classmethod
    def of(cls, columns: Mapping[str, Any], *, source: str = "episodes") -> "Episodes":
        """Episodes from arrays (episodes, steps, ...), or lists with an array (steps_i, ...) for each."""
        flat, lengths = {}, None
        for name, values in columns.items():
            parts = [np.asarray(part) for part in values]
            own = [len(part) if part.ndim else 0 for part in parts]
            if lengths is None:
                lengths = own
            if own != lengths:
                raise ValueError(
                    f"{source}: {name} must have the steps of the other columns in every episode"
                )
            if len({part.shape[1:] for part in parts}) > 1:
                raise ValueError(f"{source}: {name} must have one shape in all episodes")
            flat[name] = np.concatenate(parts) if parts else np.zeros((0, 1))
        return cls(flat, [] if lengths is None else lengths, source=source)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(self._columns)

    @property
    def steps(self) -> int:
        """Of all episodes together."""
        return int(self.lengths.sum())

    def __len__(self) -> int:
        return len(self.lengths)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def shape(self, name: str) -> tuple[int, ...]:
        """Of one value of a column."""
        return tuple(self._named(name).shape[1:])

    def dtype(self, name: str) -> np.dtype[Any]:
        """Of a column, in the byte order of this machine."""
        kind: np.dtype[Any] = np.dtype(self._named(name).dtype)
        return kind.newbyteorder("=")

    def rows(self, name: str, episode: int) -> np.ndarray:
        """The values of a column in one episode: (steps, ...).

        Raises:
            ValueError: the column does not exist, or its file is damaged.
        """
        column, start = self._named(name), int(self.offsets[episode])
        try:
            part: np.ndarray = np.asanyarray(column[start : start + int(self.lengths[episode])])
        except OSError as error:  # h5py's, for damaged pieces and filters that are not installed
            raise ValueError(f"{self.source}: {name} cannot be read: {error}") from error
        return part.astype(self.dtype(name), copy=False)

    def __getitem__(self, number: int) -> "Episode":
        if not -len(self) <= number < len(self):
            raise IndexError(f"episode must lie in [0, {len(self)}), got {number}")
        return Episode(self.episode(number % len(self)))

    def episode(self, number: int) -> dict[str, np.ndarray]:
        """All columns of one episode, each (steps, ...)."""
        number = check_count("number", number, 0, len(self) - 1)
        return {name: self.rows(name, number) for name in self.names}

    def values(self, name: str) -> list[np.ndarray]:
        """A column as a list with one array (steps_i, ...) for each episode.

        Maps of a file stay maps; what lies in pieces on the disk is read.

        Raises:
            ValueError: it would take too much memory.
        """
        column = self._named(name)
        if not isinstance(column, np.ndarray):
            size = self.steps * int(np.prod(column.shape[1:])) * column.dtype.itemsize
            if size > HELD:
                raise ValueError(
                    f"{self.source}: {name} must take at most {size_of(HELD)} in memory, got "
                    f"{size_of(size)}: take fewer episodes, or write them again with `write_episodes`, whose "
                    "files are mapped"
                )
        return [self.rows(name, number) for number in range(len(self))]

    def vectors(self, name: str) -> list[np.ndarray]:
        """A column of numbers as vectors: (steps_i, dim) float64 for each episode.

        Raises:
            ValueError: it holds more than vectors, such as pictures.
        """
        shape = self.shape(name)
        if len(shape) > 1:
            raise ValueError(f"{self.source}: {name} must hold vectors, got shape {shape} at each step")
        return [part.reshape(len(part), -1).astype(np.float64, copy=False) for part in self.values(name)]

    def actions(self, name: str = "action") -> list[np.ndarray]:
        """The actions that lead from a state of an episode to its next: (steps_i - 1, dim) float64 for each.

        Raises:
            ValueError: one of them is NaN or Inf; that of the last state may be.
        """
        found = [part[:-1] for part in self.vectors(name)]
        for number, part in enumerate(found):
            bad = np.flatnonzero(~np.isfinite(part).all(1))
            if len(bad):
                raise ValueError(
                    f"{self.source}: {name} must be finite but for the last of an episode, got NaN or Inf at "
                    f"step {bad[0]} of {len(part) + 1} in episode {number}: cut the episode there"
                )
        return found

    @checked
    def subset(self, numbers: Sequence[int]) -> "Episodes":
        """Some of the episodes, in this order; nothing is copied."""
        chosen = np.asarray(numbers, dtype=np.int64)
        if not len(chosen) or chosen.min() < 0 or chosen.max() >= len(self):
            raise ValueError(
                f"numbers must lie in [0, {len(self)}) and be at least one, got {list(chosen)[:4]}"
            )
        if len(np.unique(chosen)) < len(chosen):
            raise ValueError("numbers must name each episode once")
        return Episodes(
            self._columns, self.lengths[chosen], self.offsets[chosen], source=self.source, meta=self.meta
        )

    @checked
    def split(self, train: float = 0.8, seed: int = 0) -> tuple["Episodes", "Episodes"]:
        """Split by episode into a training set and a test set.

        Args:
            train: fraction of the episodes in the training set, in (0, 1).
            seed: shuffles the episodes.

        Raises:
            ValueError: the fraction is out of range, or there are fewer than two episodes.
        """
        check_number("train", train, "lie in (0, 1)", lambda value: 0 < value < 1)
        first, second = split_paths(self.lengths, 0, round(1 - train, 12), seed)
        return self.subset(list(first)), self.subset(list(second))

    def rename(self, **names: str) -> "Episodes":
        """The same episodes with columns renamed, `rename(observation="proprio", action="ctrl")`."""
        columns = dict(self._columns)
        for new, old in names.items():
            column = choose("column", old, columns)
            del columns[old]
            columns[new] = column
        return Episodes(columns, self.lengths, self.offsets, source=self.source, meta=self.meta)

    def windows(self, length: int = 1, **options: Any) -> Windows:
        """The columns `observation` and `action` as a source of windows, to train a world model on.

        Args:
            length: actions in a window.
            options: others of `isojepa.worlds.Windows`.
        """
        bounds = (self.meta["low"], self.meta["high"]) if {"low", "high"} <= set(self.meta) else None
        parts = self.values("observation"), self.vectors("action")
        return Windows(*parts, length=length, **{"bounds": bounds, **options})

    def hashes(self) -> tuple[str, ...]:
        """A hash of each episode, of its observations and actions."""
        parts = Trajectories("observation", self.values("observation"))
        return tuple(episode_hashes(parts, Trajectories("action", self.vectors("action"))))

    def check_held_out(self, trained: Collection[str], allow_train: bool = False) -> int:
        """How many of the episodes a run was trained on, by their hashes.

        Args:
            trained: hashes of the run's episodes.
            allow_train: return the number instead of raising.

        Raises:
            ValueError: there are some.
        """
        overlap = len(set(self.hashes()) & set(trained))
        if overlap and not allow_train:
            raise ValueError(
                f"episodes must be held out, got {overlap} of {len(self)} that the run was trained on: hold "
                "some out by `train, test = episodes.split(0.9)`, or pass allow_train=True (--allow-train)"
            )
        return overlap

    @checked
    def pairs(
        self, stride: int, name: str = "qpos", per_episode: int = 0, seed: int = 0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values that lie `stride` steps apart in one episode.

        Args:
            stride: steps from the first to the second; episodes that are no longer have no pair.
            name: of the column.
            per_episode: how many of each episode, drawn without repeating one; 0 for all.
            seed: draws them.

        Returns:
            First and second ends (pairs, dim), float64, and the number of the episode of each (pairs,).

        Raises:
            ValueError: no episode is long enough.
        """
        stride = check_stride(stride, int(self.lengths.max()))
        check_count("per_episode", per_episode, 0)
        source, parts = generator(seed, "episodes", "pairs", stride), []
        for number, values in enumerate(self.vectors(name)):
            begins: np.ndarray = np.arange(max(len(values) - stride, 0))
            if per_episode and len(begins) > per_episode:
                begins = np.sort(torch.randperm(len(begins), generator=source)[:per_episode].numpy())
            parts.append((values[begins], values[begins + stride], np.full(len(begins), number)))
        first, second, episode = (np.concatenate(part) for part in zip(*parts, strict=True))
        return first, second, episode

    def recorded(
        self, state: str = "qpos", observation: str | None = None, stride: int = 1, **options: Any
    ) -> Recorded:
        """These episodes as a world whose latents are a column.

        Args:
            state: the column of the latents.
            observation: the column of what is seen of them, e.g. pixels.
            stride: steps between the two ends of a pair.
            options: others of `Recorded`.
        """
        seen = None if observation is None else self.values(observation)
        return Recorded(self.vectors(state), seen, stride=stride, **options)

    def write(self, path: Path | str, form: str = "stable-worldmodel") -> Path:
        """Write a file of them, see `write_episodes`."""
        from isojepa.worlds.episodes.files import write_episodes

        return write_episodes(Path(path), self, form)

    def _named(self, name: str) -> Any:
        return choose("column", name, self._columns)

    def __repr__(self) -> str:
        return f"Episodes({len(self)} of {self.steps} steps: {', '.join(self.names)})"


@dataclass(frozen=True)
class Episode:
    """One episode.

    Attributes:
        columns: (steps, ...) by name.
    """

    columns: Mapping[str, np.ndarray]

    def __getitem__(self, name: str) -> np.ndarray:
        return choose("column", name, self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def observations(self) -> np.ndarray:
        """(steps, *obs)."""
        return self["observation"]

    @property
    def actions(self) -> np.ndarray:
        """(steps - 1, m), each from a row to the next."""
        return self["action"][:-1]


def _integers(source: str, name: str, values: Any) -> np.ndarray:
    found = np.asarray(values)
    if found.ndim != 1 or not len(found) or found.dtype.kind not in "iu":
        raise ValueError(
            f"{source}: {name} must be one whole number for each episode, got {found.dtype} {found.shape}"
        )
    if found.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{source}: {name} must be below 2^63, got {found.max()}")
    return found.astype(np.int64)


def _rows(source: str, name: str, column: Any) -> int:
    if column.dtype.kind not in "fiub":
        raise ValueError(f"{source}: {name} must hold numbers, got {column.dtype}; leave it out")
    if len(column.shape) < 1 or 0 in column.shape:
        raise ValueError(
            f"{source}: {name} must be (steps, ...) and not empty, got shape {tuple(column.shape)}"
        )
    return int(column.shape[0])


def _check_episodes(source: str, lengths: np.ndarray, offsets: np.ndarray, rows: int) -> None:
    if len(lengths) != len(offsets):
        raise ValueError(
            f"{source}: lengths and offsets must be as many, got {len(lengths)} and {len(offsets)}"
        )
    bad = np.flatnonzero((lengths < 1) | (lengths > rows) | (offsets < 0) | (offsets > rows - lengths))
    if len(bad):
        at = bad[0]
        raise ValueError(
            f"{source}: every episode must have a step and lie within the {rows} rows, got {lengths[at]} "
            f"steps from row {offsets[at]} on for episode {at}"
        )
    order = np.argsort(offsets, kind="stable")
    ends = (offsets + lengths)[order]
    into = np.flatnonzero(offsets[order][1:] < ends[:-1])
    if len(into):
        first, second = order[into[0]], order[into[0] + 1]
        raise ValueError(f"{source}: episodes must not overlap, got rows of {first} in {second}")
