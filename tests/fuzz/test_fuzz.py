"""Fuzzed inputs are refused in our words or taken well: none ends otherwise. See `tests.fuzz`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.oracle import GOOD, clear, judge, nan_in
from tests.fuzz.values import Case

ROOT = Path(__file__).parents[2]
ORDINARY = 200  # inputs of the ordinary tests; the rest is marked slow


def fuzz(count, seed, start=0):
    """The counts of a run in a process of its own, whose memory has a limit."""
    words = ["--count", count, "--seed", seed, "--start", start]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-20_000:]
    found = json.loads(done.stdout)
    assert found["inputs"] == count
    assert sum(found["total"][kind] for kind in GOOD) == count
    assert found["peak_megabytes"] < 2000
    return found


def test_some_fuzzed_inputs_are_refused_in_our_words_or_taken_well():
    found = fuzz(ORDINARY, 0)
    assert set(found["surfaces"]) >= {"commands", "configs", "files", "records"}
    assert all(found["total"][kind] > 0 for kind in GOOD)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", range(2))
def test_thousands_of_fuzzed_inputs_are_refused_in_our_words_or_taken_well(part):
    fuzz(1500, 1, 1500 * part)


# --- the judge itself ---------------------------------------------------------------------------------------


def verdict(run, **options):
    return judge(Case("calls", "test", run, **options)).kind


def raises(error):
    def run():
        raise error

    return run


def test_words_of_others_are_unclear():
    for run in (
        lambda: int("x"),
        lambda: [][3],
        lambda: {}["a"],
        lambda: None.shape,
        lambda: np.zeros(3) @ np.zeros(4),
        raises(ValueError("rho must lie in (0, 1)")),  # not raised by a line of the package
        raises(RuntimeError("x")),
    ):
        assert verdict(run) == "unclear"


def test_what_must_be_refused_and_is_not_is_silent():
    assert verdict(lambda: 3, refuse=True) == "silent"
    assert verdict(lambda: 3) == "accepted"
    assert verdict(lambda: {"a": [1.0, float("nan")]}, numeric=True) == "silent"
    assert nan_in({"a": [1.0, np.array([np.nan])]}) == "result.a.1"
    assert nan_in((1, "nan", None)) == ""


def test_what_takes_too_long_is_slow():
    def run():
        while True:
            pass

    assert verdict(run, seconds=0.2) == "slow"


def test_a_call_that_python_cannot_make_is_clear():
    import isojepa as ij

    for call in (lambda: ij.objectives.SIGReg(slicse=3), lambda: ij.data.OrnsteinUhlenbeck()):
        with pytest.raises(TypeError) as caught:
            call()
        assert clear(caught.value).kind == "refused"


def test_a_command_that_shows_what_a_terminal_obeys_is_raw():
    def run():
        sys.stdout.write("\x1b[31m")
        return 0

    assert verdict(run, command=True) == "raw"
