"""Command lines of all commands, with flags and values that nobody should give."""

import math
import os
import random
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from isojepa.cli import main
from tests.fuzz.values import ESCAPES, WORDS, Case, Rng

TINY = (
    *(
        "--encoder.width",
        "4",
        "--encoder.layers",
        "2",
        "--objective.slices",
        "4",
        "--training.accelerator",
        "cpu",
    ),
    *("--training.steps", "2", "--training.batch", "8", "--training.batch-start", "4"),
    *("--training.eval-samples", "16"),
)
INTEGERS = (
    "0",
    "-1",
    "1.5",
    "1e400",
    "nan",
    "inf",
    "x",
    "",
    "1" * 400,
    "9" * 5000,
    "0x10",
    "１",
    "True",
    "[1]",
    "10**9",
)
FLOATS = (
    "nan",
    "inf",
    "-inf",
    "1e400",
    "-1",
    "x",
    "",
    "1" + "0" * 400,
    "0x1p3",
    "1e-400",
    "--",
    "[/]",
    "1,5",
    "NaN%",
)
NAMES = (*WORDS, *ESCAPES, "lejepaa", "SPIRAL", "all all", "-h-h", "a=b", "::", "a::b", ":", "a:b", "[1, 2]")
FILES = (
    *(
        "none.npy",
        "h.npy::x",
        "h.npy:h",
        "folder",
        "/dev/null",
        "pairs.npz",
        "empty.npy",
        "text.npy",
        "h.txt.npy",
        ".",
    ),
    *(
        "",
        " ",
        "a\0b",
        "a" * 300,
        "h.npy/",
        "../" * 40,
        "only_x.npz",
        "data.py",
        "code.py:f",
        "code.py:none",
        "no.py:f",
    ),
    *(
        "object.npy",
        "[/red].npy",
        "\x1b[31m.npy",
        "~root",
        "/proc/self/mem",
        "folder/../h.npy",
        "h.pkl",
        "h.bin",
    ),
)
OUTPUTS = ("folder", "", "a\0b", "a" * 300, "/dev/null", "text.npy/x", "new/\x1b[31m.npy", "..", "new/[/red]")
FLAG_VALUES: dict[str, tuple[str, ...]] = {
    "--rho": FLOATS,
    "--confidence": FLOATS,
    "--seed": INTEGERS,
    "--samples": INTEGERS,
    "--slices": INTEGERS,
    "--draws": INTEGERS,
    "--next": FILES,
    "--latents": FILES,
    "--latents-next": FILES,
    "--data": FILES,
    "--world.mixing": NAMES,
    "--world.rho": FLOATS,
    "--world.dim": INTEGERS,
    "--world.process": NAMES,
    "--world.nope": NAMES,
    "--world.lag": FLOATS,
    "--encoder.name": NAMES,
    "--encoder.width": INTEGERS,
    "--encoder.layers": INTEGERS,
    "--objective.name": NAMES,
    "--objective.weight": FLOATS,
    "--objective.slices": INTEGERS,
    "--objective.test": NAMES,
    "--objective.sampler": NAMES,
    "--objective.knots": INTEGERS,
    "--objective.t-max": FLOATS,
    "--objective.pooled": NAMES,
    "--training.steps": INTEGERS,
    "--training.batch": INTEGERS,
    "--training.learning-rate": FLOATS,
    "--training.schedule": NAMES,
    "--training.precision": NAMES,
    "--training.accelerator": NAMES,
    "--training.devices": ("0", "-1", "1.5", "x", ""),
    "--training.warmup": FLOATS,
    "--training.clip": FLOATS,
    "--devices": ("0", "-1", "1.5", "x", ""),
    "--config": FILES,
    "--record": ("folder", "h.npy", "", "a\0b", "a" * 300, "/dev/null", "h.npy/x"),
    "--scale": NAMES,
    "--only": NAMES,
    "--executor": NAMES,
    "--workers": INTEGERS,
    "--time": INTEGERS,
    "--memory": FLOATS,
    "--slurm": NAMES,
    "--records": ("h.npy", "", "a\0b", "h.npy/x", "/dev/null"),
    "--from": FILES,
    "--dim": INTEGERS,
    "--tolerance": FLOATS,
    "--out": OUTPUTS,
    "--save": OUTPUTS,
    "--report": OUTPUTS,
}
OF = {
    "certify": (
        "--rho",
        "--confidence",
        "--seed",
        "--samples",
        "--next",
        "--latents",
        "--latents-next",
        "--data",
        "--world.mixing",
        "--world.rho",
        "--world.dim",
        "--world.process",
        "--world.nope",
    ),
    "unmix": (
        *("--dim", "--tolerance", "--confidence", "--seed", "--next", "--latents"),
        *("--out", "--save", "--report"),
    ),
    "gaussianity": ("--samples", "--slices", "--draws", "--seed"),
    "train": (
        *tuple(
            flag
            for flag in FLAG_VALUES
            if flag.split(".")[0] in ("--world", "--encoder", "--objective", "--training")
        ),
        "--config",
        "--seed",
        "--devices",
        "--record",
    ),
    "sweep": ("--scale", "--only", "--executor", "--workers", "--time", "--memory", "--slurm", "--records"),
}
SWITCHES = (
    "--trajectory",
    "--drop-bad-rows",
    "--no-checks",
    "--paths",
    "--unmix",
    "--json",
    "--bogus",
    "-x",
    "--",
    "--no-json",
    "--help",
)


def prepare(folder: Path) -> None:
    """Small files that commands may name."""
    rng = np.random.default_rng(0)
    h = rng.normal(size=(80, 2))
    np.save(folder / "h.npy", h)
    np.savez(folder / "pairs.npz", h=h, h_next=0.9 * h + 0.4 * rng.normal(size=h.shape), z=h)
    np.savez(folder / "only_x.npz", x=h)
    np.save(folder / "object.npy", np.array([None, {}], dtype=object), allow_pickle=True)
    np.save(folder / "path.npy", rng.normal(size=(30, 4, 2)))
    (folder / "empty.npy").write_bytes(b"")
    (folder / "text.npy").write_text("hello")
    (folder / "data.py").write_text("raise SystemExit('executed')")
    (folder / "code.py").write_text("def f(x):\n    raise KeyError('mine')\n\nn = 3\n")
    (folder / "h.pkl").write_bytes(b"\x80\x04N.")
    (folder / "folder").mkdir()


def make_case(rng: Rng, folder: Path) -> Case:
    """One command line; a few in a process of their own."""
    make: Callable[[Rng], list[str]] = rng.choice(
        [_certify, _certify, _certify, _unmix, _gaussianity, _train, _train, _sweep, _study, _other, _garbage]
    )
    words = make(rng)
    told = "isojepa " + " ".join(map(shlex.quote, words))
    certified = words[:1] == ["certify"] and "--no-checks" in words
    numeric = (certified or words[:1] == ["unmix"]) and "--json" in words
    return Case("commands", told, lambda: _main(words, folder), numeric=numeric, command=True)


def make_process(rng: Rng, folder: Path) -> Case:
    """The same in a process of its own, as a user starts it."""
    case = make_case(random.Random(rng.random()), folder)
    words = shlex.split(case.told)[1:]
    while any("\0" in word or "\udce9" in word for word in words):  # no process can be given them
        words = shlex.split(make_case(random.Random(rng.random()), folder).told)[1:]

    def run() -> int:
        done = subprocess.run(
            [sys.executable, "-m", "isojepa", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=120,
        )
        sys.stdout.write(done.stdout)
        sys.stderr.write(done.stderr)
        if "Traceback (most recent call last)" in done.stderr:
            raise RuntimeError(done.stderr.splitlines()[-1])
        return done.returncode

    told = "python -m isojepa " + " ".join(map(shlex.quote, words))
    return Case("processes", told, run, command=True, seconds=120.0)


def _main(words: list[str], folder: Path) -> Any:
    before = os.getcwd()
    os.chdir(folder)
    try:
        return main(words)
    finally:
        os.chdir(before)


def _flags(rng: Rng, command: str, most: int) -> list[str]:
    words: list[str] = []
    for _ in range(rng.randint(0, most)):
        flag = rng.choice(OF[command])
        value = rng.choice(FLAG_VALUES[flag])
        words += [f"{flag}={value}"] if rng.random() < 0.3 else [flag, value]
    if rng.random() < 0.4:
        words.append(rng.choice(SWITCHES))
    return words


def _certify(rng: Rng) -> list[str]:
    source = rng.choice(("h.npy", "pairs.npz", "pairs.npz", "path.npy", *FILES))
    words = ["certify", source, "--no-checks"]
    if rng.random() < 0.3:
        words += ["--rho", rng.choice(("0.9", "1e-300", "0.999999999999", "5e-324", "0.5"))]
    if rng.random() < 0.3:
        words.append("--trajectory")
    if rng.random() < 0.7:
        words.append("--json")
    if rng.random() < 0.2:
        words.append("--unmix")
    return words + _flags(rng, "certify", 2)


def _unmix(rng: Rng) -> list[str]:
    source = rng.choice(("h.npy", "pairs.npz", "pairs.npz", "path.npy", *FILES))
    words = ["unmix", source]
    if rng.random() < 0.3:
        words += ["--tolerance", rng.choice(("0", "0.01", "0.999", "1e-300"))]
    if rng.random() < 0.2:
        words += ["--dim", rng.choice(("1", "2", "3"))]
    if rng.random() < 0.1:
        words += [rng.choice(("--out", "--save", "--report")), "new/written"]
    if rng.random() < 0.7:
        words.append("--json")
    return words + _flags(rng, "unmix", 2)


def _gaussianity(rng: Rng) -> list[str]:
    source = rng.choice(("h.npy", "pairs.npz", *FILES))
    words = ["gaussianity", source, *_flags(rng, "gaussianity", 2)]
    if not any(word.startswith(("--samples", "--draws", "--slices")) for word in words):
        words += ["--samples", rng.choice(("0", "-3", "x", "1e400", "nan"))]  # whole ones take seconds
    return words


def _train(rng: Rng) -> list[str]:
    return ["train", *TINY, "--json", *_flags(rng, "train", 2)]


def _sweep(rng: Rng) -> list[str]:
    names = rng.choice(
        (["grid"], [rng.choice(NAMES)], [rng.choice(FILES)], ["code.py"], ["grid", "nope"], [])
    )
    flags = _flags(rng, "sweep", 2) or ["--scale", rng.choice(NAMES)]
    return ["sweep", *names, "--estimate", *flags, "--scale", rng.choice(NAMES)]


def _study(rng: Rng) -> list[str]:
    return rng.choice(
        [
            ["study", "show", rng.choice(NAMES)],
            ["study", "show", "grid", "--scale", rng.choice(NAMES)],
            ["study", "report", rng.choice(NAMES), "--records", "folder", "--out", "folder"],
            ["study", "report", "grid", "--from", rng.choice(FILES), "--out", "folder"],
            ["study", "report", "grid", "--records", rng.choice(FILES), "--out", "folder"],
            ["study", rng.choice(NAMES)],
            ["study"],
        ]
    )


def _other(rng: Rng) -> list[str]:
    return rng.choice(
        [
            ["list", rng.choice(NAMES)],
            ["list", "laws", "--json"],
            ["report", rng.choice(FILES)],
            ["report", "folder", "--out", rng.choice(FILES)],
            ["theory", "--only", rng.choice(NAMES)],
            ["theory", "--list", "--json"],
            ["demo", "--seed", rng.choice(("1.5", "nan", "x", "", "1e400", "9" * 5000))],
            ["demo", "--out", rng.choice(("h.npy", "a\0b", "h.npy/x", "a" * 300)), "--seed", "x"],
            ["--version"],
            [rng.choice(NAMES)],
        ]
    )


def _garbage(rng: Rng) -> list[str]:
    command = rng.choice(
        ("certify", "unmix", "gaussianity", "train", "sweep", "study", "report", "list", "theory")
    )
    count = rng.randint(1, 4)
    pool = (*NAMES, *FILES, *INTEGERS, *FLOATS, *SWITCHES[SWITCHES.index("--bogus") :], *FLAG_VALUES)
    words = [command, *(rng.choice(pool) for _ in range(count))]
    if command == "theory" and "--list" not in words:
        words += ["--only", "nope"]
    if command == "train":
        words[1:1] = TINY
    if command == "sweep":
        words += ["--scale", "nope"]
    if command == "gaussianity":
        words += ["--draws", "x"]
    return words


def hostile_json(rng: Rng) -> Any:
    """A value of JSON or YAML that no setting takes, or few do."""
    return rng.choice(
        [
            None,
            True,
            [],
            {},
            "",
            "x",
            -1,
            0,
            1.5,
            math.nan,
            math.inf,
            10**400,
            "1e400",
            [1, "a"],
            {"name": []},
            *ESCAPES[:4],
            {"name": {"name": "x"}},
            [[[]]],
            "nan",
            -0.0,
            1e308,
            2**70,
            {"a": None},
            ["x"] * 50,
        ]
    )
