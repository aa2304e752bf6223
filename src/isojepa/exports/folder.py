"""The folder of an export: whole or not there, and nothing of others is ever written over."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from isojepa.files import check_folder

MANIFEST = "export.json"
NAMES = (MANIFEST, "README.md", "config.json", "model.safetensors", "model.onnx")


def check_place(out: Path, again: bool) -> None:
    """See that a folder may be written.

    Args:
        out: the folder.
        again: an earlier export there may be replaced.

    Raises:
        ValueError: it holds something else, or an export that is to stay.
    """
    check_folder(out)
    names = sorted(os.listdir(out)) if out.is_dir() else []
    foreign = [name for name in names if name not in NAMES]
    if foreign or (names and MANIFEST not in names):
        raise ValueError(
            f"{out} must be a new folder, or an export, got one that holds {(foreign or names)[0]!r}: choose "
            "another --out; nothing in it was touched"
        )
    if names and not again:
        raise ValueError(f"{out} holds an export already: add --again to replace it, or choose another --out")


@contextlib.contextmanager
def staged(out: Path, again: bool) -> Iterator[Path]:
    """A folder to write into, which takes the place of `out` when all went well; else it is removed.

    Raises:
        ValueError: as of `check_place`.
        OSError: it cannot be written.
    """
    check_place(out, again)
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.{secrets.token_hex(8)}.tmp")
    temporary.mkdir()
    try:
        yield temporary
        check_place(out, again)  # as it is now
        if out.is_dir():
            earlier = out.with_name(f".{out.name}.{secrets.token_hex(8)}.old.tmp")
            os.rename(out, earlier)
            os.rename(temporary, out)
            shutil.rmtree(earlier, ignore_errors=True)
        else:
            os.rename(temporary, out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
