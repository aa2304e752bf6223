"""The spectrum of a map beside that of unrelated pairs."""

import json

import numpy as np
import pytest

from isojepa_lab.stress import UnrelatedLaw, map_spectrum
from tests.lab.stress.worlds import pairs


@pytest.mark.parametrize(("count", "first", "second"), [(600, 150, 150), (900, 100, 200), (600, 200, 120)])
def test_singular_values_of_unrelated_white_pairs_follow_the_law(count, first, second):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(count, first)), rng.normal(size=(count, second))
    x, y = x - x.mean(0), y - y.mean(0)
    values = np.linalg.svd(np.linalg.lstsq(x, y, rcond=None)[0], compute_uv=False)
    law = UnrelatedLaw(count, first, second)
    low, high = law.edges
    assert values[0] == pytest.approx(high, rel=0.06)
    assert values[-1] == pytest.approx(low, abs=0.06 * high)
    grid = np.linspace(low, high, 20_001)[1:-1]
    density = law.density(grid)
    step = grid[1] - grid[0]
    assert float(density.sum() * step) == pytest.approx(1, abs=2e-3)
    assert float((grid * density).sum() * step) == pytest.approx(values.mean(), rel=0.02)
    assert law.density(np.array([high * 1.01])).tolist() == [0.0]


def test_directions_that_the_pairs_support_are_counted():
    first, second = pairs(2000, 12, 12, 0.0)
    second[:, 5:] = np.random.default_rng(1).normal(size=(2000, 7))
    found = map_spectrum(first, second, kind="ols")
    assert found.supported == 5
    assert found.white_edge == pytest.approx(found.edge, rel=0.15)
    rows = found.rows()
    assert [row["index"] for row in rows] == list(range(1, 13))
    assert rows[0]["value"] > rows[0]["edge"] > rows[-1]["value"]
    json.dumps(found.to_dict())
    unrelated = map_spectrum(first, np.roll(second, 1, axis=0))
    assert unrelated.supported <= 1


def test_fewer_pairs_than_dimensions_have_no_white_law():
    first, second = pairs(20, 24, 4)
    assert map_spectrum(first, second, draws=2).white_edge is None
    with pytest.raises(ValueError, match="more than the first's dimensions and one, 25, got 20"):
        UnrelatedLaw(20, 24, 4)
