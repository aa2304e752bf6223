"""The rule of the verdict."""

import pytest

from isojepa.certificates.assumptions import Assumption
from isojepa.certificates.assumptions.line import FAILS, HOLDS, UNCLEAR, judge, together


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
    assert judge(p, 0.05, value, 0.2, detectable) == verdict


def test_small_is_counted_from_the_value_of_no_effect():
    assert judge(0.01, 0.05, 1.2, 1.5, 1.1, none=1.0) == "holds"
    assert judge(0.01, 0.05, 1.3, 1.5, 1.1, none=1.0) == "unclear"


def line_of(p, verdict):
    return Assumption("a", "latents", "", 1.0, None, 0.5, p, verdict, "It differs.", "")


def test_lines_of_one_verdict_keep_the_level_together():
    lines = [line_of(0.005, FAILS), line_of(0.02, FAILS), line_of(0.4, HOLDS), line_of(None, FAILS)]
    found = together(lines, 0.05)
    assert [one.verdict for one in found] == [FAILS, FAILS, HOLDS, FAILS]  # 0.005 * 3, 0.02 * 2
    found = together([line_of(0.02, FAILS), line_of(0.4, HOLDS), line_of(0.9, HOLDS)], 0.05)
    assert found[0].verdict == UNCLEAR
    assert "one of 3 checks" in found[0].sentence
