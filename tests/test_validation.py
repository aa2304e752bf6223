"""Errors for names that do not exist."""

import pytest

from isojepa.validation import build, choose, unknown

TABLE = {"spiral": dict, "sinusoid": dict, "parabola": dict}


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [("spirl", "spiral"), ("sinus", "sinusoid"), ("parabolla", "parabola"), ("Spiral", "spiral")],
)
def test_an_unknown_name_is_answered_with_the_choices_and_the_nearest(typed, nearest):
    message = f"mixing must be one of parabola, sinusoid, spiral, got '{typed}'; did you mean '{nearest}'\\?$"
    with pytest.raises(ValueError, match=message):
        choose("mixing", typed, TABLE)


def test_a_name_near_nothing_gets_no_suggestion():
    assert unknown("mixing", "zzz", TABLE) == "mixing must be one of parabola, sinusoid, spiral, got 'zzz'"
    assert unknown("mixing", None, TABLE) == "mixing must be one of parabola, sinusoid, spiral, got None"


def test_build_refuses_an_option_the_factory_does_not_take():
    def line(slope, offset=1.0):
        return slope, offset

    with pytest.raises(ValueError, match="curve 'line' takes no option 'angle'; it takes offset, slope"):
        build("curve", "line", {"line": line}, {"slope": 1.0, "angle": 3})
    with pytest.raises(ValueError, match="curve 'dot' takes no option 'angle'; it takes none"):
        build("curve", "dot", {"dot": lambda: 0}, {"angle": 3})
    with pytest.raises(ValueError, match="curve must be one of line, got 'lin'; did you mean 'line'"):
        build("curve", "lin", {"line": line}, {})
