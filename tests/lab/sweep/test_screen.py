"""What a person sees: the counts, the bar, the workers; or lines."""

import io

import pytest

from isojepa.terminal import Console
from isojepa.training.run_directory import RunDirectory
from isojepa_lab.sweep import tally as tally_module
from isojepa_lab.sweep.estimate import estimate
from isojepa_lab.sweep.screen import Dashboard, Lines, choose_screen, draw
from isojepa_lab.sweep.tally import Tally
from isojepa_lab.sweep.work import Ending
from tests.lab.sweep.cells import tasks_in, tiny


def sweep_of(folder, count=5):
    tasks = tasks_in(folder, {f"number {n}": tiny(n, 100 * (n + 1)) for n in range(count)})
    return tasks, Tally(tasks, estimate(tasks, folder, None), folder, 2)


def shown(thing, width=120):
    console = Console(file=io.StringIO(), width=width)
    console.print(thing)
    return console.file.getvalue()


def finish(task, status="done", scores=None):
    record = RunDirectory.start(task.path, task.config.to_dict())
    record.finish({"status": status, "reason": "", "steps": 30, "metrics": {}, "seconds": 1.25})
    record.save_scores({"r2": 0.98765} if scores is None else scores)


def test_the_screen_counts_and_tells_what_each_worker_does(tmp_path):
    tasks, tally = sweep_of(tmp_path)
    finish(tasks[0])
    tally.end(tasks[0], Ending("done"))
    tally.end(tasks[1], Ending("failed", "a reason"))
    RunDirectory.start(tasks[2].path, tasks[2].config.to_dict()).append({"step": 150, "r2": 0.87654})
    tally.note_running(tasks[2:4])
    text = shown(draw(tally, tasks[2:4], [tasks[4]]))
    first = text.splitlines()[0]
    for part in ("1 done", "2 running", "1 failed", "0 waiting", "1 held by other processes"):
        assert part in first
    assert "2 of 5" in text
    (row,) = [line for line in text.splitlines() if "run=number 2" in line]
    assert "150/300" in row
    assert "0.8765" in row
    (row,) = [line for line in text.splitlines() if "run=number 3" in line]
    assert "0/400" in row


def test_time_left_shrinks_as_runs_end(tmp_path):
    tasks, tally = sweep_of(tmp_path)
    whole = tally.share([])
    assert whole == 0
    for task in tasks:
        before = tally.share([])
        tally.end(task, Ending("done"))
        assert tally.share([]) > before
    assert tally.share([]) == 1
    assert tally.time_left([]) == ""


def test_time_left_follows_the_pace_that_is_seen(tmp_path, monkeypatch):
    """Four runs of 100 steps on two workers, a step a second: 200 s, whatever was estimated."""
    monkeypatch.setattr(tally_module.time, "monotonic", lambda: now[0])
    now = [100.0]
    tasks = tasks_in(tmp_path, {str(n): tiny(n, 100) for n in range(4)})
    tally = Tally(tasks, estimate(tasks, tmp_path, None), tmp_path, 2)
    records = [RunDirectory.start(task.path, task.config.to_dict()) for task in tasks[:2]]
    for step in (10, 20, 30):
        now[0] += 10
        for record in records:
            record.append({"step": step, "r2": 0.5})
        tally.note_running(tasks[:2])
    assert tally.time_left(tasks[:2]) == "about 2 min 50 s left"
    assert tally.share(tasks[:2]) == pytest.approx(0.6 / 4, abs=0.05)


def test_a_terminal_gets_the_screen_and_a_file_the_lines():
    assert isinstance(choose_screen(Console(file=io.StringIO(), force_terminal=True)), Dashboard)
    assert isinstance(choose_screen(Console(file=io.StringIO())), Lines)
