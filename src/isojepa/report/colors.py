"""Colors of all figures. For latents: the angle is the hue, the radius is how vivid it is.

The wheel is drawn in OKLCH (Ottosson 2020), where equal steps of hue look equally large and the hue of a
color does not drift as it fades. A point at the mean of the latents is grey; colors grow more vivid and
slightly darker up to the radius that 90 % of the points lie within, and stay there beyond it.
"""

import numpy as np

COLORS = ("#2f6db5", "#d1662a", "#3a8f5c", "#8a5bb0", "#b8485f", "#7a6a4f", "#4aa3b8", "#a89a2c")  # of lines
INK, QUIET, FRAME = "#1c1e21", "#6b7178", "#e3e5e8"  # text, ticks and lines of every figure

_FULL = 0.9  # share of the points that lie within the radius of full color
_LIGHTNESS = (0.78, 0.66)  # at the center and at full color: readable on white and on near-black
_TILT = 0.07  # yellow is this much lighter than that at full color, and blue darker: both look purer so
_YELLOW = np.radians(105)
_CHROMA = (0.03, 0.19)  # the second is reduced for hues that a screen cannot show so vividly
_FIRST_HUE = np.radians(25)  # angle 0 is red

# OKLab to the cube roots of the cone responses, and these to linear sRGB
_TO_CONES = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)
_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


def polar_colors(latents: np.ndarray) -> np.ndarray:
    """Color points by their angle and radius about their mean.

    Args:
        latents: (n, dim) finite points. Only the first two coordinates count; with one, there are two
            hues, one on each side of the mean.

    Returns:
        (n, 3) sRGB values in [0, 1].

    Example:
        >>> red, cyan = polar_colors(np.array([[1.0, 0.0], [-1.0, 0.0]]))
        >>> bool(red[0] > red[2] and cyan[0] < cyan[2])
        True
    """
    centered = latents[:, :2] - latents[:, :2].mean(0) if len(latents) else latents[:, :2]
    x, y = centered[:, 0], centered[:, 1] if centered.shape[1] == 2 else np.zeros(len(centered))
    angle, radius = np.arctan2(y, x), np.hypot(x, y)
    full = np.quantile(radius, _FULL) if len(radius) else 0.0
    vivid = np.minimum(radius / full, 1.0) ** 0.8 if full > 0 else np.zeros_like(radius)
    hue = angle + _FIRST_HUE
    full_lightness = _LIGHTNESS[1] + _TILT * np.cos(hue - _YELLOW)
    full_chroma = _showable(full_lightness, np.full_like(hue, _CHROMA[1]), hue)
    lightness = _LIGHTNESS[0] + vivid * (full_lightness - _LIGHTNESS[0])
    chroma = _CHROMA[0] + vivid * (full_chroma - _CHROMA[0])
    return _companded(_linear_rgb(lightness, _showable(lightness, chroma, hue), hue))


def _showable(lightness: np.ndarray, chroma: np.ndarray, hue: np.ndarray) -> np.ndarray:
    """The chroma, reduced where needed to the largest that sRGB can show, found by bisection."""
    low, high = np.zeros_like(chroma), chroma
    fits = _in_gamut(_linear_rgb(lightness, chroma, hue))
    for _ in range(20):
        middle = (low + high) / 2
        inside = _in_gamut(_linear_rgb(lightness, middle, hue))
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.where(fits, chroma, low)


def _in_gamut(rgb: np.ndarray) -> np.ndarray:
    return np.asarray(((rgb >= 0) & (rgb <= 1)).all(axis=1))


def _linear_rgb(lightness: np.ndarray, chroma: np.ndarray, hue: np.ndarray) -> np.ndarray:
    """(n, 3) linear sRGB of OKLCH; outside [0, 1] where the screen cannot show it."""
    lab = np.stack((lightness, chroma * np.cos(hue), chroma * np.sin(hue)), axis=1)
    rgb: np.ndarray = (lab @ _TO_CONES.T) ** 3 @ _TO_RGB.T
    return rgb


def _companded(linear: np.ndarray) -> np.ndarray:
    """Linear sRGB to sRGB (IEC 61966-2-1); rounding may leave [0, 1] by 1e-6, which is cut."""
    linear = linear.clip(0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
