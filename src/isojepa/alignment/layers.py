r"""CKA of every layer of one encoder with every layer of another, in one pass over the data.

Each batch of rows gives a Gram matrix per layer, its diagonal left out and its rows centered so that they
sum to 0 (as `unbiased_cka` does), whose products are unbiased estimates of <K, L> at any size of the batch.
They are summed over batches (Nguyen, Raghu and Kornblith, 2021):

    CKA_lm = sum_b <K_l, L_m>_b / sqrt( sum_b <K_l, K_l>_b  sum_b <L_m, L_m>_b ).

Nothing but three small tables is kept, so that widths and the number of rows do not matter. With one batch
it is `unbiased_cka`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.alignment.pairs import as_rows
from isojepa.validation import check_count

BATCH = 256
_MIN_ROWS = 4  # rows of a batch


class LayerCKA:
    """CKA between layers, batch by batch.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(64, 5))
        >>> table = LayerCKA().add([x], [x, x**2]).matrix()
        >>> table.shape, round(float(table[0, 0]), 6)
        ((1, 2), 1.0)
    """

    def __init__(self) -> None:
        self.rows = 0
        self._cross: Tensor | None = None
        self._own: tuple[Tensor, Tensor] | None = None

    def add(self, first: Sequence[Any], second: Sequence[Any]) -> "LayerCKA":
        """Join a batch.

        Args:
            first, second: for each layer its rows (n, ...) of the same n states, 4 at least; what is behind
                the first axis is flattened.

        Raises:
            ValueError: layers have different or too few rows, or there are others than before.
        """
        one, two = _grams("first", first), _grams("second", second)
        if one.shape[1] != two.shape[1]:
            raise ValueError("first and second must have the same rows in a batch, got different numbers")
        cross = one @ two.T
        squares = one.square().sum(1), two.square().sum(1)
        if self._cross is None or self._own is None:
            self._cross, self._own = cross, squares
        elif self._cross.shape != cross.shape:
            raise ValueError(
                f"every batch must have the same layers, {tuple(self._cross.shape)}, got {tuple(cross.shape)}"
            )
        else:
            self._cross = self._cross + cross
            self._own = self._own[0] + squares[0], self._own[1] + squares[1]
        self.rows += round(one.shape[1] ** 0.5)
        return self

    def matrix(self) -> np.ndarray:
        """CKA (layers of the first, layers of the second).

        Raises:
            ValueError: no batch was added.
        """
        if self._cross is None or self._own is None:
            raise ValueError("a batch must be added before CKA is asked for, got none")
        found: np.ndarray = (self._cross / torch.outer(*self._own).sqrt()).numpy()
        return found


def layer_cka(first: Sequence[Any], second: Sequence[Any], *, batch: int = BATCH) -> np.ndarray:
    """Unbiased CKA of layers: (layers of the first, layers of the second), for a heat map.

    Args:
        first, second: for each layer its rows (n, ...).
        batch: rows at a time; n gives the whole at once.

    Raises:
        ValueError: layers have different numbers of rows, or fewer than 4.
    """
    check_count("batch", batch, _MIN_ROWS)
    sizes = {len(layer) for layer in (*first, *second)}
    if len(sizes) != 1:
        raise ValueError(f"all layers must have the same rows, got {sorted(sizes) or 'no layers'}")
    (rows,) = sizes
    starts = list(range(0, rows, batch))
    if len(starts) > 1 and rows - starts[-1] < _MIN_ROWS:
        starts.pop()  # too few are left for a batch: they join the one before
    ends = [*starts[1:], rows]
    table = LayerCKA()
    for start, end in zip(starts, ends, strict=True):
        table.add([layer[start:end] for layer in first], [layer[start:end] for layer in second])
    return table.matrix()


def _grams(name: str, layers: Sequence[Any]) -> Tensor:
    """Gram matrices with a diagonal of 0 and rows that sum to 0, flattened: (layers, n * n)."""
    if not len(layers):
        raise ValueError(f"{name} must have a layer, got none")
    grams = []
    for number, layer in enumerate(layers):
        label = f"{name} layer {number}"
        rows = layer if getattr(layer, "ndim", 2) == 2 else layer.reshape(len(layer), -1)
        x = torch.from_numpy(np.ascontiguousarray(as_rows(label, rows)))
        n = len(x)
        if n < _MIN_ROWS:
            raise ValueError(f"{label} must have at least {_MIN_ROWS} rows in a batch, got {n}")
        x = x - x.mean(0)
        gram = x @ x.T
        lengths = gram.diagonal().clone()
        side = (lengths - lengths.sum() / (2 * (n - 1))) / (n - 2)
        gram += side[:, None] + side[None]
        gram.fill_diagonal_(0.0)
        # batches are weighed by what <K, L> estimates, not by their number of pairs
        grams.append((gram / (n * (n - 3)) ** 0.5).flatten())
    if len({len(gram) for gram in grams}) > 1:
        raise ValueError(f"{name} must have the same rows in every layer, got different numbers")
    return torch.stack(grams)
