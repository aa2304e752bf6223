"""The colors and the picture, checked against the color space's definition and the pixels."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from isojepa.report import polar_colors, write_picture
from isojepa.report.panels import arrange
from tests.report.conftest import Sample, make_sample

# sRGB to OKLab (Ottosson 2020), the direction that the package does not use
_TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def lightness_chroma_hue(rgb: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    lightness, a, b = (np.cbrt(linear @ _TO_CONES.T) @ _TO_LAB.T).T
    return lightness, np.hypot(a, b), np.arctan2(b, a)


def wheel(radii: list[float], count: int = 24) -> np.ndarray:
    """(radius, angle, 2) points whose mean is the origin."""
    angles = np.arange(count) * 2 * np.pi / count
    return np.array(radii)[:, None, None] * np.stack((np.cos(angles), np.sin(angles)), axis=1)


def test_equal_angles_have_equal_hues_and_hue_follows_the_angle() -> None:
    points = wheel([0.2, 0.6, 1.0])
    hue = lightness_chroma_hue(polar_colors(points.reshape(-1, 2)))[2].reshape(3, 24)
    drift = np.angle(np.exp(1j * (hue - hue[-1])))
    assert np.abs(drift).max() < 0.02
    steps = np.angle(np.exp(1j * np.diff(hue[-1])))
    np.testing.assert_allclose(steps, 2 * np.pi / 24, atol=0.02)


def test_opposite_angles_have_opposite_hues() -> None:
    hue = lightness_chroma_hue(polar_colors(wheel([1.0])[0]))[2]
    np.testing.assert_allclose(np.cos(hue[:12] - hue[12:]), -1, atol=1e-3)


def test_colors_grow_more_vivid_with_the_radius_and_center_is_nearly_grey() -> None:
    points = np.concatenate((np.zeros((1, 2)), wheel([0.3, 0.6, 1.0]).reshape(-1, 2)))
    chroma = lightness_chroma_hue(polar_colors(points))[1]
    assert chroma[0] < 0.05
    rings = chroma[1:].reshape(3, 24)
    assert (np.diff(rings, axis=0) > 0.005).all()
    assert rings[-1].min() > 0.1


@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_colors_are_showable_and_do_not_depend_on_where_the_latents_lie(shift: float) -> None:
    points = np.random.default_rng(1).normal(size=(500, 3))
    colors = polar_colors(points + shift)
    assert colors.shape == (500, 3)
    assert colors.min() >= 0
    assert colors.max() <= 1
    np.testing.assert_allclose(colors, polar_colors(points[:, :2]), atol=1e-9)


def test_one_latent_has_two_hues_and_a_constant_one_is_grey() -> None:
    hue = lightness_chroma_hue(polar_colors(np.array([[-2.0], [-1.0], [1.0], [2.0]])))[2]
    assert np.cos(hue[0] - hue[1]) > 0.999
    assert np.cos(hue[2] - hue[3]) > 0.999
    assert np.cos(hue[1] - hue[2]) < -0.999
    assert np.ptp(polar_colors(np.ones((4, 2))), axis=0).max() == 0


def colored_share(pixels: np.ndarray) -> float:
    """Share of pixels that are neither white nor grey."""
    return float((np.ptp(pixels[..., :3], axis=-1) > 0.15).mean())


def panels_of(pixels: np.ndarray, count: int) -> list[np.ndarray]:
    """The columns of each panel: runs of columns with colored pixels, joined across small gaps."""
    columns = np.flatnonzero((np.ptp(pixels[..., :3], axis=-1) > 0.15).any(0))
    breaks = np.flatnonzero(np.diff(columns) > 60)
    runs = np.split(columns, breaks + 1)
    assert len(runs) == count, f"expected {count} groups of colored columns, got {len(runs)}"
    return [pixels[:, run[0] : run[-1] + 1] for run in runs]


def test_picture_has_three_panels_with_the_colors_of_the_same_points(tmp_path: Path, sample: Sample) -> None:
    path = tmp_path / "world.png"
    write_picture(
        path,
        latents=sample.latents,
        observations=sample.observations,
        embeddings=sample.embeddings,
        title="cost $5",
    )
    pixels = imread(path)
    assert pixels.shape[:2] == (620, 1800)
    z, x, h = panels_of(pixels, 3)
    assert min(colored_share(panel) for panel in (z, x, h)) > 0.1
    # angle 0 is red: it lies on the right for z and x, and 70 degrees further, at the top, for h
    assert redness(z)[1] > 0.2
    assert redness(x)[1] > 0.2
    assert redness(h)[0] > 0.2
    assert (pixels[:40, 700:1100, :3] < 0.5).any(), "the title is missing"


def redness(panel: np.ndarray) -> tuple[float, float]:
    """Where the red is: (upwards, to the right) of the panel's middle, as a share of its half size."""
    red = (panel[..., 0] > panel[..., 1] + 0.3) & (panel[..., 0] > panel[..., 2] + 0.2)
    rows, columns = np.nonzero(red)
    half = panel.shape[1] / 2
    middle = np.nonzero(np.ptp(panel[..., :3], axis=-1) > 0.15)[0].mean()
    return float((middle - rows.mean()) / half), float((columns.mean() - half) / half)


def test_picture_of_embeddings_alone_has_one_panel(tmp_path: Path, sample: Sample) -> None:
    path = tmp_path / "alone.png"
    write_picture(path, latents=None, observations=None, embeddings=sample.embeddings, title="")
    assert len(panels_of(imread(path), 1)) == 1


def test_embedding_of_many_dimensions_is_shown_turned_onto_the_latents() -> None:
    sample = make_sample(dim=5)
    shown = arrange(sample.latents, sample.observations, sample.embeddings, limit=1000)
    assert shown.prefer_turned
    assert shown.turned is not None
    latents, _, embedding = shown.panels
    assert len(shown.colors) == 1000
    assert np.sqrt(((shown.turned - latents.points) ** 2).mean()) < 0.05
    assert np.sqrt(((embedding.points - latents.points) ** 2).mean()) > 0.5
    assert embedding.caption == "first 2 of 5 coordinates"


def test_samples_that_are_not_finite_are_left_out_and_counted(sample: Sample) -> None:
    embeddings = sample.embeddings.copy()
    embeddings[[3, 70], 0] = np.nan, np.inf
    shown = arrange(sample.latents, None, embeddings, limit=5000)
    assert shown.left_out == 2
    assert len(shown.colors) == len(embeddings) - 2
    assert all(np.isfinite(panel.points).all() for panel in shown.panels)


def test_different_lengths_are_refused(sample: Sample) -> None:
    with pytest.raises(
        ValueError, match="embeddings and observations must have equal lengths, got 4000 and 7"
    ):
        arrange(sample.latents, sample.observations[:7], sample.embeddings, limit=10)
