"""Values for an argument: those that it takes, and those that it must refuse."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

Rng = random.Random
HUGE = 10**400  # no float holds it
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
NOT_NUMBERS: tuple[Any, ...] = (
    *("x", "", b"1", None, [], {}, (), [1.0, "a"], 1j, object(), set(), Ellipsis, len, type),
    *(
        np.array([1.0, 2.0]),
        np.array("a"),
        torch.tensor([1.0, 2.0]),
        torch.tensor(1j),
        float,
        np.datetime64(1, "s"),
    ),
)
NOT_FINITE = (math.nan, math.inf, -math.inf, np.float32("nan"), torch.tensor(math.nan))
NOT_WHOLE = (0.5, 1.5, -0.1, 1e-300, *NOT_FINITE)
FAR = (HUGE, -HUGE, 10**30, 2**63, 10**12)
NOT_FLAGS = ("no", "True", 2, -1, 0.5, None, [], {}, math.nan)


@dataclass(frozen=True)
class Domain:
    """What an argument takes: two ways to draw a value.

    Attributes:
        good: draws one that must be taken, by itself.
        bad: draws one that must be refused.
    """

    good: Callable[[Rng], Any]
    bad: Callable[[Rng], Any]


def pick(*choices: Any) -> Callable[[Rng], Any]:
    """Draws one of some values."""
    return lambda rng: rng.choice(choices)


def count(least: int = 1, most: int = 6, *, none: bool = False) -> Domain:
    """A whole number of at least `least`; None too if it may be left open."""
    small = tuple(range(least, most + 1))
    bad = [*NOT_NUMBERS, *NOT_WHOLE, *FAR, least - 1, -1, -(10**9), True]
    return _open((*small, np.int64(small[-1]), float(small[0])), bad, none)


def number(*good: float, bad: Sequence[float] = (), none: bool = False, huge: bool = True) -> Domain:
    """A number: some that are taken, and some that are out of its range."""
    refused = [*NOT_NUMBERS, *NOT_FINITE, *bad, True, *((HUGE, -HUGE) if huge else ())]
    return _open((*good, np.float64(good[0])), refused, none)


def flag() -> Domain:
    """True or False."""
    return Domain(pick(True, False, np.True_), pick(*NOT_FLAGS))


def choice(*names: str, none: bool = False) -> Domain:
    """One of some names."""
    bad = [*WORDS, *ESCAPES, 3, 0.5, [], {}, b"x", names[0].upper() + "x", (names[0],), object(), math.nan]
    return _open(names, bad, none)


def seed() -> Domain:
    """Any integer."""
    bad = ["x", 1.5, math.nan, None, [], {}, 1j, b"1", 10**5000, math.inf, torch.tensor([1, 2])]
    return Domain(pick(0, 1, -1, 2**63, -(2**70), np.int32(3)), pick(*bad))


def rows(dim: int = 2, n: int = 60, *, none: bool = False, least: int = 2, most: float = 1e50) -> Domain:
    """Rows (n, dim) as anything that people bring, and what they bring by mistake: fewer, or larger ones."""

    def normal(*shape: int) -> np.ndarray:
        return np.random.default_rng(0).normal(size=shape)

    h = normal(n, dim)
    good = [h, h.astype("f4"), torch.tensor(h), torch.tensor(h).float(), h.tolist(), np.asfortranarray(h)]
    nan, inf = h.copy(), h.copy()
    nan[3, 0], inf[-1, -1] = math.nan, math.inf
    bad = [
        *(nan, inf, torch.tensor(nan), h[:0], h[:, :0], h[0], h[0, 0], normal(2, 3, 4, 5), np.float64(3)),
        *(
            h.astype(complex),
            h > 0,
            h.astype(str),
            h.astype(object),
            torch.tensor(h).to_sparse(),
            3,
            "x",
            b"x",
        ),
        *(
            [[1, 2], [3]],
            [["a", "b"]] * 9,
            {},
            set(),
            {"h": h},
            object(),
            [],
            [[]],
            [None] * 5,
            1e10 * most * h,
        ),
        *(np.full((n, dim), math.inf), torch.empty(n, dim, device="meta"), iter([1, 2]), np.array(None)),
        *(np.zeros((n, dim), "datetime64[s]"), np.zeros(n, [("a", "f8")])),
        *((h[:1],) if least > 1 else ()),
    ]
    return _open(good, bad, none)


def tensor(*shape: int) -> Domain:
    """A tensor of floating point numbers of a shape."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    bad = [
        *NOT_NUMBERS,
        x.int(),
        x > 0,
        x.numpy(),
        x.tolist(),
        x.to(torch.complex64),
        x.to("meta"),
        x.flatten()[0],
    ]
    return Domain(pick(x, x.double(), x.half(), x.bfloat16(), x.clone().requires_grad_()), pick(*bad))


def wrong_kind(*good: Any, also: Sequence[Any] = ()) -> Domain:
    """Some objects that are taken; things of another kind are not."""
    return Domain(pick(*good), pick(3, "x", [], object(), math.nan, *also))


def _open(good: Sequence[Any], bad: Sequence[Any], none: bool) -> Domain:
    if not none:
        return Domain(pick(*good), pick(*bad))
    return Domain(pick(None, *good), pick(*(value for value in bad if value is not None)))


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
