"""Timing and memory on a noisy machine: alternate the candidates, take medians, and compare within a run."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def alternate(
    tasks: Mapping[str, Callable[[], object]], seconds: float = 4.0, least: int = 5
) -> dict[str, float]:
    """Median seconds of each task; they take turns until each has run often enough and time is up."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():
        task()  # compile, allocate, warm up
    end = time.perf_counter() + seconds * len(tasks)
    while time.perf_counter() < end or min(len(t) for t in times.values()) < least:
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def processor_time(tasks: Mapping[str, Callable[[], object]], rounds: int = 9) -> dict[str, float]:
    """Median processor seconds of each task, which take turns; quick ones are repeated within a turn."""
    repeats = {}
    for name, task in tasks.items():
        task()
        start = time.process_time()
        task()
        repeats[name] = max(1, round(0.02 / max(1e-5, time.process_time() - start)))
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            start = time.process_time()
            for _ in range(repeats[name]):
                task()
            times[name].append((time.process_time() - start) / repeats[name])
    return {name: statistics.median(values) for name, values in times.items()}


def apart(code: str) -> Any:
    """What a process of its own measures, and prints as JSON; it may import this module."""
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\nsys.path.insert(0, {here!r})\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def forget_peak() -> float:
    """MiB resident now; `peak_mib` then tells of what comes after."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak_mib() -> float:
    """The most MiB that were resident since `forget_peak`."""
    return _status("VmHWM")


def _status(key: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key))


PEAK = """
import ctypes, sys
sys.path.insert(0, {here!r})
import torch, textbook
from isojepa.objectives.gaussianity.epps_pulley import sliced_epps_pulley
from isojepa.objectives.gaussianity.epps_pulley import Grid
n, dim, slices, knots = {shape}
x = torch.randn(n, dim, requires_grad=True)
a = torch.nn.functional.normalize(torch.randn(slices, dim), dim=1)
grid = Grid.trapezoid(knots, 5.0)
def fused(x, a): return sliced_epps_pulley(x, a, grid)
def plain(x, a): return textbook.sigreg(x, a, knots)
task = {task}
task(x[:16], a[:4]).backward()  # compile and load before the baseline is taken
x.grad = None
libc = ctypes.CDLL("libc.so.6")
libc.malloc_trim(0)
def status(key):
    for line in open("/proc/self/status"):
        if line.startswith(key): return int(line.split()[1])
open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
before = status("VmRSS")
task(x, a).backward()
print(status("VmHWM") - before)
"""


def peak_kib(task: str, shape: tuple[int, int, int, int]) -> int:
    """KiB that one forward and backward pass adds to a fresh process; task is "fused" or "plain"."""
    code = PEAK.format(here=str(Path(__file__).parent), shape=shape, task=task)
    values = [
        int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    return max(1, statistics.median_low(values))


def row(name: str, value: float, target: float | None, details: dict | None = None) -> dict:
    """One line; a negative target is an upper limit, None is for information."""
    met = target is None or (value >= target if target > 0 else value <= -target)
    return {"name": name, "value": value, "target": target, "met": bool(met), "details": details or {}}


def stepper(encoder: Any, world: Any, objective: Any, recipe: Any) -> Callable[[], object]:
    """A function that trains one step at each call, as `fit` does, without evaluations."""
    from isojepa.training.distributed import Team
    from isojepa.training.loop import Interrupts, _Training

    training = _Training({"encoder": encoder}, world, objective, recipe, 0, (), (), Team(recipe))
    training._prepare()
    interrupts = Interrupts()
    return lambda: training._step(interrupts)
