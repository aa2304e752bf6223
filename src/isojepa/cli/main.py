"""Parsing, and the promise that an error is one line that says what to do."""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from isojepa.cli.certify import Certify
from isojepa.cli.commands import Demo, List, Report, Train
from isojepa.cli.flags import parse
from isojepa.cli.gaussianity import Gaussianity
from isojepa.cli.study import Study
from isojepa.cli.sweep import Sweep
from isojepa.cli.theory import Theory
from isojepa.training.loop import RunWarning
from isojepa.version import __version__

DESCRIPTION = """Train joint-embedding world models and certify that they recovered the world.

Start with `isojepa demo`. Then `isojepa train --help` shows every setting of a run, `isojepa certify FILE`
judges embeddings of your own, `isojepa gaussianity FILE` tests whether they are Gaussian, `isojepa theory`
checks the theorems behind it all, `isojepa sweep STUDY` and `isojepa study report STUDY` repeat the published
experiments, and `isojepa list` names the worlds, objectives and encoders."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 well, 1 a run that failed, 2 bad input, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    console = Console(stderr=True, soft_wrap=True)
    if arguments in (["--version"], ["-V"]):
        print(f"isojepa {__version__}")
        return 0
    if threading.current_thread() is threading.main_thread():
        # a scheduler's polite kill saves a checkpoint just as Ctrl-C does
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        command = _parse(arguments or ["--help"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RunWarning)  # the commands tell it in their own words
            return int(command.run())
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from the last checkpoint")
        return 130
    except BrokenPipeError:  # the reader of our output, e.g. head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError, ImportError, RuntimeError, MemoryError) as error:
        console.print(f"[bold red]error:[/] {escape(_one_line(error))}")
        return 2


def _parse(arguments: list[str]) -> Any:
    commands = {
        "demo": Demo,
        "train": Train,
        "certify": Certify,
        "gaussianity": Gaussianity,
        "theory": Theory,
        "sweep": Sweep,
        "study": Study,
        "report": Report,
        "list": List,
    }
    return parse(commands[arguments[0]], f"isojepa {arguments[0]}", arguments[1:])


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return str(error.strerror) if error.filename is None else f"{error.strerror}: {error.filename}"
    return " ".join(str(error).split())
