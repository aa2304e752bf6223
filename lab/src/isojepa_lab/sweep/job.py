"""What one Slurm job does: some runs, one after another, that survive the job's own end.

A signal that asks the job to leave, SIGTERM of a preemption or SIGUSR2 before a time-out, lets the run save a
checkpoint; the job is then queued again, and resumes in the middle of that run. A job that Slurm itself is
already ending is not queued again from within: Slurm requeues it, or the sweep submits its runs anew.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission


class Chunk:
    """Runs that share a job.

    Args:
        requests: what is to be known of each, see `isojepa_lab.sweep.plan.Task.request`.
        folder: of the records, absolute.
    """

    def __init__(self, requests: Sequence[Mapping[str, Any]], folder: str) -> None:
        self.requests, self.folder = list(requests), folder

    def __call__(self) -> None:
        """Make the runs; what is done, or held by another process, is passed over."""
        queue_again = signal.getsignal(signal.SIGUSR2)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        signal.signal(signal.SIGUSR2, _leave)
        try:
            self._make()
        except KeyboardInterrupt:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
            signal.signal(signal.SIGUSR2, signal.SIG_IGN)
            if callable(queue_again) and _is_running():
                queue_again(signal.SIGUSR2, None)
            raise SystemExit(1) from None

    def checkpoint(self) -> "DelayedSubmission":
        """The same runs again: their records know how far they are."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(Chunk(self.requests, self.folder))

    def _make(self) -> None:
        import torch

        from isojepa_lab.studies.cells import asked_from
        from isojepa_lab.sweep.work import attempt

        torch.set_num_threads(1)
        for request in self.requests:
            attempt(asked_from(request["run"]), self.folder, request["study"])


def _leave(number: int, frame: FrameType | None) -> None:
    """A time-out comes near: as a polite kill, which training holds back to the end of a step."""
    signal.raise_signal(signal.SIGTERM)


def _is_running() -> bool:
    """Whether Slurm still counts this job as running, that is, it is not being ended."""
    job, array = os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_ARRAY_JOB_ID")
    if array is not None:  # the id of one job of an array is that of the whole array too
        job = f"{array}_{os.environ.get('SLURM_ARRAY_TASK_ID', '')}"
    command = ["squeue", "--noheader", "--format=%T", f"--jobs={job}"]
    try:
        state = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return False
    return state == "RUNNING"
