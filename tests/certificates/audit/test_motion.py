"""Lines on motion: velocity from a few states, and angles that wrap."""

import math

import numpy as np

from isojepa.certificates.audit.material import gather
from isojepa.certificates.audit.motion import check_velocity, check_wrapping
from isojepa.data.episodes import Episodes

EPISODES, STEPS = 60, 40


def gliding(seed=0, smooth=0.9):
    """Positions with inertia: v' = smooth v + noise, x' = x + 0.1 v'."""
    source = np.random.default_rng(seed)
    speed = np.zeros((EPISODES, STEPS, 2))
    speed[:, 0] = source.normal(size=(EPISODES, 2))
    for step in range(1, STEPS):
        speed[:, step] = smooth * speed[:, step - 1] + (1 - smooth**2) ** 0.5 * source.normal(
            size=(EPISODES, 2)
        )
    start = source.normal(size=(EPISODES, 1, 2))
    return start + 0.1 * np.cumsum(speed, 1), speed


def audited(**columns):
    actions = np.random.default_rng(9).normal(size=(EPISODES, STEPS, 1))
    return gather(Episodes.of({"action": actions, **columns}))


def test_velocity_is_seen_in_two_states_and_not_in_one():
    position, speed = gliding()
    line = check_velocity(audited(qpos=position, qvel=speed), 0.95)
    assert (line.verdict, line.value) == ("holds", 2.0)
    detail = dict(line.detail)
    assert detail["R2 of dimension 0 from 1"] < 0.2
    assert detail["R2 of dimension 0 from 2"] > 0.99  # the difference is the speed itself
    assert "2 consecutive frames" in line.advice


def test_without_recorded_velocity_the_next_step_stands_for_it():
    position, _ = gliding(smooth=0.99)
    line = check_velocity(audited(qpos=position), 0.95)
    assert line.value == 2.0
    assert math.isclose(dict(line.detail)["R2 of dimension 0 from 2"], 0.98, abs_tol=0.01)  # 0.99 squared


def test_velocity_that_states_do_not_tell_is_told():
    position, _ = gliding()
    other = np.random.default_rng(3).normal(size=position.shape)
    line = check_velocity(audited(qpos=position, qvel=other), 0.95)
    assert (line.verdict, line.value) == ("fails", math.inf)


def test_wrapped_angles_are_told_from_others():
    turning = np.cumsum(np.full((EPISODES, STEPS, 1), 0.4), 1)
    wrapped = (turning + np.pi) % (2 * np.pi) - np.pi
    line = check_wrapping(audited(qpos=wrapped), 0.95)
    assert line.verdict == "fails"
    assert "steps of about 2 pi" in line.sentence
    line = check_wrapping(audited(qpos=turning), 0.95)
    assert line.verdict == "unclear"
    assert math.isclose(line.value, 33 / 40, abs_tol=1e-9)  # from the eighth step on it is beyond pi
    assert check_wrapping(audited(qpos=0.1 * turning), 0.95).verdict == "holds"
