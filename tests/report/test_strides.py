"""Charts of episodes per stride are made from their rows."""

import pytest

from isojepa.certificates.strides import stride_rows
from isojepa.data.episodes import Episodes
from isojepa.report.strides import stride_charts
from tests.certificates.worlds import ornstein_uhlenbeck_episodes


@pytest.fixture(scope="module")
def episodes():
    return Episodes.of({"qpos": ornstein_uhlenbeck_episodes([0.95, 0.8], 60, 20)})


@pytest.fixture(scope="module")
def rows(episodes):
    return stride_rows(episodes, strides=(1, 4, 16), samples=200, repeats=2)


def test_charts_have_a_line_for_each_dimension_and_the_floor(rows):
    correlations, normality = stride_charts(rows)
    assert [series.name for series in correlations.series] == ["dimension 0", "dimension 1"]
    assert normality.references[0].value == rows[0].floor
