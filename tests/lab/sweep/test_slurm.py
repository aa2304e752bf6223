"""Runs as Slurm jobs: on a real Slurm of one machine, with jobs signalled, cancelled and killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from isojepa.runs import record_path
from isojepa.training.run_directory import RunDirectory
from isojepa_lab.sweep import slurm
from isojepa_lab.sweep.job import Chunk
from isojepa_lab.sweep.record_state import pace, state_of
from isojepa_lab.sweep.slurm import Slurm, jobs_folder, queued, split
from isojepa_lab.sweep.work import NOTES, notes_path
from tests.lab.sweep.cells import finish, same_results, start_sweep, tasks_in, tiny, wait_until, write_study

TOOLS = Path(__file__).parents[3] / "tools" / "slurm"
# long enough that none ends while another is being hit
RUNS = {str(seed): tiny(seed, steps=6000, checkpoint_seconds=0.1) for seed in range(4)}


def missing() -> str:
    """Why a real Slurm cannot be started here; empty if it can."""
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    absent = [
        name for name in ("sbatch", "slurmctld", "slurmd", "munged") if shutil.which(name, path=path) is None
    ]
    if absent:
        return f"{', '.join(absent)} not found: apt-get install slurm-wlm munge"
    return "" if os.getuid() == 0 else "starting Slurm needs root"


needs_slurm = pytest.mark.skipif(bool(missing()), reason=missing() or "Slurm is here")


@pytest.fixture
def cluster(monkeypatch):
    """A Slurm of this machine alone, with its own configuration; one for each process of pytest-xdist."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    folder = Path(f"/tmp/isojepa-slurm-tests-{number}")
    port = {"SLURM_TEST_PORT": str(46827 + 2 * number)}
    subprocess.run([TOOLS / "start", folder], check=True, env=os.environ | port)
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    yield folder
    subprocess.run([TOOLS / "stop", folder, "--remove"], check=True)


@pytest.fixture
def unlaunchable(monkeypatch):
    """A Slurm that can launch nothing while the file that is given exists."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    folder = Path(f"/tmp/isojepa-slurm-held-{number}")
    folder.mkdir(exist_ok=True)
    broken, prolog = folder / "broken", folder / "prolog"
    prolog.write_text(f"#!/bin/sh\n[ ! -e {broken} ]\n")
    prolog.chmod(0o755)
    options = {"SLURM_TEST_PORT": str(46867 + 2 * number), "SLURM_TEST_CONF": f"Prolog={prolog}"}
    subprocess.run([TOOLS / "start", folder], check=True, env=os.environ | options)
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    yield broken
    subprocess.run([TOOLS / "stop", folder, "--remove"], check=True)


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """Slurm without Slurm: submissions are written down, and the queue holds what the test says."""

    class Fake:
        def __init__(self):
            self.queue, self.submitted, self.number, self.refusal = {}, [], 0, None
            self.commands, self.obeys = [], True

        def submit_array(self, chunks):
            if self.refusal is not None:
                raise self.refusal
            self.number += 1
            self.submitted.append([[one["run"]["seed"] for one in chunk.requests] for chunk in chunks])
            ids = [f"{self.number}_{n}" for n in range(len(chunks))]
            self.queue |= dict.fromkeys(ids, "RUNNING")
            return [type("Job", (), {"job_id": each}) for each in ids]

        def update_parameters(self, **parameters):
            self.parameters = parameters

        def command(self, *words):
            self.commands.append(words)
            if words[0] == "scancel":
                self.queue.pop(words[1])
            return self.obeys

    import submitit

    stub = Fake()
    monkeypatch.setattr(submitit, "SlurmExecutor", lambda *_, **__: stub)
    monkeypatch.setattr(slurm, "queued", lambda: None if stub.queue is None else dict(stub.queue))
    monkeypatch.setattr(slurm, "_command", stub.command)
    monkeypatch.setattr(slurm, "_LOOK", 0.0)
    monkeypatch.setattr(slurm, "_CALM", 0.0)
    return stub


def made(folder, configs, **options):
    tasks = tasks_in(folder, configs)
    (folder / NOTES).mkdir(parents=True, exist_ok=True)
    return tasks, Slurm(tasks, folder, {task.name: 100.0 for task in tasks}, **options)


def mark_done(task):
    from isojepa.training.run_directory import RunDirectory

    record = RunDirectory.start(task.path, task.config.to_dict())
    record.finish({"status": "done", "reason": "", "steps": 30, "metrics": {}, "seconds": 1.0})
    record.save_scores({"r2": 1.0})


def test_short_runs_share_a_job_of_ten_minutes(tmp_path):
    tasks = tasks_in(tmp_path, {str(n): tiny(n) for n in range(30)})
    seconds = {task.name: 10.0 + 3 * n for n, task in enumerate(tasks)}
    chunks = split(tasks, seconds, None)
    loads = [sum(seconds[task.name] for task in chunk) for chunk in chunks]
    assert len(chunks) == 3
    assert sorted(task.name for chunk in chunks for task in chunk) == sorted(task.name for task in tasks)
    assert max(loads) - min(loads) < 60
    assert [len(chunk) for chunk in split(tasks, seconds, 7)] == [7, 7, 7, 7, 2]
    assert len(split(tasks, dict.fromkeys(seconds, 9999.0), None)) == 30


def test_runs_of_a_lost_job_are_submitted_again_three_times(tmp_path, fake):
    _, runs = made(tmp_path, {"0": tiny(0), "1": tiny(1)}, runs_per_job=1)
    assert fake.submitted == [[[0], [1]]]
    ended = []
    for _ in range(20):
        fake.queue = {job: state for job, state in fake.queue.items() if job.endswith("_1") and job[0] == "1"}
        ended += runs.poll(0.0)
    assert fake.submitted[1:] == [[[0]]] * 3
    ((task, ending),) = ended
    assert task.title == "run=0"
    assert ending.error.startswith("its Slurm job was lost 4 times")


def test_a_silent_slurm_loses_no_job(tmp_path, fake):
    _, runs = made(tmp_path, {"0": tiny(0)})
    fake.queue = None
    for _ in range(10):
        assert runs.poll(0.0) == []
    assert len(fake.submitted) == 1


def test_states_of_jobs_are_read_with_their_reasons(monkeypatch):
    answer = "7_0|RUNNING|None\n7_1|PENDING|JobArrayTaskLimit\n8|PENDING|None\n"
    done = subprocess.CompletedProcess([], 0, answer, "")
    monkeypatch.setattr(slurm.subprocess, "run", lambda *_, **__: done)
    assert queued() == {"7_0": "RUNNING", "7_1": "PENDING: JobArrayTaskLimit", "8": "PENDING"}


HELD = "PENDING: launch failed requeued held"


def test_a_job_that_slurm_could_not_launch_is_released(tmp_path, fake):
    _, runs = made(tmp_path, {"0": tiny(0), "1": tiny(1)}, runs_per_job=1)
    fake.queue = {"1_0": HELD.replace(" held", "_held"), "1_1": "PENDING: JobHeldUser"}  # that one by hand
    runs.poll(0.0)
    assert fake.commands == [("scontrol", "release", "1_0")]
    assert runs.remark == "2 Slurm jobs wait: JobHeldUser, launch failed requeued held"
    fake.queue = {"1_0": "RUNNING", "1_1": "PENDING: JobHeldUser"}
    runs.poll(0.0)
    assert len(fake.commands) == len(fake.submitted) == 1


@pytest.mark.parametrize("obeys", [True, False], ids=["held again and again", "not to be released"])
def test_a_job_that_stays_held_is_cancelled_and_submitted_again(tmp_path, fake, obeys):
    fake.obeys = obeys
    _, runs = made(tmp_path, {"0": tiny(0)})
    ended = []
    for _ in range(40):
        fake.queue = dict.fromkeys(fake.queue, HELD)
        ended += runs.poll(0.0)
    releases = 3 if obeys else 1
    assert fake.commands[: releases + 1] == [("scontrol", "release", "1_0")] * releases + [("scancel", "1_0")]
    assert fake.submitted == [[[0]]] * 4
    assert [ending.error.partition(" 4 times")[0] for _, ending in ended] == ["its Slurm job was lost"]


def test_a_job_that_was_released_is_left_alone_for_a_while(tmp_path, fake, monkeypatch):
    monkeypatch.setattr(slurm, "_CALM", 1e9)
    _, runs = made(tmp_path, {"0": tiny(0)})
    for _ in range(10):
        fake.queue = {"1_0": HELD}
        runs.poll(0.0)
    assert fake.commands == [("scontrol", "release", "1_0")]


def test_pickles_lie_where_nobody_else_may_look_or_write(tmp_path, fake):
    made(tmp_path / "a", {"0": tiny(0)})
    folder = jobs_folder(tmp_path / "a")
    assert folder.parent == tmp_path / "a" / NOTES
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    made(tmp_path / "a", {"0": tiny(0)})
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o770)  # somebody may have put a pickle there, which a job would execute
    with pytest.raises(ValueError, match=r"slurm-\d+ must be writable by you alone, got mode 770"):
        made(tmp_path / "a", {"0": tiny(0)})
    made(tmp_path / "b", {"0": tiny(0)})
    other = jobs_folder(tmp_path / "b")
    shutil.rmtree(other)
    other.symlink_to(tmp_path)
    with pytest.raises(ValueError, match="must be a folder, got a symbolic link"):
        made(tmp_path / "b", {"0": tiny(0)})


def test_records_and_failure_notes_end_runs(tmp_path, fake):
    tasks, runs = made(tmp_path, {"0": tiny(0), "1": tiny(1), "2": tiny(2)}, runs_per_job=3)
    mark_done(tasks[1])
    notes_path(tmp_path, tasks[2].name, "failed").write_text("a reason\n")
    ended = {task.title: (ending.state, ending.error) for task, ending in runs.poll(0.0)}
    assert ended == {"run=1": ("done", ""), "run=2": ("failed", "a reason")}
    fake.queue = {}
    runs.poll(0.0)
    runs.poll(0.0)
    assert fake.submitted[1] == [[0]]


def test_a_second_sweep_watches_the_jobs_of_the_first(tmp_path, fake):
    configs = {str(n): tiny(n) for n in range(3)}
    _, first = made(tmp_path, {"0": tiny(0), "1": tiny(1)}, runs_per_job=1)
    assert "scancel 1" in first.advice()
    _, second = made(tmp_path, configs, runs_per_job=1)
    assert fake.submitted == [[[0], [1]], [[2]]]
    fake.queue.pop("1_0")
    second.poll(0.0)
    second.poll(0.0)
    assert fake.submitted[2:] == [[[0]]]


def test_a_refused_second_submission_is_tried_again_while_jobs_are_queued(tmp_path, fake):
    from submitit.core.utils import FailedJobError

    _, runs = made(tmp_path, {"0": tiny(0), "1": tiny(1)}, runs_per_job=1)
    fake.queue.pop("1_0")
    fake.refusal = FailedJobError("sbatch: error: QOSMaxSubmitJobPerUserLimit")
    for _ in range(5):
        assert runs.poll(0.0) == []
    fake.refusal = None
    runs.poll(0.0)
    runs.poll(0.0)
    assert fake.submitted[1:] == [[[0]]]
    fake.queue.clear()
    fake.refusal = FileNotFoundError("no sbatch")
    assert runs.poll(0.0) == []
    with pytest.raises(ValueError, match="sbatch refused the jobs: no sbatch"):
        runs.poll(0.0)


def test_a_run_that_two_jobs_have_is_neither_doubled_nor_lost(tmp_path, fake):
    """As after two sweeps that were started in the same second, and a third one later."""
    tasks = tasks_in(tmp_path, {"0": tiny(0)})
    for number in (7, 8):
        fake.queue[f"{number}_0"] = "RUNNING"
        note = jobs_folder(tmp_path) / f"jobs-{number}.json"
        note.write_text(json.dumps({f"{number}_0": [tasks[0].name]}))
    _, runs = made(tmp_path, {"0": tiny(0)})
    fake.queue.pop("7_0")
    for _ in range(4):
        assert runs.poll(0.0) == []
    assert fake.submitted == []  # job 8 still has it
    ended = []
    for _ in range(20):
        fake.queue.clear()
        ended += runs.poll(0.0)
    assert fake.submitted == [[[0]]] * 3
    assert [ending.state for _, ending in ended] == ["failed"]


def test_a_fresh_note_of_another_sweep_is_kept(tmp_path, fake):
    """Its jobs may have come after our look at the queue."""
    folder = jobs_folder(tmp_path)
    for name, age in (("jobs-5.json", 0), ("jobs-6.json", 3600)):
        (folder / name).write_text("{}")
        os.utime(folder / name, (time.time() - age,) * 2)
    made(tmp_path, {"0": tiny(0)})
    assert sorted(note.name for note in folder.glob("*.json")) == ["jobs-1.json", "jobs-5.json"]


def test_no_array_is_longer_than_slurm_allows(tmp_path, fake, monkeypatch):
    monkeypatch.setattr(slurm, "_ARRAY", 2)
    configs = {str(n): tiny(n) for n in range(5)}
    made(tmp_path / "a", configs, runs_per_job=1, at_once=5)
    assert [len(array) for array in fake.submitted] == [2, 2, 1]
    assert fake.parameters["array_parallelism"] == 1
    tasks = tasks_in(tmp_path, configs)
    chunks = split(tasks, {task.name: 9999.0 for task in tasks}, None)
    assert sorted(map(len, chunks)) == [2, 3]


@pytest.mark.parametrize(
    ("variables", "asked"),
    [
        ({"SLURM_JOB_ID": "7"}, "--jobs=7"),
        ({"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"}, "--jobs=7_2"),
    ],
    ids=["single", "array"],
)
def test_a_job_asks_for_itself_alone(monkeypatch, variables, asked):
    """The id of an array's last job is that of the whole array: squeue would tell of all its jobs."""
    from isojepa_lab.sweep import job

    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    def squeue(command, **_):
        return subprocess.CompletedProcess(
            command, 0, "RUNNING\n" if asked in command else "PENDING\nRUNNING\n"
        )

    monkeypatch.setattr(job.subprocess, "run", squeue)
    assert job._is_running()


def test_the_options_reach_sbatch(tmp_path, fake):
    made(tmp_path, {"0": tiny(0)}, partition="p", minutes=5, memory=1.5, at_once=7, extra={"account": "me"})
    given = fake.parameters
    assert (given["partition"], given["time"], given["mem"], given["array_parallelism"]) == (
        "p",
        5,
        "1536M",
        7,
    )
    assert given["additional_parameters"] == {"requeue": True, "account": "me"}
    assert given["cpus_per_task"] == given["ntasks_per_node"] == 1


def test_a_chunk_asks_to_be_queued_again_only_while_it_runs(tmp_path, monkeypatch):
    """SIGUSR2 of submitit queues again; not when Slurm is ending the job itself."""
    from isojepa_lab.sweep import job

    asked = []
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR2, signal.SIGTERM)}
    monkeypatch.setattr(Chunk, "_make", lambda self: os.kill(os.getpid(), signal.SIGUSR2))
    try:
        for running in (True, False):
            monkeypatch.setattr(job, "_is_running", lambda running=running: running)
            signal.signal(signal.SIGUSR2, lambda number, frame: asked.append(number))
            with pytest.raises(SystemExit):
                Chunk([], str(tmp_path))()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert asked == [signal.SIGUSR2]


def run_text(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def step_pid(job):
    """The Python process of a job, by its environment."""
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                command = (each / "cmdline").read_bytes()
                environment = (each / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            array, _, index = job.partition("_")
            wanted = {f"SLURM_ARRAY_JOB_ID={array}".encode(), f"SLURM_ARRAY_TASK_ID={index}".encode()}
            if b"submitit.core._submit" in command and b"srun" not in command and wanted <= set(environment):
                return int(each.name)
    return None


def job_of(records, config):
    """The queued job that has a run."""
    name = record_path(config).name
    for note in sorted(jobs_folder(records).glob("jobs-*.json")):
        for job, names in json.loads(note.read_text()).items():
            if name in names and job in (queued() or {}):
                return job
    return None


def caught(records, runs):
    """Runs in the middle of their training that were not hit yet."""
    return [
        key
        for key, config in RUNS.items()
        if key not in runs.values()
        and pace(record_path(config, records)).step > 10
        and state_of(record_path(config, records)) == "started"
    ]


@needs_slurm
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_signalled_cancelled_and_killed_jobs_end_with_the_bits_of_a_local_sweep(tmp_path, cluster):
    study = write_study(tmp_path / "study.py", RUNS)
    here, there = tmp_path / "local", tmp_path / "slurm"
    flags = ("--executor", "slurm", "--runs-per-job", "1", "--memory", "0.5")
    process = start_sweep(study, there, *flags)
    try:
        hit: dict[str, str] = {}  # how -> the job that was hit
        runs: dict[str, str] = {}  # how -> its run
        for how in ("TERM", "USR2", "cancel", "kill -9"):
            wait_until(lambda: caught(there, runs))
            key = runs[how] = caught(there, runs)[0]
            job = hit[how] = job_of(there, RUNS[key])
            if how == "kill -9":
                os.kill(step_pid(job), signal.SIGKILL)
            else:
                option = [] if how == "cancel" else [f"--signal={how}"]
                # it waits for a job that is on its way back to the queue, and signals it once more there
                subprocess.run(["timeout", "2", "scancel", *option, job], check=False)
        code, out = finish(process)
    finally:
        process.kill()
    assert code == 0, out
    assert "4 runs done, 0 done before" in out
    logs = jobs_folder(there)
    notes = [json.loads(note.read_text()) for note in logs.glob("jobs-*.json")]
    for how, key in runs.items():
        submitted = sum(record_path(RUNS[key]).name in names for jobs in notes for names in jobs.values())
        if how in ("TERM", "USR2"):  # queued again by the job itself
            told = "".join(path.read_text() for path in logs.glob(f"{hit[how]}_0_log.*"))
            assert "Requeued job" in told
            assert submitted == 1
        else:  # submitted again by the sweep
            assert submitted == 2
    code, out = finish(start_sweep(study, here))
    assert code == 0, out
    assert all(same_results(here, there, config) for config in RUNS.values())


@needs_slurm
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_jobs_that_slurm_could_not_launch_and_holds_are_released_and_end_well(
    tmp_path, monkeypatch, unlaunchable
):
    """A prolog that fails holds the jobs and drains the node; an administrator mends the node alone."""
    study = write_study(tmp_path / "study.py", {str(seed): tiny(seed) for seed in range(2)})
    unlaunchable.write_text("")
    flags = ("--executor", "slurm", "--runs-per-job", "1", "--memory", "0.5")
    process = start_sweep(study, tmp_path / "records", *flags)
    try:
        wait_until(lambda: "Prolog error" in run_text("sinfo", "--noheader", "--format=%E"))
        unlaunchable.unlink()
        node = ["scontrol", "update", f"nodename={os.uname().nodename.partition('.')[0]}", "state=resume"]
        end = time.monotonic() + 600
        while process.poll() is None and time.monotonic() < end:
            # the prolog of another job may still have been failing, which drains the node anew
            if "Prolog error" in run_text("sinfo", "--noheader", "--format=%E"):
                subprocess.run(node, check=False)
            time.sleep(1)
        code, out = finish(process)
    finally:
        process.kill()
    assert code == 0, out
    assert "2 runs done, 0 done before" in out
    private = jobs_folder(tmp_path / "records")
    assert private.stat().st_mode & 0o777 == 0o700
    pickles = [path for path in (tmp_path / "records").rglob("*.pkl") if path.parent != private]
    assert pickles == []
    assert list(private.glob("*.pkl"))


@needs_slurm
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_refused_submission_is_one_line(tmp_path, cluster):
    study = write_study(tmp_path / "study.py", {"0": tiny()})
    code, out = finish(
        start_sweep(study, tmp_path / "records", "--executor", "slurm", "--partition", "nowhere")
    )
    assert code == 2
    assert out.splitlines()[-1].startswith("error: sbatch refused the jobs:")
    assert "Invalid partition" in out.splitlines()[-1]


@needs_slurm
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_job_of_two_tasks_trains_one_run_on_two_ranks(tmp_path, cluster):
    settings = tmp_path / "run.json"
    settings.write_text(json.dumps(tiny().to_dict()))
    told = {}
    for tasks in (1, 2):
        record = tmp_path / str(tasks)
        srun = ["srun", "--ntasks", str(tasks), "--mem", "1000"]
        train = [sys.executable, "-m", "isojepa", "train", "--config", str(settings), "--record", str(record)]
        done = subprocess.run(
            [*srun, *train, "--json"], capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr
        told[tasks] = json.loads(done.stdout)  # of the first rank alone
        assert RunDirectory.open(record).result["ranks"] == tasks
    assert told[2]["r2"] == pytest.approx(told[1]["r2"], abs=1e-5)
