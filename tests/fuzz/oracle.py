"""What became of an input: refused in our words, taken, or something that must not happen.

refused    a ValueError, an OSError, or a TypeError of a call that Python could not make; in words of ours
accepted   it was taken, and what came of it are numbers
traceback  a command let an error pass that it has no line for
unclear    another exception, or the words of Python, NumPy or torch
silent     it was taken although it must be refused, or NaN came of it as if it were a number
memory     more than 2 GB
slow       more than its time
raw        a character that a terminal obeys reached the screen, or more than a page of text
"""

import contextlib
import dataclasses
import io
import math
import os
import re
import signal
import traceback
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

import isojepa
import isojepa_lab
from isojepa.terminal import escape_control
from tests.fuzz.values import Case
from tests.memory import peak

_PATIENCE = 8  # times its processor time that an input may take by the clock
KINDS = ("refused", "accepted", "traceback", "unclear", "silent", "memory", "slow", "raw")
GOOD = ("refused", "accepted")
MEGABYTES = 2000
_PACKAGE = str(Path(isojepa.__file__).parent)
_PACKAGES = (_PACKAGE, str(Path(isojepa_lab.__file__).parent))
_FOREIGN = re.compile(
    r"has no attribute|unsupported operand|not subscriptable|NoneType|not supported between|"
    r"unhashable|invalid literal|could not convert|can(no|')t convert|"
    r"must be (str|real number|an integer), not|not iterable|cannot be interpreted as|"
    r"positional argument|index out of range|out of bounds|DefaultCPUAllocator|"
    r"Unable to allocate|size mismatch|scalar type|Expected .* but got|broadcast|"
    r"too large to convert|math domain|division by zero|codec can|inhomogeneous|ufunc|"
    r"expected np.ndarray|truth value|Exceeds the limit|only (integer|length-1|0-dim)|__\w+__|"
    r"mat1 and mat2|dtype\('|Overflow|not enough values|unpack|embedded null"
)
_CALL = re.compile(
    r"missing \d+ required|unexpected keyword|takes .* positional|multiple values for|takes no arg"
)


class Slow(BaseException):
    """An input took more than its time."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What became of an input, and the words of it."""

    kind: str
    words: str = ""


def judge(case: Case) -> Verdict:
    """Give an input and say what became of it."""
    before = peak()
    out, err = io.StringIO(), io.StringIO()
    warnings.simplefilter("ignore")
    try:
        with limited(case.seconds), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            verdict = _command(case, err) if case.command else _call(case)
    except Slow:
        return Verdict("slow")
    if max(before, MEGABYTES) < peak():
        return Verdict("memory", f"{peak()} MB")
    shown = out.getvalue() + err.getvalue()
    if case.command and verdict.kind in GOOD:
        if escape_control(shown) != shown:
            return Verdict("raw", repr(shown[:500]))
        if len(shown) > 200_000:
            return Verdict("raw", f"{len(shown)} characters")
        if verdict.kind == "accepted" and case.numeric and '"nan"' in out.getvalue():
            return Verdict(
                "silent", f"NaN in {[line for line in out.getvalue().splitlines() if 'nan' in line][:5]}"
            )
    return verdict


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Inside, more than some seconds of processor time raise `Slow`, and many times as many of waiting."""

    def stop(*_: object) -> None:
        raise Slow

    # other programs must not make an input slow; what waits without end takes no processor time
    timers = (
        (signal.ITIMER_PROF, signal.SIGPROF, seconds),
        (signal.ITIMER_REAL, signal.SIGALRM, _PATIENCE * seconds),
    )
    before = [signal.signal(number, stop) for _, number, _ in timers]
    for timer, _, limit in timers:
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for (timer, number, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def _call(case: Case) -> Verdict:
    try:
        result = case.run()
    except Exception as error:
        return clear(error)
    if case.refuse:
        return Verdict("silent", f"taken, gave {type(result).__name__}")
    if case.numeric and (where := nan_in(result)):
        return Verdict("silent", f"NaN in {where}")
    return Verdict("accepted")


def _command(case: Case, err: io.StringIO) -> Verdict:
    told: list[BaseException] = []
    entry: Any = import_module("isojepa.cli.main")
    line = entry._one_line

    def noted(error: BaseException) -> str:
        told.append(error)
        return line(error)

    entry._one_line = noted
    try:
        code = case.run()
    except SystemExit as stopped:  # the parser's own
        code = stopped.code
    except Exception as error:
        return Verdict("traceback", _last(error))
    finally:
        entry._one_line = line
    if code == 2:
        if told:
            if err.getvalue().count("\n") > 1 and not err.getvalue().splitlines()[-1].startswith("error: "):
                return Verdict("unclear", "more than one line")
            return clear(told[-1])
        spoken = "isojepa" in err.getvalue() or err.getvalue().startswith("error: ")
        return Verdict("refused") if spoken else Verdict("unclear", err.getvalue()[:300])
    if code not in (0, 1):
        return Verdict("unclear", f"exit code {code}")
    return Verdict("silent", "taken") if case.refuse else Verdict("accepted")


def clear(error: BaseException) -> Verdict:
    """Whether an exception tells a person what to do, in our words."""
    words = " ".join(str(error).split())
    if isinstance(error, TypeError) and _CALL.search(words):
        return Verdict("refused", words)
    if isinstance(error, OSError) and error.strerror:
        return Verdict("refused", words)
    ours = isinstance(error, ValueError | OSError | ImportError) or (
        isinstance(error, TypeError | NotImplementedError | RuntimeError) and _raised_here(error)
    )
    foreign = _FOREIGN.search(words) and not _raised_here(error)
    if not ours or not words or foreign or not _within(error):
        return Verdict("unclear", _last(error))
    return Verdict("refused", words)


def _within(error: BaseException) -> bool:
    """Whether the frame that raised it is one of the package."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename.startswith(_PACKAGES)


def _raised_here(error: BaseException) -> bool:
    """Whether a line of the package raises it, rather than something that the line calls."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename.startswith(_PACKAGES) and "raise" in (frames[-1].line or "")


def _last(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(_PACKAGES)]
    place = ours[-1] if ours else frames[-1]
    where = f"{os.path.relpath(place.filename, _PACKAGE)}:{place.lineno}"
    words = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return f"{words} [{where}: {(place.line or '').strip()[:80]}]"


def nan_in(value: Any, where: str = "result") -> str:
    """Where in a result NaN stands for a number; empty if nowhere."""
    if isinstance(value, float | np.floating):
        return where if math.isnan(value) else ""
    if isinstance(value, torch.Tensor):
        return where if value.is_floating_point() and bool(value.isnan().any()) else ""
    if isinstance(value, np.ndarray):
        return where if value.dtype.kind == "f" and bool(np.isnan(value).any()) else ""
    if isinstance(value, Mapping):
        parts = list(value.items())
    elif isinstance(value, list | tuple):
        parts = list(enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [(item.name, getattr(value, item.name)) for item in dataclasses.fields(value)]
        said = dict(parts)
        if said.get("verdict") == "unclear" or said.get("identifiable") is False:
            return ""  # it says itself that there is no number
    else:
        return ""
    return next((found for key, part in parts if (found := nan_in(part, f"{where}.{key}"))), "")
