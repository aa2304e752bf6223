"""Prices before a sweep: from records, from trying, from counting."""

import itertools
import statistics
import time
from dataclasses import replace

import pytest

import isojepa_lab.sweep.measure as measure_module
from isojepa.io import write_json
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.registry import build_spec, replace_settings
from isojepa.training.run_directory import RunDirectory
from isojepa_lab.sweep.estimate import count_cost, estimate, makespan
from isojepa_lab.sweep.local import Pool
from isojepa_lab.sweep.measure import cost_key, measure
from isojepa_lab.sweep.plan import plan_studies
from isojepa_lab.sweep.work import notes_path, work
from tests.lab.sweep.cells import study_of, tasks_in, tiny


def finished(task, seconds, steps, scoring=None):
    """A record that says how long it took."""
    record = RunDirectory.start(task.path, task.config.to_dict())
    record.finish({"status": "done", "reason": "", "steps": steps, "metrics": {}, "seconds": seconds})
    record.save_scores({"r2": 1.0})
    if scoring is not None:
        write_json(notes_path(task.path.parent, task.name, "json"), {"scoring": scoring})


def test_makespan_is_close_to_the_best_assignment():
    jobs = [3.0, 3.0, 2.0, 2.0, 2.0, 7.0]
    best = min(
        max(sum(job for job, at in zip(jobs, where, strict=True) if at == w) for w in range(2))
        for where in itertools.product(range(2), repeat=len(jobs))
    )
    assert best <= makespan(jobs, 2) <= best * 4 / 3
    assert makespan(jobs, 1) == sum(jobs)
    assert makespan(jobs, 99) == max(jobs)
    assert makespan([], 3) == 0


def test_a_finished_record_prices_its_group(tmp_path):
    tasks = tasks_in(tmp_path, {"a": tiny(0, 40), "b": tiny(1, 40), "c": tiny(2, 80)})
    finished(tasks[0], seconds=8.0, steps=40, scoring=1.5)
    prices = estimate(tasks, tmp_path, None)
    assert prices.counted == 0
    assert [prices.seconds[task.name] for task in tasks] == pytest.approx([0.0, 9.5, 17.5])
    assert prices.longest_first(tasks) == [tasks[2], tasks[1]]
    plans = plan_studies([study_of({"a": tiny(0, 40), "b": tiny(1, 40), "c": tiny(2, 80)})], "quick")
    (row,) = prices.table(plans, 2)
    assert row == {
        "study": "tiny",
        "runs": 3,
        "done": 1,
        "cpu_seconds": pytest.approx(27.0),
        "wall_seconds": pytest.approx(17.5),
    }


def test_what_a_started_run_has_done_is_not_priced_again(tmp_path):
    tasks = tasks_in(tmp_path, {"a": tiny(0, 40), "b": tiny(1, 40)})
    finished(tasks[0], seconds=8.0, steps=40, scoring=2.0)
    RunDirectory.start(tasks[1].path, tasks[1].config.to_dict()).append({"step": 30, "r2": 0.5})
    assert estimate(tasks, tmp_path, None).seconds[tasks[1].name] == pytest.approx(2.0 + 8.0 / 4)


def test_runs_shared_by_studies_count_once_in_the_whole(tmp_path):
    plans = plan_studies(
        [study_of({"a": tiny(0), "b": tiny(1)}, "one"), study_of({"b": tiny(1)}, "two")], "quick"
    )
    prices = estimate(tasks_in(tmp_path, {"a": tiny(0), "b": tiny(1)}), tmp_path, None)
    assert [(row["study"], row["runs"]) for row in prices.table(plans, 1)] == [
        ("one", 2),
        ("two", 1),
        ("together", 2),
    ]


def test_only_what_costs_decides_the_group():
    base = tiny()
    same = replace(base, seed=5, world=replace_settings(base.world, rho=0.5))
    same = replace(same, objective=replace(base.objective, weight=0.3))
    assert cost_key(same) == cost_key(base)
    for other in (
        tiny(batch=128),
        replace(base, world=build_spec("world", dim=4, mixing="additive-coupling")),
        replace(base, objective=LeJEPASpec(slices=99)),
    ):
        assert cost_key(other) != cost_key(base)


@pytest.mark.parametrize("objective", ["lejepa", "infonce", "vicreg"])
def test_counted_prices_grow_with_batch_and_dimension(objective):
    def price(dim, batch):
        config = tiny(batch=batch)
        world = build_spec("world", dim=dim, mixing="additive-coupling")
        return count_cost(replace(config, world=world, objective=build_spec("objective", objective))).step

    assert price(2, 64) < price(2, 4096) < price(128, 4096)


def test_a_config_that_cannot_be_built_has_a_price_and_fails_later(tmp_path):
    bad = replace(tiny(), world=build_spec("world", dim=2, mixing="lift", observed_dim=1))
    prices = estimate(tasks_in(tmp_path, {"bad": bad}), tmp_path, None)
    assert prices.counted == 1


@pytest.mark.slow
def test_the_measured_price_is_that_of_the_run(tmp_path, one_thread):
    """On a shared machine within a factor of three, in CPU time; threads that wait would be counted too."""
    config = tiny(steps=150, batch=512, eval_every=50, checkpoint_seconds=9.0)
    work(tiny(), tmp_path)  # compiles
    started = time.process_time()
    work(config, tmp_path)
    taken = time.process_time() - started
    prices = [measure(config, 1.0).of(config) for _ in range(3)]
    assert taken / 3 < statistics.median(prices) < 3 * taken


def test_the_price_of_a_growing_batch_is_its_mean_over_the_run(monkeypatch):
    """With prices that are known: the clock of a shared machine cannot tell a right rule from a wrong one."""
    growing = tiny(steps=1001, batch=8192)
    growing = replace(growing, training=replace(growing.training, batch_start=64))

    def price(batch):
        return 1e-5 * batch  # seconds of a step

    monkeypatch.setattr(
        measure_module, "_seconds", lambda config, source, steps, batch, _: steps * price(batch)
    )
    mean = sum(price(growing.training.batch_at(step)) for step in range(1001)) / 1001
    assert measure(growing, 60.0).step == pytest.approx(mean, rel=0.1)
    assert price(64) < measure(growing, 60.0).step < measure(tiny(batch=8192), 60.0).step


@pytest.mark.slow
def test_workers_measure_and_the_budget_holds(tmp_path):
    tasks = tasks_in(tmp_path, {str(n): tiny(n, batch=64 + n) for n in range(40)})
    pool = Pool(tmp_path, 1)
    try:
        prices = estimate(tasks, tmp_path, pool, budget=3.0)
    finally:
        pool.close()
    assert 0 < prices.counted < 40  # some were measured, and when the time was up no more
    assert all(seconds > 0 for seconds in prices.seconds.values())
