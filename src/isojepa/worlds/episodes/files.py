"""Files of episodes: HDF5 of stable-worldmodel and robomimic, and npz.

Files of episodes: HDF5 of stable-worldmodel and robomimic, and npz, distinguished by their content.

    stable-worldmodel   NAME (steps of all episodes, ...) for each column; ep_len, ep_offset (episodes,)
    robomimic           data/demo_i/actions, rewards, dones, states and obs/NAME, (steps, ...) each
    npz                 NAME (episodes, steps, ...), or (steps of all episodes, ...) with ep_len
    by episode number   NAME (steps of all episodes, ...), one of them the number of each row's episode

Contiguous HDF5 datasets are memory-mapped, and chunked ones read on demand. Links, external datasets, and
small files that declare huge arrays are errors. Columns of a robomimic file are called action, reward, done,
states and as in obs. The attribute `isojepa` of an HDF5 file holds `Episodes.meta` as JSON.

Episodes as files that others read: stable-worldmodel's and robomimic's HDF5.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.arguments import checked
from isojepa.files import plain, write_whole
from isojepa.importing import install_hint
from isojepa.names import choose, unknown
from isojepa.opening import EXPANDED, check_expanded, parse_json, plain_file, size_of
from isojepa.worlds.archives import read_npz
from isojepa.worlds.episodes.episodes import Episodes
from isojepa.worlds.images.cache import natural

BOOKKEEPING = ("ep_len", "ep_offset", "ep_idx", "step_idx")  # of which rows are whose: no columns
ROBOMIMIC = {"action": "actions", "reward": "rewards", "done": "dones", "states": "states"}
META = "isojepa"  # attribute of an HDF5 file
MAX_META = 60_000  # bytes of it; HDF5 has attributes of at most 64 kB
_INSTEAD = "write it without compression"
_HELD = 1 << 27  # bytes of one array that are read whole: of lengths and offsets


@checked
def read_episodes(path: Path, columns: Sequence[str] | None = None, episode: str | None = None) -> Episodes:
    """Read episodes from an HDF5 file of stable-worldmodel or robomimic, or from an npz file.

    Args:
        path: the file.
        columns: names of the columns to read; by default all.
        episode: column of episode numbers, for flat columns without ep_len.

    Raises:
        ValueError: the file is missing, damaged, or holds something else.
        ImportError: h5py is not installed.
    """
    with _opened(Path(path)) as (file, root):
        if not isinstance(file, _File):
            return _arrays(root, columns, episode, str(path))
        if episode is None and _is_robomimic(root):
            return _demonstrations(file, root, columns)
        return _flat(file, root, columns, episode)


@checked
def column_names(path: Path) -> tuple[str, ...]:
    """Names of the columns of such a file, of any type.

    Raises:
        ValueError, ImportError: as of `read_episodes`.
    """
    with _opened(Path(path)) as (file, root):
        if not isinstance(file, _File) or not _is_robomimic(root):
            return tuple(name for name in root if name not in BOOKKEEPING)
        demos = _demos(file, root)
        return tuple(_places(file, within(file.h5py, within(file.h5py, root, "data"), demos[0])))


def within(h5py: Any, group: Any, name: str) -> Any:
    """An entry that lies in the file itself: a link could lead to any other.

    Raises:
        ValueError: it does not exist, or is a link.
    """
    if not isinstance(group, h5py.Group) or name not in set(group):  # `in group` would follow a link
        raise ValueError(f"it must hold {name} in {getattr(group, 'name', '/')}")
    if group.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
        raise ValueError(f"{name} in {group.name} must lie in the file itself, got a link")
    return group[name]


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple["_File | None", Any]]:
    """An HDF5 file and its root, which stays open while datasets are used; None and the arrays of an npz."""
    plain_file(path)
    file: _File | None = None
    root: Any = None
    if path.suffix != ".npz":
        try:
            import h5py
        except ImportError as error:
            raise ImportError(f"reading {path} needs h5py: {install_hint('hdf5')}") from error
        file = _File(h5py, path)
    try:
        root = read_npz(path) if file is None else file.h5py.File(path, "r")
        yield file, root
    except MemoryError:
        raise
    except Exception as error:  # h5py raises many kinds for damaged files
        if file is not None and root is not None:
            root.close()
        reason = " ".join(str(error).removeprefix(f"{path}: ").split())
        raise ValueError(f"{path} cannot be read as episodes: {reason}") from error


def _is_robomimic(root: Any) -> bool:
    names = set(root)
    return "data" in names and "ep_len" not in names


class _File:
    """What the datasets of one file are checked by, and how they are mapped."""

    def __init__(self, h5py: Any, path: Path) -> None:
        self.h5py, self.path, self.size = h5py, path, path.stat().st_size

    def dataset(self, group: Any, name: str) -> Any:
        """A dataset of numbers as a memory map if it lies in one piece, else as it is."""
        found = within(self.h5py, group, name)
        if not isinstance(found, self.h5py.Dataset) or found.shape is None:
            raise ValueError(f"{name} must be an array, got {type(found).__name__.lower()}")
        if found.dtype.kind not in "fiub":
            raise ValueError(f"{name} must hold numbers, got {found.dtype}: name the columns to read")
        if found.external or found.is_virtual:
            raise ValueError(f"{name} must lie in the file itself, got one that leads into another file")
        if prod(found.chunks or ()) * found.dtype.itemsize > EXPANDED:
            raise ValueError(f"{name} must be stored in pieces of at most {size_of(EXPANDED)}")
        check_expanded(found.nbytes, found.id.get_storage_size(), name, _INSTEAD)
        offset = None if found.chunks or not found.size else found.id.get_offset()
        if offset is None:
            return found
        if offset + found.nbytes > self.size:
            raise ValueError(f"{name} must lie within the file, got an end beyond it")
        return np.memmap(self.path, found.dtype, "r", offset, found.shape)

    def whole(self, group: Any, name: str) -> np.ndarray:
        """A small dataset, read."""
        found = self.dataset(group, name)
        if found.size * found.dtype.itemsize > _HELD:
            raise ValueError(f"{name} must take at most {size_of(_HELD)}, got {found.shape}")
        return np.asarray(found[()])


def _flat(file: _File, root: Any, wanted: Sequence[str] | None, episode: str | None) -> Episodes:
    if episode is None and not {"ep_len", "ep_offset"} <= set(root):
        raise ValueError(
            "it must hold ep_len and ep_offset (stable-worldmodel) or data/demo_0 (robomimic), or the column "
            "of episode numbers must be named"
        )
    names = [name for name in root if name not in (*BOOKKEEPING, episode)]
    columns = {name: file.dataset(root, name) for name in _chosen(names, wanted)}
    if episode is not None:
        lengths, offsets = _runs(file.whole(root, episode), episode, columns), None
    else:
        lengths, offsets = file.whole(root, "ep_len"), file.whole(root, "ep_offset")
    return Episodes(columns, lengths, offsets, source=str(file.path), meta=_meta(root))


def _arrays(
    arrays: Mapping[str, Any], wanted: Sequence[str] | None, episode: str | None, source: str
) -> Episodes:
    """Episodes of the arrays of an npz file."""
    names = [name for name in arrays if name not in (*BOOKKEEPING, episode)]
    columns = {name: arrays[name] for name in _chosen(names, wanted)}
    if episode is not None:
        if episode not in arrays:
            raise ValueError(unknown("episode", episode, arrays))
        return Episodes(columns, _runs(arrays[episode], episode, columns), source=source)
    if "ep_len" in arrays:
        return Episodes(columns, arrays["ep_len"], arrays.get("ep_offset"), source=source)
    shapes = {array.shape[:2] for array in columns.values()}
    if len(shapes) > 1 or any(array.ndim < 2 for array in columns.values()):
        listed = ", ".join(f"{name} {array.shape}" for name, array in columns.items())
        raise ValueError(
            "it must hold arrays (episodes, steps, ...) of one number of episodes and steps, or ep_len, or "
            f"the column of episode numbers must be named, got {listed}"
        )
    episodes, steps = shapes.pop()
    flat = {name: array.reshape(episodes * steps, *array.shape[2:]) for name, array in columns.items()}
    return Episodes(flat, np.full(episodes, steps), source=source)


def _runs(numbers: np.ndarray, name: str, columns: Mapping[str, Any]) -> np.ndarray:
    """Lengths of the runs of equal episode numbers."""
    rows = next(iter(columns.values())).shape[:1]
    if numbers.shape[:1] != rows or numbers.size != len(numbers) or numbers.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be one number for each row, got {numbers.dtype} {numbers.shape}")
    numbers = np.asarray(numbers).reshape(-1)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(numbers) != 0) + 1))
    if len(np.unique(numbers[starts])) < len(starts):
        raise ValueError(f"{name} must number the rows of an episode alike and one after the other")
    return np.diff(np.append(starts, len(numbers)))


def _meta(root: Any) -> dict[str, Any]:
    """The attribute that describes the episodes; its size is checked before it is read."""
    if META not in root.attrs:
        return {}
    identifier = root.attrs.get_id(META)
    if identifier.dtype.kind != "S" or identifier.shape != () or identifier.dtype.itemsize > MAX_META:
        raise ValueError(f"attribute {META} must be text of at most {MAX_META} bytes")
    meta = parse_json(bytes(root.attrs[META]))
    if not isinstance(meta, dict):
        raise ValueError(f"attribute {META} must be a JSON object, got {type(meta).__name__}")
    return meta


def _demonstrations(file: _File, root: Any, wanted: Sequence[str] | None) -> Episodes:
    demos = _demos(file, root)
    data = within(file.h5py, root, "data")
    groups = [within(file.h5py, data, demo) for demo in demos]
    places = _places(file, groups[0])
    columns: dict[str, Any] = {}
    for name in _chosen(list(places), wanted):
        group, own = places[name]
        inside = [within(file.h5py, one, group) if group else one for one in groups]
        columns[name] = Joined(name, [file.dataset(one, own) for one in inside])
    lengths = next(iter(columns.values())).lengths
    for name, column in columns.items():
        off = np.flatnonzero(column.lengths != lengths)
        if len(off):
            raise ValueError(
                f"{name} must have the {lengths[off[0]]} steps of the others in {demos[off[0]]}, got "
                f"{column.lengths[off[0]]}"
            )
    return Episodes(columns, lengths, source=str(file.path), meta=_meta(root))


def _demos(file: _File, root: Any) -> list[str]:
    """Names of the demonstrations, in the order of their numbers."""
    data = within(file.h5py, root, "data")
    if not isinstance(data, file.h5py.Group):
        raise ValueError("data must be a group, got an array")
    demos = sorted((name for name in data if name.startswith("demo_")), key=natural)
    if not demos:
        raise ValueError("it must hold data/demo_0 and so on, got none")
    return demos


def _places(file: _File, demo: Any) -> dict[str, tuple[str, str]]:
    """Where the columns of a demonstration are: the group in it, if any, and the name there."""
    names = set(demo)
    places = {name: ("", own) for name, own in ROBOMIMIC.items() if own in names}
    if "obs" in names:
        for own in within(file.h5py, demo, "obs"):
            if own in places:
                raise ValueError(f"obs must not have a name of its own columns, got {own}")
            places[own] = ("obs", own)
    return places


def _chosen(known: Sequence[str], wanted: Sequence[str] | None) -> Sequence[str]:
    for name in wanted or ():
        if name not in known:
            raise ValueError(unknown("column", name, known))
    chosen = tuple(known if wanted is None else wanted)
    if not chosen:
        raise ValueError("it must hold a column, got none")
    return chosen


class Joined:
    """Datasets of several demonstrations as one flat column, read where it is asked for."""

    def __init__(self, name: str, parts: list[Any]) -> None:
        shapes = {(part.shape[1:], part.dtype) for part in parts}
        if len(shapes) > 1 or not all(part.shape for part in parts):
            raise ValueError(f"{name} must have one shape and kind of numbers in all demonstrations")
        self._parts = parts
        self.lengths = np.array([len(part) for part in parts], dtype=np.int64)
        self._ends = np.cumsum(self.lengths)
        self.shape = (int(self._ends[-1]), *parts[0].shape[1:])
        self.dtype = parts[0].dtype

    def __getitem__(self, rows: slice) -> np.ndarray:
        first = int(np.searchsorted(self._ends, rows.start, side="right"))
        pieces = []
        for part, end, length in zip(
            self._parts[first:], self._ends[first:], self.lengths[first:], strict=True
        ):
            begin = int(end - length)
            if begin >= rows.stop:
                break
            pieces.append(part[max(rows.start - begin, 0) : rows.stop - begin])
        return np.asarray(pieces[0] if len(pieces) == 1 else np.concatenate(pieces))


_AT_ONCE = 64 << 20  # bytes that are held while a column is copied


@checked
def write_episodes(path: Path, episodes: Episodes, form: str = "stable-worldmodel") -> Path:
    """Write episodes into one HDF5 file, whole or not at all.

    Args:
        path: the file.
        episodes: any; columns that lie on the disk are copied a piece at a time.
        form: "stable-worldmodel" or "robomimic". robomimic has an action at every step, so the last state of
            an episode, whose action is NaN, is left out there.

    Returns:
        The path.

    Raises:
        ValueError: the format is unknown, or has no place for a column of that name.
        ImportError: h5py is not installed.
    """
    write = choose("form", form, FORMS)
    h5py = import_h5py(path)
    meta = json.dumps(plain(episodes.meta)).encode()
    if len(meta) > MAX_META:
        raise ValueError(f"meta must take at most {MAX_META} bytes as JSON, got {len(meta)}: shorten it")

    def fill(temporary: Path) -> None:
        with h5py.File(temporary, "w") as file:
            write(file, episodes)
            if episodes.meta:
                file.attrs[META] = np.bytes_(meta)

    path = Path(path)
    write_whole(path, fill)
    return path


def import_h5py(path: Path) -> Any:
    """The module h5py, to write a file.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"writing {path} needs h5py: {install_hint('hdf5')}") from error
    return h5py


def _write_flat(file: Any, episodes: Episodes) -> None:
    taken = [name for name in episodes.names if name in BOOKKEEPING or "/" in name]
    if taken:
        raise ValueError(f"columns must not be called {', '.join(BOOKKEEPING)} or have a /, got {taken[0]}")
    for name in episodes.names:
        # in one piece, so that whoever reads it can map it
        column = file.create_dataset(
            name, (episodes.steps, *episodes.shape(name)), dtype=episodes.dtype(name)
        )
        start = 0
        for part in _pieces(episodes, name):
            column[start : start + len(part)] = part
            start += len(part)
    lengths = episodes.lengths
    file["ep_len"] = lengths.astype(np.int32)
    file["ep_offset"] = np.cumsum(lengths) - lengths
    file["ep_idx"] = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    file["step_idx"] = np.concatenate([np.arange(length, dtype=np.int32) for length in lengths])


def _pieces(episodes: Episodes, name: str) -> Iterator[np.ndarray]:
    """A column in parts of many episodes: one write for each episode would take most of the time."""
    held: list[np.ndarray] = []
    size = 0
    for number in range(len(episodes)):
        held.append(episodes.rows(name, number))
        size += held[-1].nbytes
        if size > _AT_ONCE or number == len(episodes) - 1:
            yield np.concatenate(held)
            held, size = [], 0


def _write_demonstrations(file: Any, episodes: Episodes) -> None:
    if "action" not in episodes:
        raise ValueError(f"robomimic's files must have a column action, got {', '.join(episodes.names)}")
    taken = [name for name in episodes.names if "/" in name]
    if taken:
        raise ValueError(f"columns must not have a / in their name, got {taken[0]}")
    total = 0
    data = file.create_group("data")
    for number in range(len(episodes)):
        columns = episodes.episode(number)
        open_end = bool(np.isnan(columns["action"][-1].astype(np.float64)).any())
        length = len(columns["action"]) - open_end
        if not length:
            raise ValueError(f"every episode must have an action, got none in episode {number}")
        group = data.create_group(f"demo_{number}")
        for name, values in columns.items():
            group[ROBOMIMIC.get(name, f"obs/{name}")] = values[:length]
        group.attrs["num_samples"] = length
        total += length
    data.attrs["total"] = total


FORMS: dict[str, Callable[[Any, Episodes], None]] = {
    "stable-worldmodel": _write_flat,
    "robomimic": _write_demonstrations,
}
