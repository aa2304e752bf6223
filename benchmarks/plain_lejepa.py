"""LeJEPA as one would write it without this package: PyTorch, torchvision's transforms, lightly's loss.

    python benchmarks/plain_lejepa.py --steps 30

A ResNet-18 for pictures of 28 pixels, 2 global and 2 local views, batch 128, two loading processes. It prints
pictures per second of all steps, the start of the loaders included. `make bench` compares with it; nothing of
this package is imported, and so nothing of it decides how threads wait.
"""

import argparse
import time
from itertools import islice

import torch
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
    """Noise of 28 pixels, cut into views: those of `Views.for_size(28)`."""

    def __init__(self, count: int) -> None:
        self.images = torch.randint(0, 256, (count, 1, SIDE, SIDE), dtype=torch.uint8)
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
    data = Crops((steps + 1) * BATCH)
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    print(train(parser.parse_args().steps))
