"""When a run is saved: at least some seconds apart, and never more often than saving is cheap."""

import contextlib
import time
from collections.abc import Iterator

_SHARE = 0.02  # of the time that saving may take


class Pace:
    """The time between two checkpoints.

    A large model takes seconds to save: the next checkpoint then waits until all of them together, itself
    among them, are 2 % of the time.

    Args:
        seconds: time between two checkpoints, at least; 0 for one after each step, whatever it costs.

    Example:
        >>> Pace(3600).due(time.monotonic())
        False
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.cost, self.spent = seconds, 0.0, 0.0
        self.started = self.saved = time.monotonic()

    def due(self, now: float) -> bool:
        """Whether it is time to save."""
        if not self.seconds:
            return True
        affordable = self.spent + self.cost <= _SHARE * (now - self.started)
        return affordable and now - self.saved >= self.seconds

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Inside, the run is saved."""
        began = time.monotonic()
        yield
        self.saved = time.monotonic()
        self.cost = self.saved - began
        self.spent += self.cost
