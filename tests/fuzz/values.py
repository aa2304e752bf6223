"""Texts that nobody should give, and what one input is."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Rng = random.Random
ESCAPES = (
    "\x1b[31mred\x1b[0m",
    "[/bold]",
    "[red]",
    "a\x1b]0;title\x07",
    "\x9b31m",
    "\u202eabc",
    "\x00",
    "\udce9",
)
WORDS = (
    "",
    " ",
    "nope",
    "None",
    "nan",
    "1e400",
    "-1",
    "0x10",
    "../..",
    "~",
    "*",
    "{}",
    "%s",
    "😀",
    "a" * 5000,
)


@dataclass
class Case:
    """One input.

    Attributes:
        surface: where it enters.
        told: how to give it again.
        run: gives it; returns what came of it.
        refuse: whether it must be refused.
        numeric: whether what it returns must hold no NaN.
        command: whether it is a command line, whose `run` returns an exit code.
        seconds: that it may take, on a machine that does something else besides.
    """

    surface: str
    told: str
    run: Callable[[], Any]
    refuse: bool = False
    numeric: bool = False
    command: bool = False
    seconds: float = 20.0
