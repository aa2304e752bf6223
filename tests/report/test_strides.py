"""Figures of episodes per stride are drawn from their rows."""

import io

import numpy as np
import pytest

from isojepa.certificates.audit import stride_rows
from isojepa.report.strides import draw_distributions, draw_strides, stride_charts, write_figure
from isojepa.worlds.episodes import Episodes
from tests.certificates.audit.test_strides import ou


@pytest.fixture(scope="module")
def episodes():
    return Episodes.of({"qpos": ou([0.95, 0.8], 60, 20)})


@pytest.fixture(scope="module")
def rows(episodes):
    return stride_rows(episodes, strides=(1, 4, 16), samples=200, repeats=2)


def test_clouds_have_a_column_for_each_stride(episodes, rows):
    figure = draw_distributions(episodes, rows, labels=("shoulder", "wrist"), title="made up")
    assert len(figure.axes) == 1 + 2 * len(rows)
    titles = [axes.get_title() for axes in figure.axes]
    assert [title for title in titles if title.startswith("stride")] == ["stride 1", "stride 4", "stride 16"]
    with pytest.raises(ValueError, match="two dimensions or more"):
        draw_distributions(Episodes.of({"qpos": np.zeros((2, 3, 1))}), rows)


def test_points_lie_at_their_correlation_and_sigreg(rows, tmp_path):
    figure = draw_strides(rows)
    assert len(figure.axes) == 3
    line = next(one for one in figure.axes[0].lines if len(one.get_xdata()) == len(rows))
    np.testing.assert_allclose(np.asarray(line.get_xdata(), float), [row.rho[0] for row in rows])
    np.testing.assert_allclose(np.asarray(line.get_ydata(), float), [row.sigreg[0] for row in rows])
    write_figure(tmp_path / "a.png", figure)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    figure.savefig(io.BytesIO(), format="svg")


def test_charts_have_a_line_for_each_dimension_and_the_floor(rows):
    correlations, normality = stride_charts(rows)
    assert [series.name for series in correlations.series] == ["dimension 0", "dimension 1"]
    assert normality.references[0].value == rows[0].floor
