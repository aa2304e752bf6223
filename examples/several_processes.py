"""SIGReg on two processes with unequal batches: loss and gradients of the whole batch on each.

Started by hand here; torchrun starts processes by itself, and then `init_process_group("gloo")` is enough.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import isojepa as ij

BATCHES = (300, 100)


def loss_and_gradient(model: nn.Module, x: torch.Tensor) -> tuple[float, torch.Tensor]:
    """One step's loss, and the gradient of the encoder's weight."""
    loss = ij.objectives.SIGReg(slices=64, seed=0)(model(x))
    loss.backward()
    return loss.item(), next(model.parameters()).grad


def make() -> tuple[nn.Module, torch.Tensor]:
    """The encoder, and the whole batch."""
    return ij.encoders.MLP(in_dim=4, out_dim=4, seed=0), torch.randn(400, 4, generator=ij.generator(0, "x"))


def work(rank: int, meeting: str) -> None:
    """One process: its own share of the batch."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=len(BATCHES))
    encoder, x = make()
    share = x.split(BATCHES)[rank]
    loss, gradient = loss_and_gradient(DistributedDataParallel(encoder), share)
    line = f"rank {rank}: {len(share)} samples, loss {loss:.6f}, gradient {gradient.norm():.6f}\n"
    print(line, end="", flush=True)  # in one piece, so that the ranks' lines do not mix
    dist.destroy_process_group()


if __name__ == "__main__":
    loss, gradient = loss_and_gradient(*make())
    print(f"alone : {sum(BATCHES)} samples, loss {loss:.6f}, gradient {gradient.norm():.6f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (f"file://{folder}/meeting",), nprocs=len(BATCHES))
