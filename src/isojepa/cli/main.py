"""Command line: the table of commands, errors as one line with exit code 2, and the reaction to signals.

A command's module is imported when the command runs: help and version are printed from the table alone.

SIGINT and SIGTERM end a command within seconds, wherever it is. Python runs signal handlers between two of
its own instructions; a command that compiles, decodes or waits in a library gets there late, or loses the
KeyboardInterrupt in a callback. The system also writes the number of each signal to a file descriptor at
once: the thread of `Deadline` reads it there, gives the command time to save and leave, and then ends the
process. Saved files are complete, because files are replaced and never changed.
"""

import contextlib
import io
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module, metadata
from typing import Any, NamedTuple, TextIO

from rich.text import Text

from isojepa import threads
from isojepa.importing import lab_hint
from isojepa.launch_env import RankInfo, rank_info
from isojepa.terminal import Console, escape_control, truncate
from isojepa.validation import choose
from isojepa.version import __version__

SECONDS_TO_SAVE = 3.5  # after a signal; with the end of the process and a busy machine less than five
_REPORT_SECONDS = 20.0  # for the first rank to report an error that another rank had earlier


class Deadline:
    """Ends this process some seconds after SIGINT or SIGTERM, until it is cancelled.

    Args:
        message: printed to standard error when the process is ended; nothing if empty.
        seconds: that the command has to leave by itself.
    """

    def __init__(self, message: str, seconds: float = SECONDS_TO_SAVE) -> None:
        self._message, self._seconds = message, seconds
        self._cancelled = threading.Event()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._wait, daemon=True).start()

    def cancel(self) -> None:
        """Stop watching: the command has ended and the process continues."""
        self._cancelled.set()
        signal.set_wakeup_fd(self._before)
        self._writer.close()

    def _wait(self) -> None:
        while number := self._reader.recv(1):
            if number[0] in (signal.SIGINT, signal.SIGTERM):
                if not self._cancelled.wait(self._seconds):
                    _end_process(self._message)
                break
        self._reader.close()


def _end_process(message: str) -> None:
    if "multiprocessing" in sys.modules:
        for child in sys.modules["multiprocessing"].active_children():
            child.kill()
    if message:
        os.write(2, f"{message}\n".encode())
    os._exit(130)


GROUP = "isojepa.commands"  # entry points: dicts of name -> Command
DESCRIPTION = "Train joint-embedding world models and certify that they recovered the world."
START = "Start with `isojepa demo`; `isojepa COMMAND --help` has examples and every flag."


class Command(NamedTuple):
    """Where a command is: its module, its class there, the group that help lists it in, and its first line.

    The line is that of the class's docstring, so that help imports no command.
    """

    module: str
    name: str
    group: str
    summary: str


COMMANDS = {
    "demo": Command(
        "isojepa.cli.train",
        "Demo",
        "train",
        "Train on the spiral world and certify the result (half a minute).",
    ),
    "train": Command(
        "isojepa.cli.train",
        "Train",
        "train",
        "Train an encoder in a synthetic world, or a world model.",
    ),
    "pretrain": Command(
        "isojepa.cli.images", "Pretrain", "train", "Pretrain a backbone on images, without labels."
    ),
    "views": Command(
        "isojepa.cli.images", "ShowViews", "train", "Show the augmented views that training would see."
    ),
    "collect": Command(
        "isojepa.cli.environments",
        "Collect",
        "train",
        "Collect episodes of a Gymnasium environment under a policy.",
    ),
    "episodes": Command(
        "isojepa.cli.episodes",
        "MakeEpisodes",
        "train",
        "Collect episodes of the simulated arm, or convert a file.",
    ),
    "certify": Command(
        "isojepa.cli.certify", "Certify", "certify", "Certify that a representation is a world model."
    ),
    "gaussianity": Command(
        "isojepa.cli.checks",
        "Gaussianity",
        "certify",
        "Test whether embeddings are N(0, I): every test's p-value.",
    ),
    "unmix": Command(
        "isojepa.cli.unmix", "Unmix", "certify", "Identify latent components, where the data allow it."
    ),
    "audit": Command(
        "isojepa.cli.checks",
        "AuditEpisodes",
        "certify",
        "Audit recorded episodes: excitation, memory, assumptions.",
    ),
    "align": Command(
        "isojepa.cli.align", "Align", "align", "Fit the map between two encoders and score their similarity."
    ),
    "same": Command(
        "isojepa.cli.align",
        "Same",
        "align",
        "Test whether two encoders agree up to a rotation or linear map.",
    ),
    "transfer": Command(
        "isojepa.cli.align", "Transfer", "align", "Carry a linear probe from one encoder to another."
    ),
    "evaluate": Command(
        "isojepa.cli.environments",
        "Evaluate",
        "plan",
        "Plan with a world model; success beside random and oracle.",
    ),
    "probe": Command(
        "isojepa.cli.inspection", "Probe", "inspect", "Probe frozen features: linear, k-NN, kernel, few-shot."
    ),
    "select": Command(
        "isojepa.cli.inspection",
        "Select",
        "inspect",
        "Choose the run to keep from training losses, without labels.",
    ),
    "look": Command(
        "isojepa.cli.images", "LookAtModel", "inspect", "Write a page that shows what an image model sees."
    ),
    "report": Command("isojepa.cli.train", "Report", "inspect", "Write the page of a finished run."),
    "export": Command(
        "isojepa.cli.inspection", "Export", "inspect", "Export a trained model as timm, safetensors or ONNX."
    ),
    "list": Command(
        "isojepa.cli.train", "List", "inspect", "List the components that flags and configs accept."
    ),
}
LAB = ("theory", "sweep", "study", "stress")  # commands of isojepa-lab
_RESUMABLE = ("demo", "train", "pretrain", "collect", "sweep", "study")


def commands() -> dict[str, Command]:
    """Our commands, and those that other distributions bring as entry points `isojepa.commands`."""
    table = dict(COMMANDS)
    for entry in metadata.entry_points(group=GROUP):
        try:
            table |= {**entry.load(), **table}  # the package's own commands take precedence
        except Exception as error:  # a broken distribution must not disable other commands
            message = f"the commands of {entry.value} could not be loaded: {type(error).__name__}: {error}"
            warnings.warn(message, stacklevel=2)
    return table


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 well, 1 a run that failed, 2 bad input, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # characters that its encoding lacks are escaped
            stream.reconfigure(errors="backslashreplace")
    console = Console(stderr=True, soft_wrap=True)
    here, deadline = RankInfo(), None
    resumable = bool(arguments) and arguments[0] in _RESUMABLE
    stopped = "stopped" + "; the same command resumes from the last checkpoint" * resumable
    try:
        here = rank_info()
        if threading.current_thread() is threading.main_thread():
            # SIGTERM saves a checkpoint as Ctrl-C does; background jobs of scripts ignore SIGINT
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.default_int_handler)
            deadline = Deadline(stopped if here.first else "")
        if arguments in (["--version"], ["-V"]):
            print(f"isojepa {__version__}")
            return 0
        if not arguments or arguments[0] in ("--help", "-h"):
            _print_help()
            return 0
        command = _parse(arguments[0], arguments[1:])
        from isojepa.training.run import RunWarning

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RunWarning)  # the commands print the reason themselves
            warnings.showwarning = _show_warning
            return int(command.run())
    except KeyboardInterrupt:
        if here.first:
            console.print(stopped)
        return 130
    except BrokenPipeError:  # the reader of the output, e.g. head, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError, ImportError, RuntimeError, MemoryError) as error:
        if _speaks(here):
            console.print(Text.assemble(("error:", "bold red"), f" {truncate(_one_line(error))}"))
        else:
            _await_first_rank()
        return 2
    finally:
        if (
            deadline is not None and argv is not None
        ):  # otherwise the process ends, which the deadline covers too
            deadline.cancel()


def _print_help() -> None:
    """Print commands by group, from the table alone."""
    from isojepa.cli.printing import out

    table = commands()
    out.print(f"usage: isojepa [-h] [--version] COMMAND ...\n\n{DESCRIPTION}\n{START}", highlight=False)
    width = max(map(len, table))
    for group in dict.fromkeys(command.group for command in table.values()):
        out.print(f"\n{group}", style="bold")
        for name, command in table.items():
            if command.group == group:
                out.print(f"  {name:<{width}}  {command.summary}", highlight=False)


def _parse(name: str, arguments: list[str]) -> Any:
    """The command with its flags filled in.

    Raises:
        ValueError: there is no such command.
        SystemExit: help was requested, or a flag is wrong; printed.
    """
    table = commands()
    if name in LAB and name not in table:
        raise ValueError(f"{name} is a command of isojepa-lab, which is not installed: {lab_hint()}")
    chosen = choose("command", name, table)
    threads.prepare()
    from isojepa.cli.flags import parse

    kind = getattr(import_module(chosen.module), chosen.name)
    if all(map(str.isprintable, arguments)):
        return parse(kind, f"isojepa {name}", arguments)
    with _escaped_output():  # the parser repeats unknown arguments
        return parse(kind, f"isojepa {name}", arguments)


@contextlib.contextmanager
def _escaped_output() -> Iterator[None]:
    """Context manager: print output at its end, with control characters escaped."""
    written, errors = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(written), contextlib.redirect_stderr(errors):
            yield
    finally:
        sys.stdout.write(escape_control(written.getvalue()))
        sys.stderr.write(escape_control(errors.getvalue()))


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning with control characters escaped."""
    text = warnings.formatwarning(message, category, filename, lineno, line)
    (file or sys.stderr).write(escape_control(text))


def _speaks(here: RankInfo) -> bool:
    """Whether this rank prints an error: the first rank, or the first of a node that never met it."""
    team = sys.modules.get("isojepa.training.distributed")
    return here.first or (here.local_rank == 0 and not (team is not None and team.has_met()))


def _await_first_rank() -> None:
    """Let the first rank report the error first: a launcher ends all ranks once one of them has failed."""
    with contextlib.suppress(KeyboardInterrupt):
        time.sleep(_REPORT_SECONDS)


def _one_line(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    return " ".join(str(text).split())
