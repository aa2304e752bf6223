"""Recorded episodes: named columns along episodes of any lengths, and windows of them as a source.

A column is flat, (steps of all episodes, ...), and episode i has its rows offset_i .. offset_i + length_i.
Columns may be memory-mapped. The action of a row is taken in the state of that row, so an episode has one
action less than states: the last is NaN, as in stable-worldmodel, or leads to an unrecorded state, as in
robomimic.

`Windows` is a source. A window lies within one episode: its k + 1 observations are the views of a batch in
the order of time, its k actions are `batch.actions`, (batch, k, dim), where action i leads from view i to
view i + 1. Windows are drawn uniformly with replacement.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.data.batch import Batch
from isojepa.data.source import Facts
from isojepa.data.trajectories import Recorded, Trajectories, check_stride, split_paths
from isojepa.io import size_of
from isojepa.seeds import generator
from isojepa.validation import check_count, check_number, choose, validate_types


class Windows:
    """Windows of recorded observations and actions.

    Args:
        observations: (steps, paths, ...), or (steps, dim) for one path, or a list of (steps_i, ...).
        actions: in the same form, of as many steps or one fewer: action t leaves step t, so the last one of a
            path leads nowhere, is not looked at and may be NaN.
        length: actions in a window, one fewer than its views.
        states: in the same form as the observations: what was true, where it is known.
        ordered: give the drawn windows path after path; see `in_order`.
        transform: applied to observations (batch, ...) as they are drawn; by default they become float32.
        held_out: windows of other episodes, which training never sees.
        bounds: (low, high) of the actions, (dim,) each, where they are known; of one-hot actions low is the
            number of the first.

    Raises:
        ValueError: there are no actions or none that varies, lengths differ, values are missing, or no path
            is long enough.

    Example:
        >>> from isojepa.seeds import generator
        >>> x, a = np.arange(60.0).reshape(20, 3, 1), np.arange(120.0).reshape(20, 3, 2)
        >>> batch = Windows(x, a, length=3).sample(5, generator(0, "data"))
        >>> len(batch.views), tuple(batch.actions.shape)
        (4, (5, 3, 2))
    """

    def __init__(
        self,
        observations: Any,
        actions: Any,
        *,
        length: int = 1,
        states: Any = None,
        ordered: bool = False,
        transform: Callable[[Tensor], Tensor] | None = None,
        held_out: "Windows | None" = None,
        bounds: tuple[Any, Any] | None = None,
    ) -> None:
        if actions is None:
            raise ValueError("actions must be recorded, got None: without them, use isojepa.data.Observed")
        self.observations = Trajectories.of("observations", observations)
        self.actions = Trajectories.of("actions", actions)
        self.states = None if states is None else Trajectories.of("states", states)
        self.length = check_count("length", length)
        self.ordered, self.transform = ordered, transform
        self.aside, self.bounds = held_out, bounds
        if self.observations.longest <= self.length:
            raise ValueError(
                f"length must be less than the {self.observations.longest} steps of the longest path, "
                f"got {length}"
            )
        if self.states is not None:
            self.states.check_lengths("states", self.observations)
        self._check_actions()
        self._ends = np.cumsum(np.maximum(self.observations.lengths - self.length, 0))
        shape = tuple(
            self._seen(np.array([int(self._ends.searchsorted(0, "right"))]), np.zeros(1, int)).shape
        )
        self.facts = Facts(
            dim=None if self.states is None else int(self.states.shape[0]),
            shapes=(shape[1:],) * (self.length + 1),
            ordered=True,
            actions=int(self.actions.shape[0]),
            described=True,
            holding=held_out is not None,
        )

    @property
    def paths(self) -> int:
        """Number of paths."""
        return len(self.observations.lengths)

    @property
    def windows(self) -> int:
        """Number of different windows."""
        return int(self._ends[-1])

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """Draw n windows; their ids are the numbers of their paths."""
        index = torch.randint(self.windows, (check_count("the number of samples", n),), generator=generator)
        chosen = (index.sort().values if self.ordered else index).numpy()
        path = np.searchsorted(self._ends, chosen, side="right")
        first = chosen - np.concatenate(([0], self._ends))[path]
        steps = [first + k for k in range(self.length + 1)]
        taken = np.stack([self.actions.gather(path, step) for step in steps[:-1]], axis=1)
        z = None
        if self.states is not None:
            z = tuple(_floats(self.states.gather(path, step)) for step in steps)
        views = tuple(self._seen(path, step) for step in steps)
        return Batch(views, z=z, actions=_floats(taken), ids=torch.from_numpy(path))

    def held_out(self) -> "Windows":
        """Windows of the episodes that training never sees; these where none are held out."""
        return self if self.aside is None else self.aside

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        """One of each episode, see `_episode_hashes`."""
        return tuple(_episode_hashes(self.observations, self.actions))

    def describe(self) -> dict[str, Any]:
        """What a run directory keeps of the data: the hashes of the episodes."""
        return {"kind": "episodes", "episodes": list(self.hashes)}

    def with_length(self, length: int) -> "Windows":
        """The same recording in windows of another length."""
        return self._copy(np.arange(self.paths), self.ordered, length)

    def in_order(self) -> "Windows":
        """The same recording, whose windows come path after path."""
        return self._copy(np.arange(self.paths), ordered=True)

    def split(self, held_out: float = 0.2, seed: int = 0) -> tuple["Windows", "Windows"]:
        """Split by path into what is trained on and what is held out.

        Args:
            held_out: share of the paths, in (0, 1).
            seed: shuffles the paths.
        """
        train, other = split_paths(self.observations.lengths, self.length, held_out, seed)
        return self._copy(train, self.ordered), self._copy(other, self.ordered)

    def _copy(self, paths: np.ndarray, ordered: bool, length: int = 0) -> "Windows":
        aside = self.aside if self.aside is None or not length else self.aside.with_length(length)
        return Windows(
            self.observations.subset(paths),
            self.actions.subset(paths),
            length=length or self.length,
            states=None if self.states is None else self.states.subset(paths),
            ordered=ordered,
            transform=self.transform,
            held_out=aside,
            bounds=self.bounds,
        )

    def _seen(self, path: np.ndarray, step: np.ndarray) -> Tensor:
        x = torch.from_numpy(np.ascontiguousarray(self.observations.gather(path, step)))
        x = x.float() if self.transform is None else self.transform(x)
        if not torch.isfinite(x).all():
            raise ValueError("observations must be finite, got NaN or Inf among those drawn")
        return x

    def _check_actions(self) -> None:
        """Say which actions are missing, wherever a step follows, or that none of them varies."""
        if len(self.actions.shape) != 1:
            raise ValueError(f"actions must be vectors, got shape {self.actions.shape} at each step")
        lengths, done = self.observations.lengths, self.actions.lengths
        if len(lengths) != len(done):
            raise ValueError(
                f"actions must have as many paths as observations, {len(lengths)}, got {len(done)}"
            )
        off = np.flatnonzero((done != lengths) & (done != lengths - 1))
        if len(off):
            raise ValueError(
                f"actions must have as many steps as observations or one fewer, {lengths[off[0]]} in path "
                f"{off[0]}, got {done[off[0]]}"
            )
        low, high = np.full(self.actions.shape, np.inf), np.full(self.actions.shape, -np.inf)
        for path, length in enumerate(lengths):
            taken = self.actions.gather(np.full(length - 1, path), np.arange(length - 1))
            if not np.isfinite(taken).all():
                step, column = np.argwhere(~np.isfinite(taken))[0]
                raise ValueError(
                    f"actions must be finite wherever a step follows, got NaN or Inf in column {column} at "
                    f"path {path}, step {step}: cut the path there"
                )
            low, high = (
                np.minimum(low, taken.min(0, initial=np.inf)),
                np.maximum(high, taken.max(0, initial=-np.inf)),
            )
        if not (high > low).any():
            raise ValueError("actions must vary in a column at least, got the same action at every step")


def _floats(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.asarray(values)).float()


def _episode_hashes(observations: Trajectories, actions: Trajectories) -> Iterable[str]:
    """A hash of each episode: its observations and the actions between them, 16 hex digits.

    Two copies of an episode have one hash, also if one of them was stored in float64.
    """
    for path, length in enumerate(observations.lengths):
        digest = hashlib.blake2b(digest_size=8)
        for values, rows in ((observations, length), (actions, length - 1)):
            part = values.gather(np.full(rows, path), np.arange(rows))
            part = part.astype(np.float32) if part.dtype.kind == "f" else part
            digest.update(np.ascontiguousarray(part).tobytes())
        yield digest.hexdigest()


_MAX_COLUMN_BYTES = 8 << 30  # of a column that is read into memory


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
        >>> episodes = Episodes({"qpos": np.zeros((7, 2)), "action": np.ones((7, 1))}, lengths=[3, 4])
        >>> len(episodes), episodes.steps, episodes.episode(1)["qpos"].shape
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
            own_lengths = [len(part) if part.ndim else 0 for part in parts]
            if lengths is None:
                lengths = own_lengths
            if own_lengths != lengths:
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
            if size > _MAX_COLUMN_BYTES:
                raise ValueError(
                    f"{self.source}: {name} must take at most {size_of(_MAX_COLUMN_BYTES)} in memory, got "
                    f"{size_of(size)}: take fewer episodes, or write them again with `write_episodes`, whose "
                    "files are mapped"
                )
        return [self.rows(name, number) for number in range(len(self))]

    def vectors(self, name: str) -> list[np.ndarray]:
        """A column of numbers as vectors: (steps_i, dim) float64 for each episode.

        Raises:
            ValueError: it holds more than vectors, such as images.
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
        columns = [part[:-1] for part in self.vectors(name)]
        for number, part in enumerate(columns):
            bad = np.flatnonzero(~np.isfinite(part).all(1))
            if len(bad):
                raise ValueError(
                    f"{self.source}: {name} must be finite but for the last of an episode, got NaN or Inf at "
                    f"step {bad[0]} of {len(part) + 1} in episode {number}: cut the episode there"
                )
        return columns

    @validate_types
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

    @validate_types
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
            options: others of `isojepa.data.Windows`.
        """
        bounds = (self.meta["low"], self.meta["high"]) if {"low", "high"} <= set(self.meta) else None
        parts = self.values("observation"), self.vectors("action")
        return Windows(*parts, length=length, **{"bounds": bounds, **options})

    def hashes(self) -> tuple[str, ...]:
        """A hash of each episode, of its observations and actions."""
        parts = Trajectories("observation", self.values("observation"))
        return tuple(_episode_hashes(parts, Trajectories("action", self.vectors("action"))))

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

    @validate_types
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
        observations = None if observation is None else self.values(observation)
        return Recorded(self.vectors(state), observations, stride=stride, **options)

    def write(self, path: Path | str, form: str = "stable-worldmodel") -> Path:
        """Write a file of them, see `write_episodes`."""
        from isojepa.data.files import write_episodes

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
    array = np.asarray(values)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "iu":
        raise ValueError(
            f"{source}: {name} must be one whole number for each episode, got {array.dtype} {array.shape}"
        )
    if array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{source}: {name} must be below 2^63, got {array.max()}")
    return array.astype(np.int64)


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
