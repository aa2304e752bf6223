"""Which rows of arrays are shown, and the layout of panels with very many coordinates."""

import numpy as np
import pytest
import torch

from isojepa.report.panels import arrange
from isojepa.report.points import points_of_arrays


def test_rows_of_images_stay_with_their_embeddings() -> None:
    h = np.arange(5000.0)[:, None] * [1.0, 2.0]
    x = np.arange(5000.0)[:, None, None] * np.ones((28, 28))
    shown = points_of_arrays({"h": h, "x": x})
    assert shown["embeddings"].shape == (3000, 2)
    assert shown["observations"].shape == (3000, 28 * 28)
    np.testing.assert_array_equal(shown["observations"][:, 5], shown["embeddings"][:, 0])
    assert shown["latents"] is None


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_steps_and_paths_are_rows(kind: type) -> None:
    h = np.random.default_rng(0).normal(size=(7, 5, 3))
    shown = points_of_arrays({"h": kind(h), "z": kind(2 * h), "x": kind(np.stack([h, h], axis=-1))})
    np.testing.assert_array_equal(shown["embeddings"], h.reshape(35, 3))
    np.testing.assert_array_equal(shown["latents"], 2 * h.reshape(35, 3))
    assert shown["observations"].shape == (35, 6)


def test_observations_of_other_rows_are_left_out() -> None:
    assert points_of_arrays({"h": np.zeros((9, 2)), "x": np.zeros((4, 2))})["observations"] is None


def test_large_images_are_fewer_points() -> None:
    x = np.broadcast_to(np.float32(0), (4000, 3, 224, 224))  # takes no memory by itself
    shown = points_of_arrays({"h": np.zeros((4000, 2)), "x": x})
    assert shown["observations"].size <= 20_000_000
    assert len(shown["observations"]) == len(shown["embeddings"]) == 132


@pytest.mark.parametrize("shape", [(300, 40), (60, 400)])
def test_many_coordinates_of_observations_are_shown_by_principal_components(shape: tuple[int, int]) -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=shape) * 0.01
    plane = np.linalg.qr(draw.normal(size=(shape[1], 2)))[0]
    latent = draw.normal(size=(shape[0], 2)) * [5.0, 2.0]
    panels = arrange(None, x + latent @ plane.T, latent, limit=1000).panels
    points = panels[0].points
    assert panels[0].caption == f"first 2 principal components of {shape[1]} coordinates"
    for k in range(2):
        assert abs(np.corrcoef(points[:, k], latent[:, k])[0, 1]) > 0.9
    np.testing.assert_allclose(points.std(0), [5.0, 2.0], rtol=0.3)


def test_a_rotation_of_few_samples_is_fitted_on_others() -> None:
    z, h = np.random.default_rng(0).normal(size=(2, 600, 200))  # unrelated
    shown = arrange(z, None, h, limit=3000)
    assert shown.held_out
    assert shown.turned is not None
    assert len(shown.turned) == 300
    correlation = np.corrcoef(shown.turned[:, 0], shown.panels[0].points[:, 0])[0, 1]
    assert abs(correlation) < 0.25  # fitted on the same points it is about 0.5


def test_a_point_far_from_all_others_does_not_shrink_them() -> None:
    h = np.random.default_rng(0).normal(size=(1000, 2))
    h[17] = 500.0
    shown = arrange(None, None, h, limit=1000)
    assert shown.outside == 1
    assert shown.panels[0].half < 6


@pytest.mark.parametrize("count", [0, 1, 2])
def test_hardly_any_points_are_no_error(count: int) -> None:
    rows = np.zeros((count, 3))
    shown = arrange(rows, np.zeros((count, 50)), rows, limit=10)
    assert len(shown.colors) == count
    assert shown.outside == 0
