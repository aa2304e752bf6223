"""Ctrl-C and a scheduler's SIGTERM, held back to the end of a step.

An optimiser step that is cut in half leaves weights that belong to no step. While a run trains, the first
signal only raises a flag, which the loop reads between steps; a second one acts at once.
"""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Context in which `pending` tells whether a signal came. Outside the main thread it does nothing."""

    def __init__(self) -> None:
        self.pending = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._hold) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self.pending:
            raise KeyboardInterrupt
        self.pending = True
