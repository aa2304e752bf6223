"""Steps of the plane in processes of their own: beside a busy core, and against another version.

`python stepping.py SETTINGS` is such a process. It uses public names alone, which versions share, and
for every line it reads it trains for a while and prints the milliseconds of a step, of wall clock and of
processor time.
"""

import itertools
import os
import signal
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

TURNS = 8
SETTINGS = {  # encoder, slices, batch
    "default": ({}, None, 2048),
    "published": ({"width": 256, "layers": 4}, 256, 256),
}


def busy_core() -> list[dict]:
    """A step, with the command line's settings, beside a program that keeps one core busy, over one alone."""
    from measure import row

    from isojepa.threads import CHOICES, short_waits

    unchosen = {key: value for key, value in os.environ.items() if key not in CHOICES}
    idle, busy = [], []
    with _stepper(unchosen | short_waits(unchosen), "default") as steps, _busy_process() as other:
        for _ in range(TURNS):
            os.kill(other.pid, signal.SIGSTOP)
            idle.append(next(steps)[0])
            os.kill(other.pid, signal.SIGCONT)
            busy.append(next(steps)[0])
    times = {"idle ms": statistics.median(idle), "busy ms": statistics.median(busy)}
    ratio = times["busy ms"] / times["idle ms"]
    return [row("2D spiral, default settings: step with a busy core beside it / idle", ratio, -3, times)]


def reference() -> list[dict]:
    """A step of this version over one of the version at ISOJEPA_REFERENCE, in turns, in processor time."""
    from measure import row

    import isojepa

    other = os.path.abspath(os.environ.get("ISOJEPA_REFERENCE") or os.devnull)
    if not (Path(other) / "isojepa" / "__init__.py").is_file():
        print(f"No reference version at ISOJEPA_REFERENCE, {other}: its rows are left out.")
        return []
    source = str(Path(isojepa.__file__).parents[1])
    one = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    rows = []
    for settings in SETTINGS:
        ours, theirs = [], []
        with (
            _stepper({**os.environ, **one, "PYTHONPATH": source}, settings) as our_steps,
            _stepper({**os.environ, **one, "PYTHONPATH": other}, settings) as their_steps,
        ):
            for _ in range(TURNS):
                ours.append(next(our_steps)[1])
                theirs.append(next(their_steps)[1])
        times = {"ours ms": min(ours), "reference ms": min(theirs)}
        name = f"2D spiral, {settings} settings: our step / the reference version's"
        rows.append(row(name, times["ours ms"] / times["reference ms"], -1.05, times))
    return rows


@contextmanager
def _stepper(environment: dict[str, str], settings: str) -> Iterator[Iterator[tuple[float, float]]]:
    """A process that steps when asked; gives an iterator of (wall, processor) milliseconds a step."""
    process = subprocess.Popen(
        [sys.executable, __file__, settings],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def ask() -> tuple[float, float]:
        process.stdin.write("go\n")
        process.stdin.flush()
        wall, processor = process.stdout.readline().split()
        return float(wall), float(processor)

    try:
        ask()  # imports, compiles, warms up
        yield (ask() for _ in itertools.count())
    finally:
        process.kill()
        process.wait()


@contextmanager
def _busy_process() -> Iterator[subprocess.Popen]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _steps(settings: str) -> None:
    """Train a short and a longer run for every line read: the difference is steps alone."""
    warnings.simplefilter("ignore")  # so short a run has collapsed
    import isojepa as ij

    encoder, slices, batch = SETTINGS[settings]
    world = ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.95), ij.data.Spiral())

    def seconds(steps: int) -> np.ndarray:
        model = ij.encoders.MLP(2, 2, **encoder)
        objective = ij.objectives.LeJEPA(regularizer=ij.objectives.SIGReg(slices=slices))
        wall, processor = time.perf_counter(), time.process_time()
        ij.fit(model, world, objective, steps=steps, batch=batch, batch_start=None, eval_samples=64)
        return np.array([time.perf_counter() - wall, time.process_time() - processor])

    start = np.array([np.inf, np.inf])
    for _ in sys.stdin:
        start = np.minimum(start, seconds(1))
        print(*(1e3 * (seconds(101) - start) / 100), flush=True)


if __name__ == "__main__":
    _steps(sys.argv[1])
