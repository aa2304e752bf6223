"""Charts as data, drawn to files: the same numbers that the page's script gets."""

import math

import pytest

from isojepa.report.charts import Chart, Curve, HeatMap, Reference, Series, chart_data, curves_chart, grid
from isojepa.report.drawing import draw_panels


def chart(**options) -> Chart:
    found = [
        Curve("a", {2: 1.0, 8: 0.1}),
        Curve("b", {4: 0.5, 8: None}, style="dotted"),
        Curve("c", {2: 3.0}, 0, "dots"),
    ]
    return curves_chart("Title", "latents", "error", found, **options)


def heat(**options) -> HeatMap:
    words = {"name": "h", "title": "Heat", "note": "", "across": "ρ", "up": "weight"}
    words |= {"columns": ["0.1", "0.2"], "rows": ["1", "2"], "values": [[0.1, 0.9], [math.nan, None]]}
    return HeatMap(**words | options)


def test_curves_share_their_places_and_keep_their_gaps():
    one = chart(references=[Reference(0.3, "chance")])
    assert list(one.x) == [2, 4, 8]
    assert [list(series.values) for series in one.series] == [
        [1.0, None, 0.1],
        [None, 0.5, None],
        [3.0, None, None],
    ]
    data = one.data()
    assert (data["acrossScale"], data["scale"]) == ("log", "log")
    assert data["references"] == [{"value": 0.3, "name": "chance"}]
    assert [(s["kind"], s["dotted"], s["color"]) for s in data["series"]] == [
        ("line", False, 1),
        ("line", True, 2),
        ("dots", False, 0),
    ]


def test_a_figure_has_the_points_of_the_chart():
    (axes,) = draw_panels([chart(references=[Reference(0.3, "chance")])]).axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert list(lines["a"].get_xdata()) == [2, 8]  # bridged across the place that b has
    assert list(lines["a"].get_ydata()) == [1.0, 0.1]
    assert list(lines["b"].get_xdata()) == [4]
    assert lines["b"].get_linestyle() == ":"
    assert list(lines["chance"].get_ydata()) == [0.3, 0.3]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("Title", "latents", "error")


def test_a_band_is_drawn_between_the_ends():
    series = Series("a", [1.0, 2.0], ends=([0.5, 1.5], [1.5, 2.5]))
    (axes,) = draw_panels([Chart("c", "t", "", [0, 1], "x", [series])]).axes
    (band,) = axes.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (0.5, 2.5)


@pytest.mark.parametrize("kind", ["line", "dots", "stems"])
@pytest.mark.parametrize("scale", ["linear", "log", "nines"])
def test_every_kind_is_drawn_on_every_scale(kind, scale):
    series = Series("a", [0.5, None, 0.99, math.nan, 0.999999999], kind, ([0.4] * 5, [0.6] * 5))
    figure = draw_panels([Chart("c", "t", "", range(5), "x", [series, series], scale)])
    figure.canvas.draw()
    assert all(math.isfinite(end) for end in figure.axes[0].get_ylim())


def test_a_heat_map_shows_every_number_and_a_dash_for_none():
    (axes,) = draw_panels([heat()]).axes
    assert [text.get_text() for text in axes.texts] == ["0.100", "0.900", "–", "–"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.1", "0.2"]
    assert axes.get_images()[0].get_array().shape == (2, 2)
    assert heat().data()["heat"] == [[0.1, 0.9], [None, None]]
    assert heat(values=[[None]]).empty


def test_small_multiples_leave_out_what_is_empty_and_hide_what_is_left_over():
    empty = curves_chart("Empty", "x", "y", [])
    figure = draw_panels([chart(), empty, heat(), chart()], columns=2, size=(3.0, 2.0))
    assert [axes.get_visible() for axes in figure.axes] == [True, True, True, False]
    assert tuple(figure.get_size_inches()) == (6.0, 4.0)
    assert not draw_panels([empty]).axes
    assert set(chart_data([empty, heat()])) == {"h"}
    assert 'class="chart heat" id="h"' in grid([heat()])


@pytest.mark.parametrize(("legend", "shared", "own"), [("shared", 1, 0), ("own", 0, 2)])
def test_the_legend_is_shared_or_each_panels_own(legend, shared, own):
    figure = draw_panels([chart(), chart()], legend=legend)
    assert len(figure.legends) == shared
    assert sum(axes.get_legend() is not None for axes in figure.axes) == own
    with pytest.raises(ValueError, match="legend must be one of own, shared"):
        draw_panels([chart()], legend="none")


def test_a_cloud_of_places_has_powers_of_ten_below_it():
    few, many = ({1.37 * 1.07**k: 1.0 + k for k in range(count)} for count in (20, 120))
    named, cloud = (
        draw_panels([curves_chart("t", "x", "y", [Curve("a", points, 1, "dots")])]).axes[0]
        for points in (few, many)
    )
    assert set(named.get_xticks()) <= set(few)
    low, high = cloud.get_xlim()
    inside = [tick for tick in cloud.get_xticks() if low <= tick <= high]
    assert inside == pytest.approx([1, 10, 100, 1000][-len(inside) :])
    assert len(inside) >= 3
