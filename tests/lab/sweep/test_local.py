"""Runs in worker processes, and what happens when a process is killed, stopped or not alone."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isojepa.registry import build_spec
from isojepa.runs import record_path
from isojepa.threads import cores
from isojepa.training.run_directory import RunDirectory
from isojepa_lab.sweep.environment import environment
from isojepa_lab.sweep.estimate import estimate
from isojepa_lab.sweep.local import Local, Worker
from isojepa_lab.sweep.record_state import pace, state_of
from isojepa_lab.sweep.screen import Lines
from isojepa_lab.sweep.sweep import prepare_folder, run_sweep
from isojepa_lab.sweep.tally import Tally
from isojepa_lab.sweep.work import NOTES, work
from tests.lab.sweep.cells import finish, same_results, start_sweep, tasks_in, tiny, wait_until, write_study

# long enough that a look every half second finds them at work on a fast machine, too
LONG = {str(seed): tiny(seed, steps=500, checkpoint_seconds=0.05) for seed in range(2)}
BAD = replace(tiny(7), world=build_spec("world", dim=2, mixing="lift", observed_dim=1))


class Watched(Lines):
    """No screen, but something to do at every look."""

    def __init__(self, look=lambda: None):
        self.look = look
        self.order = []

    def ended(self, task, tally):
        self.order.append(task.title)

    def refresh(self, tally, running, elsewhere, remark):
        self.look()


def sweep(folder, configs, workers=1, look=lambda: None, executor=Local):
    folder = prepare_folder(folder)
    tasks = tasks_in(folder, configs)
    prices = estimate(tasks, folder, None)
    todo = prices.longest_first(tasks)
    screen = Watched(look)
    tally = Tally(tasks, prices, folder, workers)
    made = executor(todo, folder, workers)
    return run_sweep(todo, made, tally, screen), screen, made


def workers_of(parent):
    """Process ids of the workers of a process."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                command = (each / "cmdline").read_bytes().split(b"\0")
                status = (each / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if b"isojepa_lab.sweep.worker" in command and int(status[1]) == parent and status[0] != "Z":
                found.append(int(each.name))
    return found


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The long runs, made without a stop, in this process and with one thread as workers have it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("whole")
    for config in LONG.values():
        work(config, folder)
    torch.set_num_threads(before)
    return folder


@pytest.mark.slow
def test_a_worker_makes_the_runs_and_a_failed_one_does_not_stop_the_others(tmp_path):
    configs = {"short": tiny(0, 10), "bad": BAD, "long": tiny(1, 60)}
    outcome, screen, _ = sweep(tmp_path, configs)
    assert (outcome.total, outcome.before, outcome.done, outcome.stopped) == (3, 0, 2, False)
    (error,) = outcome.failures.values()
    assert error.startswith("out_dim must be above dim")
    assert screen.order[0] == "run=long"  # the longest begins first
    log = (tmp_path / NOTES / f"{record_path(BAD).name}.log").read_text()
    assert "Traceback" in log
    assert not list((tmp_path / NOTES).glob("worker-*"))
    assert RunDirectory(record_path(tiny(1, 60), tmp_path)).result["versions"]["threads"] == "1"
    again, screen, _ = sweep(tmp_path, {"short": tiny(0, 10), "long": tiny(1, 60)})
    assert (again.before, again.done, screen.order) == (2, 2, [])


def test_a_worker_leaves_no_file_behind_however_it_and_its_parent_end(tmp_path):
    """What it says beside its runs goes to a file without a name."""
    worker = Worker(tmp_path)
    assert list(tmp_path.rglob("*")) == []
    worker.process.kill()
    assert "was killed by SIGKILL" in worker.bury(30.0)
    assert list(tmp_path.rglob("*")) == []


def test_what_killed_sweeps_left_in_the_notes_is_removed_and_nothing_else(tmp_path):
    notes = tmp_path / NOTES
    notes.mkdir()
    old = time.time() - 7200
    for name in (".a.json.0123456789abcdef.tmp", ".b.failed.00000000000000aa.tmp", ".c.tmp", "d.log"):
        (notes / name).write_text("x")
        os.utime(notes / name, (old, old))
    (notes / ".e.json.0123456789abcdef.tmp").write_text("being written now")
    prepare_folder(tmp_path)
    left = sorted(path.name for path in notes.iterdir())
    assert left == [".c.tmp", ".e.json.0123456789abcdef.tmp", "d.log"]


def test_notes_that_are_a_link_are_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / NOTES).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"\.sweep must be a folder, got a symbolic link"):
        prepare_folder(tmp_path / "records")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_cores_are_those_this_process_may_use():
    assert cores() == len(os.sched_getaffinity(0))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_run_whose_worker_is_killed_goes_on_in_a_new_one(tmp_path, whole):
    killed = []

    def kill_once():
        if not killed and pace(record_path(LONG["0"], tmp_path)).step > 20:
            killed.extend(workers_of(os.getpid()))
            os.kill(killed[0], signal.SIGKILL)

    outcome, _, _ = sweep(tmp_path, LONG, look=kill_once)
    assert len(killed) == 1
    assert outcome.done == 2
    assert not outcome.failures
    assert all(same_results(whole, tmp_path, config) for config in LONG.values())


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_run_that_kills_its_worker_twice_is_told_with_the_signal(tmp_path):
    endless = tiny(0, steps=1_000_000, checkpoint_seconds=0.05)
    victim = record_path(endless, tmp_path)
    killed = []

    def kill_twice():
        for pid in workers_of(os.getpid()):
            late = pace(victim).step > 20 * (1 + len(killed)) and state_of(victim) == "started"
            if pid not in killed and late and len(killed) < 2:  # the next worker has another run
                killed.append(pid)
                os.kill(pid, signal.SIGSEGV)

    outcome, _, _ = sweep(tmp_path, {"endless": endless, "short": tiny(1)}, look=kill_twice)
    assert len(killed) == 2
    assert outcome.failures == {victim.name: "its worker was killed by SIGSEGV, 2 times"}
    assert outcome.done == 1
    log = (tmp_path / NOTES / f"{victim.name}.log").read_text()
    assert "Segmentation fault" in log  # and where


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_stopped_sweep_saves_and_the_same_command_goes_on(tmp_path, whole, number):
    study = write_study(tmp_path / "study.py", LONG)
    records = tmp_path / "records"
    first = record_path(LONG["0"], records)
    process = start_sweep(study, records, "--workers", "1")
    wait_until(lambda: pace(first).step > 20)
    workers = workers_of(process.pid)
    process.send_signal(number)
    code, out = finish(process)
    assert code == 130, out
    assert "topped; the same command resumes" in out
    if "from the last checkpoint" not in out:  # the five seconds that a command has sufficed for its report
        assert "2 left" in out
    wait_until(lambda: all(gone(pid) for pid in workers), 30)
    assert (first / "checkpoint" / "state.safetensors").exists()
    assert pace(first).step > 20
    code, out = finish(start_sweep(study, records, "--workers", "1"))
    assert code == 0, out
    assert "2 runs done, 0 done before" in out
    assert all(same_results(whole, records, config) for config in LONG.values())


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_worker_outlives_a_killed_parent(tmp_path, whole):
    study = write_study(tmp_path / "study.py", LONG)
    records = tmp_path / "records"
    process = start_sweep(study, records, "--workers", "2")
    wait_until(lambda: any(pace(record_path(config, records)).step > 20 for config in LONG.values()))
    workers = workers_of(process.pid)
    assert workers
    process.kill()
    process.wait()
    wait_until(lambda: all(gone(pid) for pid in workers), 30)
    assert [path.name for path in (records / NOTES).iterdir() if path.suffix != ".json"] == []
    code, out = finish(start_sweep(study, records, "--workers", "2"))
    assert code == 0, out
    assert all(same_results(whole, records, config) for config in LONG.values())
    assert not list(records.glob("*/checkpoint"))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_two_sweeps_on_one_folder_share_the_runs(tmp_path):
    configs = {str(seed): tiny(seed, steps=120) for seed in range(6)}
    study = write_study(tmp_path / "study.py", configs)
    records = tmp_path / "records"
    pair = [start_sweep(study, records, "--workers", "1") for _ in range(2)]
    ends = [finish(process) for process in pair]
    assert [code for code, _ in ends] == [0, 0], ends
    for _, out in ends:
        told = Counter(line.split("run=")[1].split()[0] for line in out.splitlines() if "run=" in line)
        assert set(told.values()) <= {1}
    for config in configs.values():
        path = record_path(config, records)
        assert state_of(path) == "done"
        steps = [line.split(",")[0] for line in (path / "metrics.jsonl").read_text().splitlines()]
        assert steps == [f'{{"step": {n}' for n in range(10, 121, 10)]  # nothing lost or doubled


@pytest.mark.slow
def test_a_run_that_is_held_elsewhere_is_waited_for(tmp_path):
    tasks = tasks_in(tmp_path, {"held": tiny(0), "free": tiny(1)})
    tasks[0].path.mkdir()
    lock = open(tasks[0].path / ".lock", "a")  # noqa: SIM115
    fcntl.flock(lock, fcntl.LOCK_EX)
    seen = []

    def release():
        if state_of(tasks[1].path) == "done" and not seen:
            seen.append(state_of(tasks[0].path))
            lock.close()

    outcome, screen, _ = sweep(tmp_path, {"held": tiny(0), "free": tiny(1)}, look=release)
    assert seen == ["new"]
    assert screen.order == ["run=free", "run=held"]
    assert outcome.done == 2


def test_a_folder_that_is_a_file_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match=r"records must be a folder, got the file .*/file"):
            prepare_folder(path)


def test_a_folder_that_cannot_be_written_is_told():
    with pytest.raises(OSError):  # noqa: PT011
        prepare_folder("/proc/records")


def test_a_worker_finds_no_module_where_one_stands_and_ends_with_its_input(tmp_path, monkeypatch):
    """Unless the sweep itself does: a random.py of the user's own must not replace Python's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    assert environment()["PYTHONSAFEPATH"] == "1"
    assert environment()["OMP_NUM_THREADS"] == "1"
    (tmp_path / "random.py").write_text("raise ImportError('not this one')\n")
    command = [sys.executable, "-m", "isojepa_lab.sweep.worker", str(tmp_path)]
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    variables = os.environ | path | environment()
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=variables, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, b"")
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert "PYTHONSAFEPATH" not in environment()


def test_a_held_run_keeps_the_log_of_its_holder(tmp_path):
    from isojepa_lab.sweep.worker import _answer

    (task,) = tasks_in(tmp_path, {"0": tiny(0)})
    log = tmp_path / NOTES / f"{task.name}.log"
    log.parent.mkdir()
    log.write_text("of the holder")
    task.path.mkdir()
    with open(task.path / ".lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert _answer({"run": task.config.to_dict()}, tmp_path)["state"] == "held"
    assert log.read_text() == "of the holder"
