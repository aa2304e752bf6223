r"""Principal components: of features as a plane, and of the positions of maps as colors.

Of rows x_i with mean m and the eigenvectors u_k of their covariance, the scores (x_i - m) . u_k, largest
variance first. A component's sign is free; here the larger tail is positive. Directions whose variance is
rounding have scores 0, so that features which do not differ give a point and not noise.

Colors (Figure 14 of LeJEPA): the first three components of all positions of all pictures at once, as red,
green and blue, so that a color means the same in each picture. A component's 1 % and 99 % quantiles are the
ends of its color; what lies beyond has the color of the end. The first component alone often parts things
from what is behind them; its sign is chosen so that the middle of pictures is more positive than their rim.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from isojepa.validation import check_count, validate_types

_ROUNDING = 1e-10  # of the mean square, below which a variance is that of rounded single precision
_ENDS = (0.01, 0.99)  # quantiles that are the ends of a color


@dataclass(frozen=True)
class Components:
    """Principal components of rows.

    Attributes:
        scores: (rows, components), largest variance first; 0 where there is none left.
        shares: of the whole variance, one for each component.
    """

    scores: np.ndarray
    shares: tuple[float, ...]


@dataclass(frozen=True)
class ColorMaps:
    """The positions of pictures as colors.

    Attributes:
        colors: (pictures, height, width, 3) in [0, 1]; grey where there is no variance left.
        first: (pictures, height, width) in [0, 1], the first component alone.
        foreground: (pictures, height, width), where it is above its mean.
        shares: of the variance that the three components have.
    """

    colors: np.ndarray
    first: np.ndarray
    foreground: np.ndarray
    shares: tuple[float, ...]


@validate_types
def components(rows: np.ndarray, count: int = 2) -> Components:
    """The first principal components of rows.

    Args:
        rows: (n, dim) finite numbers.
        count: of components; those beyond what n and dim allow are 0.

    Raises:
        ValueError: rows are no such thing.

    Example:
        >>> axes = components(np.array([[0.0, 5.0], [1.0, 5.0], [3.0, 5.0]]))
        >>> axes.scores[:, 0].round(3).tolist(), axes.shares
        ([-1.333, -0.333, 1.667], (1.0, 0.0))
    """
    check_count("count", count)
    if rows.ndim != 2 or 0 in rows.shape or not np.isfinite(rows).all():
        raise ValueError(f"rows must be finite numbers (n, dim), got shape {rows.shape}")
    x = rows.astype(np.float64)
    square = np.square(x).sum()
    x -= x.mean(0)
    total = float(np.square(x).sum())
    scores, shares = np.zeros((len(x), count)), np.zeros(count)
    if total > _ROUNDING * square:
        wide = x.shape[1] > len(x)
        gram = x @ x.T if wide else x.T @ x  # the smaller of the two has the same eigenvalues
        most = min(count, len(gram))
        ends = (len(gram) - most, len(gram) - 1)
        values, vectors = scipy.linalg.eigh(gram, subset_by_index=ends)
        values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
        values[values < _ROUNDING * total] = 0
        projected = vectors * np.sqrt(values) if wide else x @ vectors * (values > 0)
        projected *= np.where((projected**3).sum(0) < 0, -1.0, 1.0)
        scores[:, :most], shares[:most] = projected, values / total
    return Components(scores, tuple(shares.tolist()))


@validate_types
def color_maps(maps: np.ndarray) -> ColorMaps:
    """The positions of maps in the colors of their first three principal components.

    Args:
        maps: (pictures, channels, height, width), as `Backbone.maps` gives them.

    Raises:
        ValueError: maps are no such thing.

    Example:
        >>> maps = np.random.default_rng(0).normal(size=(2, 8, 3, 4))
        >>> color_maps(maps).colors.shape
        (2, 3, 4, 3)
    """
    if maps.ndim != 4:
        raise ValueError(f"maps must be (pictures, channels, height, width), got shape {maps.shape}")
    count, channels, height, width = maps.shape
    projected = components(np.moveaxis(maps, 1, -1).reshape(-1, channels), 3)
    places = projected.scores.reshape(count, height, width, 3)
    first = places[..., 0]
    if first[:, _rim(height, width)].mean() > first.mean():
        first = places[..., 0] = -first
    ends = np.quantile(places.reshape(-1, 3), _ENDS, axis=0)
    span = ends[1] - ends[0]
    scaled = np.divide(places - ends[0], span, out=np.full_like(places, 0.5), where=span > 0)
    colors = scaled.clip(0, 1)
    return ColorMaps(colors, colors[..., 0], first > 0, projected.shares)


def _rim(height: int, width: int) -> np.ndarray:
    rim = np.ones((height, width), dtype=bool)
    rim[1:-1, 1:-1] = False
    return rim
