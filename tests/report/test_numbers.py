"""Numbers as text."""

import math

import pytest

from isojepa.certificates.intervals import Interval
from isojepa.report.numbers import finite, near_one, number, percent, percent_span, short, span, with_span


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.9994443, "0.999444"),
        (0.99999999, "1"),
        (1.0, "1"),
        (0.5, "0.5"),
        (-0.00123456, "−0.001235"),
        (1e-300, "1e−300"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "not known"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.97, "97.0 %"),
        (0.99944, "99.944 %"),
        (1.0000000001, "100 %"),
        (0.5, "50 %"),
        (0.00123, "0.123 %"),
        (-5e-19, "0 %"),
        (-0.0021, "−0.21 %"),
        (875.123, "87,512 %"),
        (1e300, "1e+302 %"),
        (math.nan, "not known"),
        (math.inf, "∞ %"),
    ],
)
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.9646, "0.965"),
        (0.999444, "0.99944"),
        (0.99999951, "0.99999951"),
        (0.4, "0.4"),
        (-2.5, "−2.5"),
        (1.0, "1"),
    ],
)
def test_r2_has_the_digits_that_its_distance_from_one_needs(value: float, text: str) -> None:
    assert near_one(value) == text


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
        (Interval(0.467, 0.4656, 0.4683), ("46.70 %", "[46.56, 46.83]")),
        (Interval(0.99, 0.938, 0.999948), ("99.0 %", "[93.8, 100.0]")),
        (Interval(1e-5, -1e-5, 2e-5), ("0.0010 %", "[−0.0010, 0.0020]")),
        (Interval(0.0, 0.0, 1.6e-7), ("0 %", "")),
        (Interval(1.0, 1.0, 1.0), ("100 %", "")),
        (Interval(1.0, -math.inf, 1.0), ("100 %", "[−∞, 100]")),
        (Interval(1.0, math.nan, 1.0), ("100 %", "")),
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
        (Interval(124.8, 117.9, 132.0), ("124.8", "[117.9, 132.0]")),
        (Interval(1.0, 1.0, 1.0), ("1", "")),
        (Interval(1.6e-16, -1e-15, 1.4e-15), ("0", "")),
        (Interval(1.0, math.nan, 2.0), ("1.0", "")),
        (Interval(math.inf, 0.0, math.inf), ("∞", "[0, ∞]")),
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
