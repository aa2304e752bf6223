"""What a step costs on 1, 2 and 4 ranks, and a model of it. Writes docs/results/scale.json.

    python benchmarks/scale.py

Each rank is a process with one thread; they talk by gloo. There may be fewer cores than ranks, and other
programs on them, so compute, loss and loading are told in processor time, which does not count the waiting.
Exchanges are waiting: their time is that of the clock, the fastest of many. On 4 ranks of 2 cores it includes
waiting for a core.

The model: a step of B states on W ranks takes

    t(B, W) = (compute + loss) B / W + load B + step + sum of x(W) over its exchanges
    x(W) = 2 (W - 1) / W bytes / bandwidth + 2 (W - 1) latency

A world without end is drawn whole on every rank, so its loading is not divided. An exchange is a ring
all-reduce. Costs per state and per step are fitted to two batches on each number of ranks, bandwidth and
latency to exchanges of two sizes on 2 ranks; those on 4 ranks are then foretold.

`carried` puts devices that nobody has measured here into the same model: every number of ASSUMED is an
assumption. Small exchanges go along a tree there, 2 log2(W) hops, and gradients go while the backward pass,
two thirds of the compute, is still at work.
"""

import json
import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

import isojepa as ij
from isojepa.objectives import LeJEPA, SIGReg
from isojepa.training.run_directory import versions

RESULT = Path(__file__).parent.parent / "docs/results/scale.json"
RANKS = (1, 2, 4)
BATCHES = (512, 2048)
DIM, WIDTH, SLICES, KNOTS, VIEWS = 16, 256, 256, 17, 2
# float32 numbers of an exchange; the cosines and sines of the loss are float64 on a CPU: twice as many
SIZES = {"latency": 1, "loss": 2 * VIEWS * 2 * SLICES * (KNOTS // 2), "large": 1 << 20}

ASSUMED: dict[str, Any] = {
    "what": "a ViT-L/16 on ten views of an image, two of 224 and eight of 98 pixels, bfloat16",
    "flop_per_image": 650e9,  # 3 passes of 61.6e9 on a large view, of 11.6e9 on a small one
    "loss_flop_per_image": 36e6,  # 1,024 slices of 512 dimensions, 8 knots, ten views
    "flop_per_second": 150e12,  # reached, not promised, by one device
    "weights": 304e6,
    "loss_numbers": 10 * 2 * 1024 * 8,
    "small_exchanges": 8,  # counts, sums, two upstream gradients, what ranks have to tell, used parameters
    "hop": 10e-6,
    "bytes_per_second_node": 200e9,  # of one device to its neighbour, 8 on a node
    "bytes_per_second": 40e9,  # between nodes
    "image_bytes": 110e3,
    "core_seconds_per_image": 25e-3,  # decoding, and ten crops
    "images": 1e9,
}
CARRIED = ((8, 4096), (64, 4096), (1024, 4096), (1024, 32768))  # devices and images of a step


def fastest(work: Callable[[], object], clock: Callable[[], float], times: int = 25) -> float:
    """Seconds of the fastest of several calls."""
    work()
    found = []
    for _ in range(times):
        start = clock()
        work()
        found.append(clock() - start)
    return min(found)


def measured(batch: int, world: int) -> dict[str, float]:
    """Processor time of the pieces of a step, for a rank's share of a batch."""
    source = ij.data.World(ij.data.OrnsteinUhlenbeck(DIM, 0.9))
    net = nn.Sequential(nn.Linear(DIM, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
    net.append(nn.Linear(WIDTH, DIM))
    share = batch // world
    x = torch.cat(source.sample(share, ij.generator(0)).views)
    upstream = torch.randn(len(x), DIM, generator=ij.generator(1))
    objective = LeJEPA(0.05, regularizer=SIGReg(SLICES))
    views = net(x).detach().reshape(VIEWS, share, DIM).requires_grad_()
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)

    def compute() -> None:
        optimizer.zero_grad()
        net(x).backward(upstream)

    clock = time.process_time
    return {
        "compute": fastest(compute, clock),
        "loss": fastest(lambda: objective(views, ij.generator(2)).total.backward(), clock),
        "load": fastest(lambda: source.sample(share, ij.generator(3)), clock),
        "optimizer": fastest(optimizer.step, clock),
        "weights": float(sum(p.numel() for p in net.parameters())),
    }


def exchanged(size: int) -> float:
    """Seconds of one all-reduce of float32 numbers."""
    numbers = torch.zeros(size)
    return fastest(lambda: dist.all_reduce(numbers), time.perf_counter, 60)


def rank(index: int, world: int, folder: str) -> None:
    """What one rank measures; the first writes it down."""
    torch.set_num_threads(1)
    # the loss alone on each rank: its exchanges are measured by themselves
    found: dict[str, object] = {"ranks": world, "steps": {b: measured(b, world) for b in BATCHES}}
    if world > 1:
        dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=index, world_size=world)
        found["exchange"] = {name: exchanged(size) for name, size in SIZES.items()}
        dist.barrier()
        dist.destroy_process_group()
    if index == 0:
        (Path(folder) / "found.json").write_text(json.dumps(found))


def fitted(rows: list[dict]) -> dict[str, float]:
    """Seconds per state of each piece, of a step besides, per exchange and per byte."""
    model = {}
    for piece in ("compute", "loss", "load"):
        points = [
            (int(batch) / row["ranks"], times[piece]) for row in rows for batch, times in row["steps"].items()
        ]
        x, y = torch.tensor(points, dtype=torch.float64).T
        slope, constant = torch.linalg.lstsq(torch.stack((x, torch.ones_like(x)), 1), y[:, None]).solution[
            :, 0
        ]
        model[f"{piece}_per_state"], model[f"{piece}_per_step"] = float(slope), max(float(constant), 0.0)
        model[f"{piece}_misfit"] = float(((slope * x + constant) / y - 1).abs().max())
    model["optimizer_per_step"] = min(times["optimizer"] for row in rows for times in row["steps"].values())
    two = next(row["exchange"] for row in rows if row["ranks"] == 2)
    model["latency"] = two["latency"] / 2  # two turns of a ring of two
    model["bytes_per_second"] = 4 * SIZES["large"] / (two["large"] - two["latency"])
    return model


def foretold(model: dict[str, float], world: int, numbers: int) -> float:
    """Seconds of an exchange on so many ranks."""
    turns = 2 * (world - 1)
    return turns / world * 4 * numbers / model["bytes_per_second"] + turns * model["latency"]


def carried(devices: int, batch: int) -> dict[str, float]:
    """A step on devices that are assumed."""
    a = ASSUMED
    share = batch / devices
    compute, loss = (
        share * a[key] / a["flop_per_second"] for key in ("flop_per_image", "loss_flop_per_image")
    )
    bandwidth = a["bytes_per_second_node"] if devices <= 8 else a["bytes_per_second"]
    ring, hops = 2 * (devices - 1) / devices / bandwidth, 2 * math.log2(devices) * a["hop"]
    gradients = 4 * a["weights"] * ring + hops
    exchange = 4 * a["loss_numbers"] * ring + hops + a["small_exchanges"] * hops
    step = compute + loss + exchange + max(0.0, gradients - 2 / 3 * compute)
    rate = batch / step
    return {
        "devices": devices,
        "batch": batch,
        "compute": compute,
        "loss": loss,
        "exchange": exchange,
        "gradients": gradients,
        "step": step,
        "efficiency": compute / step,
        "images_per_second": rate,
        "gigabytes_per_second": rate * a["image_bytes"] / 1e9,
        "cores_per_device": rate / devices * a["core_seconds_per_image"],
        "days": a["images"] / rate / 86400,
    }


def main() -> None:
    """Measure on every number of ranks, fit, and write."""
    rows = []
    for world in RANKS:
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(rank, (world, folder), nprocs=world)
            rows.append(json.loads((Path(folder) / "found.json").read_text()))
    setting = {"dim": DIM, "width": WIDTH, "slices": SLICES, "knots": KNOTS, "views": VIEWS, "numbers": SIZES}
    model = fitted(rows)
    for row in rows:
        if row["ranks"] > 1:
            row["foretold"] = {name: foretold(model, row["ranks"], size) for name, size in SIZES.items()}
    whole = {
        "setting": setting,
        "measured": rows,
        "model": model,
        "assumed": ASSUMED,
        "carried": [carried(*case) for case in CARRIED],
        "load_average": os.getloadavg()[0],  # of other programs too
        "versions": versions(),
    }
    RESULT.write_text(json.dumps(whole, indent=1) + "\n")
    print(json.dumps(whole["model"], indent=1))


if __name__ == "__main__":
    main()
