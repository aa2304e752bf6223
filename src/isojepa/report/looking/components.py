r"""Principal components: of features as a plane, and of the positions of maps as colours.

Of rows x_i with mean m and the eigenvectors u_k of their covariance, the scores (x_i - m) . u_k, largest
variance first. A component's sign is free; here the larger tail is positive. Directions whose variance is
rounding have scores 0, so that features which do not differ give a point and not noise.

Colours (Figure 14 of LeJEPA): the first three components of all positions of all pictures at once, as red,
green and blue, so that a colour means the same in each picture. A component's 1 % and 99 % quantiles are the
ends of its colour; what lies beyond has the colour of the end. The first component alone often parts things
from what is behind them; its sign is chosen so that the middle of pictures is more positive than their rim.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from isojepa.arguments import check_count, checked

_ROUNDING = 1e-10  # of the mean square, below which a variance is that of rounded single precision
_ENDS = (0.01, 0.99)  # quantiles that are the ends of a colour


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
class ColourMaps:
    """The positions of pictures as colours.

    Attributes:
        colours: (pictures, height, width, 3) in [0, 1]; grey where there is no variance left.
        first: (pictures, height, width) in [0, 1], the first component alone.
        foreground: (pictures, height, width), where it is above its mean.
        shares: of the variance that the three components have.
    """

    colours: np.ndarray
    first: np.ndarray
    foreground: np.ndarray
    shares: tuple[float, ...]


@checked
def components(rows: np.ndarray, count: int = 2) -> Components:
    """The first principal components of rows.

    Args:
        rows: (n, dim) finite numbers.
        count: of components; those beyond what n and dim allow are 0.

    Raises:
        ValueError: rows are no such thing.

    Example:
        >>> found = components(np.array([[0.0, 5.0], [1.0, 5.0], [3.0, 5.0]]))
        >>> found.scores[:, 0].round(3).tolist(), found.shares
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
        found = vectors * np.sqrt(values) if wide else x @ vectors * (values > 0)
        found *= np.where((found**3).sum(0) < 0, -1.0, 1.0)
        scores[:, :most], shares[:most] = found, values / total
    return Components(scores, tuple(shares.tolist()))


@checked
def colour_maps(maps: np.ndarray) -> ColourMaps:
    """The positions of maps in the colours of their first three principal components.

    Args:
        maps: (pictures, channels, height, width), as `Backbone.maps` gives them.

    Raises:
        ValueError: maps are no such thing.

    Example:
        >>> maps = np.random.default_rng(0).normal(size=(2, 8, 3, 4))
        >>> colour_maps(maps).colours.shape
        (2, 3, 4, 3)
    """
    if maps.ndim != 4:
        raise ValueError(f"maps must be (pictures, channels, height, width), got shape {maps.shape}")
    count, channels, height, width = maps.shape
    found = components(np.moveaxis(maps, 1, -1).reshape(-1, channels), 3)
    places = found.scores.reshape(count, height, width, 3)
    first = places[..., 0]
    if first[:, _rim(height, width)].mean() > first.mean():
        first = places[..., 0] = -first
    ends = np.quantile(places.reshape(-1, 3), _ENDS, axis=0)
    span = ends[1] - ends[0]
    scaled = np.divide(places - ends[0], span, out=np.full_like(places, 0.5), where=span > 0)
    colours = scaled.clip(0, 1)
    return ColourMaps(colours, colours[..., 0], first > 0, found.shares)


def _rim(height: int, width: int) -> np.ndarray:
    rim = np.ones((height, width), dtype=bool)
    rim[1:-1, 1:-1] = False
    return rim
