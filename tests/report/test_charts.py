"""Charts as data, and the figures of one number each."""

import math

from isojepa.report.charts import Chart, Series, chart_data, scale_for, with_intervals
from isojepa.report.nines import nines_figure, place
from isojepa.statistics.intervals import Interval


def test_what_is_not_finite_is_a_gap_and_an_empty_chart_is_left_out() -> None:
    series = with_intervals("a", [Interval(1 / 3, math.nan, math.inf), Interval(math.nan, 0.0, 1.0)])
    data = Chart("one", "<b>", "", [0, 1], "x", [series]).data()
    assert data["series"][0]["values"] == [0.33333333, None]
    assert data["series"][0]["ends"] == [[None, 0.0], [None, 1.0]]
    empty = Chart("two", "", "", [0], "x", [Series("a", [math.nan])])
    assert set(chart_data([empty, Chart("one", "<b>", "", [0], "x", [Series("a", [1.0])])])) == {"one"}
    assert "&lt;b&gt;" in Chart("one", "<b>", "", [0], "x", [series]).figure()


def test_scale_is_logarithmic_only_for_positive_values_of_several_magnitudes() -> None:
    assert scale_for([1.0, 1000.0, math.nan]) == "log"
    assert scale_for([1.0, 50.0]) == "linear"
    assert scale_for([0.0, 1000.0]) == "linear"
    assert scale_for([]) == "linear"


def test_few_are_rows_many_are_sorted_and_one_is_not_shown() -> None:
    assert nines_figure("n", "t", "latent", "R²", [0.5]).html == ""
    few = nines_figure("n", "t", "latent", "R²", [0.5, math.nan, 0.9999])
    assert few.html.count('class="each"') == 3
    assert few.html.count("<b ") == 2
    (chart,) = nines_figure("n", "t", "latent", "R²", [0.9, math.nan, *[0.5] * 20, 0.1]).charts
    assert chart.labels is not None
    assert (chart.labels[0], chart.labels[-2], chart.labels[-1]) == ("latent 22", "latent 0", "latent 1")


def test_nines_are_evenly_spaced_and_stay_on_the_scale() -> None:
    assert [round(place(value), 9) for value in (0.0, 0.9, 0.99, 0.999)] == [0.0, 0.2, 0.4, 0.6]
    assert place(-math.inf) == 0
    assert place(1.0) == place(1.5) == 1
