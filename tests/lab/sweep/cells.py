"""Small studies for tests of sweeps, in memory and as files that child processes read."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from isojepa.config import Config
from isojepa.encoders.coupling import CouplingSpec
from isojepa.registry import build_spec
from isojepa.runs import record_path
from isojepa.training.recipe import Recipe
from isojepa_lab.studies.findings import Findings
from isojepa_lab.studies.study import Cell, ReportStudy
from isojepa_lab.sweep.plan import Task, plan_studies, tasks_of

TINY = Recipe(
    steps=30,
    batch=64,
    batch_start=None,
    eval_every=10,
    eval_samples=200,
    checkpoint_seconds=0.0,
    accelerator="cpu",
)
RESULTS = ("metrics.jsonl", "encoder.safetensors", "scores.json")


def tiny(seed: int = 0, steps: int = 30, **recipe: Any) -> Config:
    """A run of a fraction of a second; a checkpoint at every step."""
    return Config(
        world=build_spec("world", dim=2, mixing="additive-coupling"),
        encoder=CouplingSpec(),
        training=replace(TINY, steps=steps, **recipe),
        seed=seed,
    )


def study_of(configs: Mapping[str, Config], name: str = "tiny") -> ReportStudy:
    """A study whose cells are labelled by the keys."""
    cells = [Cell(config, {"run": key}) for key, config in configs.items()]
    return ReportStudy(name, "Tiny", "claim", "source", lambda scale: cells, lambda rows: Findings(["found"]))


def tasks_in(folder: Path, configs: Mapping[str, Config]) -> list[Task]:
    return tasks_of(plan_studies([study_of(configs)], "quick"), folder)


def write_study(path: Path, configs: Mapping[str, Config]) -> Path:
    """The same study as a Python file, as a user would write one."""
    plain = {key: config.to_dict() for key, config in configs.items()}
    path.write_text(
        "import json\n"
        "from isojepa.config import config_from\n"
        "from isojepa_lab.studies.findings import Findings\n"
        "from isojepa_lab.studies.study import Cell, ReportStudy\n"
        f"CONFIGS = json.loads({json.dumps(plain)!r})\n"
        "cells = [Cell(config_from(value), {'run': key}) for key, value in CONFIGS.items()]\n"
        "STUDY = ReportStudy('tiny', 'Tiny', '', '', lambda scale: cells, lambda rows: Findings(['found']))\n"
    )
    return path


def start_sweep(study: Path, records: Path, *flags: str, **options: Any) -> subprocess.Popen[str]:
    """`isojepa sweep` in a process of its own, which hears Ctrl-C even if the tests themselves do not."""
    return subprocess.Popen(
        [sys.executable, "-m", "isojepa", "sweep", str(study), "--records", str(records), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **options,
    )


def finish(process: subprocess.Popen[str], seconds: float = 240) -> tuple[int, str]:
    out, _ = process.communicate(timeout=seconds)
    return process.returncode, out


def wait_until(true: Callable[[], Any], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def same_results(first: Path, second: Path, config: Config) -> bool:
    one, two = record_path(config, first), record_path(config, second)
    return all((one / name).read_bytes() == (two / name).read_bytes() for name in RESULTS)
