r"""Two embeddings as points in a plane, that of the first's two principal axes, before the map and after it.

Before, the columns of the second are read as if they were those of the first.

A map from the first to the second is fitted on four fifths of the states and undone (Equation 5 of
Social-JEPA, W_inv) on the fifth that was left out, for each fifth in turn, so that what is drawn after the
map was never fitted. All of it is for the rows that are shown; the fits take all rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isojepa.alignment.maps import AlignmentMap
from isojepa.alignment.pairs import folds
from isojepa.report.colors import polar_colors
from isojepa.report.looking.components import components
from isojepa.report.looking.page import class_colors
from isojepa.report.panels import Panel, Panels, outside, square
from isojepa.seeds import numpy_generator

SHOWN = 2_500  # states at most
_JOINED = 36  # of them with lines
_FOLDS = 5
_ROOM = 1.3  # how much further than the first's points its square reaches for mapped ones


@dataclass(frozen=True)
class Paired:
    """The rows that are shown of two embeddings of the same states.

    Attributes:
        rows: (n,) their numbers among all.
        first, second: (n, p) and (n, q).
        back: (n, p) the second in the first's coordinates by W_inv, held out; None without a map.
        direct: the same by a map of its kind that was fitted back, from the second to the first.
    """

    rows: np.ndarray
    first: np.ndarray
    second: np.ndarray
    back: np.ndarray | None = None
    direct: np.ndarray | None = None


@dataclass(frozen=True)
class Planes:
    """Panels side by side.

    Attributes:
        panels: the first, the second, and where there is a map the second after it.
        share: of the first's variance that its plane holds.
        explained: share of the first's variance in its plane that the mapped points explain; None without.
        direct: the same of a map that was fitted back.
    """

    panels: Panels
    share: float
    explained: float | None
    direct: float | None


def paired(
    first: np.ndarray, second: np.ndarray, map: AlignmentMap | None, ids: Any = None, seed: int = 0
) -> Paired:
    """Choose the rows that are shown and map them.

    Args:
        first, second: (n, p) and (n, q), rows of the same states in one order.
        map: whose kind and settings the fits take; None for no map.
        ids: (n,) states; those that are left out are left out whole.
        seed: of the choice and of the folds.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(100, 3))
        >>> points = paired(x, 2 * x[:, ::-1], AlignmentMap("scaled_procrustes", standardize=False))
        >>> bool(np.allclose(points.back, x))
        True
    """
    order = numpy_generator(seed, "shown").permutation(len(first))[:SHOWN]
    rows = np.sort(order)
    back = direct = None
    if map is not None:
        back, direct = np.empty((2, len(rows), first.shape[1]))
        for fold in folds(len(first), _FOLDS, ids, seed):
            here = np.isin(rows, fold.score)
            if here.any():
                # one pass without leaving each row out, which takes far longer to choose a penalty
                fitted = AlignmentMap(**map.get_params()).partial_fit(first[fold.fit], second[fold.fit])
                back[here] = fitted.inverse_transform(second[rows[here]])
                fitted = AlignmentMap(**map.get_params()).partial_fit(second[fold.fit], first[fold.fit])
                direct[here] = fitted.transform(second[rows[here]])
    return Paired(rows, first[rows].astype(np.float64), second[rows].astype(np.float64), back, direct)


def planes(
    shown: Paired, names: tuple[str, str], labels: np.ndarray | None = None, classes: Sequence[str] = ()
) -> Planes:
    """Lay the rows out.

    Args:
        shown: what is drawn.
        names: of the two encoders.
        labels: (n,) of the shown rows, for their colors; by default those of the places in the first panel.
        classes: as many names as there are labels.
    """
    projected = components(shown.first)
    one = projected.scores
    axes = _axes(shown.first, one)
    wide = min(len(axes), shown.second.shape[1])
    two = (shown.second - shown.second.mean(0))[:, :wide] @ axes[:wide]
    center, half = square(one)
    other_center, other_half = square(two)
    over = (one - center) / half * other_half + other_center  # the first's places, its plane laid over
    mapped, direct = (
        None if rows is None else (rows - shown.first.mean(0)) @ axes for rows in (shown.back, shown.direct)
    )
    if mapped is not None:  # one square for both, but what a bad map throws far out does not make it larger
        half = min(_ROOM * half, max(half, float(np.abs(mapped - center).max())))
    some = np.linspace(0, len(one) - 1, min(_JOINED, len(one))).round().astype(int)
    panels = [
        Panel(names[0], "h₁", 2, "its two principal axes", one, center, half),
        Panel(
            names[1],
            "h₂",
            2,
            "before: its columns read as if they were the first’s",
            two,
            other_center,
            other_half,
            np.hstack((over, two))[some],
        ),
    ]
    if mapped is not None:
        caption = "after: mapped into the coordinates of the first"
        joined = np.hstack((one, mapped))[some]
        panels.append(Panel(names[1], "W⁻¹h₂", 2, caption, mapped, center, half, joined))
    colors = polar_colors(one) if labels is None else _of_labels(labels, len(classes))
    far = outside(panels, None)
    panels_drawn = Panels(tuple(panels), colors, None, None, prefer_turned=False, left_out=0, outside=far)
    return Planes(panels_drawn, sum(projected.shares), _explained(one, mapped), _explained(one, direct))


def _explained(points: np.ndarray, mapped: np.ndarray | None) -> float | None:
    spread = float((points**2).sum())
    return None if mapped is None or not spread else 1 - float(((mapped - points) ** 2).sum()) / spread


def _axes(rows: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """(p, 2) unit vectors that give these scores of the centered rows; 0 where there is no variance."""
    axes = (rows - rows.mean(0)).T @ scores
    lengths = np.linalg.norm(axes, axis=0)
    return np.asarray(axes / np.where(lengths > 0, lengths, 1.0))


def _of_labels(labels: np.ndarray, count: int) -> np.ndarray:
    palette = [[int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)] for color in class_colors(count)]
    colors: np.ndarray = np.asarray(palette)[labels]
    return colors
