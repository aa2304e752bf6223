"""LeJEPA as one would write it without this package: PyTorch, torchvision's transforms, lightly's loss.

    python benchmarks/plain_lejepa.py --steps 30

A ResNet-18 for pictures of 28 pixels, 2 global and 2 local views, batch 128, two loading processes. It prints
pictures per second of all steps, the start of the loaders included. `make bench` compares with it; nothing of
this package is imported, and so nothing of it decides how threads wait.
"""

import argparse
import time
from itertools import islice, pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH, SIDE, LOCAL, WORKERS = 128, 28, 16, 2
if not hasattr(torch.ops.torchvision, "nms"):  # torchvision built for CUDA beside a torch that is not
    missing = torch.library.Library("torchvision", "DEF")
    missing.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    missing.define(
        "qnms(Tensor dets, float dets_scale, int dets_zero_point, Tensor scores, float scores_scale, "
        "int scores_zero_point, float iou_threshold) -> Tensor"
    )

from lightly.loss import LeJEPALoss  # noqa: E402
from torchvision.models import resnet18  # noqa: E402
from torchvision.transforms import v2  # noqa: E402


class Crops(Dataset):
    """Pictures of 28 pixels, cut into views: those of `Views.for_size(28)`."""

    def __init__(self, images: torch.Tensor) -> None:
        self.images = images
        self.crops = [_transform(SIDE, (0.3, 1.0))] * 2 + [_transform(LOCAL, (0.15, 0.4))] * 2

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> list[torch.Tensor]:
        return [crop(self.images[index]) for crop in self.crops]


def _transform(size: int, scale: tuple[float, float]) -> nn.Module:
    return v2.Compose(
        [
            v2.RandomResizedCrop(size, scale=scale, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.2, 0.1)], 0.8),
            v2.RandomGrayscale(0.2),
            v2.RandomApply([v2.GaussianBlur(3, (0.1, 1.0))], 0.5),
            v2.RandomSolarize(128, 0.2),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize((0.5,), (0.29,)),
        ]
    )


def model() -> nn.Module:
    """ResNet-18 with a stem for small pictures, and a projector."""
    net = resnet18(num_classes=1)
    net.conv1 = nn.Conv2d(1, 64, 3, 1, 1, bias=False)
    net.maxpool = nn.Identity()
    net.fc = nn.Sequential(nn.Linear(512, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 64))
    return net


def train(steps: int) -> float:
    """Pictures per second."""
    data = Crops(torch.randint(0, 256, ((steps + 1) * BATCH, 1, SIDE, SIDE), dtype=torch.uint8))
    loader = DataLoader(data, BATCH, shuffle=True, num_workers=WORKERS, drop_last=True)
    net, loss = model(), LeJEPALoss()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.05)
    started = time.perf_counter()
    for views in islice(loader, steps):
        parts = [net(torch.cat(some)).unflatten(0, (2, -1)) for some in (views[:2], views[2:])]
        value = loss(global_proj=parts[0], local_proj=parts[1])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        value.item()
    return steps * BATCH / (time.perf_counter() - started)


class Grid(nn.Module):
    """Three convolutions of stride 2 and averages over the quarters of the picture."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for index, (n_in, n_out) in enumerate(pairwise((1, 64, 128, 256))):
            layers += [
                nn.Conv2d(n_in, n_out, 3 if index else 4, 2, 1, bias=False),
                nn.BatchNorm2d(n_out),
                nn.ReLU(),
            ]
        self.body = nn.Sequential(*layers).to(memory_format=torch.channels_last)
        self.head = nn.Sequential(nn.Linear(1024, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 64))

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(self.body(x.contiguous(memory_format=torch.channels_last)), 2).flatten(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x))


def train_until(folder: str, steps: int, every: int, batch: int = 256) -> None:
    """Train on the pictures of a folder; every few steps save features and print the seconds so far."""
    pictures = {name: torch.from_numpy(np.load(f"{folder}/{name}.npy")) for name in ("train", "fit", "test")}
    loader = DataLoader(Crops(pictures["train"]), batch, shuffle=True, num_workers=WORKERS, drop_last=True)
    net, loss = Grid(), LeJEPALoss()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1.5e-2, weight_decay=0.05, fused=True)
    warm = max(1, steps // 20)
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 1 / warm, 1.0, warm),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - warm),
        ],
        [warm],
    )
    started, paused, step = time.perf_counter(), 0.0, 0
    while step < steps:
        for views in islice(loader, steps - step):
            with torch.autocast("cpu", torch.bfloat16):
                parts = [net(torch.cat(some)).unflatten(0, (2, -1)) for some in (views[:2], views[2:])]
            value = loss(global_proj=parts[0].float(), local_proj=parts[1].float())
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            schedule.step()
            step += 1
            if step % every == 0:
                now = time.perf_counter()
                print(step, now - started - paused, flush=True)
                _save_features(net, pictures, folder, step)
                paused += time.perf_counter() - now


@torch.no_grad()
def _save_features(net: Grid, pictures: dict[str, torch.Tensor], folder: str, step: int) -> None:
    net.eval()
    for name in ("fit", "test"):
        parts = ((part.float() / 255 - 0.5) / 0.29 for part in pictures[name].split(1000))
        np.save(f"{folder}/{name}-{step}.npy", torch.cat([net.features(part) for part in parts]).numpy())
    net.train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--until", help="folder with train.npy, fit.npy and test.npy")
    parser.add_argument("--every", type=int, default=25)
    options = parser.parse_args()
    if options.until:
        train_until(options.until, options.steps, options.every)
    else:
        print(train(options.steps))
