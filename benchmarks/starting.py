"""How long the package and its command line take to answer, in processes of their own.

Processor time where imports are compared, since other programs do not change it; compiled files are kept in a
folder of the measurement, so that it does not matter whether they may be kept elsewhere.
"""

import os
import subprocess
import sys
import tempfile
import time

from measure import row

REPEATS = 7
IMPORT = """
import time
import torch
start = time.process_time()
import isojepa
{more}
print(time.process_time() - start)
"""
EVERYTHING = "for name in isojepa.__all__: getattr(isojepa, name)"


def starting() -> list[dict]:
    """What `import isojepa` adds to `import torch`, and the seconds of --help and --version."""
    with tempfile.TemporaryDirectory() as folder:
        kept = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        return [
            row("import isojepa: processor seconds beyond import torch", _import("", kept), -0.3),
            row("every public name of isojepa: the same", _import(EVERYTHING, kept), -0.3),
            row("isojepa --help: seconds", _command("--help", kept), -0.8),
            row("isojepa --version: seconds", _command("--version", kept), -0.8),
        ]


def _import(more: str, environment: dict[str, str]) -> float:
    code = IMPORT.format(more=more)
    return min(float(_run(["-c", code], environment)) for _ in range(REPEATS))


def _command(flag: str, environment: dict[str, str]) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        _run(["-m", "isojepa", flag], environment)
        best = min(best, time.perf_counter() - start)
    return best


def _run(arguments: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, text=True, env=environment
    ).stdout
