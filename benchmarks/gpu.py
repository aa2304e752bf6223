"""make gpu: SIGReg, a training step and the views on a GPU. Writes docs/results/gpu.json.

    make gpu                             # on the first GPU
    python benchmarks/gpu.py --try       # small sizes on the processor, nothing is written

It was never run on a GPU here; docs/speed.md says so until the file is there.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import textbook
import torch
from measure import alternate, stepper
from viewing import noise

import isojepa as ij
from isojepa.data.images import Images, Stack, Views
from isojepa.data.source import Streams
from isojepa.encoders.backbones import Backbone
from isojepa.encoders.layers import Projector
from isojepa.encoders.model import Headed
from isojepa.objectives.directions import draw_directions
from isojepa.objectives.lejepa import ImageLeJEPA
from isojepa.training.recipe import Recipe
from isojepa.training.run_directory import versions

RESULT = Path(__file__).parent.parent / "docs/results/gpu.json"
KNOTS, T_MAX = 17, 5.0


def main() -> int:
    """Measure, print, write, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--try", dest="tries", action="store_true", help="small sizes on the processor")
    tries = parser.parse_args().tries
    accelerator = None if tries else torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None and not tries:
        print("not run here: torch finds no GPU; --try runs small sizes on the processor", file=sys.stderr)
        return 2
    device = torch.device("cpu") if accelerator is None else accelerator
    rows = [*_sigreg(device, tries), *_step(device, tries), *_views(device, tries)]
    for row in rows:
        print(f"{row['name']}: {row['milliseconds']:.3g} ms")
    if not tries:
        name = getattr(torch, device.type).get_device_name(device)
        RESULT.write_text(json.dumps({"device": name, "versions": versions(), "rows": rows}, indent=2) + "\n")
    return 0


def _sigreg(device: torch.device, tries: bool) -> list[dict[str, Any]]:
    """Value and gradient by tensor operations, by Triton's kernels and as in the papers."""
    shapes = [(64, 8, 16)] if tries else [(512, 64, 1024), (2048, 512, 1024), (32768, 512, 8192)]
    return [line for shape in shapes for line in _of_shape(*shape, device)]


def _of_shape(batch: int, dim: int, slices: int, device: torch.device) -> list[dict[str, Any]]:
    source = ij.generator(0, "bench")
    x = torch.randn(1, batch, dim, generator=source).to(device).requires_grad_()
    directions = draw_directions(dim, slices, source).to(device)
    settings: dict[str, Any] = {"slices": slices, "knots": KNOTS, "t_max": T_MAX}
    losses: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "tensor operations": ij.objectives.SIGReg(**settings)
    }
    if device.type != "cpu":
        losses["Triton"] = ij.objectives.SIGReg(**settings, kernel="triton")
    if batch * slices * KNOTS < 1 << 30:  # the papers' form holds all of it at once
        losses["textbook"] = lambda views: textbook.sigreg(views[0], directions, KNOTS)
    tasks = {name: _awaited(partial(_gradient, loss, x), device) for name, loss in losses.items()}
    what = f"SIGReg {batch} x {dim}, {slices} slices"
    return [_row(f"{what}, {name}", seconds) for name, seconds in alternate(tasks).items()]


def _step(device: torch.device, tries: bool) -> list[dict[str, Any]]:
    """A step of a ResNet-18 in bfloat16, its views included."""
    batch, backbone = (8, "resnet18-small-4") if tries else (256, "resnet18-small")
    source = Images(Stack(noise(4 * batch, 1, 28, 28)), Views.for_size(28))
    body = Backbone(backbone, in_channels=1)
    net = Headed(body, Projector(body.num_features, "512-64")).to(device)
    recipe = Recipe(
        steps=10**6,
        batch=batch,
        batch_start=None,
        precision="bfloat16",
        accelerator=device.type,
        checkpoint_seconds=1e9,
    )
    times = alternate({"step": _awaited(stepper(net, source, ImageLeJEPA(), recipe), device)})
    return [
        {"name": f"{backbone}, 28 px, 2 + 2 views, batch {batch}: step", "milliseconds": 1e3 * times["step"]}
    ]


def _views(device: torch.device, tries: bool) -> list[dict[str, Any]]:
    """Views of photographs made on the device."""
    batch = 2 if tries else 64
    source = Images(Stack(noise(batch, 3, 256, 256)), Views.named("released"))
    ids = torch.arange(batch)
    deferred = source.defer(ids, Streams(0, torch.zeros_like(ids), ids))
    times = alternate({"views": _awaited(lambda: deferred.to(device), device)})
    return [
        {"name": f"2 x 224 + 6 x 96 of 256 px, batch {batch}: views", "milliseconds": 1e3 * times["views"]}
    ]


def _row(name: str, seconds: float) -> dict[str, Any]:
    return {"name": name, "milliseconds": 1e3 * seconds}


def _gradient(loss: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> object:
    return torch.autograd.grad(loss(x).mean(), x)


def _awaited(task: Callable[[], Any], device: torch.device) -> Callable[[], None]:
    """A task that ends when the device has done it."""

    def run() -> None:
        task()
        if device.type != "cpu":
            torch.accelerator.synchronize(device)

    return run


if __name__ == "__main__":
    sys.exit(main())
