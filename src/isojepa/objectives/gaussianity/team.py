"""Compiled loops over slices, on as many threads as torch uses.

Threads come from the compiler's OpenMP layer, which shares torch's own threads where both were built on one
OpenMP library. A pool beside torch's is much slower: torch's idle threads wait for work by spinning, on the
very cores that the others want.
"""

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

COMPILER = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
_SERIAL = 1 << 16  # projections that are worth one more thread
_forked = False


def run(alone: Callable[..., None], team: Callable[..., None], *arguments: Any) -> None:
    """Call alone(*arguments, 0, slices), or team(*arguments) where several threads are worth it.

    The first argument is an array (slices, n).
    """
    import numba  # seconds to import: only for those who compute

    slices, n = arguments[0].shape
    threads = min(torch.get_num_threads(), 1 + slices * n // _SERIAL, slices, numba.config.NUMBA_NUM_THREADS)
    if threads <= 1 or _forked or not _safe():  # the order matters: a child must not start threads
        alone(*arguments, 0, slices)
        return
    before = numba.get_num_threads()
    numba.set_num_threads(threads)
    try:
        team(*arguments)
    finally:
        numba.set_num_threads(before)


@cache
def _safe() -> bool:
    """Whether the compiler's threads may be used from several Python threads at once.

    Its last resort, for machines without OpenMP, ends the process when that happens.
    """
    import numba

    try:
        numba.get_num_threads()  # starts them
        return numba.threading_layer() in ("omp", "tbb")
    except (ValueError, ImportError, RuntimeError):  # the layer that the user asked for is not there
        return False


def _note_fork() -> None:
    """OpenMP's threads do not survive a fork, and using them in the child ends it: go on alone there."""
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):  # systems without fork need no such care
    os.register_at_fork(after_in_child=_note_fork)
