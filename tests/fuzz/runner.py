"""Makes inputs by number, gives them, and counts what became of them."""

import contextlib
import os
import platform
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

import isojepa
from tests.fuzz import commands, configs, files, records
from tests.fuzz.oracle import GOOD, KINDS, Verdict, judge
from tests.fuzz.values import Case, Rng
from tests.memory import peak

# of a hundred inputs, how many enter where
SHARES = {"commands": 26, "configs": 33, "files": 25, "records": 16}
PROCESSES = 400  # of so many inputs one is given to a process of its own, besides
_MAKERS: dict[str, Callable[[Rng, Path], Case]] = {
    "commands": commands.make_case,
    "configs": configs.make_case,
    "files": files.make_case,
    "records": records.make_case,
    "processes": commands.make_process,
}
_LIMIT = 12 << 30  # bytes of address space: an input that asks for more gets an error, not the machine


@dataclass
class Tally:
    """What became of all inputs.

    Attributes:
        counts: by surface and kind.
        failures: those that must not happen: number, surface, input, verdict.
    """

    seed: int
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[tuple[int, str, str, Verdict]] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, number: int, case: Case, verdict: Verdict) -> None:
        """Count one."""
        self.counts.setdefault(case.surface, Counter())[verdict.kind] += 1
        if verdict.kind not in GOOD:
            self.failures.append((number, case.surface, case.told, verdict))

    def to_dict(self) -> dict[str, Any]:
        """For docs/results/fuzz.json."""
        total: Counter[str] = sum(self.counts.values(), Counter())
        return {
            "seed": self.seed,
            "inputs": total.total(),
            "total": {kind: total[kind] for kind in KINDS},
            "surfaces": {
                name: {"inputs": found.total(), **{kind: found[kind] for kind in KINDS}}
                for name, found in sorted(self.counts.items())
            },
            "peak_megabytes": peak(),
            "seconds": round(self.seconds, 1),
            "versions": {
                "isojepa": isojepa.__version__,
                "python": platform.python_version(),
                **{
                    name: metadata.version(name)
                    for name in ("torch", "numpy", "h5py", "safetensors", "tyro", "rich")
                },
            },
        }


def run(
    count: int,
    seed: int,
    tell: Callable[[str], None] = lambda text: None,
    start: int = 0,
    keep: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Give inputs `start` to `start + count` of a seed; the counts so far are kept now and then."""
    tally = Tally(seed)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name, bounded(), quiet():
        folder = Path(name).resolve()
        for part in ("commands", "else"):
            (folder / part).mkdir()
        commands.prepare(folder / "commands")
        for number in range(start, start + count):
            case = make(number, seed, folder)
            verdict = judge(case)
            tally.add(number, case, verdict)
            if verdict.kind not in GOOD:
                tell(f"{seed}:{number} {verdict.kind}: {verdict.words}\n    {case.told[:3000]}")
            if number % 1000 == 999:
                tally.seconds = time.monotonic() - begun
                keep(tally)
                tell(f"{number + 1} inputs, {len(tally.failures)} failures, {peak()} MB")
    tally.seconds = time.monotonic() - begun
    return tally


def make(number: int, seed: int, folder: Path) -> Case:
    """Input of a number: the same for the same number and seed, whatever came before it."""
    rng = random.Random(f"{seed}:{number}")
    if number % PROCESSES == PROCESSES - 1:
        return _MAKERS["processes"](rng, folder / "commands")
    surface = rng.choices(list(SHARES), list(SHARES.values()))[0]
    return _MAKERS[surface](rng, folder / ("commands" if surface == "commands" else "else"))


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Inside, this process can take so much memory and no more."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_LIMIT, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Inside, one thread computes and NumPy says nothing of overflow."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    os.environ.setdefault("COLUMNS", "100")
    with np.errstate(all="ignore"):
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def tell(text: str) -> None:
    """To standard error, whatever letters it knows."""
    sys.stderr.write(text.encode("ascii", "backslashreplace").decode() + "\n")
    sys.stderr.flush()
