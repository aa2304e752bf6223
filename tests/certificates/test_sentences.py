"""Certificates in words."""

import math

import pytest

from isojepa.certificates.sentences import Line, format_value
from isojepa.statistics.intervals import Interval


@pytest.mark.parametrize(
    ("value", "interval", "text"),
    [
        (0.995168, Interval(0.995168, 0.994303, 0.996033), "0.99517  [0.99430, 0.99603]"),
        (0.01589, Interval(0.01589, 0.0, 0.08946), "0.016  [0, 0.089]"),
        (2.5e-7, Interval(2.5e-7, 1e-7, 4e-7), "2.5e-07  [1e-07, 4e-07]"),
        (1 - 1e-16, Interval(1.0, 1 - 1e-15, 1.0), "1"),
        (1.6e-16, Interval(1.6e-16, -1e-15, 1.4e-15), "0"),
        (0.985534, None, "0.9855"),
        (math.nan, None, "nan"),
    ],
)
def test_a_number_and_its_interval_end_at_one_digit(
    value: float, interval: Interval | None, text: str
) -> None:
    assert format_value(Line("a line", value, interval, "")) == text
