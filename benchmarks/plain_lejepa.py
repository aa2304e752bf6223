"""LeJEPA as one would write it without this package: PyTorch, torchvision's transforms, lightly's loss.

    python benchmarks/plain_lejepa.py --steps 30

A ResNet-18 for pictures of 28 pixels, 2 global and 2 local views, batch 128, two loading processes. It prints
pictures per second of all steps, the start of the loaders included. `make bench` compares with it.
"""

import argparse
import time
from dataclasses import replace
from itertools import islice

import torch
from lejepa import lightly_loss
from torch import nn
from torch.utils.data import DataLoader
from viewing import WORKERS, PerImage, noise

from isojepa.encoders.convnets import SmallResNet
from isojepa.vision import import_torchvision
from isojepa.worlds.images import Stack, Views

BATCH, SIDE, GLOBAL = 128, 28, 2


def model() -> nn.Module:
    """ResNet-18 with a stem for small pictures, and a projector."""
    return nn.Sequential(
        SmallResNet(in_channels=1),
        nn.Linear(512, 512),
        nn.BatchNorm1d(512),
        nn.ReLU(),
        nn.Linear(512, 64),
    )


def train(steps: int) -> float:
    """Pictures per second."""
    images = noise((steps + 1) * BATCH, 1, SIDE, SIDE)
    pictures = Stack(images)
    views = replace(Views.for_size(SIDE), mean=pictures.mean, std=pictures.std)
    data = PerImage(images, import_torchvision("transforms.v2"), views, pillow=False)
    loader = DataLoader(data, BATCH, shuffle=True, num_workers=WORKERS, drop_last=True)
    net, loss = model(), lightly_loss()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.05)
    started = time.perf_counter()
    for batch in islice(loader, steps):
        seen, parts = (batch[:GLOBAL], batch[GLOBAL:]), []
        for some in seen:
            parts.append(net(torch.cat(some)).unflatten(0, (len(some), -1)))
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
