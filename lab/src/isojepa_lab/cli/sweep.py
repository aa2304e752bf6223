"""The command `sweep`: all runs of a study."""

import importlib.util
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro
from rich.text import Text

from isojepa import threads
from isojepa.cli.printing import Column, out, print_json, print_table
from isojepa.importing import install_hint
from isojepa.terminal import Console
from isojepa.validation import choose
from isojepa_lab.studies.study import RECORDS

if TYPE_CHECKING:
    from isojepa_lab.sweep import Estimate, Outcome, Plan, Task
    from isojepa_lab.sweep.local import Pool
    from isojepa_lab.sweep.sweep import Executor
    from isojepa_lab.sweep.tally import Tally

_EXECUTORS = {"local": "processes on this machine", "slurm": "jobs of a Slurm cluster"}
_WORTH = 0.1  # share of the work that may be spent on measuring it


@dataclass
class Sweep:
    """Make every run of a study, in processes or on Slurm.

    Runs that are done are skipped, and interrupted ones resume where they stopped: the same command may be
    stopped and given again at any time, also on several machines that share the folder of records.

    isojepa sweep mixings grid

    isojepa sweep scaling --only dim=64 --workers 1

    isojepa sweep all --scale paper --executor slurm --partition cpu --time 120

    isojepa sweep my_study.py --estimate

    isojepa sweep grid --kept docs/results               # only what the report there does not have
    """

    studies: tyro.conf.Positional[tuple[str, ...]]
    """Studies by name, `all`, or Python files that define STUDY."""
    scale: str = "standard"
    """quick: a few short runs; standard: all cells; paper: the published steps and seeds beside ours."""
    executor: str = "local"
    """local: processes on this machine; slurm: jobs of a cluster."""
    workers: int | None = None
    """Processes on this machine, by default one per core; on Slurm, the most jobs at once (256)."""
    records: Path = RECORDS
    """Folder of the records."""
    kept: Path | None = None
    """Folder of a report: runs whose rows it has count as done; `study report --kept` takes them there."""
    estimate: bool = False
    """Only print how long it will take."""
    only: tuple[str, ...] = ()
    """Cells with these labels only: label=value; several values of one label, or several labels at once."""
    json: bool = False
    """Print how it ended as JSON."""
    partition: str | None = None
    """Slurm: partition."""
    time: int = 60
    """Slurm: minutes of a job; a run that needs more resumes in the next."""
    memory: float = 2.0
    """Slurm: gigabytes of a job."""
    runs_per_job: int | None = None
    """Slurm: runs that share a job; by default as many as fill ten minutes."""
    slurm: tuple[str, ...] = ()
    """Slurm: further options of sbatch, key=value, e.g. account=me qos=low."""

    def run(self) -> int:
        from isojepa_lab.sweep.estimate import BUDGET, estimate
        from isojepa_lab.sweep.local import Pool
        from isojepa_lab.sweep.plan import find_called, plan_studies, tasks_of, without_kept
        from isojepa_lab.sweep.record_state import tidy
        from isojepa_lab.sweep.sweep import prepare_folder
        from isojepa_lab.sweep.tally import Tally

        choose("executor", self.executor, _EXECUTORS)
        for name in ("workers", "runs_per_job", "time"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if not 0 < self.memory < math.inf:
            raise ValueError(f"memory must be a positive number of gigabytes, got {self.memory}")
        extra = dict(map(_pair, self.slurm))  # errors in it are raised before anything runs
        if self.executor == "slurm" and not self.estimate:
            _need_slurm()
        studies = find_called(self.studies)
        files = {
            study.name: str(Path(called).resolve()) for called, study in studies if called.endswith(".py")
        }
        plans = plan_studies([study for _, study in studies], self.scale, self.only, files)
        if self.kept is not None:
            plans = without_kept(plans, [study for _, study in studies], self.kept)
        folder = prepare_folder(self.records)
        tasks = tasks_of(plans, self.records)
        most = max(1, len(tasks))
        here = min(most, self.workers or threads.cores() if self.executor == "local" else threads.cores())
        at_once = here if self.executor == "local" else min(most, self.workers or 256)
        rough = estimate(tasks, folder, None)
        worth = BUDGET if self.estimate else min(BUDGET, _WORTH * rough.wall(rough.seconds, here))
        pool = Pool(folder, here)
        try:
            prices = rough
            if rough.counted and worth > 2:
                with self._console.status("timing a few steps ..."):
                    prices = estimate(tasks, folder, pool, worth)
            if self.estimate and self.json:
                print_json(prices.table(plans, at_once))
                return 0
            self._print_table(prices, plans, at_once)
            if self.estimate:
                return 0
            tidy(task.path for task in tasks if prices.states[task.name] == "done")
            todo = prices.longest_first(tasks)
            executor = self._executor(todo, prices, folder, pool, at_once, extra)
            return self._make(todo, executor, Tally(tasks, prices, folder, at_once))
        finally:
            pool.close()

    @property
    def _console(self) -> Console:
        """Where progress goes: standard output is kept for the JSON that was asked for."""
        return Console(stderr=True) if self.json else out

    def _make(self, todo: "Sequence[Task]", executor: "Executor", tally: "Tally") -> int:
        from isojepa_lab.sweep.screen import choose_screen
        from isojepa_lab.sweep.sweep import run_sweep

        outcome = run_sweep(todo, executor, tally, choose_screen(self._console))
        self._tell(outcome, tally, executor)
        if outcome.stopped:
            return 130
        return 1 if outcome.failures else 0

    def _executor(
        self,
        todo: "Sequence[Task]",
        prices: "Estimate",
        folder: Path,
        pool: "Pool",
        at_once: int,
        extra: Mapping[str, str],
    ) -> "Executor":
        from isojepa_lab.sweep.local import Local

        if self.executor == "local":
            return Local(todo, folder, at_once, pool)
        from isojepa_lab.sweep.slurm import Slurm

        pool.close()
        options: dict[str, Any] = {
            "partition": self.partition,
            "minutes": self.time,
            "memory": self.memory,
            "at_once": at_once,
            "runs_per_job": self.runs_per_job,
            "extra": extra,
        }
        return Slurm(todo, folder, prices.seconds, **options)

    def _print_table(self, prices: "Estimate", plans: "Sequence[Plan]", at_once: int) -> None:
        from isojepa_lab.sweep.tally import clock

        titles = ("runs", "done", "CPU time left", f"on {at_once} at once")
        rows = [
            (
                str(row["study"]),
                str(row["runs"]),
                str(row["done"]),
                *(clock(float(row[key])) for key in ("cpu_seconds", "wall_seconds")),
            )
            for row in prices.table(plans, at_once)
        ]
        columns = (Column("study"), *(Column(title, right=True) for title in titles))
        print_table(columns, rows, console=self._console)
        if prices.counted:
            self._console.print(
                f"{prices.counted} runs were priced by counting operations alone: a rough guess.", style="dim"
            )

    def _tell(self, outcome: "Outcome", tally: "Tally", executor: "Executor") -> None:
        """Print how the sweep ended, what failed, and how to resume."""
        failed = [
            {
                "record": str(tally.tasks[name].path),
                "study": tally.tasks[name].study,
                "labels": dict(tally.tasks[name].labels),
                "error": error,
                "log": None if (log := tally.log_of(name)) is None else str(log),
            }
            for name, error in outcome.failures.items()
        ]
        if self.json:
            advice = executor.advice() if outcome.stopped else ""
            print_json({**vars(outcome), "failures": failed, "advice": advice})
            return
        new = outcome.done - outcome.before
        unfinished = outcome.total - outcome.done - len(failed)
        parts = [f"{new} run{'s' * (new != 1)} done", f"{outcome.before} done before"]
        parts += [f"{len(failed)} failed"] if failed else []
        parts += [f"{unfinished} left"] if unfinished else []
        out.print(f"{', '.join(parts)}. Records: {self.records}")
        for each in failed:
            title = tally.tasks[Path(str(each["record"])).name].title
            where = f"  Log: {each['log']}" if each["log"] else ""
            words = f"{each['study']} {title}: {each['error']}{where}"
            out.print(Text.assemble(("failed", "red"), f" {words}"))
        if outcome.stopped:
            out.print(f"Stopped; the same command resumes. {executor.advice()}".strip())
        elif failed:
            out.print("The same command tries the failed runs again.")


def _need_slurm() -> None:
    if shutil.which("sbatch") is None:
        raise ValueError(
            "--executor slurm needs sbatch on the PATH, which was not found; "
            "use --executor local, or run this on the cluster's login machine"
        )
    if importlib.util.find_spec("submitit") is None:
        hint = install_hint("slurm", "./lab")
        raise ValueError(f"--executor slurm needs submitit, which is not installed: {hint}")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise ValueError(f"--slurm takes key=value, got {text!r}")
    return key, value
