"""The folder of a record: the names in it that are ours, and none but these is ever written or removed.

A record may come from somebody else, and a folder that was named by mistake may hold somebody's work.
"""

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from isojepa.files import check_file, check_folder, half_written

LOCK = ".lock"
WEIGHTS = ".safetensors"
CHECKPOINT = "checkpoint"
FILES = (
    "result.json",
    "metrics.jsonl",
    "scores.json",
    "report.html",
    "picture.png",
    "look.html",
    "config.json",
)
_DRAWN = ("report.html", "picture.png", "look.html")  # by others than who trains
_FOLDERS = (CHECKPOINT, "tensorboard", "wandb")
_UNFINISHED = re.compile(r"\.tmp[0-9A-Za-z]{6}")  # what safetensors writes to and then renames


def check_claim(folder: Path) -> None:
    """See that a folder is a record, or may become one.

    Raises:
        ValueError: it is a file, or holds something else.
    """
    if os.path.lexists(folder) and not folder.is_dir():
        raise ValueError(f"a record must be a folder, got the file {folder}")
    if not folder.is_dir() or os.path.lexists(folder / "config.json"):
        return
    for name in sorted(os.listdir(folder)):
        if name != LOCK and half_written(name) != "config.json":  # a start that was killed left no more
            raise ValueError(
                f"{folder} is not empty and no record: it holds {name!r} and no config.json; nothing in it "
                "was touched: choose another folder, or empty this one"
            )


def remove_half_written(folder: Path) -> None:
    """Remove what writes of a record's files left unfinished, and nothing of other names."""
    if not folder.is_dir():
        return
    for name in os.listdir(folder):
        whole = half_written(name)
        ours = whole is not None and (whole in FILES or whole.endswith(WEIGHTS))
        if ours or _UNFINISHED.fullmatch(name):
            with contextlib.suppress(OSError):  # a folder of that name is not ours
                (folder / name).unlink(missing_ok=True)


def check_plain(folder: Path) -> None:
    """See that what a run reads and changes are plain files and folders.

    Raises:
        NotPlain: one of them is a link, or something else.
    """
    for name in sorted(os.listdir(folder)):
        if name in _FOLDERS:
            check_folder(folder / name)
        elif (name in FILES and name not in _DRAWN) or name.endswith(WEIGHTS):
            check_file(folder / name)
    check_file(folder / CHECKPOINT / f"state{WEIGHTS}")


def remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint of a record, and its folder if nothing else is in it.

    Raises:
        NotPlain: the checkpoint's folder is a link.
    """
    own = folder / CHECKPOINT
    check_folder(own)
    (own / f"state{WEIGHTS}").unlink(missing_ok=True)
    remove_half_written(own)
    with contextlib.suppress(OSError):  # somebody keeps something else there, or there is none
        own.rmdir()


def remove_run(folder: Path, parts: Sequence[str]) -> None:
    """Remove a run and what was drawn of it, and nothing else; its config stays.

    Args:
        folder: of the record.
        parts: whose weights it keeps.
    """
    remove_checkpoint(folder)
    for name in (*FILES, *(f"{part}{WEIGHTS}" for part in parts)):
        if name != "config.json":
            (folder / name).unlink(missing_ok=True)
