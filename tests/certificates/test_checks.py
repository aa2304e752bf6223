"""The runner of checks: verdicts, what so few rows show, and checks of one verdict."""

import numpy as np
import pytest

from isojepa.certificates.checks import (
    FAILS,
    HOLDS,
    UNCLEAR,
    CheckResult,
    CheckSample,
    Effect,
    check,
    judge,
    together,
)
from isojepa.statistics.intervals import Interval, around


def sample_of(n):
    return CheckSample(of="latents", total=n, seed=0)


@pytest.mark.parametrize(
    ("p", "value", "detectable", "verdict"),
    [
        (0.01, 0.3, 0.1, "fails"),
        (0.01, 0.15, 0.05, "unclear"),
        (0.01, 0.09, 0.05, "holds"),
        (0.5, 0.3, 0.4, "unclear"),
        (0.5, 0.3, 0.1, "holds"),
        (0.05, 0.3, 0.1, "fails"),
    ],
    ids=["large", "medium", "small", "too few samples", "chance", "at the level"],
)
def test_only_what_is_beyond_chance_and_large_fails(p, value, detectable, verdict):
    assert judge(Effect("", value, p=p, detectable=detectable), 0.2, 0.05) == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(0.1, 0.2, "holds"), (0.1, 0.4, "unclear"), (0.21, 0.4, "fails")]
)
def test_without_a_test_the_interval_decides(low, high, verdict):
    assert judge(Effect("", (low + high) / 2, Interval(0.0, low, high)), 0.2, 0.05) == verdict


def test_small_is_counted_from_the_value_of_no_effect():
    assert judge(Effect("", 1.2, p=0.01, detectable=1.1), 1.5, 0.05, neutral=1.0) == "holds"
    assert judge(Effect("", 1.3, p=0.01, detectable=1.1), 1.5, 0.05, neutral=1.0) == "unclear"


@pytest.mark.parametrize("neutral", [0.0, 1.0])
def test_the_stated_number_of_rows_decides(neutral):
    def at(n):
        spread = 2.4 / np.sqrt(n)
        limit = np.exp(spread) if neutral else spread

        @check("size", measure="", threshold=1.2 if neutral else 0.2, neutral=neutral)
        def size(rows):
            return Effect("It is small", neutral, p=0.6, detectable=limit, rows=f"{n} pairs")

        return size(sample_of(n))

    found = at(60)
    assert found.verdict == UNCLEAR
    assert "60 pairs show only values above" in found.sentence
    needed = int(found.sentence.split("about ")[1].split(" rows")[0].replace(",", ""))
    assert at(needed).verdict == HOLDS
    assert at(int(0.8 * needed)).verdict == UNCLEAR


def test_rows_that_would_decide_by_an_interval():
    @check("share", measure="", threshold=0.5, more="Take more.")
    def share(rows):
        return Effect("It is 0.4", 0.4, around(0.4, 2 / np.sqrt(rows.total), 0.95))

    found = share(sample_of(100))
    assert found.verdict == UNCLEAR
    assert found.advice == "Take more."
    assert "about 1,600 rows would decide" in found.sentence
    assert share(sample_of(1600)).verdict == HOLDS


def result(p, verdict):
    return CheckResult("a", "latents", "", 1.0, None, 0.5, p, verdict, "It differs.", "")


def test_checks_of_one_verdict_keep_the_level_together():
    found = together(
        [result(0.005, FAILS), result(0.02, FAILS), result(0.4, HOLDS), result(None, FAILS)], 0.05
    )
    assert [one.verdict for one in found] == [FAILS, FAILS, HOLDS, FAILS]  # 0.005 * 3, 0.02 * 2
    found = together([result(0.02, FAILS), result(0.4, HOLDS), result(0.9, HOLDS)], 0.05)
    assert found[0].verdict == UNCLEAR
    assert found[0].sentence == "It differs. One of 3 checks with p = 0.02: not significant together."
