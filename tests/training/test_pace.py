"""When a run is saved: as often as was asked for, and no more often than saving is cheap."""

from isojepa.training.pace import Pace


def test_zero_saves_after_each_step_whatever_it_costs():
    pace = Pace(0.0)
    pace.cost = 100.0
    assert pace.due(pace.saved)


def test_saving_waits_until_it_is_a_fiftieth_of_the_time():
    pace = Pace(10.0)
    assert not pace.due(pace.saved + 9)
    assert pace.due(pace.saved + 10)
    pace.cost = 1.0  # second
    assert not pace.due(pace.saved + 49)
    assert pace.due(pace.saved + 50)


def test_a_run_never_spends_more_than_a_fiftieth_once_it_knows_the_cost(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("isojepa.training.pace.time.monotonic", lambda: now[0])
    pace, saves = Pace(0.1), 0
    for _ in range(10_000):
        now[0] += 0.05  # a step
        if pace.due(now[0]):
            with pace.measured():
                now[0] += 0.2
            saves += 1
            assert saves == 1 or pace.spent <= 0.02 * now[0] + 1e-9
    assert 40 < saves < 60
