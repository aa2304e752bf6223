"""The rows of one batch, spread over the processes ("ranks") of a torch.distributed job.

A statistic of the batch is not the mean of the statistics of its parts. The functions here let every rank
compute it of the whole: sums and counts are added up over ranks, or the rows themselves are gathered.
Batches may differ in size from rank to rank. Without a distributed job they do nothing.

Gradients follow the convention of DistributedDataParallel, which averages the parameters' gradients over
ranks. Every rank returns the same loss L; its backward pass receives d(L_1 + ... + L_W)/dx = W dL/dx for the
rows it holds; the average over W ranks is dL/d(parameters), that of one process with the whole batch. The
backward pass therefore communicates too, and must run on every rank.

The size of the job is asked at each call. Counts are integers and sums at least float32, whatever the
precision of the embeddings.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class RankLost(RuntimeError):
    """Ranks could not exchange what they had to: one of them has ended, or has not come in time."""


_ALONE = object()
_group: contextvars.ContextVar[Any] = contextvars.ContextVar("group", default=None)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Inside, this process treats its rows as the whole batch, e.g. to evaluate on one rank only."""
    with within(_ALONE):
        yield


@contextlib.contextmanager
def within(group: Any) -> Iterator[None]:
    """Inside, the batch is spread over the ranks of a process group, in place of all ranks."""
    token = _group.set(group)
    try:
        yield
    finally:
        _group.reset(token)


def part() -> None:
    """From now on this process treats its rows as the whole batch, but inside `within`."""
    _group.set(_ALONE)


def group() -> Any:
    """What `within` should be given to come back to where the caller is now."""
    return _group.get()


@contextlib.contextmanager
def meeting() -> Iterator[None]:
    """Inside, ranks exchange something and do nothing else.

    Raises:
        RankLost: it failed.
    """
    try:
        yield
    except RankLost:
        raise
    except RuntimeError as error:  # gloo has no type of its own for it
        raise RankLost(f"the ranks of the job lost each other: {error}") from error


def world_size() -> int:
    """Number of ranks that share the batch; 1 without a distributed job."""
    if _group.get() is _ALONE or not (dist.is_available() and dist.is_initialized()):
        return 1
    size = dist.get_world_size(_group.get())
    if size < 1:
        raise ValueError("within needs a group that this rank belongs to")
    return size


def count(n: int, device: torch.device | str = "cpu") -> int:
    """Samples of the whole batch, when this rank holds n."""
    if world_size() == 1:
        return n
    total = torch.tensor(n, dtype=torch.int64, device=device)
    with meeting():
        dist.all_reduce(total, group=_group.get())
    return int(total)


def rows(n: int, device: torch.device | str = "cpu") -> tuple[slice, int]:
    """Which samples of the whole batch this rank holds, when it holds n, and how many there are.

    Samples are in order of rank, as `gather` has them. What is drawn for each sample from a generator that
    all ranks share is drawn for the whole batch, and cut.
    """
    if world_size() == 1:
        return slice(0, n), n
    counts = gather(torch.tensor([[n]], dtype=torch.int64, device=device)).flatten().tolist()
    start = sum(counts[: dist.get_rank(_group.get())])
    return slice(start, start + n), sum(counts)


def total(x: Tensor) -> Tensor:
    """Sum a tensor over ranks; differentiable."""
    if world_size() == 1:
        return x
    _check_plain()
    summed: Tensor = _Total.apply(x, _group.get())  # type: ignore[no-untyped-call]
    return summed


def mean(x: Tensor, n: int) -> Tensor:
    """Mean over the samples of the whole batch: (..., samples, k) to (..., k).

    Args:
        x: this rank's samples.
        n: samples of the whole batch, from `count`.
    """
    return total(x.sum(-2)) / n


def gather(x: Tensor) -> Tensor:
    """The whole batch on every rank: (..., samples, k), samples in order of rank; differentiable."""
    if world_size() == 1:
        return x
    _check_plain()
    whole: Tensor = _Gather.apply(x, _group.get())  # type: ignore[no-untyped-call]
    return whole


def transformed() -> bool:
    """Whether a transform of `torch.func` (grad, vmap, jacrev, ...) is at work: what autograd itself asks."""
    return bool(torch._C._are_functorch_transforms_active())


@contextlib.contextmanager
def untransformed() -> Iterator[None]:
    """Inside, tensors that depend on no argument of a `torch.func` transform are made as if there were none.

    vmap refuses random numbers, since it cannot know whether they are to be the same for all.
    """
    if not transformed():
        yield
        return
    with torch._C._DisableFuncTorch():
        yield


def _check_plain() -> None:
    """Say that a transform of `torch.func` cannot look through what ranks send each other."""
    if transformed():
        raise ValueError(
            "torch.func transforms must be used on one rank, got a batch that is shared by "
            f"{world_size()}: use torch.autograd, or isojepa.ranks.alone() for this rank's samples alone"
        )


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):  # type: ignore[no-untyped-def]
        ctx.group = group
        summed = x.detach().clone(memory_format=torch.contiguous_format)
        with meeting():
            dist.all_reduce(summed, group=group)
        return summed

    @staticmethod
    def backward(ctx, upstream):  # type: ignore[no-untyped-def]
        # every rank's loss depends on every rank's term; by the function itself, so that this has a
        # derivative too
        return _Total.apply(upstream, ctx.group), None  # type: ignore[no-untyped-call]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):  # type: ignore[no-untyped-def]
        rows = x.detach().movedim(-2, 0).contiguous()
        world, rank = dist.get_world_size(group), dist.get_rank(group)
        sizes = [torch.zeros((), dtype=torch.int64, device=x.device) for _ in range(world)]
        local_rows = torch.tensor(len(rows), dtype=torch.int64, device=x.device)
        with meeting():
            dist.all_gather(sizes, local_rows, group=group)
        lengths = [int(size) for size in sizes]
        longest = max(lengths)  # all_gather wants equal shapes: pad, and cut off again
        padded = rows.new_zeros(longest, *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in range(world)]
        with meeting():
            dist.all_gather(parts, padded, group=group)
        ctx.group, ctx.start, ctx.length = group, sum(lengths[:rank]), len(rows)
        return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)]).movedim(0, -2)

    @staticmethod
    def backward(ctx, upstream):  # type: ignore[no-untyped-def]
        summed = _Total.apply(upstream, ctx.group)  # type: ignore[no-untyped-call]
        return summed.narrow(-2, ctx.start, ctx.length), None
