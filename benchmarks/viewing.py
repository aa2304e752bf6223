"""Making views: against a step of a small convnet, and against torchvision's per-image transforms."""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from measure import alternate, row
from torch import nn
from torch.utils.data import DataLoader, Dataset

import isojepa as ij
from isojepa.training.recipe import Recipe
from isojepa.training.shares import Shares
from isojepa.worlds.images import Images, Stack, Views
from isojepa.worlds.source import Streams

WORKERS = 2
AHEAD = 2 * WORKERS  # batches that are loaded before the first is asked for
TURNS = 5


def viewing() -> list[dict]:
    """The views of a batch in a step's time; pictures per second against torchvision's, two workers each."""
    return [
        *_share_of_a_step(),
        *_against_torchvision("2 x 28 + 2 x 16 of 28 px, grey", Views.for_size(28), (1, 28, 28), 256, 12),
        *_against_torchvision("2 x 224 + 6 x 96 of 256 px", Views.named("released"), (3, 256, 256), 8, 8),
    ]


def _share_of_a_step() -> list[dict]:
    source = Images(Stack(_noise(2048, 1, 28, 28)), Views.for_size(28))
    net = _convnet()
    objective = ij.objectives.LeJEPA(weight=0.05)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    ids = torch.randperm(2048, generator=ij.generator(0, "bench"))[:256]
    streams = Streams(0, torch.zeros_like(ids), ids)
    batch = source.take(ids, streams)

    def step() -> None:
        optimizer.zero_grad()
        views = torch.stack([net(view) for view in batch.views])
        objective(views, ij.generator(0, "slices")).total.backward()
        optimizer.step()

    times = alternate({"views": lambda: source.take(ids, streams), "step": step})
    return [
        row(
            "28 px, batch 256: making views / step of a small convnet",
            times["views"] / times["step"],
            -0.2,
            times,
        ),
        row("28 px, batch 256, 2 + 2 views: milliseconds of making them", 1e3 * times["views"], None, times),
    ]


def _against_torchvision(
    label: str, views: Views, shape: tuple[int, int, int], batch: int, batches: int
) -> list[dict]:
    from isojepa.vision import import_torchvision

    transforms = import_torchvision("transforms.v2")
    images = _noise((AHEAD + batches + 1) * batch, *shape)
    pictures = Stack(images)
    views = replace(views, mean=pictures.mean, std=pictures.std)
    recipe = Recipe(steps=10**6, batch=batch, batch_start=None, workers=WORKERS)
    source = Images(pictures, views)
    source.sample(2, ij.generator(0, "bench"))  # compiled before processes are forked
    tensors = _PerImage(images, transforms, views, pillow=False)
    pillow = _PerImage(images, transforms, views, pillow=True)
    makers: dict[str, Callable[[], Iterable[Any]]] = {
        "ours": lambda: Shares(source, recipe, 0).from_step(0),
        "torchvision, tensors": lambda: DataLoader(tensors, batch, shuffle=True, num_workers=WORKERS),
        "torchvision, Pillow": lambda: DataLoader(pillow, batch, shuffle=True, num_workers=WORKERS),
    }
    rates: dict[str, list[float]] = {name: [] for name in makers}
    for _ in range(TURNS):
        for name, maker in makers.items():
            count = batches * (8 if name == "ours" else 1)  # about as long as the others
            rates[name].append(batch * _rate(maker, count))
    found = {name: statistics.median(values) for name, values in rates.items()}
    best = max(found["torchvision, tensors"], found["torchvision, Pillow"])
    return [
        row(f"views {label}: pictures/s, ours / torchvision's, 2 workers", found["ours"] / best, 3, found)
    ]


def _rate(maker: Callable[[], Iterable[Any]], count: int) -> float:
    """Batches per second, once those that were loaded ahead are gone."""
    seen, start = 0, 0.0
    while True:  # sets of few batches are gone through again
        for _ in maker():
            seen += 1
            if seen == AHEAD:
                start = time.perf_counter()
            if seen == AHEAD + count:
                return count / (time.perf_counter() - start)


class _PerImage(Dataset):
    """The same views by torchvision's transforms, image by image."""

    def __init__(self, images: Any, transforms: Any, views: Views, pillow: bool) -> None:
        self.images, self.pillow = images, pillow
        self.to_pillow = transforms.functional.to_pil_image
        self.transforms = [
            transforms.Compose(
                [
                    transforms.RandomResizedCrop(size, scale=scale, ratio=views.ratio, antialias=True),
                    transforms.RandomHorizontalFlip(views.flip),
                    transforms.RandomApply(
                        [
                            transforms.ColorJitter(
                                views.brightness, views.contrast, views.saturation, views.hue
                            )
                        ],
                        views.jitter,
                    ),
                    transforms.RandomGrayscale(views.grey),
                    transforms.RandomApply(
                        [transforms.GaussianBlur(views.kernel_for(size), views.sigma)], views.blur
                    ),
                    transforms.RandomSolarize(128, views.solarize),
                    transforms.ToImage(),
                    transforms.ToDtype(torch.float32, scale=True),
                    transforms.Normalize(views.mean, views.std),
                ]
            )
            for size, scale in zip(views.sizes, views.scales, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> list[torch.Tensor]:
        picture = torch.from_numpy(self.images[index])
        given = self.to_pillow(picture) if self.pillow else picture
        return [transform(given) for transform in self.transforms]


def _noise(*shape: int) -> Any:
    return torch.randint(0, 256, shape, generator=ij.generator(0, "bench")).byte().numpy()


def _convnet() -> nn.Module:
    """The 16-32-64-128 convnet with a projector to 32 that small pictures are tried with."""
    layers: list[nn.Module] = []
    for before, after in ((1, 16), (16, 32), (32, 64), (64, 128)):
        stride = 1 if before == 1 else 2
        layers += [nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 32))
