"""Files of arrays and of episodes: npz and HDF5, checked against their declared sizes before they are read.

A few bytes of a compressed file may stand for gigabytes, so declared sizes are compared with the file first.
Large arrays are not held in memory: uncompressed members of an npz file are memory-mapped, compressed ones
are expanded into an anonymous file, and HDF5 datasets are read on demand.

Layouts of episodes, distinguished by their content:

    stable-worldmodel   NAME (steps of all episodes, ...) for each column; ep_len, ep_offset (episodes,)
    robomimic           data/demo_i/actions, rewards, dones, states and obs/NAME, (steps, ...) each
    npz                 NAME (episodes, steps, ...), or (steps of all episodes, ...) with ep_len
    by episode number   NAME (steps of all episodes, ...), one of them the number of each row's episode

Contiguous HDF5 datasets are memory-mapped. Links, external datasets, and small files that declare huge arrays
are errors. Columns of a robomimic file are called action, reward, done, states and as in obs. The attribute
`isojepa` of an HDF5 file holds `Episodes.meta` as JSON.
"""

import contextlib
import hashlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from isojepa.data.episodes import Episodes, Windows
from isojepa.data.images.cache import natural
from isojepa.importing import install_hint
from isojepa.io import (
    MAX_EXPANDED_BYTES,
    check_expanded,
    npy_header,
    parse_json,
    plain_file,
    size_of,
    to_jsonable,
    write_whole,
)
from isojepa.registry import Context, Spec, register
from isojepa.validation import choose, unknown, validate_types

_IN_MEMORY_BYTES = 256 << 20  # bytes of an npz file's arrays that are read into memory
_LOCAL = 30  # bytes of a zip member's own header, before its name
_CHUNK = 1 << 20


def read_npz(path: Path, in_memory: int | None = None) -> Mapping[str, Any]:
    """Every array of an npz file by its name; memory maps if they take more than `in_memory` bytes together.

    Raises:
        ValueError: the file is damaged, holds something else, or would expand to far more than it is.
    """
    if not zipfile.is_zipfile(path):
        raise ValueError("it is empty, cut short, or of another kind")
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        declared = sum(member.file_size for member in members)
        check_expanded(
            declared, path.stat().st_size, "its arrays", "write them with np.savez, or as npy files"
        )
        arrays: dict[str, Any] = {}
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in arrays:
                raise ValueError(f"it holds {name!r} twice")
            if declared <= (_IN_MEMORY_BYTES if in_memory is None else in_memory):
                with archive.open(member) as file:
                    arrays[name] = _expanded(name, file, member.file_size)
            else:
                arrays[name] = _mapped(path, archive, member, name)
    return arrays


def read_hdf5(path: Path) -> Mapping[str, Any]:
    """Every dataset of an HDF5 file by its path in it, left on the disk.

    Raises:
        ImportError: h5py is not installed.
        ValueError: the file is damaged, a dataset lies in another file, or would expand to far more than it
            is.
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"reading {path} needs h5py: {install_hint('hdf5')}") from error
    arrays: dict[str, Any] = {}
    file = h5py.File(path, "r")  # stays open for as long as its datasets are used
    file.visititems(
        lambda name, item: arrays.update({name: item}) if isinstance(item, h5py.Dataset) else None
    )
    for name, item in arrays.items():
        if item.shape is None:
            raise ValueError(f"{name!r} holds no array")
        if item.external or item.is_virtual:
            other = item.external[0][0] if item.external else item.virtual_sources()[0].file_name
            raise ValueError(f"{name!r} lies in another file, {other!r}, which is not followed")
        piece = prod(item.chunks or ()) * item.dtype.itemsize
        if piece > MAX_EXPANDED_BYTES:
            raise ValueError(f"{name!r} must be stored in pieces of at most {size_of(MAX_EXPANDED_BYTES)}")
        check_expanded(item.nbytes, item.id.get_storage_size(), repr(name), "write it without compression")
    return arrays


def _expanded(name: str, file: Any, size: int) -> np.ndarray:
    """An array read into memory, whose header is first held against the bytes there are."""
    shape, order, dtype, start = npy_header(name, file, size)
    count = prod(shape) * dtype.itemsize
    content = bytearray(size - start)
    view = memoryview(content)
    while view and (got := file.readinto(view)):
        view = view[got:]
    file.read(1)  # at the end its checksum is compared
    if view:
        raise ValueError(f"{name!r} is cut short")
    return np.frombuffer(content, dtype, count // dtype.itemsize if dtype.itemsize else 0).reshape(
        shape, order=order
    )


def _mapped(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> np.ndarray:
    """An array as a memory map: of the file itself, or of a nameless one that it is expanded into."""
    with archive.open(member) as file:
        shape, order, dtype, start = npy_header(name, file, member.file_size)
        if member.compress_type == zipfile.ZIP_STORED:
            while file.read(_CHUNK):  # at the end its checksum is compared
                pass
            where: Any = path
            start += _offset(path, member)
        else:
            where = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the map)
            shutil.copyfileobj(file, where, _CHUNK)
            where.flush()
            start = 0
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.memmap(where, dtype, "r", start, shape, order)


def _offset(path: Path, member: zipfile.ZipInfo) -> int:
    """Where the bytes of a stored member begin: after a header of its own with its name and notes."""
    with open(path, "rb") as file:
        file.seek(member.header_offset)
        local = _exactly(file, _LOCAL)
    name, notes = (int.from_bytes(local[at : at + 2], "little") for at in (26, 28))
    return member.header_offset + _LOCAL + name + notes


def _exactly(file: BinaryIO, count: int) -> bytes:
    content = file.read(count)
    if len(content) < count:
        raise ValueError("it is cut short")
    return content


_BOOKKEEPING = ("ep_len", "ep_offset", "ep_idx", "step_idx")  # of which rows are whose: no columns
_ROBOMIMIC = {"action": "actions", "reward": "rewards", "done": "dones", "states": "states"}
_META = "isojepa"  # attribute of an HDF5 file
_MAX_META = 60_000  # bytes of it; HDF5 has attributes of at most 64 kB
_INSTEAD = "write it without compression"
_MAX_INDEX_BYTES = 1 << 27  # of an array of lengths or offsets


@validate_types
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


@validate_types
def column_names(path: Path) -> tuple[str, ...]:
    """Names of the columns of such a file, of any type.

    Raises:
        ValueError, ImportError: as of `read_episodes`.
    """
    with _opened(Path(path)) as (file, root):
        if not isinstance(file, _File) or not _is_robomimic(root):
            return tuple(name for name in root if name not in _BOOKKEEPING)
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
        dataset = within(self.h5py, group, name)
        if not isinstance(dataset, self.h5py.Dataset) or dataset.shape is None:
            raise ValueError(f"{name} must be an array, got {type(dataset).__name__.lower()}")
        if dataset.dtype.kind not in "fiub":
            raise ValueError(f"{name} must hold numbers, got {dataset.dtype}: name the columns to read")
        if dataset.external or dataset.is_virtual:
            raise ValueError(f"{name} must lie in the file itself, got one that leads into another file")
        if prod(dataset.chunks or ()) * dataset.dtype.itemsize > MAX_EXPANDED_BYTES:
            raise ValueError(f"{name} must be stored in pieces of at most {size_of(MAX_EXPANDED_BYTES)}")
        check_expanded(dataset.nbytes, dataset.id.get_storage_size(), name, _INSTEAD)
        offset = None if dataset.chunks or not dataset.size else dataset.id.get_offset()
        if offset is None:
            return dataset
        if offset + dataset.nbytes > self.size:
            raise ValueError(f"{name} must lie within the file, got an end beyond it")
        return np.memmap(self.path, dataset.dtype, "r", offset, dataset.shape)

    def whole(self, group: Any, name: str) -> np.ndarray:
        """A small dataset, read."""
        dataset = self.dataset(group, name)
        if dataset.size * dataset.dtype.itemsize > _MAX_INDEX_BYTES:
            raise ValueError(f"{name} must take at most {size_of(_MAX_INDEX_BYTES)}, got {dataset.shape}")
        return np.asarray(dataset[()])


def _flat(file: _File, root: Any, wanted: Sequence[str] | None, episode: str | None) -> Episodes:
    if episode is None and not {"ep_len", "ep_offset"} <= set(root):
        raise ValueError(
            "it must hold ep_len and ep_offset (stable-worldmodel) or data/demo_0 (robomimic), or the column "
            "of episode numbers must be named"
        )
    names = [name for name in root if name not in (*_BOOKKEEPING, episode)]
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
    names = [name for name in arrays if name not in (*_BOOKKEEPING, episode)]
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
    if _META not in root.attrs:
        return {}
    identifier = root.attrs.get_id(_META)
    if identifier.dtype.kind != "S" or identifier.shape != () or identifier.dtype.itemsize > _MAX_META:
        raise ValueError(f"attribute {_META} must be text of at most {_MAX_META} bytes")
    meta = parse_json(bytes(root.attrs[_META]))
    if not isinstance(meta, dict):
        raise ValueError(f"attribute {_META} must be a JSON object, got {type(meta).__name__}")
    return meta


def _demonstrations(file: _File, root: Any, wanted: Sequence[str] | None) -> Episodes:
    demos = _demos(file, root)
    data = within(file.h5py, root, "data")
    groups = [within(file.h5py, data, demo) for demo in demos]
    places = _places(file, groups[0])
    columns: dict[str, Any] = {}
    for name in _chosen(list(places), wanted):
        group, column = places[name]
        inside = [within(file.h5py, one, group) if group else one for one in groups]
        columns[name] = Joined(name, [file.dataset(one, column) for one in inside])
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
    places = {name: ("", own) for name, own in _ROBOMIMIC.items() if own in names}
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


@validate_types
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
    meta = json.dumps(to_jsonable(episodes.meta)).encode()
    if len(meta) > _MAX_META:
        raise ValueError(f"meta must take at most {_MAX_META} bytes as JSON, got {len(meta)}: shorten it")

    def fill(temporary: Path) -> None:
        with h5py.File(temporary, "w") as file:
            write(file, episodes)
            if episodes.meta:
                file.attrs[_META] = np.bytes_(meta)

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
    taken = [name for name in episodes.names if name in _BOOKKEEPING or "/" in name]
    if taken:
        raise ValueError(f"columns must not be called {', '.join(_BOOKKEEPING)} or have a /, got {taken[0]}")
    for name in episodes.names:
        # contiguous, so that readers can map it
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
            group[_ROBOMIMIC.get(name, f"obs/{name}")] = values[:length]
        group.attrs["num_samples"] = length
        total += length
    data.attrs["total"] = total


FORMS: dict[str, Callable[[Any, Episodes], None]] = {
    "stable-worldmodel": _write_flat,
    "robomimic": _write_demonstrations,
}


@register("world", "episodes")
@dataclass(frozen=True)
class EpisodesSpec(Spec):
    """Recorded episodes with actions: HDF5 of `isojepa collect`, stable-worldmodel or robomimic, or npz."""

    costless: ClassVar = ("held_out", "split_seed")
    path: str = ""
    """The file; the same as --data."""
    observation: str = "observation"
    """Column of the observations."""
    action: str = "action"
    """Column of the actions; that of the last row of an episode may be NaN."""
    episode: str = ""
    """Column of episode numbers, where the file has no ep_len."""
    held_out: float = 0.1
    """Fraction of the episodes that training never sees."""
    split_seed: int = 0
    """Draws which."""
    digest: str = ""
    """Hash of the episodes, filled in; with it, other data are an error."""

    def read(self, path: Path) -> Episodes:
        """All episodes of a file with these columns, as `observation` and `action`."""
        episodes = read_episodes(path, episode=self.episode or None)
        for role, name in (("observation", self.observation), ("action", self.action)):
            if name not in episodes:
                raise ValueError(
                    f"{path} has no column {name!r} of {role}s: pass --world.{role} with one of "
                    f"{', '.join(episodes.names)}"
                )
        return episodes.rename(observation=self.observation, action=self.action)

    def open(self) -> tuple[Episodes, Episodes]:
        """The episodes to train on and those that are held out.

        Raises:
            ValueError: there is no such file, or it is not the one of the digest.
        """
        if not self.path:
            raise ValueError("episodes need a file: --data FILE, such as `isojepa collect` writes")
        train, test = self.read(Path(self.path)).split(1 - self.held_out, self.split_seed)
        if self.digest and self.digest != _digest(train.hashes()):
            raise ValueError(f"{self.path} holds other episodes than the run was started on: name that file")
        return train, test

    def build(self, context: Context) -> Windows:
        train, test = self.open()
        return train.windows(held_out=test.windows())

    def resolve(self, context: Context) -> "EpisodesSpec":
        if self.digest or not self.path:
            return self
        source = context.source
        windows = source if isinstance(source, Windows) else self.build(context)
        return replace(self, digest=_digest(windows.hashes))

    def around(self, seed: int) -> Context:
        return Context.of(self.build(Context(seed=seed)), seed) if self.path else Context(seed=seed)


def _digest(hashes: Sequence[str]) -> str:
    return hashlib.blake2b("".join(hashes).encode(), digest_size=8).hexdigest()
