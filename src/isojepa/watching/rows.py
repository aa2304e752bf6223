"""The most recent rows of a stream of batches: at most so many, detached, on the CPU."""

from collections import deque

import torch
from torch import Tensor


class Rows:
    """A ring of recent embeddings.

    Args:
        most: rows that it holds.

    Example:
        >>> rows = Rows(3)
        >>> rows.add(torch.tensor([[1.0], [2.0]]))
        >>> rows.add(torch.tensor([[3.0], [4.0]]))
        >>> rows.whole().flatten().tolist()
        [2.0, 3.0, 4.0]
    """

    def __init__(self, most: int) -> None:
        self.most, self.held = most, 0
        self._parts: deque[Tensor] = deque()

    def add(self, h: Tensor) -> None:
        """Add the rows of a batch (n, dim), evenly spaced ones if there are too many.

        Rows of another dimension than before replace all.
        """
        part = apart(thinned(h, self.most))
        if self._parts and self._parts[0].shape[1] != part.shape[1]:
            self.clear()
        self._parts.append(part)
        self.held += len(part)
        while self.held - len(self._parts[0]) >= self.most:
            self.held -= len(self._parts.popleft())

    def whole(self) -> Tensor:
        """The rows, oldest first: (rows, dim); (0, 0) if there are none."""
        return torch.cat(list(self._parts))[-self.most :] if self._parts else torch.empty(0, 0)

    def clear(self) -> None:
        """Forget them."""
        self._parts.clear()
        self.held = 0


def thinned(h: Tensor, most: int, axis: int = 0) -> Tensor:
    """Evenly spaced rows: a batch may be sorted, so that its first or last ones are no sample of it."""
    n = h.shape[axis]
    if n <= most:
        return h
    return h.index_select(axis, torch.arange(most, device=h.device) * n // most)


def apart(h: Tensor) -> Tensor:
    """A copy on the CPU, at least float32: neither graph nor later changes in place reach it."""
    kind = torch.float64 if h.dtype == torch.float64 else torch.float32
    return h.detach().to("cpu", kind, copy=True)
