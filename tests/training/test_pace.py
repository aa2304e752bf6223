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
