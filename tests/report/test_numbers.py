"""Numbers as text."""

import math

import pytest

from isojepa.report.numbers import finite, percent_span, short, span, with_span
from isojepa.statistics.intervals import Interval


def test_intervals_that_are_not_known_are_left_out() -> None:
    assert span(Interval(0.5, 0.25, 0.75)) == "[0.25, 0.75]"
    assert span(Interval(0.5, -math.inf, math.inf)) == "[−∞, ∞]"
    assert span(Interval(0.5, math.nan, 0.75)) == ""
    assert span(None) == ""
    assert short(1.23456e-7) == "1.23e−07"


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(0.5, 0.25, 0.75), ("50 %", "[25, 75]")),
        (Interval(0.99, 0.938, 0.999948), ("99.0 %", "[93.8, 100.0]")),
        (Interval(1e-5, -1e-5, 2e-5), ("0.0010 %", "[−0.0010, 0.0020]")),
        (Interval(0.0, 0.0, 1.6e-7), ("0 %", "")),
        (Interval(1.0, -math.inf, 1.0), ("100 %", "[−∞, 100]")),
        (Interval(math.nan, 0.0, 1.0), ("not known", "[0, 100]")),
    ],
)
def test_percents_and_their_intervals_end_at_one_digit(interval: Interval, text: tuple[str, str]) -> None:
    assert percent_span(interval) == text


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(0.995168, 0.994303, 0.996033), ("0.99517", "[0.99430, 0.99603]")),
        (Interval(0.0024, -0.00051, 0.0054), ("0.0024", "[−0.0005, 0.0054]")),
        (Interval(1.0, 1.0, 1.0), ("1", "")),
        (Interval(1.6e-16, -1e-15, 1.4e-15), ("0", "")),
        (Interval(math.nan, 0.0, 1.0), ("not known", "")),
    ],
)
def test_numbers_and_their_intervals_end_at_one_digit(interval: Interval, text: tuple[str, str]) -> None:
    assert with_span(interval.estimate, interval) == text


VALUES = {"none": None, "text": "x", "nan": math.nan, "inf": math.inf, "list": [1.0], "huge": 10**400}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_what_is_no_finite_number_is_none_in_json(value: object) -> None:
    assert finite(value) is None
    assert finite("2") == 2.0
