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
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module, metadata
from typing import Any, NamedTuple, TextIO

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from isojepa import threads
from isojepa.cli.deadline import Deadline
from isojepa.importing import program
from isojepa.names import choose
from isojepa.places import Place, place
from isojepa.terminal import Console, shortened, visible
from isojepa.version import __version__

GROUP = "isojepa.commands"  # entry points: dicts of name -> Command
DESCRIPTION = """Train joint-embedding world models and certify that they recovered the world.

Start with `isojepa demo`. Then `isojepa train --help` shows every setting of a run, `isojepa certify FILE`
judges embeddings of your own, `isojepa unmix FILE` names their axes, `isojepa gaussianity FILE` tests
whether they are Gaussian, `isojepa theory` checks the theorems behind it all, `isojepa sweep STUDY` and
`isojepa study report STUDY` repeat the published experiments, and `isojepa list` names the worlds, objectives
and encoders.

Pictures of your own: `isojepa views DATA` shows what would be seen, `isojepa pretrain DATA` learns from it
without labels, `isojepa look RECORD` shows what was learned, `isojepa probe RECORD --data DATA` says what the
features are worth, `isojepa select FOLDER` which run to keep, `isojepa export RECORD --to onnx` takes it
away."""


class Command(NamedTuple):
    """Where a command is: its module, its class there, and the first line of the class's docstring."""

    module: str
    name: str
    summary: str


COMMANDS = {
    "demo": Command(
        "isojepa.cli.commands",
        "Demo",
        "Train on the spiral world, print the certificate, write a report with pictures. "
        "About half a minute.",
    ),
    "train": Command(
        "isojepa.cli.commands",
        "Train",
        "Train an encoder in a world, or a world model on recorded episodes, and write its record.",
    ),
    "pretrain": Command(
        "isojepa.cli.pretrain",
        "Pretrain",
        "Pretrain a backbone on pictures, without labels.",
    ),
    "certify": Command(
        "isojepa.cli.certify",
        "Certify",
        "Say whether a representation is a world model: a rotation of the true latents.",
    ),
    "unmix": Command(
        "isojepa.cli.unmix",
        "Unmix",
        "Name the axes of an embedding, where the data tell them apart, and straighten the values on them.",
    ),
    "gaussianity": Command(
        "isojepa.cli.gaussianity",
        "Gaussianity",
        "Are embeddings N(0, I)? A table of every test with its p-value.",
    ),
    "probe": Command(
        "isojepa.cli.probe",
        "Probe",
        "How good are frozen features? Linear, k-NN and kernel probes on labelled pictures, with intervals.",
    ),
    "transfer": Command(
        "isojepa.cli.transfer",
        "Transfer",
        "Carry a linear probe of one encoder over to another by the map between them, without training.",
    ),
    "align": Command(
        "isojepa.cli.align",
        "Align",
        "Fit the map between encoders of the same states, and compare them by every number there is.",
    ),
    "same": Command(
        "isojepa.cli.same",
        "Same",
        "Are two encoders the same? Up to a rotation, a linear map, partly, or not at all; without labels.",
    ),
    "collect": Command(
        "isojepa.cli.collect",
        "Collect",
        "Collect episodes of a Gymnasium environment under a policy.",
    ),
    "episodes": Command(
        "isojepa.cli.episodes",
        "MakeEpisodes",
        "Record episodes of a simulated arm under a policy, or copy a file of episodes into another format.",
    ),
    "audit": Command(
        "isojepa.cli.audit",
        "AuditEpisodes",
        "What made the actions of recorded episodes, and which assumptions of the theorems do they break?",
    ),
    "evaluate": Command(
        "isojepa.cli.evaluate",
        "Evaluate",
        "Plan with a world model in a Gymnasium environment: success rates beside random, idle and oracle.",
    ),
    "select": Command(
        "isojepa.cli.select",
        "Select",
        "Name the run to keep from training losses alone, and say how sure that is.",
    ),
    "export": Command(
        "isojepa.cli.export",
        "Export",
        "Take a trained model away: a file for timm, safetensors or ONNX, with a model card beside it.",
    ),
    "views": Command(
        "isojepa.cli.views",
        "Views",
        "Look at the views that training cuts from pictures: wrong ones are the first mistake.",
    ),
    "look": Command(
        "isojepa.cli.look",
        "Look",
        "Write a page that shows what a model sees: a map of pictures, neighbours, maps of positions, "
        "attention.",
    ),
    "report": Command(
        "isojepa.cli.commands",
        "Report",
        "Write report.html and picture.png of a finished record: one page, no network needed.",
    ),
    "list": Command(
        "isojepa.cli.commands",
        "List",
        "Name the worlds, laws, objectives, tests, encoders and schedules that flags and configs take.",
    ),
}
LAB = ("theory", "sweep", "study")  # commands of isojepa-lab
_RESUMABLE = ("demo", "train", "pretrain", "collect", "sweep", "study")
OPTIONS = {
    "-h, --help": "Show this message; after a command, its own.",
    "-V, --version": "Show the version.",
}


def commands() -> dict[str, Command]:
    """Our commands, and those that other distributions bring as entry points `isojepa.commands`."""
    table = dict(COMMANDS)
    for entry in metadata.entry_points(group=GROUP):
        table |= entry.load()
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
    """What `isojepa --help` tells, from the table alone."""
    from isojepa.cli.printing import out

    table = commands()
    out.print(f"usage: isojepa [-h] [--version] {{{','.join(table)}}} ...\n")
    for paragraph in DESCRIPTION.split("\n\n"):
        out.print(" ".join(paragraph.split()) + "\n", soft_wrap=False)
    _print_panel("options", OPTIONS)
    _print_panel("commands", {name: command.summary for name, command in table.items()})
    out.print("\n`isojepa COMMAND --help` tells more of a command.")


def _print_panel(title: str, lines: Mapping[str, str]) -> None:
    from isojepa.cli.printing import out

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=max(map(len, (*COMMANDS, *LAB, *OPTIONS))))
    table.add_column()
    for name, text in lines.items():
        table.add_row(name, text)
    out.print(Panel(table, title=title, title_align="left", border_style="dim"), soft_wrap=False)


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
