"""Minutes of training until a linear probe of Fashion-MNIST passes 0.88, by `fit` and by a plain script.

Both train the same network on the same pictures and views, with the same optimizer and precision. Features
are taken every few steps and probed afterwards; taking them does not count.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from measure import row

import isojepa as ij
from isojepa.data.images import Images
from isojepa.data.images.image_sets import ImageSubset
from isojepa.encoders.model import Model
from isojepa.objectives.lejepa import ImageLeJEPA
from isojepa.probes import features_of, linear_probe
from isojepa.training.recipe import Recipe
from isojepa_lab.papers.lejepa.small_images import FASHION, network, pictures, views_of

GOAL, STEPS, EVERY = 0.88, 300, 50
PENALTY = 1e-3
WHAT = f"Fashion-MNIST, gridnet, 2 + 2 views, batch 256: minutes to a linear probe of {GOAL}"


class _Snapshots:
    """Features of training and validation pictures by the seconds of training; an `Evaluation`."""

    name, primary, every = "snapshots", "seconds", EVERY

    def __init__(self, parts: tuple[ImageSubset, ImageSubset]) -> None:
        self.parts, self.found = parts, []
        self.started, self.paused = time.perf_counter(), 0.0

    def __call__(self, models: Mapping[str, Model], generator: torch.Generator) -> dict[str, float]:
        """Take features, off the clock."""
        now = time.perf_counter()
        model = next(iter(models.values()))
        self.found.append(
            (now - self.started - self.paused, [features_of(model, part) for part in self.parts])
        )
        self.paused += time.perf_counter() - now
        return {"seconds": self.found[-1][0]}


def minutes() -> list[dict]:
    """Nothing where the pictures are not there: `python tools/data fashion-mnist`."""
    if not Path("data", FASHION).exists():
        return []
    split = pictures(FASHION)
    parts = ImageSubset(split.train), split.validation
    ours = _minutes(_ours(parts), parts)
    plain = _minutes(_plain(split.train, parts), parts)
    details = {"ours": ours, "plain script": plain}
    return [
        row(f"{WHAT}, plain script with lightly / ours", plain / ours, 1.0, details),
        row(f"{WHAT}, ours", ours, -4.25, details),
    ]


def _ours(parts: tuple[ImageSubset, ImageSubset]) -> list[tuple[float, list[np.ndarray]]]:
    recipe = Recipe(
        steps=STEPS,
        batch=256,
        batch_start=None,
        learning_rate=1.5e-2,
        weight_decay=0.05,
        warmup=0.05,
        beta2=0.999,
        eval_every=EVERY,
        precision="bfloat16",
    )
    model, source = network(FASHION, "512-64", 0), Images(pictures(FASHION).train, views_of(4))
    source.sample(2, ij.generator(0, "bench"))  # loops are compiled once for an installation
    snapshots = _Snapshots(parts)
    ij.fit(model, source, ImageLeJEPA(), recipe=recipe, evaluations=(snapshots,), progress=False)
    return snapshots.found


def _plain(
    train: ImageSubset, parts: tuple[ImageSubset, ImageSubset]
) -> list[tuple[float, list[np.ndarray]]]:
    with tempfile.TemporaryDirectory() as folder:
        everything = torch.arange(len(train))
        np.save(f"{folder}/train.npy", train.read(everything).numpy())
        for name, part in zip(("fit", "test"), parts, strict=True):
            np.save(f"{folder}/{name}.npy", part.read(torch.arange(len(part))).numpy())
        command = [
            sys.executable,
            "plain_lejepa.py",
            "--until",
            folder,
            "--steps",
            str(STEPS),
            "--every",
            str(EVERY),
        ]
        done = subprocess.run(command, cwd=Path(__file__).parent, check=True, capture_output=True, text=True)
        lines = [line.split() for line in done.stdout.splitlines()]
        return [
            (float(seconds), [np.load(f"{folder}/{name}-{step}.npy") for name in ("fit", "test")])
            for step, seconds in lines
        ]


def _minutes(
    snapshots: list[tuple[float, list[np.ndarray]]], parts: tuple[ImageSubset, ImageSubset]
) -> float:
    """Minutes of the first snapshot whose probe passes."""
    for seconds, (x, test_x) in snapshots:
        labels = (part.labels for part in parts)
        if linear_probe(x, next(labels), test_x, next(labels), penalties=(PENALTY,)).accuracy >= GOAL:
            return seconds / 60
    raise RuntimeError(f"no probe reached {GOAL} in {STEPS} steps")
