"""Episodes as files that others read: stable-worldmodel's and robomimic's HDF5."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.arguments import checked
from isojepa.files import plain, write_whole
from isojepa.importing import install_hint
from isojepa.names import choose
from isojepa.worlds.episodes.episodes import Episodes
from isojepa.worlds.episodes.reading import BOOKKEEPING, MAX_META, META, ROBOMIMIC

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
