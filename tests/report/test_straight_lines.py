"""The figure of straight lines has a column for each encoder and a dashed chord beside each path."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from isojepa.plan import density_curve, draw_pairs
from isojepa.report.drawing import draw_panels
from isojepa.report.straight_lines import density_chart, draw_straight_lines
from tests.plan.made_up import normal, rotation

STATES = normal("states", size=(800, 2))
TURNED = STATES @ rotation(2, "turn").T


def test_lines_that_are_straight_in_latents_are_straight_in_a_rotation_and_not_in_a_warp():
    warped = np.stack((STATES[:, 0] + np.sin(2 * STATES[:, 1]), STATES[:, 1]), axis=1)
    pairs = draw_pairs(len(STATES), 3)
    figure = draw_straight_lines({"rotation": TURNED, "warped": warped}, STATES, pairs)
    FigureCanvasAgg(figure).draw()
    places = np.array(figure.axes).reshape(3, 3)
    assert [one.get_title() for one in places[0]] == ["latents", "rotation", "warped"]
    bends = [max(map(_bend, place.lines[::3])) for place in places[1]]
    assert bends[0] < 1e-6
    assert bends[1] < 1e-6
    assert bends[2] > 0.1
    dashed = [line for line in places[2, 1].lines if line.get_linestyle() == "--"]
    assert len(dashed) == len(pairs)


def _bend(line):
    """Largest distance to the chord, over the chord."""
    points = np.stack(line.get_data(), axis=1)
    chord = points[-1] - points[0]
    off = points - points[0]
    return np.abs(off[:, 0] * chord[1] - off[:, 1] * chord[0]).max() / (chord @ chord)


def test_embeddings_of_many_columns_are_shown_along_their_principal_axes():
    wide = np.concatenate((0.01 * normal("small", size=(800, 3)), TURNED), axis=1)
    figure = draw_straight_lines({"wide": wide}, STATES, draw_pairs(len(STATES), 2))
    shown = np.asarray(figure.axes[1].collections[0].get_offsets())
    assert np.trace(np.cov(shown.T)) > 0.999 * np.trace(np.cov(TURNED.T))


def test_embeddings_made_along_the_lines_are_drawn_as_given():
    pairs = draw_pairs(len(STATES), 2)
    seen = normal("seen", size=(2, 16, 2))
    figure = draw_straight_lines({"mine": TURNED}, STATES, pairs, seen={"mine": seen})
    np.testing.assert_array_equal(np.stack(figure.axes[3].lines[0].get_data(), 1), seen[0])


def test_one_column_is_refused():
    with pytest.raises(ValueError, match="'thin' must have at least 2 columns"):
        draw_straight_lines({"thin": TURNED[:, :1]}, STATES, draw_pairs(len(STATES), 2))


def test_the_density_chart_has_the_oracle_and_each_encoder():
    curve = density_curve(TURNED, STATES, draw_pairs(len(STATES), 10), (20, 100, 600))
    chart = density_chart({"rotation": curve})
    assert [one.name for one in chart.series] == ["rotation", "oracle"]
    assert list(chart.x) == [20, 100, 600]
    FigureCanvasAgg(draw_panels([chart])).draw()
