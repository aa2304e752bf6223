"""Learning-rate schedules: the factor on the peak rate at a given step, a pure function of the step.

constant-cosine   1 for the first half, then half a cosine down to 0
warmup-cosine     a straight line up over the first `warmup` share of steps, then half a cosine to 0
constant          1
"""

import math
from collections.abc import Callable

Schedule = Callable[[int, int, float], float]


def constant_cosine(step: int, steps: int, warmup: float) -> float:
    """1 for the first half of the run, then half a cosine down to 0."""
    return _cosine(max(0.0, 2 * step / steps - 1))


def warmup_cosine(step: int, steps: int, warmup: float) -> float:
    """A straight line up over the first `warmup` share of the run, then half a cosine down to 0."""
    rising = warmup * steps
    if step < rising:
        return (step + 1) / (math.floor(rising) + 1)
    return _cosine((step - rising) / (steps - rising))


def constant(step: int, steps: int, warmup: float) -> float:
    """Always 1."""
    return 1.0


SCHEDULES: dict[str, Schedule] = {
    "constant-cosine": constant_cosine,
    "warmup-cosine": warmup_cosine,
    "constant": constant,
}


def _cosine(done: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * done))
