"""The rule of the verdict."""

import pytest

from isojepa.certificates.assumptions import Assumption
from isojepa.certificates.assumptions.line import bounded, judge


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


def test_a_line_prints_its_verdict_and_what_to_do():
    line = Assumption("isotropy", "latents", "ratio", 3.0, None, 2.0, None, "fails", "It differs.", "Act.")
    assert str(line) == "isotropy        fails    It differs. Act."


def test_details_are_bounded():
    assert len(bounded([("x", 1)] * 100)) == 64


def test_small_is_counted_from_the_value_of_no_effect():
    assert judge(0.01, 0.05, 1.2, 1.5, 1.1, none=1.0) == "holds"
    assert judge(0.01, 0.05, 1.3, 1.5, 1.1, none=1.0) == "unclear"
