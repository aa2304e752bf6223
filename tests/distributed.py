"""Real torch.distributed jobs on this machine: every rank is a process of its own, and they talk by gloo.

They are forked from a clean process that has imported what all of them need and done nothing else, the fork
server of `multiprocessing`: seconds of imports once, and not for every rank of every job. Its environment is
that of the moment when it was first asked for: what must be set before an import asks for new processes.
"""

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from isojepa.cli import main

Work = Callable[[int, int, str], Any]
_METHOD, _NEW = "forkserver", "spawn"
# torch._dynamo: the first step of any of torch's optimisers imports it
multiprocessing.get_context(_METHOD).set_forkserver_preload(
    ["torch", "torch._dynamo", "lightning_fabric", "pytest", "isojepa.cli.train", "isojepa.training.watch"]
)


def run_ranks(work: Work, world: int, folder: Path, new: bool = False) -> list[Any]:
    """What `work(rank, world, folder)` returned on each rank.

    Args:
        work: a function of a module, which the processes import; it joins the job when it likes.
        world: number of ranks.
        folder: an empty one, for the meeting and the results.
        new: in processes that have imported nothing before.
    """
    method = _NEW if new else _METHOD
    mp.start_processes(_rank, (work, world, str(folder)), nprocs=world, start_method=method)
    return [torch.load(folder / f"{rank}.pt") for rank in range(world)]


@contextmanager
def joined(rank: int, world: int, folder: str) -> Iterator[None]:
    """Inside, this process is a rank of the job.

    Nothing that DistributedDataParallel wraps may outlive it: its end would then be the group's, which waits
    for threads that wait for Python.
    """
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    yield
    dist.destroy_process_group()  # not after an error: the others still wait, and are ended from outside


def share(n: tuple[int, ...], rank: int) -> slice:
    """Which rows of the whole batch a rank holds, when n counts those of every rank."""
    start = sum(n[:rank])
    return slice(start, start + n[rank])


def start_command(*words: object) -> multiprocessing.Process:
    """`isojepa WORDS...` in a process of its own, with one thread."""
    process = multiprocessing.get_context(_METHOD).Process(
        target=_command, args=([str(one) for one in words],)
    )
    process.start()
    return process


def _command(words: list[str]) -> None:
    torch.set_num_threads(1)
    sys.exit(main(words))


def _rank(rank: int, work: Work, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.save(work(rank, world, folder), Path(folder) / f"{rank}.pt")
