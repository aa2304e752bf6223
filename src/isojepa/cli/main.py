"""Parsing, and the promise that an error is one line that says what to do.

The modules of the commands are imported when a command is chosen: what only tells of them answers at once.
"""

import contextlib
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module, metadata
from typing import Any, NamedTuple, TextIO

from rich.text import Text

from isojepa import threads
from isojepa.cli.deadline import Deadline
from isojepa.importing import program
from isojepa.names import choose
from isojepa.places import Place, place
from isojepa.terminal import Console, shortened, visible
from isojepa.version import __version__

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
        "isojepa.cli.commands",
        "Demo",
        "train",
        "Train on the spiral world and certify the result (half a minute).",
    ),
    "train": Command(
        "isojepa.cli.commands",
        "Train",
        "train",
        "Train an encoder in a synthetic world, or a world model.",
    ),
    "pretrain": Command(
        "isojepa.cli.pretrain", "Pretrain", "train", "Pretrain a backbone on images, without labels."
    ),
    "views": Command(
        "isojepa.cli.views", "Views", "train", "Show the augmented views that training would see."
    ),
    "collect": Command(
        "isojepa.cli.collect",
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
        "isojepa.cli.gaussianity",
        "Gaussianity",
        "certify",
        "Test whether embeddings are N(0, I): every test's p-value.",
    ),
    "unmix": Command(
        "isojepa.cli.unmix", "Unmix", "certify", "Identify latent components, where the data allow it."
    ),
    "audit": Command(
        "isojepa.cli.audit",
        "AuditEpisodes",
        "certify",
        "Audit recorded episodes: excitation, memory, assumptions.",
    ),
    "align": Command(
        "isojepa.cli.align", "Align", "align", "Fit the map between two encoders and score their similarity."
    ),
    "same": Command(
        "isojepa.cli.same", "Same", "align", "Test whether two encoders agree up to a rotation or linear map."
    ),
    "transfer": Command(
        "isojepa.cli.transfer", "Transfer", "align", "Carry a linear probe from one encoder to another."
    ),
    "evaluate": Command(
        "isojepa.cli.evaluate",
        "Evaluate",
        "plan",
        "Plan with a world model; success beside random and oracle.",
    ),
    "probe": Command(
        "isojepa.cli.probe", "Probe", "inspect", "Probe frozen features: linear, k-NN, kernel, few-shot."
    ),
    "select": Command(
        "isojepa.cli.select",
        "Select",
        "inspect",
        "Choose the run to keep from training losses, without labels.",
    ),
    "look": Command(
        "isojepa.cli.look", "Look", "inspect", "Write a page that shows what an image model sees."
    ),
    "report": Command("isojepa.cli.commands", "Report", "inspect", "Write the page of a finished run."),
    "export": Command(
        "isojepa.cli.export", "Export", "inspect", "Export a trained model as timm, safetensors or ONNX."
    ),
    "list": Command(
        "isojepa.cli.commands", "List", "inspect", "List the components that flags and configs accept."
    ),
}
LAB = ("theory", "sweep", "study")  # commands of isojepa-lab
_RESUMABLE = ("demo", "train", "pretrain", "collect", "sweep", "study")


def commands() -> dict[str, Command]:
    """Our commands, and those that other distributions bring as entry points `isojepa.commands`."""
    table = dict(COMMANDS)
    for entry in metadata.entry_points(group=GROUP):
        try:
            table |= {**entry.load(), **table}  # ours keep their meaning
        except Exception as error:  # one broken distribution must not take the other commands along
            message = f"the commands of {entry.value} could not be loaded: {type(error).__name__}: {error}"
            warnings.warn(message, stacklevel=2)
    return table


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 well, 1 a run that failed, 2 bad input, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what its encoding lacks is spelt out, not an error
            stream.reconfigure(errors="backslashreplace")
    console = Console(stderr=True, soft_wrap=True)
    here, deadline = Place(), None
    resumable = bool(arguments) and arguments[0] in _RESUMABLE
    stopped = "stopped" + "; the same command goes on from the last checkpoint" * resumable
    try:
        here = place()
        if threading.current_thread() is threading.main_thread():
            # a scheduler's polite kill saves a checkpoint just as Ctrl-C does, which scripts' jobs ignore
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
        from isojepa.training.loop import RunWarning

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RunWarning)  # the commands tell it in their own words
            warnings.showwarning = _show_warning
            return int(command.run())
    except KeyboardInterrupt:
        if here.first:
            console.print(stopped)
        return 130
    except BrokenPipeError:  # the reader of our output, e.g. head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError, ImportError, RuntimeError, MemoryError) as error:
        if _speaks(here):
            console.print(Text.assemble(("error:", "bold red"), f" {shortened(_one_line(error))}"))
        return 2
    finally:
        if deadline is not None and argv is not None:  # else the process ends, which may take long too
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
    """The command that was asked for, with its flags filled in.

    Raises:
        ValueError: there is no such command.
        SystemExit: its help was asked for, or a flag is wrong; both are told.
    """
    table = commands()
    if name in LAB and name not in table:
        hint = f"{program('pip')} install -c constraints.txt -e lab in the clone of isojepa"
        raise ValueError(f"{name} is a command of isojepa-lab, which is not installed: {hint}")
    chosen = choose("command", name, table)
    threads.prepare()
    from isojepa.cli.flags import parse

    kind = getattr(import_module(chosen.module), chosen.name)
    if all(map(str.isprintable, arguments)):
        return parse(kind, f"isojepa {name}", arguments)
    with _made_visible():  # the parser repeats what it does not understand
        return parse(kind, f"isojepa {name}", arguments)


@contextlib.contextmanager
def _made_visible() -> Iterator[None]:
    """What is written inside is shown at the end, without anything that a terminal would obey."""
    written, told = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(written), contextlib.redirect_stderr(told):
            yield
    finally:
        sys.stdout.write(visible(written.getvalue()))
        sys.stderr.write(visible(told.getvalue()))


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """As Python shows warnings, but for what a terminal would obey."""
    text = warnings.formatwarning(message, category, filename, lineno, line)
    (file or sys.stderr).write(visible(text))


def _speaks(here: Place) -> bool:
    """Whether this rank tells an error: the first does, and on other nodes one that never met it."""
    team = sys.modules.get("isojepa.training.team")
    return here.first or (here.local_rank == 0 and not (team is not None and team.has_met()))


def _one_line(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    return " ".join(str(text).split())
