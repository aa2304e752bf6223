"""The ranks that train one run together, through lightning-fabric; a run of one process is a team of one.

Ranks come from torchrun, from a Slurm job of several tasks, or from `devices`: then this process starts the
others as copies of its own command. A process group that exists already is used as it is. The first rank
writes, evaluates and decides; the others follow.

No rank waits for ever. Before they exchange anything ranks call the roll in a store that all of them reach,
with an end to the waiting. A rank that fails leaves its error there; the others notice when its connections
close, and the first tells what it finds.
"""

import atexit
import contextlib
import pickle
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

from isojepa import ranks
from isojepa.places import Place, place
from isojepa.ranks import RankLost
from isojepa.training import copies
from isojepa.training.recipe import Recipe

if TYPE_CHECKING:
    from lightning_fabric import Fabric

T = TypeVar("T")
FINE, STOP, BROKEN = 0, 1, 2  # what ranks may have to tell each other, the gravest last
ROLL_CALL = timedelta(minutes=5)  # for all ranks to be there
PATIENCE = timedelta(minutes=30)  # in an exchange: the first rank's evaluation must end within
_MOMENT = 2.0  # seconds that a copy may take to end after its connections
_ERROR = "error"

_store: Any = None  # where the ranks of this process met: their group stays, as long as the process does
_runs = 0  # that they made


class Team:
    """The ranks of a run and the device of this one.

    Args:
        recipe: says on which accelerator and how many.

    Raises:
        ValueError: there is no such device, or not as many.
        RankLost: not all ranks came.
    """

    def __init__(self, recipe: Recipe) -> None:
        given = dist.is_available() and dist.is_initialized() and _store is None
        here = _joined() if given else _asked(recipe)
        if recipe.devices not in (1, here.size):
            raise ValueError(f"devices must be the {here.size} ranks that were started, got {recipe.devices}")
        self.rank, self.size = here.rank, here.size
        self.fabric = _fabric(recipe, here)
        self._store: Any = None
        if self.size == 1:
            return
        if not given:
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
        """Whether this rank writes, evaluates and decides."""
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
        """Move a module to the device; calling what is returned averages gradients over ranks."""
        if self.size == 1:  # nothing to average: the module itself is called, without what surrounds it
            self.fabric.setup_module(module)
            return module
        with ranks.meeting():
            wrapped: nn.Module = self.fabric.setup_module(_Shared(module))
        return wrapped

    def quiet(self, module: Any, enabled: bool) -> contextlib.AbstractContextManager[Any]:
        """While gradients are only added up, ranks do not exchange them."""
        if not enabled or self.size == 1:
            return contextlib.nullcontext()
        return self.fabric.no_backward_sync(module)

    def backward(self, loss: torch.Tensor) -> None:
        """Compute gradients, which ranks exchange."""
        with ranks.meeting() if self.size > 1 else contextlib.nullcontext():
            loss.backward()

    def gravest(self, code: int) -> int:
        """The gravest of what all ranks have to tell."""
        if self.size == 1:
            return code
        told = torch.tensor(code, device=self.device)
        with ranks.meeting():
            dist.all_reduce(told, op=dist.ReduceOp.MAX)
        return int(told)

    def by_first(self, do: Callable[[], T]) -> T:
        """What the first rank finds, on every rank; an error of it is raised on all of them."""
        if self.size == 1:
            return do()
        told: list[Any] = [None, None]
        if self.first:
            try:
                with ranks.alone():
                    told[0] = do()
            except Exception as error:
                told[1] = _portable(error)
        with ranks.meeting():
            dist.broadcast_object_list(told, src=0)
        if told[1] is not None:
            raise told[1]
        found: T = told[0]
        return found


class _Shared(nn.Module):
    """A module whose gradients are averaged, with a parameter that no step uses.

    Ranks look for parameters that a step has left out; where they find none, torch writes a warning to the
    terminal of every rank.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module, self.unused = module, nn.Parameter(torch.zeros(()))

    def forward(self, *arguments: Any) -> Any:
        return self.module(*arguments)


def has_met() -> bool:
    """Whether this process has met other ranks: from then on the first tells what fails."""
    return _store is not None


def _joined() -> Place:
    """The place in a process group that exists already."""
    rank, size = dist.get_rank(), dist.get_world_size()
    here = place()
    return here if (here.rank, here.size) == (rank, size) else Place(rank, size, rank, size)


def _asked(recipe: Recipe) -> Place:
    """The place among the ranks that were started, else the first of those that the recipe asks for."""
    here = place()
    if here.size > 1:
        return here
    size = copies.count() or recipe.devices
    return Place(0, size, 0, size)


def _meet(here: Place) -> Any:
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
    """Close the group before Python ends: its threads, left to themselves, may abort the process then.

    A group that has lost a rank may wait for it: it is not waited for long.
    """
    leaving = threading.Thread(target=_close, daemon=True)
    leaving.start()
    leaving.join(_MOMENT)


def _close() -> None:
    global _store
    with contextlib.suppress(Exception):  # nobody is left to be told
        if dist.is_initialized():
            dist.destroy_process_group()
    _store = None


def _open_store(here: Place) -> Any:
    """Where ranks meet; the first starts the others if nobody has."""
    host = here.first and not here.agent
    store = TCPStore(here.address, here.port, here.size, host, timeout=ROLL_CALL, wait_for_workers=False)
    if here.port == 0:
        copies.start(here.size, store.port)
    copies.follow_parent()
    return store


def _call_roll(store: Any, size: int) -> None:
    present, end = store.add("present", 1), time.monotonic() + ROLL_CALL.total_seconds()
    while present < size:
        reason = copies.ended() or (store.check([_ERROR]) and store.get(_ERROR).decode())
        if reason:
            raise RankLost(reason)
        if time.monotonic() > end:
            raise RankLost(f"{present} of {size} ranks came within {ROLL_CALL}")
        time.sleep(0.02)
        present = store.add("present", 0)


def _post(store: Any, rank: int, error: BaseException) -> None:
    """Leave an error where the other ranks find it."""
    if store is None:
        return
    with contextlib.suppress(RuntimeError):  # its keeper may be gone
        words = " ".join(str(error).split()) or type(error).__name__
        store.set(_ERROR, f"rank {rank}: {words}")


def _reason(store: Any) -> str:
    """Why a rank was lost, as far as anybody knows: its own words came before the end of its connections."""
    with contextlib.suppress(RuntimeError):
        if store.check([_ERROR]):
            return str(store.get(_ERROR).decode())
    killed = copies.ended(wait=_MOMENT)
    return killed and f"{killed}; the same command goes on from the last checkpoint"


def _portable(error: Exception) -> Exception:
    """The error, if it can be sent to other ranks; else one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _fabric(recipe: Recipe, here: Place) -> "Fabric":
    from lightning_fabric import Fabric  # seconds to import: only for those who train
    from lightning_fabric.strategies.ddp import DDPStrategy

    strategy: Any = "auto"
    if here.size > 1:
        # some objectives leave parameters out of a step, e.g. models that take turns
        strategy = DDPStrategy(cluster_environment=_environment(here), find_unused_parameters=True)
    nodes = max(1, here.size // here.local_size)
    try:
        with warnings.catch_warnings():
            # where Slurm is installed it asks for srun, which one device does not need
            warnings.filterwarnings("ignore", message=".*srun.*")
            return Fabric(
                accelerator=recipe.accelerator, devices=here.local_size, num_nodes=nodes, strategy=strategy
            )
    except (RuntimeError, ValueError, TypeError) as error:
        many = "" if here.local_size == 1 else f", {here.local_size} of them"
        raise ValueError(
            f"accelerator must be a device of this machine, got {recipe.accelerator!r}{many}: {error}"
        ) from error


def _environment(here: Place) -> Any:
    """What lightning-fabric asks about the job: the ranks are there, and know their places."""
    from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment

    class Known(ClusterEnvironment):
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

    return Known()
