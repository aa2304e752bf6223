"""What the pages compute: points before and after a map, neighbors that changed, the shape of a map."""

import numpy as np
import pytest

from isojepa.alignment import AlignmentMap
from isojepa.report.aligning.neighbors import changed
from isojepa.report.aligning.planes import SHOWN, Paired, paired, planes
from isojepa.report.aligning.spectrum import MapShape
from isojepa.report.aligning.states import States
from tests.report.aligning.cases import embeddings, turn


def test_a_rotation_is_undone_on_states_that_were_left_out():
    x = np.random.default_rng(0).normal(size=(300, 5))
    y = 4 * x @ turn(5) + 7
    shown = paired(x, y, AlignmentMap("scaled_procrustes", standardize=False))
    np.testing.assert_allclose(shown.back, x, atol=1e-9)
    np.testing.assert_allclose(shown.direct, x, atol=1e-9)
    drawn = planes(shown, ("a", "b"))
    first, before, after = drawn.panels.panels
    np.testing.assert_allclose(after.points, first.points, atol=1e-9)
    assert np.abs(before.points - first.points).max() > 1
    assert drawn.explained == pytest.approx(1)
    assert (after.center.tolist(), after.half) == (first.center.tolist(), first.half)


def test_what_is_drawn_after_the_map_was_never_fitted():
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(60, 25)), draw.normal(size=(60, 25))
    shown = paired(x, y, AlignmentMap("ols", standardize=False))
    in_sample = AlignmentMap("ols", standardize=False).fit(y, x).score(y, x)
    held_out = 1 - ((shown.direct - x) ** 2).sum() / ((x - x.mean(0)) ** 2).sum()
    assert in_sample > 0.3
    assert held_out < 0


def test_rows_of_one_state_are_left_out_together():
    draw = np.random.default_rng(0)
    state, own = np.repeat(draw.normal(size=(60, 20)), 2, 0), np.repeat(draw.normal(size=(60, 20)), 2, 0)
    kind = AlignmentMap("ridge", ridge=1e-6, standardize=False)

    def explained(ids):
        found = paired(state, own, kind, ids).direct
        return 1 - ((found - state) ** 2).sum() / (state**2).sum()

    assert explained(None) > explained(np.repeat(np.arange(60), 2)) + 0.1  # twins give the states away


def test_the_first_plane_is_that_of_the_principal_axes():
    x = np.random.default_rng(1).normal(size=(200, 4)) * [1, 5, 2, 0.1]
    drawn = planes(Paired(np.arange(200), x, x), ("a", "b"))
    centered = x - x.mean(0)
    u, s, _ = np.linalg.svd(centered, full_matrices=False)
    np.testing.assert_allclose(np.abs(drawn.panels.panels[0].points), np.abs(u[:, :2] * s[:2]), atol=1e-9)
    assert drawn.share == pytest.approx((s[:2] ** 2).sum() / (s**2).sum())


def test_lines_join_the_places_of_one_state():
    x, y = embeddings("rotation")
    first, before, after = planes(
        paired(x, y, AlignmentMap("scaled_procrustes", standardize=False)), ("a", "b")
    ).panels.panels
    for start in after.joined:
        row = int(np.abs(first.points - start[:2]).sum(1).argmin())
        np.testing.assert_allclose(start, [*first.points[row], *after.points[row]])
    assert first.joined is None
    assert len(before.joined) == len(after.joined)


@pytest.mark.parametrize("widths", [(1, 1), (1, 3), (3, 1), (2, 40)])
def test_any_two_widths_can_be_drawn(widths):
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(30, widths[0])), draw.normal(size=(30, widths[1]))
    drawn = planes(paired(x, y, AlignmentMap("ridge", standardize=False)), ("a", "b")).panels
    assert all(np.isfinite(panel.points).all() and panel.half > 0 for panel in drawn.panels)


def test_many_rows_are_drawn_by_some_of_them():
    x = np.random.default_rng(0).normal(size=(SHOWN + 500, 2))
    shown = paired(x, x, None)
    assert len(np.unique(shown.rows)) == SHOWN
    np.testing.assert_array_equal(shown.first, x[shown.rows])


def test_neighbors_that_changed_are_those_of_a_plain_search():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(80, 3))
    y = x + 0.3 * draw.normal(size=x.shape)
    found = changed(Paired(np.arange(80), x, y))

    def near(rows, state):
        distance = ((rows - rows[state]) ** 2).sum(1)
        distance[state] = np.inf
        return np.argsort(distance)[: found.k]

    overlaps = [len({*near(x, row).tolist()} & {*near(y, row).tolist()}) for row in range(80)]
    assert found.overlap.value == pytest.approx(np.mean(overlaps) / found.k)
    assert found.overlap.chance == pytest.approx(found.k / 79)
    for place, state in enumerate(found.states):
        assert found.first[place].tolist() == near(x, state).tolist()
        assert found.second[place].tolist() == near(y, state).tolist()
        assert found.common[place] == overlaps[state]
    assert found.common.tolist() == sorted(found.common)
    assert (found.common[0], found.common[-1]) == (min(overlaps), max(overlaps))


def test_the_shape_of_a_map_follows_its_singular_values():
    found = MapShape.of([4.0, 2.0, 1e-20])
    assert (found.lost, found.condition) == (1, 2)
    assert found.scale == pytest.approx(np.sqrt(10))
    diagonal = np.diag([4.0, 2.0])
    assert found.distance == pytest.approx(np.linalg.norm(diagonal.T @ diagonal - np.eye(2)) / np.sqrt(2))
    assert found.turned == pytest.approx(np.linalg.norm(diagonal**2 / 10 - np.eye(2)) / np.sqrt(2))


def test_labels_without_classes_are_called_what_they_are():
    states = States.of(3, labels=["cat", "dog", "cat"], ids=[7, 8, 9])
    assert (states.name(2), states.labels.tolist()) == ("cat, 9", [0, 1, 0])
    for wrong in ({"ids": [1]}, {"labels": [0, 1]}, {"pictures": np.zeros((2, 4, 4), np.uint8)}):
        with pytest.raises(ValueError, match="must be as many as rows, 3"):
            States.of(3, **wrong)
    with pytest.raises(ValueError, match="numbers of the 1 classes"):
        States.of(2, labels=[0, 1], classes=["only"])
    with pytest.raises(ValueError, match="uint8"):
        States.of(2, pictures=np.zeros((2, 4, 4)))
