"""Thirty steps of a ResNet-18 by `fit` against a plain script, and what checkpoints cost."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from measure import row
from viewing import noise

import isojepa as ij
from isojepa.data.images import Images, Stack
from isojepa.encoders.backbones import Backbone
from isojepa.encoders.layers import Projector
from isojepa.encoders.model import Headed
from isojepa.objectives.lejepa import ImageLeJEPA
from isojepa.training import checkpoints
from isojepa.training.recipe import Recipe

# threads wait as `isojepa pretrain` lets them
OURS = "from isojepa import threads; threads.prepare(); import pretraining; print(pretraining.ours({}))"
BATCH, SIDE, STEPS, TURNS = 128, 28, 30, 1  # the first three as plain_lejepa.py has them


def pretraining() -> list[dict]:
    """Pictures per second, each run in a process of its own; the best of its turns."""
    tasks = {
        "plain script": [sys.executable, "plain_lejepa.py", "--steps", str(STEPS)],
        "ours": [sys.executable, "-c", OURS.format(STEPS)],
    }
    rates: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(TURNS):
        for name, command in tasks.items():
            rates[name].append(_number(command))
    best = {name: max(found) for name, found in rates.items()}
    what = f"ResNet-18, {SIDE} px, 2 + 2 views, batch {BATCH}, {STEPS} steps: pictures/s"
    return [
        row(f"{what}, ours / plain script with lightly", best["ours"] / best["plain script"], 1.2, best),
        *_checkpoints(),
    ]


def ours(steps: int) -> float:
    """Pictures per second of `fit`."""
    source = Images(Stack(noise((steps + 1) * BATCH, 1, SIDE, SIDE)))
    body = Backbone("resnet18-small", in_channels=1)
    net = Headed(body, Projector(body.num_features, "512-64"))
    source.sample(2, ij.generator(0, "bench"))  # loops are compiled once for an installation
    recipe = Recipe(
        steps=steps,
        batch=BATCH,
        batch_start=None,
        learning_rate=1e-3,
        weight_decay=0.05,
        eval_every=steps,
    )
    started = time.perf_counter()
    ij.fit(net, source, ImageLeJEPA(), recipe=recipe, evaluations=(), progress=False)
    return steps * BATCH / (time.perf_counter() - started)


def _checkpoints(steps: int = 200) -> list[dict]:
    """Seconds of saving as a share of a run that saves as often as it may."""
    source = Images(Stack(noise(512, 1, SIDE, SIDE)))
    body = Backbone("convnet", in_channels=1)
    net = Headed(body, Projector(body.num_features, "2048-2048-64"))
    spent: list[float] = []
    save = checkpoints.save_checkpoint

    def timed(*parts: Any) -> None:
        started = time.perf_counter()
        save(*parts)
        spent.append(time.perf_counter() - started)

    recipe = Recipe(steps=steps, batch=64, batch_start=None, eval_every=steps, checkpoint_seconds=0.1)
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(checkpoints, "save", timed):
        run = ij.fit(
            net,
            source,
            ImageLeJEPA(),
            recipe=recipe,
            evaluations=(),
            progress=False,
            record=Path(folder) / "run",
        )
    details = {"checkpoints": len(spent), "seconds": run.seconds}
    return [row("28 px, convnet: checkpoints' share of a run", sum(spent) / run.seconds, -0.02, details)]


def _number(command: list[str]) -> float:
    """What a command prints."""
    here = Path(__file__).parent
    done = subprocess.run(command, cwd=here, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])
