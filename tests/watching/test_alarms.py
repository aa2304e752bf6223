"""Alarms of rows that do and do not show collapse."""

import math

from isojepa.watching.watcher import Alarms

GOOD = {
    "nonfinite": 0.0,
    "effective_rank": 8.0,
    "smallest_variance": 0.9,
    "mean_variance": 1.0,
    "mean_length": 0.1,
}


def kinds(*rows, **settings):
    rule = Alarms(**settings)
    found = [rule.judge(100 * (place + 1), {**GOOD, **row}, 8) for place, row in enumerate(rows)]
    return [[alarm.kind for alarm in alarms] for alarms in found]


def test_nothing_is_said_of_a_sound_model():
    assert kinds({}, {"effective_rank": 7.0}, {"effective_rank": 5.0}) == [[], [], []]


def test_total_collapse_is_told_at_once_and_once():
    assert kinds({}, {"mean_variance": 1e-8}, {"mean_variance": 1e-9}) == [[], ["collapse"], []]
    assert kinds({"mean_variance": 1e-3, "mean_length": 100.0}) == [["collapse"]]


def test_nan_is_told_at_once_and_hides_the_rest():
    assert kinds({"nonfinite": 0.5, "mean_variance": math.nan}) == [["broken"]]


def test_falling_rank_is_told_at_the_second_measurement_in_a_row():
    low = {"effective_rank": 3.0}
    assert kinds({}, low, low, low) == [[], [], ["dimensions"], []]
    assert kinds({}, low, {}, low) == [[], [], [], []]
    assert kinds({}, low, low, drop=0.2) == [[], [], []]


def test_a_lost_direction_is_told_only_if_it_was_there():
    lost = {"smallest_variance": 1e-5}
    assert kinds({}, lost, lost) == [[], [], ["direction"]]
    assert kinds(lost, lost, lost) == [[], [], []]  # networks may begin so
    assert kinds({}, {"smallest_variance": math.nan}, {"smallest_variance": math.nan}) == [[], [], []]


def test_the_message_has_the_step_the_numbers_and_the_advice():
    rule = Alarms()
    rule.judge(100, GOOD, 8)
    rule.judge(200, {**GOOD, "effective_rank": 2.0}, 8)
    (alarm,) = rule.judge(300, {**GOOD, "effective_rank": 2.0}, 8)
    assert alarm.step == 300
    for words in ("step 300", "fell to 2", "from 8 at step 100", "raise the regularizer's weight"):
        assert words in alarm.message
