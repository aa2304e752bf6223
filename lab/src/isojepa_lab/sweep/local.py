"""Runs on this machine: one process per core, one thread each.

Two processes of one thread finish more runs than one process of two. Workers live as long as the sweep, for
importing torch takes seconds. A worker that dies takes only its own run with it, which is tried once more.
"""

import collections
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from isojepa_lab.sweep.environment import environment
from isojepa_lab.sweep.plan import Task
from isojepa_lab.sweep.record_state import is_held, state_of
from isojepa_lab.sweep.work import Ending

_TRIES = 2  # of a run whose worker dies
_GRACE = 60.0  # seconds in which workers must have saved
_LOOK = 2.0  # seconds between two looks at runs that are held elsewhere


class Worker:
    """One worker process.

    Args:
        folder: of the records.
    """

    def __init__(self, folder: Path) -> None:
        # without a name: what is killed leaves none
        self.log = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "isojepa_lab.sweep.worker", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=os.environ | environment(),
            process_group=0,  # the terminal's Ctrl-C is for the parent, which stops the workers
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self._heard = b""

    def send(self, message: dict[str, Any]) -> None:
        """Hand over a request; a worker that is gone is noticed by its silence."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def hear(self) -> tuple[list[dict[str, Any]], bool]:
        """The answers that have come, and whether the worker is still there."""
        assert self.process.stdout is not None
        alive = True
        while True:
            try:
                part = os.read(self.process.stdout.fileno(), 65_536)
            except BlockingIOError:
                break
            if not part:
                alive = False
                break
            self._heard += part
        *lines, self._heard = self._heard.split(b"\n")
        return [json.loads(line) for line in lines], alive

    def dismiss(self) -> None:
        """Tell the worker that there is nothing more: an idle one ends, a busy one saves and stops."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def bury(self, seconds: float) -> str:
        """Wait for the end, by force after a while; returns what ended it."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.dismiss()
        words = self._last_words()
        if code < 0:
            hint = " (out of memory?)" if -code == signal.SIGKILL else ""
            return f"was killed by {signal.Signals(-code).name}{hint}"
        last = f": {words.splitlines()[-1]}" if words else ""
        return f"ended with exit code {code}{last}"

    def _last_words(self) -> str:
        """What it wrote to standard error beside the logs of its runs."""
        if self.log.closed:
            return ""
        with self.log:
            self.log.seek(0)
            return self.log.read().decode(errors="replace").strip()


class Pool:
    """Workers that answer requests, each with a tag of the caller's.

    Args:
        folder: of the records.
        count: number of workers.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count
        self.busy: dict[Worker, Any] = {}
        self._idle: list[Worker] = []
        self.ready = False
        self._selector = selectors.DefaultSelector()

    @property
    def free(self) -> int:
        """How many requests could be taken now."""
        return self.count - len(self.busy)

    def submit(self, tag: Any, message: dict[str, Any]) -> None:
        """Give a request to a worker that is free, or to a new one."""
        worker = self._idle.pop() if self._idle else self._new()
        self.busy[worker] = tag
        worker.send(message)

    def warm(self, count: int) -> None:
        """Start some workers, all at most: the first requests will not wait for them."""
        while len(self.busy) + len(self._idle) < min(count, self.count):
            self._idle.append(self._new())

    def wait(self, seconds: float) -> list[tuple[Any, dict[str, Any] | str]]:
        """What ended within some time: the tag, with its answer or with what the worker died of."""
        ended: list[tuple[Any, dict[str, Any] | str]] = []
        if not self._selector.get_map():
            time.sleep(seconds)
            return ended
        for key, _ in self._selector.select(seconds):
            worker: Worker = key.data
            answers, alive = worker.hear()
            for answer in answers:
                if "ready" in answer:
                    self.ready = True
                else:
                    ended.append((self.busy.pop(worker), answer))
                    self._idle.append(worker)
            if not alive:
                self._selector.unregister(key.fileobj)
                end = worker.bury(5.0)
                if worker in self.busy:
                    ended.append((self.busy.pop(worker), f"its worker {end}"))
                elif worker in self._idle:
                    self._idle.remove(worker)
        return ended

    def close(self) -> None:
        """End all workers; runs that are under way save a checkpoint first."""
        workers = [*self.busy, *self._idle]
        for worker in workers:
            worker.dismiss()
        end = time.monotonic() + _GRACE
        try:
            for worker in workers:
                worker.bury(max(0.1, end - time.monotonic()))
        except KeyboardInterrupt:  # asked twice: records stand a kill
            for worker in workers:
                worker.process.kill()
                worker.bury(5.0)
            raise
        finally:
            self._selector.close()
            self.busy.clear()
            self._idle.clear()

    def _new(self) -> Worker:
        worker = Worker(self.folder)
        self._selector.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]
        return worker


class Local:
    """Runs of a sweep on this machine.

    Args:
        tasks: in the order in which they are begun.
        folder: of the records.
        workers: number of processes.
        pool: whose workers are already there.
    """

    def __init__(self, tasks: Iterable[Task], folder: Path, workers: int, pool: Pool | None = None) -> None:
        self.waiting = collections.deque(tasks)
        self.elsewhere: list[Task] = []
        self.remark = ""
        self._pool = pool or Pool(folder, max(1, workers))
        self._tries: collections.Counter[str] = collections.Counter()
        self._looked = 0.0

    @property
    def running(self) -> list[Task]:
        """The runs under way."""
        return list(self._pool.busy.values())

    def poll(self, seconds: float) -> list[tuple[Task, Ending]]:
        """Begin what can begin, wait a little, and return what ended."""
        ended = self._look_elsewhere() + self._begin()
        for task, answer in self._pool.wait(0.0 if ended else seconds):
            if isinstance(answer, str):
                self._tries[task.name] += 1
                if self._tries[task.name] < _TRIES:
                    self.waiting.appendleft(task)
                else:
                    ended.append((task, Ending("failed", f"{answer}, {_TRIES} times")))
            elif answer["state"] == "held":
                self.elsewhere.append(task)
            else:
                ended.append((task, Ending(**answer)))
        return ended

    def close(self) -> None:
        """Stop; runs that are under way save a checkpoint first."""
        self._pool.close()

    def advice(self) -> str:
        """A remark for the user who stopped the sweep."""
        return ""

    def _begin(self) -> list[tuple[Task, Ending]]:
        ended = []
        while self.waiting and self._pool.free:
            task = self.waiting.popleft()
            if state_of(task.path) == "done":  # by another sweep
                ended.append((task, Ending("done")))
            elif is_held(task.path):
                self.elsewhere.append(task)
            else:
                self._pool.submit(task, task.request)
        return ended

    def _look_elsewhere(self) -> list[tuple[Task, Ending]]:
        """Runs that another process held: done by now, or left to us."""
        if not self.elsewhere or time.monotonic() - self._looked < _LOOK:
            return []
        self._looked = time.monotonic()
        ended = []
        for task in list(self.elsewhere):
            if state_of(task.path) == "done":
                self.elsewhere.remove(task)
                ended.append((task, Ending("done")))
            elif not is_held(task.path):
                self.elsewhere.remove(task)
                self.waiting.append(task)
        return ended
