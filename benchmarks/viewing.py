"""Making views: against a step of a small convnet, and against torchvision's per-image transforms."""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from measure import processor_time, row, stepper
from torch.utils.data import DataLoader, Dataset

import isojepa as ij
from isojepa.data.images import Images, Stack, Views
from isojepa.data.source import Streams
from isojepa.encoders.backbones import Backbone
from isojepa.encoders.layers import Projector
from isojepa.encoders.model import Headed
from isojepa.objectives.lejepa import ImageLeJEPA
from isojepa.training.distributed import RankBatches
from isojepa.training.recipe import Recipe

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
    """What views and loss cost of a step of `fit`, in processor time of one thread."""
    source = Images(Stack(noise(2048, 1, 28, 28)), Views.for_size(28))
    body = Backbone("convnet", in_channels=1)
    net = Headed(body, Projector(body.num_features, "512-64"))
    objective = ImageLeJEPA()
    recipe = Recipe(steps=10**6, batch=256, batch_start=None, accelerator="cpu", checkpoint_seconds=1e9)
    ids = torch.randperm(2048, generator=ij.generator(0, "bench"))[:256]
    streams = Streams(0, torch.zeros_like(ids), ids)
    h = torch.randn(4, 256, 64, generator=ij.generator(0, "bench")).requires_grad_()
    loss = ij.objectives.LeJEPA(0.05, objective.regularizer)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        times = processor_time(
            {
                "step": stepper(net, source, objective, recipe),
                "views": lambda: source.take(ids, streams),
                "loss": lambda: torch.autograd.grad(loss(h, ij.generator(0, "slices")).total, h),
            }
        )
    finally:
        torch.set_num_threads(threads)
    what = "28 px, batch 256, 2 + 2 views"
    return [
        row(f"{what}: making views / step of a small convnet", times["views"] / times["step"], -0.2, times),
        row(f"{what}: loss / step of a small convnet", times["loss"] / times["step"], -0.05, times),
    ]


def _against_torchvision(
    label: str, views: Views, shape: tuple[int, int, int], batch: int, batches: int
) -> list[dict]:
    from isojepa.importing import import_torchvision

    transforms = import_torchvision("transforms.v2")
    images = noise((AHEAD + batches + 1) * batch, *shape)
    pictures = Stack(images)
    views = replace(views, mean=pictures.mean, std=pictures.std)
    recipe = Recipe(steps=10**6, batch=batch, batch_start=None, workers=WORKERS)
    source = Images(pictures, views)
    source.sample(2, ij.generator(0, "bench"))  # compiled before processes are forked
    tensors = PerImage(images, transforms, views, pillow=False)
    pillow = PerImage(images, transforms, views, pillow=True)
    makers: dict[str, Callable[[], Iterable[Any]]] = {
        "ours": lambda: RankBatches(source, recipe, 0).from_step(0),
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


class PerImage(Dataset):
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


def noise(*shape: int) -> Any:
    """Pictures of random bytes."""
    return torch.randint(0, 256, shape, generator=ij.generator(0, "bench")).byte().numpy()
