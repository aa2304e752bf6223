"""Real torch.distributed jobs on this machine: every rank is a process of its own, and they talk by gloo."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

Work = Callable[[int, int, str], Any]


def run_ranks(work: Work, world: int, folder: Path) -> list[Any]:
    """What `work(rank, world, folder)` returned on each rank.

    Args:
        work: a function of a module, which the processes import; it joins the job when it likes.
        world: number of ranks.
        folder: an empty one, for the meeting and the results.
    """
    mp.spawn(_rank, (work, world, str(folder)), nprocs=world)
    return [torch.load(folder / f"{rank}.pt") for rank in range(world)]


@contextmanager
def joined(rank: int, world: int, folder: str) -> Iterator[None]:
    """Inside, this process is a rank of the job."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    yield
    dist.destroy_process_group()  # not after an error: the others still wait, and are ended from outside


def share(n: tuple[int, ...], rank: int) -> slice:
    """Which rows of the whole batch a rank holds, when n counts those of every rank."""
    start = sum(n[:rank])
    return slice(start, start + n[rank])


def _rank(rank: int, work: Work, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.save(work(rank, world, folder), Path(folder) / f"{rank}.pt")
