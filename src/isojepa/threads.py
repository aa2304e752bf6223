"""How many threads compute, and how they wait for each other.

torch's threads, and those of compiled loops, come from an OpenMP library. GNU's waits by spinning: between
two pieces of work a thread keeps its core busy for milliseconds. With a core each that is fastest; where
another program wants one of the cores, threads spin while the one they wait for cannot run, and a step of
training takes tens of times as long. Spinning for a moment only costs a few percent when the machine is idle
and keeps a step within a small factor when it is not.

OpenBLAS, on which numpy and scipy compute, spins too, for each product of small matrices, and cannot be told
to stop: with both cores of two busy, a certificate of 5,000 pairs took 77 s on two of its threads and 12 s on
one. It gets half of the cores, so that two commands at once have one each.

The libraries read their variables when they are imported, so they are set before: by the command line for its
own process, by programs that use the package for theirs (docs/training.md). Settings of the user stay.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_NUM_THREADS")  # of the user
_SPINS = "1000"  # some microseconds: longer than the gaps within a step, shorter than another program's turn
_LIBRARIES = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "NUMBA", "VECLIB_MAXIMUM")
# Weights times rows of a step that are worth more than one thread. With short waits two threads were as fast
# as one at 18 million (a step of 5 ms), faster by a fifth at 70 million (13 ms), and slower below 9 million.
_MIN_PARALLEL_WORK = 1 << 25


def one_thread() -> dict[str, str]:
    """Variables that give every library one thread, for processes that have one core each."""
    return {f"{name}_NUM_THREADS": "1" for name in _LIBRARIES}


def short_waits(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables that keep threads from spinning for long; none of those that the environment has chosen."""
    variables = {}
    if not any(name in environment for name in CHOICES):
        variables["GOMP_SPINCOUNT"] = _SPINS
    if "OPENBLAS_NUM_THREADS" not in environment and "OMP_NUM_THREADS" not in environment:
        variables["OPENBLAS_NUM_THREADS"] = str(max(1, cores() // 2))
    return variables


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def prepare() -> None:
    """Set `short_waits` for this process; nothing once torch is imported, which would not notice."""
    if "torch" not in sys.modules:
        os.environ.update(short_waits())


def threads_for(encoder: "nn.Module", rows: float) -> int:
    """Threads that a training step is worth: one where it is small, else as many as torch has.

    Args:
        encoder: what is trained.
        rows: observations that it sees in a step, all views together; their mean if the batch grows.
    """
    import torch

    weights = sum(parameter.numel() for parameter in encoder.parameters())
    return torch.get_num_threads() if weights * rows >= _MIN_PARALLEL_WORK else 1


@contextmanager
def suited(encoder: "nn.Module", rows: float) -> Iterator[None]:
    """Compute with `threads_for` threads, unless the user has chosen their number."""
    import torch

    before = torch.get_num_threads()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(threads_for(encoder, rows))
    try:
        yield
    finally:
        torch.set_num_threads(before)
