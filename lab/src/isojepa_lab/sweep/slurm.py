"""Runs on a Slurm cluster, through submitit: arrays of jobs of one core each, that share a folder of records.

The records are the truth: a run is over when its record is. Slurm is only asked which jobs are still queued,
by squeue, for sacct answers nothing where no accounting is kept. A job that is gone and left runs unfinished,
by scancel, a crash or a node's failure, has them submitted again; one that Slurm could not launch and holds
is released, and if that does not help, cancelled and submitted again. Which job has which runs is noted
beside the records, so that a sweep that is started anew finds the jobs of the last one.
"""

import collections
import contextlib
import math
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from isojepa.io import make_folder, make_private, read_bytes, read_json, write_json
from isojepa_lab.sweep.environment import environment
from isojepa_lab.sweep.job import Chunk
from isojepa_lab.sweep.plan import Task
from isojepa_lab.sweep.record_state import is_held, state_of
from isojepa_lab.sweep.work import NOTES, Ending, notes_path

_AGAIN = 3  # times that the runs of a lost job are submitted again
_LOOK = 2.0  # seconds between two looks at the queue
_MISSED = 2  # looks in a row that do not find a job before it is lost
_FILL = 600.0  # seconds of work that make a job worth its start
_TIMEOUTS = 100  # times that a job may reach its end and resume in a new one
_ARRAY = 1000  # jobs of an array at most, as Slurm's own default allows
# why Slurm itself holds a job, as `scontrol release` ends; who held one by hand had a reason
_HELD_REASONS = ("launch failed requeued held", "JobHoldMaxRequeue")
_RELEASES = 3  # of one job
_CALM = 30.0  # seconds to wait after the first; what made a launch fail may take a while to pass
_YOUNG = 60.0  # seconds in which a note may be of jobs that the last look at the queue came too early for


class Slurm:
    """Runs of a sweep as Slurm jobs.

    Args:
        tasks: in the order in which they are begun.
        folder: of the records, absolute and seen by all nodes.
        seconds: estimated seconds of each run, by its record's name.
        partition: of the cluster; None for its default.
        minutes: time limit of a job.
        memory: gigabytes of a job.
        at_once: jobs that may run at the same time.
        runs_per_job: runs that share a job; None for as many as fill ten minutes.
        extra: further options of sbatch.

    Raises:
        ValueError: sbatch refused the jobs.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        folder: Path,
        seconds: Mapping[str, float],
        *,
        partition: str | None = None,
        minutes: int = 60,
        memory: float = 2.0,
        at_once: int = 256,
        runs_per_job: int | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self._jobs_folder = folder, jobs_folder(folder)
        self._seconds, self._runs_per_job = seconds, runs_per_job
        self._options = (partition, minutes, memory, at_once, dict(extra or {}))
        self._open = {task.name: task for task in tasks}
        self._jobs: dict[str, list[str]] = {}  # of each job that is watched, the names of its unfinished runs
        self._states: dict[str, str] = {}
        self._missed: collections.Counter[str] = collections.Counter()
        self._submitted: collections.Counter[str] = collections.Counter()
        self._released: collections.Counter[str] = collections.Counter()
        self._patience: dict[str, float] = {}  # until when a job that was released is left alone
        self._looked = 0.0
        self._now: list[Task] = []
        self._lost_runs: list[Task] = []  # to be submitted again
        self.elsewhere: list[Task] = []
        self._adopt()
        taken = {name for names in self._jobs.values() for name in names}
        self._submit([task for task in tasks if task.name not in taken])

    @property
    def running(self) -> list[Task]:
        """The runs that a job works on now."""
        return self._now

    def poll(self, seconds: float) -> list[tuple[Task, Ending]]:
        """Wait a little, look at records and queue, and return what ended."""
        time.sleep(seconds)
        if time.monotonic() - self._looked < _LOOK:
            return []
        self._looked = time.monotonic()
        states = queued()
        ended = self._ended()  # after the queue: a job that is gone has left its records
        if states is not None:
            self._states = states
            self._release()
            ended += self._lost()
        self._now = [
            self._open[name]
            for job, names in self._jobs.items()
            if self._states.get(job) == "RUNNING"
            for name in names
            if is_held(self._open[name].path)
        ]
        return ended

    def close(self) -> None:
        """Stop watching: the jobs keep running."""

    def advice(self) -> str:
        """How to end the jobs, which keep running."""
        jobs = [job for job in self._jobs if job in self._states or not self._missed[job]]
        if not jobs:
            return ""
        whole = dict.fromkeys(job.partition("_")[0] for job in jobs)
        return f"{len(jobs)} Slurm jobs keep running; end them with: scancel {' '.join(whole)}"

    @property
    def remark(self) -> str:
        """Why jobs wait, in Slurm's words: some of its reasons never pass by themselves."""
        states = [self._states.get(job, "") for job, names in self._jobs.items() if names]
        reasons = [reason for reason in map(_reason, states) if reason]
        message = ", ".join(sorted(set(reasons)))
        return (
            f"{len(reasons)} Slurm job{'s wait' if len(reasons) > 1 else ' waits'}: {message}"
            if message
            else ""
        )

    def _adopt(self) -> None:
        """Watch the jobs of an earlier sweep that are still queued; drop those that are not."""
        alive = queued()
        self._states = alive or {}
        for note in sorted(self._jobs_folder.glob("jobs-*.json")):
            jobs = {}
            with contextlib.suppress(ValueError, AttributeError):
                jobs = dict(read_json(note))
            if alive is not None and not set(jobs) & set(alive):
                with contextlib.suppress(OSError):
                    if time.time() - note.stat().st_mtime > _YOUNG:
                        note.unlink()
                continue
            for job, names in jobs.items():
                mine = [name for name in names if name in self._open]
                if mine and (alive is None or job in alive):
                    self._jobs[job] = mine

    def _submit(self, tasks: Sequence[Task]) -> None:
        if not tasks:
            return
        for task in tasks:
            notes_path(self.folder, task.name, "failed").unlink(missing_ok=True)
        chunks = split(tasks, self._seconds, self._runs_per_job)
        arrays = [chunks[i : i + _ARRAY] for i in range(0, len(chunks), _ARRAY)]
        for array in arrays:
            made = self._submit_array(array, len(arrays))
            write_json(self._jobs_folder / f"jobs-{next(iter(made)).partition('_')[0]}.json", made)
            self._jobs |= {job: list(names) for job, names in made.items()}
            submitted = {name for names in made.values() for name in names}
            self._lost_runs = [task for task in self._lost_runs if task.name not in submitted]

    def _submit_array(self, chunks: Sequence[Sequence[Task]], arrays: int) -> dict[str, list[str]]:
        """Submit one of some arrays; returns the names of the runs of each job."""
        from submitit import SlurmExecutor
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        work = [Chunk([task.request for task in chunk], str(self.folder)) for chunk in chunks]
        partition, minutes, memory, at_once, extra = self._options
        executor = SlurmExecutor(self._jobs_folder, max_num_timeout=_TIMEOUTS)
        executor.update_parameters(
            job_name="isojepa",
            partition=partition,
            time=minutes,
            mem=f"{math.ceil(memory * 1024)}M",
            nodes=1,
            ntasks_per_node=1,
            cpus_per_task=1,
            array_parallelism=max(1, at_once // arrays),
            signal_delay_s=min(90, 15 * minutes),
            setup=[f"export {name}={value}" for name, value in environment().items()],
            additional_parameters={"requeue": True, **extra},
        )
        try:
            jobs = executor.submit_array(work)
        except (FailedJobError, FailedSubmissionError, subprocess.SubprocessError, OSError) as error:
            message = f"sbatch refused the jobs: {_last_line(error)}"
            raise ValueError(f"{message}; {self.advice()}" if self._jobs else message) from error
        return {job.job_id: [task.name for task in chunk] for job, chunk in zip(jobs, chunks, strict=True)}

    def _ended(self) -> list[tuple[Task, Ending]]:
        ended = []
        for name, task in list(self._open.items()):
            failed = notes_path(self.folder, name, "failed")
            if state_of(task.path) == "done":
                ended.append((task, Ending("done")))
            elif failed.exists():
                ended.append((task, Ending("failed", read_bytes(failed).decode(errors="replace").strip())))
            else:
                continue
            self._close(name)
        return ended

    def _close(self, name: str) -> None:
        """Watch a run no longer, whichever jobs have it."""
        del self._open[name]
        self._jobs = {job: [each for each in names if each != name] for job, names in self._jobs.items()}
        self._lost_runs = [task for task in self._lost_runs if task.name != name]

    def _release(self) -> None:
        """Let jobs go that Slurm holds because it could not launch them; what stays held is given up.

        A job that is given up is gone at the next look, and its runs are submitted again.
        """
        for job, names in self._jobs.items():
            if not names or _reason(self._states.get(job, "")) not in _HELD_REASONS:
                continue
            if time.monotonic() < self._patience.get(job, 0.0):
                continue
            self._released[job] += 1
            self._patience[job] = time.monotonic() + _CALM * self._released[job]
            if self._released[job] > _RELEASES or not _command("scontrol", "release", job):
                _command("scancel", job)

    def _lost(self) -> list[tuple[Task, Ending]]:
        """Runs whose job is gone are submitted again, a few times."""
        ended: list[tuple[Task, Ending]] = []
        self.elsewhere = []
        watched = {name for job, names in self._jobs.items() if job in self._states for name in names}
        for job in list(self._jobs):
            self._missed[job] = 0 if job in self._states else self._missed[job] + 1
            if self._missed[job] < _MISSED:
                continue
            endings = [self._open[name] for name in self._jobs.pop(job) if name not in watched]
            held = [task for task in endings if is_held(task.path)]
            if held:
                self._jobs[job] = [task.name for task in held]
                self.elsewhere += held
            for task in endings:
                if task in held:
                    continue
                watched.add(task.name)
                self._submitted[task.name] += 1
                if self._submitted[task.name] <= _AGAIN:
                    self._lost_runs.append(task)
                else:
                    error = f"its Slurm job was lost {_AGAIN + 1} times, at last job {job}"
                    ended.append((task, Ending("failed", f"{error}; its log is in {self._jobs_folder}")))
                    self._close(task.name)
        self._submit_again()
        return ended

    def _submit_again(self) -> None:
        """Submit lost runs; a refusal, such as for too many jobs, is waited out while others are queued."""
        try:
            self._submit(self._lost_runs)
        except ValueError:
            if not any(job in self._states for job in self._jobs):
                raise


def jobs_folder(folder: Path) -> Path:
    """Where submitit keeps its files, beside the records: a folder of this user alone.

    They are pickles, which execute whatever was put into them when a job reads them.

    Raises:
        NotPlain: there is something else of that name, or others may write to it.
    """
    make_folder(folder / NOTES)
    return make_private(folder / NOTES / f"slurm-{os.getuid()}")


def queued() -> dict[str, str] | None:
    """State of each of the user's jobs that waits or runs, by its id; None if Slurm did not answer.

    A state is in Slurm's words: RUNNING, or PENDING with the reason, as in "PENDING: Resources".
    """
    command = ["squeue", "--noheader", "--array", "--format=%i|%T|%r", f"--user={os.getuid()}"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    jobs = [line.split("|", 2) for line in answer.splitlines() if line.count("|") >= 2]
    return {job: state if why == "None" else f"{state}: {why}" for job, state, why in jobs}


def split(tasks: Sequence[Task], seconds: Mapping[str, float], runs_per_job: int | None) -> list[list[Task]]:
    """The runs of each job: a fixed number, or as many as fill ten minutes, evenly, in one array."""
    if runs_per_job is not None:
        return [list(tasks[i : i + runs_per_job]) for i in range(0, len(tasks), runs_per_job)]
    total = sum(seconds[task.name] for task in tasks)
    count = min(len(tasks), max(1, math.ceil(total / _FILL)), _ARRAY)
    chunks: list[list[Task]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for task in sorted(tasks, key=lambda task: -seconds[task.name]):
        least = min(range(count), key=lambda i: (loads[i], len(chunks[i])))
        chunks[least].append(task)
        loads[least] += seconds[task.name]
    return chunks


def _reason(state: str) -> str:
    """Why a job waits, in Slurm's words, which some versions join by underscores; empty if it does not."""
    waits, _, reason = state.partition(": ")
    return reason.replace("_", " ") if waits == "PENDING" else ""


def _command(*words: str) -> bool:
    """Whether a command of Slurm did what it should."""
    try:
        return subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
