"""The ranks that train one run together, through lightning-fabric; a run of one process is a team of one.

Ranks come from torchrun, from a Slurm job of several tasks, or from `devices`: then this process starts the
others as copies of its own command. The first rank writes, evaluates and decides; the others follow.
"""

import contextlib
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from isojepa import ranks
from isojepa.training.recipe import Recipe

if TYPE_CHECKING:
    from lightning_fabric import Fabric

T = TypeVar("T")
FINE, STOP, BROKEN = 0, 1, 2  # what ranks may have to tell each other, the gravest last


class Team:
    """The ranks of a run and the device of this one.

    Args:
        recipe: says on which accelerator and how many.

    Raises:
        ValueError: there is no such device, or not as many.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.fabric = _fabric(recipe)
        if self.fabric.world_size > 1 and not (dist.is_available() and dist.is_initialized()):
            self.fabric.launch()
        self.rank, self.size = self.fabric.global_rank, self.fabric.world_size

    @property
    def device(self) -> torch.device:
        """Of this rank."""
        return self.fabric.device

    @property
    def first(self) -> bool:
        """Whether this rank writes, evaluates and decides."""
        return self.rank == 0

    def setup(self, module: nn.Module) -> nn.Module:
        """Move a module to the device; calling what is returned averages gradients over ranks."""
        wrapped = self.fabric.setup_module(module)
        # alone there is nothing to average: the module itself is called, without what surrounds it
        return module if self.size == 1 else wrapped

    def quiet(self, module: Any, enabled: bool) -> contextlib.AbstractContextManager[Any]:
        """While gradients are only added up, ranks do not exchange them."""
        if not enabled or self.size == 1:
            return contextlib.nullcontext()
        return self.fabric.no_backward_sync(module)

    def gravest(self, code: int) -> int:
        """The gravest of what all ranks have to tell."""
        if self.size == 1:
            return code
        told = torch.tensor(code, device=self.device)
        dist.all_reduce(told, op=dist.ReduceOp.MAX)
        return int(told)

    def by_first(self, do: Callable[[], T]) -> T:
        """What the first rank finds, on every rank; its ValueError or OSError is raised on all of them."""
        if self.size == 1:
            return do()
        told: list[Any] = [None, None]
        found: T
        if self.first:
            try:
                with ranks.alone():
                    told[0] = do()
            except (ValueError, OSError) as error:
                told[1] = error
        dist.broadcast_object_list(told, src=0)
        if told[1] is not None:
            raise told[1]
        found = told[0]
        return found

    def shared(self, tensor: Tensor) -> Tensor:
        """The first rank's tensor on every rank."""
        if self.size > 1:
            dist.broadcast(tensor, src=0)
        return tensor


def is_first() -> bool:
    """Whether this process is the first of its job, or the only one; known before the ranks have met."""
    for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK"):
        if name in os.environ:
            return os.environ[name] == "0"
    return True


def _fabric(recipe: Recipe) -> "Fabric":
    from lightning_fabric import Fabric  # seconds to import: only for those who train
    from lightning_fabric.strategies.ddp import DDPStrategy

    devices, nodes = _size(recipe)
    # some objectives leave parameters out of a step, e.g. models that take turns
    strategy: Any = DDPStrategy(find_unused_parameters=True) if devices * nodes > 1 else "auto"
    try:
        with warnings.catch_warnings():
            # where Slurm is installed it asks for srun, which one device does not need
            warnings.filterwarnings("ignore", message=".*srun.*")
            return Fabric(accelerator=recipe.accelerator, devices=devices, num_nodes=nodes, strategy=strategy)
    except (RuntimeError, ValueError, TypeError) as error:
        many = "" if devices == 1 else f", {devices} of them"
        raise ValueError(
            f"accelerator must be a device of this machine, got {recipe.accelerator!r}{many}: {error}"
        ) from error


def _size(recipe: Recipe) -> tuple[int, int]:
    """Ranks on this node, and nodes: as torchrun or Slurm started them, else as the recipe says.

    Raises:
        ValueError: the recipe asks for another number of ranks than there are.
    """
    for total, local in (("WORLD_SIZE", "LOCAL_WORLD_SIZE"), ("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE")):
        started = int(os.environ.get(total, "1"))
        if local in os.environ and started > 1:
            here = int(os.environ[local].partition("(")[0])
            if recipe.devices not in (1, started):
                raise ValueError(
                    f"devices must be the {started} ranks that were started, got {recipe.devices}"
                )
            return here, started // here
    return recipe.devices, 1
