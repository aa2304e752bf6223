"""Certificates in words."""

import math

import numpy as np
import pytest

import isojepa as ij
from isojepa.certificates.intervals import Interval
from isojepa.certificates.sentences import Line, format_value
from isojepa.seeds import generator


@pytest.mark.parametrize(
    ("value", "interval", "text"),
    [
        (0.995168, Interval(0.995168, 0.994303, 0.996033), "0.99517  [0.99430, 0.99603]"),
        (6.753, Interval(6.753, 6.458, 7.053), "6.75  [6.46, 7.05]"),
        (0.01589, Interval(0.01589, 0.0, 0.08946), "0.016  [0, 0.089]"),
        (2.5e-7, Interval(2.5e-7, 1e-7, 4e-7), "2.5e-07  [1e-07, 4e-07]"),
        (3e9, Interval(3e9, 2e9, 4e9), "3e+09  [2e+09, 4e+09]"),
        (1 - 1e-16, Interval(1.0, 1 - 1e-15, 1.0), "1"),
        (1.6e-16, Interval(1.6e-16, -1e-15, 1.4e-15), "0"),
        (0.999992, None, "0.9999920"),
        (0.985534, None, "0.9855"),
        (0.4948, None, "0.4948"),
        (math.nan, None, "nan"),
    ],
)
def test_a_number_and_its_interval_end_at_one_digit(
    value: float, interval: Interval | None, text: str
) -> None:
    assert format_value(Line("a line", value, interval, "")) == text


def test_a_perfect_embedding_is_told_without_false_digits() -> None:
    z, _ = pairs()
    text = ij.certify(z, latents=z, checks=False).verdict
    assert text.startswith("World model: the embedding is a rotation of the latents up to less than 0.001 %")


def test_a_bound_that_excludes_nothing_is_not_praised() -> None:
    z, z_next = pairs()
    certificate = ij.certify(np.cos(3 * z), next=np.cos(3 * z_next), latents=z, rho=0.9, checks=False)
    assert certificate.holds
    assert "bound holds, but allows more than the latents' whole variance" in certificate.verdict
    alone = ij.certify(np.cos(3 * z), next=np.cos(3 * z_next), rho=0.9, checks=False)
    assert "the bound allows more than the whole variance" in alone.verdict


def pairs(n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    z, z_next = ij.worlds.OrnsteinUhlenbeck(2, 0.9).sample(n, generator(0, "words"))
    return z.numpy(), z_next.numpy()
