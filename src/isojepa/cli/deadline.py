"""SIGINT and SIGTERM end a command within seconds, wherever it is.

Python runs signal handlers between two of its own instructions. A command that compiles, decodes or waits in
a library gets there late, or loses the KeyboardInterrupt in a callback. The system also writes the number of
each signal to a file descriptor at once; a thread reads it there, gives the command time to save and leave,
and then ends the process. What was saved is whole, since files are replaced and never changed.
"""

import os
import signal
import socket
import sys
import threading

SECONDS = 3.5  # after a signal; with the end of the process and a busy machine less than five


class Deadline:
    """Ends this process some seconds after SIGINT or SIGTERM, until it is cancelled.

    Args:
        message: printed to standard error when the process is ended; nothing if empty.
        seconds: that the command has to leave by itself.
    """

    def __init__(self, message: str, seconds: float = SECONDS) -> None:
        self._message, self._seconds = message, seconds
        self._cancelled = threading.Event()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._wait, daemon=True).start()

    def cancel(self) -> None:
        """The command is over, and the process goes on."""
        self._cancelled.set()
        signal.set_wakeup_fd(self._before)
        self._writer.close()

    def _wait(self) -> None:
        while number := self._reader.recv(1):
            if number[0] in (signal.SIGINT, signal.SIGTERM):
                if not self._cancelled.wait(self._seconds):
                    _end(self._message)
                break
        self._reader.close()


def _end(message: str) -> None:
    if "multiprocessing" in sys.modules:
        for child in sys.modules["multiprocessing"].active_children():
            child.kill()
    if message:
        os.write(2, f"{message}\n".encode())
    os._exit(130)
