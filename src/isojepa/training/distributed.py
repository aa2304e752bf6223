"""Ranks that train one run together, through lightning-fabric; a run of one process is a team of one.

Ranks come from torchrun, from a Slurm job of several tasks, or from `devices`: then this process starts the
others as copies of its own command. An existing process group is used as it is. The first rank writes,
evaluates and decides; the others follow.

No rank waits for ever. Before the first exchange all ranks register in a store, with a timeout. A rank that
fails leaves its error there; the others notice when its connections close, and the first rank raises it.
The process that the user started is the first rank and keeps the store. A copy ends when the first rank is
gone, and the first rank waits for its copies, so no process stays behind.

**Batches.** Step s has batch_at(s) states on all ranks together. They are cut into the parts that gradients
accumulate over, and each part into one slice per rank: the parts are the same on any number of ranks. An
endless source is drawn in full on every rank from the stream ("data", s) of the seed, and cut. A finite set
is read in epochs: the order of epoch e comes from the stream ("order", e), the randomness in the views of a
state from a stream of its own, so a rank loads only its slice. Nothing depends on the number of ranks or
loading processes.
"""

import atexit
import contextlib
import enum
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]
from torch.utils.data import DataLoader, Dataset

from isojepa import ranks
from isojepa.data.batch import Batch
from isojepa.data.source import Finite, Pending, Source, Streams, deferring, finite
from isojepa.launch_env import PARENT, RankInfo, rank_info
from isojepa.ranks import RankLost
from isojepa.seeds import generator
from isojepa.training.recipe import Recipe

if TYPE_CHECKING:
    from lightning_fabric import Fabric


_EXIT_SECONDS = 30.0  # for copies to end after the first rank
_POLL_SECONDS = 0.5  # between checks of the parent process
_copies: dict[int, "subprocess.Popen[bytes]"] = {}  # by rank


def start_copies(size: int, port: int) -> None:
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
        variables = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "MASTER_PORT": str(port),
            PARENT: str(os.getpid()),
        }
        _copies[rank] = subprocess.Popen(
            [sys.executable, *command], env={**os.environ, **shared, **variables}, stdin=subprocess.DEVNULL
        )
    atexit.register(_wait)


def count_copies() -> int:
    """Number of ranks of this process and its copies; 0 if it has started none."""
    return len(_copies) + 1 if _copies else 0


def ended_copies(wait: float = 0.0) -> str:
    """How copies that are gone have ended, or an empty string.

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
    """End a copy when the process that started it is gone."""
    if PARENT in os.environ:
        threading.Thread(target=_follow, args=(int(os.environ[PARENT]),), daemon=True).start()


def _follow(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os._exit(1)  # the main thread may wait for the first rank where no exception reaches it


def _wait() -> None:
    """Wait for copies to end; kill those that do not."""
    for process in _copies.values():
        try:
            process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


T = TypeVar("T")
ROLL_CALL = timedelta(minutes=5)  # timeout for all ranks to register
PATIENCE = timedelta(minutes=30)  # timeout of an exchange; the first rank's evaluation must end within it
_CLOSE_SECONDS = 2.0  # for a copy to end after its connections have closed
_ERROR = "error"

_store: Any = None  # where the ranks of this process met; the group lives as long as the process
_runs = 0  # number of runs of this process


class Status(enum.IntEnum):
    """State of a step on one rank, by increasing severity."""

    OK = 0
    STOP = 1
    NONFINITE = 2


class Team:
    """The ranks of a run and the device of this one.

    Args:
        recipe: accelerator and number of devices.

    Raises:
        ValueError: there is no such device, or not as many.
        RankLost: not all ranks came.
    """

    def __init__(self, recipe: Recipe) -> None:
        external = dist.is_available() and dist.is_initialized() and _store is None
        here = _joined() if external else _asked(recipe)
        if recipe.devices not in (1, here.size):
            raise ValueError(f"devices must be the {here.size} ranks that were started, got {recipe.devices}")
        self.rank, self.size = here.rank, here.size
        self.fabric = _fabric(recipe, here)
        self._store: Any = None
        if self.size == 1:
            return
        if not external:
            self._store = _meet(here)
        chosen = torch.get_num_threads()
        self.fabric.launch()  # it shares the cores among the ranks of a node
        torch.set_num_threads(min(chosen, torch.get_num_threads()))

    @property
    def device(self) -> torch.device:
        """Of this rank."""
        return self.fabric.device

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes, evaluates and decides."""
        return self.rank == 0

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Context manager: errors on any rank are re-raised on rank 0."""
        try:
            with ranks.within(None):
                yield
        except RankLost as lost:
            if self.first and self._store is not None:
                raise RankLost(_reason(self._store) or str(lost)) from lost
            raise
        except BaseException as error:
            _post(self._store, self.rank, error)
            raise

    def setup(self, module: nn.Module) -> nn.Module:
        """Move a module to the device; calls of the returned module average gradients over ranks."""
        if self.size == 1:  # no gradients to average: call the module itself, without a wrapper
            self.fabric.setup_module(module)
            return module
        with ranks.meeting():
            wrapped: nn.Module = self.fabric.setup_module(_Shared(module))
        return wrapped

    def no_sync(self, module: Any, enabled: bool) -> contextlib.AbstractContextManager[Any]:
        """Context manager: accumulate gradients without exchanging them."""
        if not enabled or self.size == 1:
            return contextlib.nullcontext()
        return self.fabric.no_backward_sync(module)

    def backward(self, loss: torch.Tensor) -> None:
        """Compute gradients, which ranks exchange."""
        with ranks.meeting() if self.size > 1 else contextlib.nullcontext():
            loss.backward()

    def all_reduce_status(self, code: int) -> Status:
        """The highest status of any rank."""
        if self.size == 1:
            return Status(code)
        highest = torch.tensor(code, device=self.device)
        with ranks.meeting():
            dist.all_reduce(highest, op=dist.ReduceOp.MAX)
        return Status(int(highest))

    def on_rank_zero(self, do: Callable[[], T]) -> T:
        """Call on the first rank and return the result on every rank; an error is raised on all of them."""
        if self.size == 1:
            return do()
        outcome: list[Any] = [None, None]
        if self.first:
            try:
                with ranks.alone():
                    outcome[0] = do()
            except Exception as error:
                outcome[1] = _portable(error)
        with ranks.meeting():
            dist.broadcast_object_list(outcome, src=0)
        if outcome[1] is not None:
            raise outcome[1]
        result: T = outcome[0]
        return result


class _Shared(nn.Module):
    """A module whose gradients are averaged, with one parameter that no step uses.

    torch looks for unused parameters; where there are none, it prints a warning on every rank.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module, self.unused = module, nn.Parameter(torch.zeros(()))

    def forward(self, *arguments: Any) -> Any:
        return self.module(*arguments)


def has_met() -> bool:
    """Whether this process has met other ranks: from then on the first rank reports errors."""
    return _store is not None


def _joined() -> RankInfo:
    """The place in a process group that exists already."""
    rank, size = dist.get_rank(), dist.get_world_size()
    here = rank_info()
    return here if (here.rank, here.size) == (rank, size) else RankInfo(rank, size, rank, size)


def _asked(recipe: Recipe) -> RankInfo:
    """The place among the ranks that were started, else the first of those that the recipe asks for."""
    here = rank_info()
    if here.size > 1:
        return here
    size = count_copies() or recipe.devices
    return RankInfo(0, size, 0, size)


def _meet(here: RankInfo) -> Any:
    """The store of a new run, on ranks that are a process group; made with the first run.

    Raises:
        RankLost: not all ranks came.
    """
    global _store, _runs
    store = None
    _runs += 1
    try:
        with ranks.meeting():
            made = _store is None
            if made:
                _store = _open_store(here)
            store = PrefixStore(f"run {_runs}", _store)  # no run finds the errors of another
            if made:
                _call_roll(store, here.size)
                dist.init_process_group(store=store, rank=here.rank, world_size=here.size, timeout=PATIENCE)
                ranks.part()
                atexit.register(_leave)
    except BaseException as error:
        _post(store, here.rank, error)
        raise
    return store


def _leave() -> None:
    """Close the group before Python ends, when its threads may abort the process.

    A group that has lost a rank may block: closing has a timeout.
    """
    leaving = threading.Thread(target=_close, daemon=True)
    leaving.start()
    leaving.join(_CLOSE_SECONDS)


def _close() -> None:
    global _store
    with contextlib.suppress(Exception):  # no rank is left to report to
        if dist.is_initialized():
            dist.destroy_process_group()
    _store = None


def _open_store(here: RankInfo) -> Any:
    """Open the store where ranks meet; the first rank starts the others if no launcher has."""
    host = here.first and not here.agent
    store = TCPStore(here.address, here.port, here.size, host, timeout=ROLL_CALL, wait_for_workers=False)
    if here.port == 0:
        start_copies(here.size, store.port)
    follow_parent()
    return store


def _call_roll(store: Any, size: int) -> None:
    present, end = store.add("present", 1), time.monotonic() + ROLL_CALL.total_seconds()
    while present < size:
        reason = ended_copies() or (store.check([_ERROR]) and store.get(_ERROR).decode())
        if reason:
            raise RankLost(reason)
        if time.monotonic() > end:
            raise RankLost(f"{present} of {size} ranks came within {ROLL_CALL}")
        time.sleep(0.02)
        present = store.add("present", 0)


def _post(store: Any, rank: int, error: BaseException) -> None:
    """Store an error for the other ranks."""
    if store is None:
        return
    with contextlib.suppress(RuntimeError):  # the rank that keeps the store may be gone
        words = " ".join(str(error).split()) or type(error).__name__
        store.set(_ERROR, f"rank {rank}: {words}")


def _reason(store: Any) -> str:
    """Why a rank was lost: the error it stored before its connections closed, or how its process ended."""
    with contextlib.suppress(RuntimeError):
        if store.check([_ERROR]):
            return str(store.get(_ERROR).decode())
    killed = ended_copies(wait=_CLOSE_SECONDS)
    return killed and f"{killed}; the same command resumes from the last checkpoint"


def _portable(error: Exception) -> Exception:
    """The error if it can be pickled, else a RuntimeError with its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _fabric(recipe: Recipe, here: RankInfo) -> "Fabric":
    from lightning_fabric import Fabric  # seconds to import: only for those who train
    from lightning_fabric.strategies.ddp import DDPStrategy

    strategy: Any = "auto"
    if here.size > 1:
        # some objectives do not use all parameters in a step, e.g. models that take turns
        strategy = DDPStrategy(cluster_environment=_environment(here), find_unused_parameters=True)
    nodes = max(1, here.size // here.local_size)
    try:
        with warnings.catch_warnings():
            # where Slurm is installed, Fabric recommends srun, which one device does not need
            warnings.filterwarnings("ignore", message=".*srun.*")
            return Fabric(
                accelerator=recipe.accelerator, devices=here.local_size, num_nodes=nodes, strategy=strategy
            )
    except (RuntimeError, ValueError, TypeError) as error:
        many = "" if here.local_size == 1 else f", {here.local_size} of them"
        raise ValueError(
            f"accelerator must be a device of this machine, got {recipe.accelerator!r}{many}: {error}"
        ) from error


def _environment(here: RankInfo) -> Any:
    """Cluster environment for lightning-fabric: the ranks exist and know their numbers."""
    from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment

    class StartedRanks(ClusterEnvironment):
        creates_processes_externally = True
        main_address, main_port = here.address, here.port

        @staticmethod
        def detect() -> bool:
            return True

        def world_size(self) -> int:
            return here.size

        def set_world_size(self, size: int) -> None:
            pass

        def global_rank(self) -> int:
            return here.rank

        def set_global_rank(self, rank: int) -> None:
            pass

        def local_rank(self) -> int:
            return here.local_rank

        def node_rank(self) -> int:
            return here.rank // here.local_size

    return StartedRanks()


def rank_slice(size: int, rank: int, ranks: int) -> slice:
    """The rows of one rank among `size`: shares differ by one at most, the first are the larger.

    Example:
        >>> [rank_slice(8, rank, 3) for rank in range(3)]
        [slice(0, 3, None), slice(3, 6, None), slice(6, 8, None)]
    """
    base, more = divmod(size, ranks)
    start = rank * base + min(rank, more)
    return slice(start, start + base + (rank < more))


def check_alike(team: Team, source: Source, tried: Batch) -> None:
    """Check that all ranks have the same source, by its facts and by a few states that each of them drew.

    Raises:
        ValueError: on every rank, if one differs.
    """
    if team.size == 1:
        return
    facts = (source.facts.size, source.facts.classes, [tuple(view.shape) for view in tried.views])
    rows = torch.stack([view.double().flatten(1).mean(1) for view in tried.views])
    first_facts, first_rows = team.on_rank_zero(lambda: (facts, rows))
    # machines may differ in the last bits of what they draw
    alike = facts == first_facts and torch.allclose(rows, first_rows, rtol=1e-4, atol=1e-5, equal_nan=True)
    if team.all_reduce_status(Status.OK if alike else Status.NONFINITE) == Status.NONFINITE:
        raise ValueError(
            "all ranks must see the same data, but one of them has another sample than the first: "
            "check that files are the same on every machine "
            f"(rank {team.rank} has {source.facts.size or 'endless'} "
            "states)"
        )


def rank_slices(size: int, rank: int, ranks: int, parts: int = 1) -> list[slice]:
    """The rows of one rank in each of the parts, one after the other, of a batch.

    Example:
        >>> rank_slices(8, 1, 2, parts=2)
        [slice(2, 4, None), slice(6, 8, None)]
    """
    ends = [round(part * size / parts) for part in range(parts + 1)]
    slices = []
    for start, end in pairwise(ends):
        mine = rank_slice(end - start, rank, ranks)
        slices.append(slice(start + mine.start, start + mine.stop))
    return slices


class RankBatches:
    """The batches of one rank, step after step, each in the parts that gradients accumulate over.

    Args:
        source: source of states.
        recipe: batch size of each step, accumulation, workers.
        seed: of the run.
        rank, ranks: which of how many.
        pin: load into pinned memory.
        defer: compute views on the training device, if the source supports it.
    """

    def __init__(
        self,
        source: Source,
        recipe: Recipe,
        seed: int,
        rank: int = 0,
        ranks: int = 1,
        pin: bool = False,
        defer: bool = False,
    ) -> None:
        smallest = min(recipe.batch_at(0), recipe.pairs or recipe.batch)
        parts = recipe.accumulate
        if smallest < 2 * parts:
            raise ValueError(
                f"accumulate must leave 2 states at least in each part of {smallest}, got {parts}"
            )
        if smallest < 2 * parts * ranks:
            cut = f" in each of {parts} parts" if parts > 1 else ""
            raise ValueError(
                f"the first batch must have 2 states at least for each of {ranks} ranks{cut}, got {smallest}"
            )
        self.source, self.recipe, self.seed = source, recipe, seed
        self.rank, self.ranks, self.pin, self.defer = rank, ranks, pin, defer
        self._fixed = None
        if recipe.pairs is not None:
            self._fixed = source.sample(recipe.pairs, generator(seed, "training-set"))

    def from_step(self, start: int) -> Iterator[Sequence[Pending]]:
        """The batches from a step on."""
        if self._fixed is None and finite(self.source):
            yield from self._loaded(_Epochs(self.source, self), start)
            return
        for step in range(start, self.recipe.steps):
            yield self._drawn(step)

    def _drawn(self, step: int) -> list[Batch]:
        size, source = self.recipe.batch_at(step), generator(self.seed, "data", step)
        if self._fixed is None:
            batch = self.source.sample(size, source)
            if self.ranks == self.recipe.accumulate == 1:
                return [batch]
            return [batch.rows(rows) for rows in self.rows(size)]
        chosen = torch.randperm(len(self._fixed), generator=source)[:size]  # no pair twice in a batch
        return [self._fixed.rows(chosen[rows]) for rows in self.rows(len(chosen))]

    def rows(self, size: int) -> list[slice]:
        """This rank's rows in each part of a batch."""
        return rank_slices(size, self.rank, self.ranks, self.recipe.accumulate)

    def _loaded(self, epochs: "_Epochs", start: int) -> Iterator[list[Pending]]:
        steps = range(start, self.recipe.steps)
        workers = self.recipe.workers
        loader: DataLoader[list[Pending]] = DataLoader(
            epochs,
            batch_size=None,
            sampler=steps,
            num_workers=workers,
            collate_fn=_same,
            pin_memory=self.pin,
            generator=generator(self.seed, "loader"),  # or it would draw from the global one
        )
        yield from loader


class _Epochs(Dataset[list[Pending]]):
    """A rank's share of a finite set at each step."""

    def __init__(self, source: Finite, shares: RankBatches) -> None:
        size = source.facts.size
        if not size:
            raise ValueError(f"a finite source must have states, got {size}")
        self.source, self.size, self.seed = source, size, shares.seed
        self.rows, self.defer = shares.rows, shares.defer
        sizes = [shares.recipe.batch_at(step) for step in range(shares.recipe.steps)]
        self.ends = list(accumulate(sizes))  # places in the endless row of epochs
        self.sizes = sizes

    def __getitem__(self, step: int) -> list[Pending]:
        start = self.ends[step] - self.sizes[step]
        return [self._taken(start + rows.start, start + rows.stop) for rows in self.rows(self.sizes[step])]

    def _taken(self, start: int, stop: int) -> Pending:
        """The states from one place in the endless row to another."""
        places = torch.arange(start, stop)
        epochs = places // self.size
        ids = torch.cat(
            [
                _order(self.seed, int(epoch), self.size)[places[epochs == epoch] % self.size]
                for epoch in epochs.unique()
            ]
        )
        streams = Streams(self.seed, epochs, ids)
        if self.defer and deferring(self.source):
            return self.source.defer(ids, streams)
        return self.source.take(ids, streams)


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, size: int) -> Tensor:
    return torch.randperm(size, generator=generator(seed, "order", epoch))


def _same(batch: Any) -> Any:
    return batch
