"""Learning-rate schedules at the points where their definition fixes them."""

import itertools

import pytest

from isojepa.training.schedules import SCHEDULES, constant_cosine, warmup_cosine


def test_constant_cosine_is_one_for_half_the_run_and_then_falls_to_zero():
    factors = [constant_cosine(step, 100, 0.0) for step in range(101)]
    assert factors[:51] == [1.0] * 51
    assert factors[75] == pytest.approx(0.5)
    assert factors[100] == pytest.approx(0.0)
    assert factors[50:] == sorted(factors[50:], reverse=True)


def test_warmup_cosine_rises_in_a_line_and_then_falls_to_zero():
    factors = [warmup_cosine(step, 100, 0.1) for step in range(101)]
    steps = [b - a for a, b in itertools.pairwise(factors[:10])]
    assert factors[0] > 0
    assert steps == pytest.approx([steps[0]] * 9)
    assert factors[10] == 1.0 == max(factors)
    assert factors[55] == pytest.approx(0.5)
    assert factors[100] == pytest.approx(0.0)


def test_warmup_of_nothing_starts_at_the_peak():
    assert warmup_cosine(0, 100, 0.0) == 1.0


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_stays_within_0_and_1_even_for_one_step(name):
    for steps in (1, 2, 3, 17):
        assert all(0 <= SCHEDULES[name](step, steps, 0.3) <= 1 for step in range(steps))
