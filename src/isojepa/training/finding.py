"""Records by their ids: the folder has that name, or the one that an older format gave it."""

import contextlib
import os
import re
from pathlib import Path

from isojepa.training.records import Record

_HASH = re.compile(r"[0-9a-f]{12}")
_known: dict[str, str] = {}  # folders of records and their ids


def find_record(folder: str | Path, name: str) -> Path:
    """The folder of a record by its id: of that name, or of the older name of a record of an older format."""
    path = Path(folder) / name
    if (path / "config.json").exists() or not Path(folder).is_dir():
        return path
    return _aliases(Path(folder)).get(name, path)


def _aliases(folder: Path) -> dict[str, Path]:
    """The records of a folder whose names are not their ids, by id; what was read once is not read again."""
    found = {}
    for entry in os.scandir(folder):
        if not _HASH.fullmatch(entry.name) or not entry.is_dir():
            continue
        if entry.path not in _known:
            with contextlib.suppress(ValueError, OSError):
                _known[entry.path] = Record(entry.path).id
        name = _known.get(entry.path, entry.name)
        if name != entry.name:
            found[name] = Path(entry.path)
    return found
