"""Files that an audit takes: HDF5 of episodes, and npz."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.certificates.archives import read_npz
from isojepa.certificates.audit.material import SPEEDS, STATES
from isojepa.names import unknown
from isojepa.opening import plain_file
from isojepa.worlds.episodes import Episodes, read_episodes
from isojepa.worlds.episodes.reading import BOOKKEEPING, column_names


def read_for_audit(path: Path | str, columns: Sequence[str | None] = ()) -> Episodes:
    """The columns of a file that an audit looks at.

    Args:
        path: HDF5 as `read_episodes` takes it, or npz: arrays (episodes, steps, ...), or flat ones (steps,
            ...) with ep_len.
        columns: that are asked for by name; those that states and speeds are usually called are taken too.

    Raises:
        ValueError: the file is missing, damaged, holds something else, or lacks a column.
    """
    path = plain_file(Path(path))
    wanted = [name for name in columns if name is not None]
    if path.suffix == ".npz":
        try:
            return _of_arrays(dict(read_npz(path)), wanted, str(path))
        except (OSError, EOFError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from error
        except ValueError as error:
            text = str(error)
            raise ValueError(text if str(path) in text else f"{path} cannot be read: {text}") from error
    return read_episodes(path, _taken(column_names(path), wanted, str(path)))


def _of_arrays(arrays: dict[str, Any], wanted: Sequence[str], source: str) -> Episodes:
    taken = {name: arrays[name] for name in _taken(list(arrays), wanted, source)}
    if "ep_len" in arrays:
        return Episodes(taken, arrays["ep_len"], arrays.get("ep_offset"), source=source)
    shapes = {name: array.shape[:2] for name, array in taken.items()}
    if len(set(shapes.values())) > 1 or any(array.ndim < 2 for array in taken.values()):
        told = ", ".join(f"{name} {taken[name].shape}" for name in taken)
        raise ValueError(
            f"{source} must hold arrays (episodes, steps, dim) of one number of episodes and steps, or "
            f"ep_len, got {told}"
        )
    episodes, steps = next(iter(shapes.values()))
    flat = {name: array.reshape(episodes * steps, *array.shape[2:]) for name, array in taken.items()}
    return Episodes(flat, np.full(episodes, steps), source=source)


def _taken(known: Sequence[str], wanted: Sequence[str], source: str) -> list[str]:
    for name in wanted:
        if name not in known:
            raise ValueError(
                f"{source}: {unknown('column', name, [one for one in known if one not in BOOKKEEPING])}"
            )
    return [name for name in known if name in {*wanted, *STATES, *SPEEDS}]
