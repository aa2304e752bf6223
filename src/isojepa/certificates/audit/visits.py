"""Which states to visit next: where their law lies farthest below, and above, what the theorems assume.

Each dimension is cut into cells that a normal law of its mean and deviation visits equally often.
"""

import numpy as np
import scipy

from isojepa.certificates.audit.strides import StrideRow

CELLS = 8
_RARE, _OFTEN = 0.8, 1.25  # share of a cell over what it should be, from which it is told
_FASTER = 1.1  # ratio of two rates that counts as equal
_TOLD = 4  # dimensions at most


def cells_of(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inner edges (CELLS - 1,) of cells with equal normal probability, and the share of values in each."""
    edges = column.mean() + column.std() * scipy.special.ndtri(np.arange(1, CELLS) / CELLS)
    return edges, np.bincount(np.searchsorted(edges, column), minlength=CELLS) / len(column)


def places_to_visit(states: np.ndarray) -> list[str]:
    """Sentences on where states (rows, dim) should be more, and less, to be normal."""
    told = []
    for dim, column in enumerate(states.T):
        if column.std() <= 1e-12 * max(1.0, float(np.abs(column).max())):
            continue
        edges, shares = cells_of(column)
        ratios = shares * CELLS
        if ratios.min() > _RARE and ratios.max() < _OFTEN:
            continue
        rare, often = int(ratios.argmin()), int(ratios.argmax())
        told.append(
            (
                float(np.abs(np.log(np.maximum(ratios, 1e-3))).max()),
                f"Visit dimension {dim} more {_where(edges, rare)} ({100 * shares[rare]:.1f} % of the steps, "
                f"a normal law of the same mean and deviation {100 / CELLS:.1f} %), and less "
                f"{_where(edges, often)} ({100 * shares[often]:.1f} %).",
            )
        )
    return [sentence for _, sentence in sorted(told, reverse=True)[:_TOLD]]


def speeds_to_take(row: StrideRow) -> list[str]:
    """A sentence on dimensions that forget at different rates, if they do."""
    rho = np.array(row.rho)
    kept = np.flatnonzero((rho > 0) & (rho < 1))
    if len(kept) < 2:
        return []
    rates = np.full(len(rho), np.nan)
    rates[kept] = -np.log(rho[kept])
    fast, slow = int(np.nanargmax(rates)), int(np.nanargmin(rates))
    ratio = rates[fast] / rates[slow]
    if ratio < _FASTER:
        return []
    return [
        f"Dimension {fast} forgets {ratio:.2g} times as fast as dimension {slow} ({rho[fast]:.3f} against "
        f"{rho[slow]:.3f} after {row.stride} steps): move it more slowly, or the other faster."
    ]


def _where(edges: np.ndarray, cell: int) -> str:
    if cell == 0:
        return f"below {edges[0]:.3g}"
    if cell == CELLS - 1:
        return f"above {edges[-1]:.3g}"
    return f"between {edges[cell - 1]:.3g} and {edges[cell]:.3g}"
