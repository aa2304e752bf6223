"""Frames of the Reacher: against a plain loop over dm_control's own render, and beside a training step.

python benchmarks/run.py rendering
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from measure import processor_time, row, stepper

import isojepa as ij
from isojepa.io import to_jsonable, write_json
from isojepa.training.recipe import Recipe
from isojepa_lab.environments.reacher import Reacher
from isojepa_lab.environments.reacher_frames import ArmLook, StateScene, keep_states
from isojepa_lab.environments.rendering import FORMAT, NoRendering, backend, block_rows, store_folder

FRAMES = {"fast": 6_000, "dmc": 400}  # rendered for a rate: some seconds, so that starting is small beside it
PLAIN = 150  # frames of the loop, which is as slow as dmc
TURNS = 3
PAIRS, MANY = 20_000, 100_000


def rendering() -> list[dict]:
    """Frames per second, the share of loading in a step, and the memory of a run over 100,000 pairs."""
    try:
        backend()
        import dm_control  # noqa: F401
    except (NoRendering, ImportError) as error:
        print(f"rendering is left out: {error}", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as folder:
        return [*_rates(folder), *_loading(folder), *_memory(folder)]


def _rates(folder: str) -> list[dict]:
    """Frames per second through the store, everything included, in turns with the loop."""
    rates: dict[str, list[float]] = {}
    for turn in range(TURNS):
        rates.setdefault("dm_control", []).append(_plain_loop())
        for quality, count in FRAMES.items():
            for processes in (1, 2):
                z = torch.randn(
                    count * processes, 2, generator=ij.generator(turn, "bench", quality, processes)
                )
                start = time.perf_counter()
                keep_states(
                    z.numpy(), {"bench": turn, "processes": processes}, ArmLook(quality), folder, processes
                )
                rate = len(z) / (time.perf_counter() - start)
                rates.setdefault(f"{quality}, {processes}", []).append(rate)
    found = {name: statistics.median(values) for name, values in rates.items()}
    what = "Reacher 64 x 64, frames per second"
    return [
        row(f"{what}: dm_control's render in a loop", found["dm_control"], None, found),
        *(
            row(
                f"{what}: {quality}, {processes} process{'es' if processes > 1 else ''} / loop",
                found[f"{quality}, {processes}"] / found["dm_control"],
                10 if (quality, processes) == ("fast", 2) else None,
                found,
            )
            for quality in FRAMES
            for processes in (1, 2)
        ),
    ]


def _plain_loop() -> float:
    """What everybody writes first, in a process of its own: seconds of the loop alone."""
    code = (
        "import time, numpy as np\n"
        "from dm_control import suite\n"
        "env = suite.load('reacher', 'hard', task_kwargs={'random': 0}); env.reset()\n"
        f"poses = np.random.default_rng(0).normal(size=({PLAIN}, 2))\n"
        "env.physics.render(64, 64, camera_id=0)\n"
        "start = time.perf_counter()\n"
        "for pose in poses:\n"
        "    with env.physics.reset_context(): env.physics.data.qpos[:] = pose\n"
        "    env.physics.render(64, 64, camera_id=0)\n"
        "print(time.perf_counter() - start)"
    )
    environment = {**os.environ, "MUJOCO_GL": backend()}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return PLAIN / float(done.stdout.split()[-1])


def _loading(folder: str) -> list[dict]:
    """What reading and normalising 256 pairs of 20,000 costs of a step of `fit`, in one thread's time."""
    world = _made_up(folder, PAIRS)
    recipe = Recipe(steps=10**6, batch=256, batch_start=None, accelerator="cpu", checkpoint_seconds=1e9)
    objective = ij.objectives.LeJEPA(1e-2, ij.objectives.SIGReg(slices=256))
    source = ij.generator(0, "bench")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        times = processor_time(
            {
                "step": stepper(ij.encoders.Conv(2), world, objective, recipe),
                "loading": lambda: world.take(torch.randperm(PAIRS, generator=source)[:256]),
            },
            rounds=5,
        )
    finally:
        torch.set_num_threads(threads)
    share = times["loading"] / times["step"]
    return [row("Reacher, 20,000 pairs, batch 256: loading / step of the published CNN", share, -0.1, times)]


def _memory(folder: str) -> list[dict]:
    """The most memory, mapped pages included, of a process that trains over all of 100,000 pairs."""
    _made_up(folder, MANY)
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import rendering\n"
        f"print(rendering.train_and_measure({folder!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    peak = float(done.stdout.split()[-1])
    return [row("Reacher, 100,000 pairs: peak memory of a run, GiB", peak, -3.0)]


def train_and_measure(folder: str) -> float:
    """Train a few steps, read every pair as the other steps would, and tell the peak in GiB."""
    world = _made_up(folder, MANY)
    objective = ij.objectives.LeJEPA(1e-2, ij.objectives.SIGReg(slices=256))
    ij.fit(
        ij.encoders.Conv(2),
        world,
        objective,
        evaluations=(),
        steps=3,
        batch=256,
        batch_start=None,
        progress=False,
    )
    order = torch.randperm(MANY, generator=ij.generator(0, "bench"))
    for start in range(0, MANY, 256):
        world.take(order[start : start + 256])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _made_up(folder: str, pairs: int) -> Reacher:
    """A world whose frames are noise: reading them costs what reading real ones does."""
    look = ArmLook()
    views = []
    for view in range(2):
        z = torch.randn(pairs, 2, generator=ij.generator(view, "bench", "made up")).numpy()
        chosen = {"made up": pairs, "view": view}
        scene = StateScene(folder, 1, chosen, pairs, look.quality, look.squash, look.size, look.target)
        if not (store_folder(scene) / "scene.json").exists():
            _fill(scene, z)
        views.append(keep_states(z, chosen, look, folder, 1))
    return Reacher(*views, look, correlation=0.95, gaussian=True)


def _fill(scene: StateScene, z: np.ndarray) -> None:
    folder = store_folder(scene)
    folder.mkdir(parents=True)
    np.save(folder / "states.npy", z.astype(np.float32))
    frames = np.lib.format.open_memmap(folder / "frames.npy", "w+", np.uint8, scene.shape())
    noise = np.random.default_rng(0).integers(0, 256, (1024, *scene.shape()[1:]), dtype=np.uint8)
    for block in range(scene.blocks()):
        rows = block_rows(scene, block)
        frames[rows] = noise[: rows.stop - rows.start]
    frames.flush()
    known = {"format": FORMAT, "name": scene.name, "scene": to_jsonable(scene.scene())}
    write_json(folder / "scene.json", known)
