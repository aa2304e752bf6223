"""Ranks that this process starts itself: copies of its own command, for `devices` on one machine.

The process that was started by the user is the first rank and keeps the place where ranks meet. A copy ends
when the first rank is gone, and the first rank does not end before its copies: whatever happens to one of
them, none stays behind.
"""

import atexit
import os
import subprocess
import sys
import threading
import time

from isojepa.places import PARENT

_SLACK = 30.0  # seconds that copies have to come to their end after the first rank has
_LOOK = 0.5  # seconds between looks at the parent
_copies: dict[int, "subprocess.Popen[bytes]"] = {}  # by rank


def start(size: int, port: int) -> None:
    """Start the ranks 1 to size - 1; they meet at a port of this machine.

    Raises:
        ValueError: there is no command to copy, as in an interactive session.
    """
    command = sys.orig_argv[1:]
    if hasattr(sys, "ps1") or not command or command[0] in ("-", "-i"):
        raise ValueError(
            f"devices must be 1 in an interactive session, whose command cannot be repeated, got {size}: "
            "write a script, or use torchrun"
        )
    shared = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"}
    for rank in range(1, size):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_PORT": str(port), PARENT: str(os.getpid())}
        _copies[rank] = subprocess.Popen(
            [sys.executable, *command], env={**os.environ, **shared, **own}, stdin=subprocess.DEVNULL
        )
    atexit.register(_wait)


def count() -> int:
    """Ranks of this process and its copies; 0 if it has started none."""
    return len(_copies) + 1 if _copies else 0


def ended(wait: float = 0.0) -> str:
    """How copies ended that are no longer there, or nothing.

    Args:
        wait: seconds to wait for one to end.
    """
    end = time.monotonic() + wait
    while _copies:
        codes = {rank: code for rank, copy in _copies.items() if (code := copy.poll()) is not None}
        if codes or time.monotonic() >= end:
            return ", ".join(_ending(rank, code) for rank, code in codes.items())
        time.sleep(0.02)
    return ""


def _ending(rank: int, code: int) -> str:
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"rank {rank} {how}"


def follow_parent() -> None:
    """End this process when the one that started it as a copy is gone; nothing if it is no copy."""
    if PARENT in os.environ:
        threading.Thread(target=_follow, args=(int(os.environ[PARENT]),), daemon=True).start()


def _follow(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os._exit(1)  # the main thread may wait for the first rank where no exception reaches it


def _wait() -> None:
    """Let copies come to their end; end them when they do not."""
    for process in _copies.values():
        try:
            process.wait(_SLACK)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
