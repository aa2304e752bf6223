r"""The kernel probe: ridge regression of the classes on Gaussian bumps around training examples.

With k(x, x') = exp(-||x - x'||^2 / (2 b^2)), b the median distance of two training examples, m of them as
landmarks, and K_nm the kernel between all examples and those, the rows of

    Phi = K_nm K_mm^(-1/2)    (Williams and Seeger, 2001: Nystroem)

are regressed on y_ic = [class of i is c] - 1/C with penalty ridge ||w||^2. Where all examples are landmarks
this is kernel ridge regression itself. The ridge is chosen by leaving one out, which needs no second fit:
with Phi^T Phi = V diag(s) V^T and z = Phi V,

    h_i = sum_j z_ij^2 / (s_j + ridge),    residual without i = (y_i - fitted_i) / (1 - h_i).

Features are standardised. Rows pass in blocks: nothing of size (n, m) is held. float64 but for the kernel.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from isojepa.arguments import check_count, check_number
from isojepa.evaluations.scores import Score, examples, score_of
from isojepa.seeds import generator as make_generator

RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2)
LANDMARKS = 1_024
_BLOCK = 4_096  # rows at once
_PAIRS = 1_000  # training examples among which the median distance is taken
_FLOOR = 1e-7  # of the landmarks' kernel, against its largest eigenvalue: below it is float32's rounding


def kernel_probe(
    x: Any,
    y: Any,
    test_x: Any,
    test_y: Any,
    *,
    ridges: Sequence[float] = RIDGES,
    landmarks: int = LANDMARKS,
    confidence: float = 0.95,
    generator: torch.Generator | None = None,
) -> Score:
    """Accuracy of kernel ridge regression with a Gaussian kernel.

    Args:
        x, y: training features (n, dim) and labels (n,), whole numbers from 0 on.
        test_x, test_y: those that are scored.
        ridges: to choose from, by the accuracy and then the squared error on examples left out.
        landmarks: training examples that bumps stand on; all of them where there are not more.
        confidence: of the interval.
        generator: draws the landmarks; by default always the same.

    Raises:
        ValueError: features or labels are no such thing, or a ridge is not positive.

    Example:
        >>> x = torch.linspace(-1, 1, 200)[:, None]
        >>> y = (x[:, 0].abs() > 0.5).long()  # no line tells these apart
        >>> kernel_probe(x[::2], y[::2], x[1::2], y[1::2]).accuracy > 0.95
        True
    """
    data = examples(x, y, test_x, test_y)
    grid = sorted({check_number("ridge", one, "be positive and finite", lambda v: v > 0) for one in ridges})
    if not grid:
        raise ValueError("ridges must be one at least, got none")
    landmarks = check_count("landmarks", landmarks)
    rows, labels = torch.from_numpy(data.x).float(), torch.from_numpy(data.y)
    fitted = _Bumps(rows, landmarks, generator or make_generator(0, "landmarks"))
    ridge, weight = fitted.choose(rows, labels, data.classes, grid)
    test = torch.from_numpy(data.test_x).float()
    predicted = torch.cat([(phi @ weight).argmax(1) for phi in fitted.blocks(test)])
    chosen = {"ridge": ridge, "bandwidth": fitted.bandwidth, "landmarks": float(len(fitted.centres))}
    return score_of(
        "kernel", predicted.numpy(), data.test_y, data.classes, chosen=chosen, confidence=confidence
    )


class _Bumps:
    """The features Phi of a kernel on landmarks, and ridge regression on them."""

    def __init__(self, rows: Tensor, landmarks: int, generator: torch.Generator) -> None:
        self.mean = rows.mean(0)
        spread = rows.std(0, correction=0)
        flat = spread <= 1e-6 * self.mean.abs() + torch.finfo(torch.float32).tiny
        self.scale = torch.where(flat, 0.0, 1 / spread.where(~flat, torch.ones_like(spread)))
        order = torch.randperm(len(rows), generator=generator)
        few = self._standard(rows[order[:_PAIRS]])
        distances = torch.pdist(few)
        self.bandwidth = float(distances.median()) or 1.0  # all alike: any width does
        chosen = order[:landmarks].sort().values
        self.centres = self._standard(rows[chosen])
        values, vectors = torch.linalg.eigh(self._kernel(self.centres))
        kept = values > _FLOOR * values[-1]
        self.root = vectors[:, kept] / values[kept].sqrt()

    def _standard(self, rows: Tensor) -> Tensor:
        return (rows - self.mean) * self.scale

    def _kernel(self, rows: Tensor) -> Tensor:
        squares = torch.cdist(rows, self.centres).double().square()
        return squares.mul_(-0.5 / self.bandwidth**2).exp_()

    def blocks(self, rows: Tensor) -> Iterator[Tensor]:
        """Phi, block by block: (rows, rank)."""
        for part in rows.split(_BLOCK):
            yield self._kernel(self._standard(part)) @ self.root

    def choose(
        self, rows: Tensor, labels: Tensor, classes: int, ridges: Sequence[float]
    ) -> tuple[float, Tensor]:
        """The ridge that does best on examples left out, the larger of equals, and its weights."""
        targets = torch.nn.functional.one_hot(labels, classes).double() - 1 / classes
        rank = self.root.shape[1]
        gram, products = torch.zeros(rank, rank).double(), torch.zeros(rank, classes).double()
        for phi, y in zip(self.blocks(rows), targets.split(_BLOCK), strict=True):
            gram += phi.T @ phi
            products += phi.T @ y
        s, v = torch.linalg.eigh(gram)
        s = s.clamp_min(0)  # rounding
        rotated = v.T @ products
        hits, errors = dict.fromkeys(ridges, 0), dict.fromkeys(ridges, 0.0)
        blocks = zip(self.blocks(rows), targets.split(_BLOCK), labels.split(_BLOCK), strict=True)
        for phi, y, own in blocks:
            z = phi @ v
            for ridge in ridges:
                leverage = z.square() @ (1 / (s + ridge))
                residual = (y - z @ (rotated / (s + ridge)[:, None])) / (1 - leverage)[:, None]
                hits[ridge] += int(((y - residual).argmax(1) == own).sum())
                errors[ridge] += float(residual.square().sum())
        best = max(ridges, key=lambda ridge: (hits[ridge], -errors[ridge], ridge))
        return best, v @ (rotated / (s + best)[:, None])
