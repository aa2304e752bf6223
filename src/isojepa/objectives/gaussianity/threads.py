"""Compiled loops over slices, on as many threads as torch uses.

Threads come from numba's OpenMP layer, which shares the threads of torch if both were built on one OpenMP
library. A separate pool is much slower: idle threads of torch spin on the same cores.
"""

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

COMPILER = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
_PER_THREAD = 1 << 16  # projections for which another thread pays off
_forked = False


def run(alone: Callable[..., None], parallel: Callable[..., None], *arguments: Any) -> None:
    """Call alone(*arguments, 0, slices), or parallel(*arguments) if several threads pay off.

    The first argument is an array (slices, n).
    """
    import numba  # takes seconds to import

    slices, n = arguments[0].shape
    threads = min(
        torch.get_num_threads(), 1 + slices * n // _PER_THREAD, slices, numba.config.NUMBA_NUM_THREADS
    )
    if threads <= 1 or _forked or not _safe():  # the order matters: a child must not start threads
        alone(*arguments, 0, slices)
        return
    before = numba.get_num_threads()
    numba.set_num_threads(threads)
    try:
        parallel(*arguments)
    finally:
        numba.set_num_threads(before)


@cache
def _safe() -> bool:
    """Whether numba's threads may be used from several Python threads at once.

    Its fallback for machines without OpenMP ends the process in that case.
    """
    import numba

    try:
        numba.get_num_threads()  # starts them
        return numba.threading_layer() in ("omp", "tbb")
    except (ValueError, ImportError, RuntimeError):  # the layer that the user configured is missing
        return False


def _note_fork() -> None:
    """OpenMP threads do not survive a fork, and using them ends the child process: use one thread there."""
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):  # absent on systems without fork
    os.register_at_fork(after_in_child=_note_fork)
