r"""The map between two models while they train: z2 ~ W z1, solved again and again and never differentiated.

Of rows z1 (n, p) and z2 (n, q) of the same states, with means m1, m2 and the deviations s2 of z2's columns,

    W = S21 (S11 + r tr(S11)/p I)^-1        S11 = cov(z1),  S21 = cov(z2 / s2, z1)

which is ridge regression with a penalty of r times the mean variance of z1: batches smaller than p have a W
too, and its strength does not depend on units. What is compared are (z2 - m2) / s2 and W (z1 - m1), so that
a squared error of 1 per column is that of the mean alone.

W, means and deviations carry no gradient. Where W was solved on the very rows that it is applied to, the
gradient of the squared error is, but for the ridge, that of its minimum over W: the derivative of W has no
first-order part in it.

Moments are those of the batch on all ranks; with a memory, those of earlier batches too, whose weight falls
by the factor `memory` from one solution to the next: pairs that older weights saw count less.
"""

import torch
from torch import Tensor, nn

from isojepa import ranks
from isojepa.arguments import check_count, check_number, checked
from isojepa.objectives.objective import at_least_float32


class Solver(nn.Module):
    """W from rows and what is left of earlier ones; a module so that what it costs can be counted apart.

    Args:
        ridge: r.
        memory: weight of earlier moments.
    """

    def __init__(self, ridge: float, memory: float) -> None:
        super().__init__()
        self.ridge, self.memory = ridge, memory

    def forward(self, first: Tensor, second: Tensor, before: dict[str, Tensor]) -> dict[str, Tensor]:
        """Solve W on rows (n, p) and (n, q) of all ranks.

        Args:
            first, second: the rows.
            before: earlier moments: their weight "seen" (), "mean" (p + q,) and centred "products".

        Returns:
            The moments by the same names, "weight" W (q, p) and "deviation" (q,) of z2.
        """
        both = torch.cat((first, second), 1)
        if both.device.type != "mps":  # which has no float64
            both = both.double()
        n = ranks.count(len(both), both.device)
        mean = ranks.mean(both, n)
        centred = both - mean
        seen, products = both.new_tensor(float(n)), ranks.total(centred.T @ centred)
        if self.memory:
            old = self.memory * before["seen"].to(both)
            step, total = mean - before["mean"].to(both), seen + old
            products = products + self.memory * before["products"].to(both)
            products = products + torch.outer(step, step) * (old * seen / total)
            mean, seen = mean - step * (old / total), total
        weight, deviation = self._solved(products / seen, first.shape[1])
        return {"seen": seen, "mean": mean, "products": products, "weight": weight, "deviation": deviation}

    def _solved(self, covariance: Tensor, width: int) -> tuple[Tensor, Tensor]:
        own, cross = covariance[:width, :width], covariance[:width, width:]
        deviation = covariance.diagonal()[width:].clamp_min(0).sqrt()
        deviation = torch.where(deviation > 0, deviation, torch.ones_like(deviation))
        # a model that has collapsed has no variance: its W is 0 and not 0/0
        penalty = (self.ridge * own.diagonal().mean()).clamp_min(torch.finfo(own.dtype).tiny)
        ridged = own + penalty * torch.eye(width, dtype=own.dtype, device=own.device)
        factor, _ = torch.linalg.cholesky_ex(ridged)  # of NaN it is NaN, which the loop tells
        return torch.cholesky_solve(cross / deviation, factor).T, deviation


class Coupling(nn.Module):
    """Rows of one model in the coordinates of another, by a map that is kept up to date.

    Args:
        first_dim, second_dim: p and q.
        ridge: r, positive.
        every: steps between two solutions; 1 solves W at each.
        memory: weight of earlier batches at the next solution, in [0, 1); 0 for the current batch alone.

    Example:
        >>> coupling = Coupling(2, 2, ridge=1e-6)
        >>> z = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
        >>> round(coupling(z, 3 * z.flip(1) + 1).item(), 6)
        0.0
    """

    weight: Tensor
    mean: Tensor
    deviation: Tensor
    seen: Tensor
    products: Tensor
    steps: Tensor

    @checked
    def __init__(
        self, first_dim: int, second_dim: int, *, ridge: float = 1e-3, every: int = 1, memory: float = 0.0
    ) -> None:
        super().__init__()
        self.first_dim = check_count("first_dim", first_dim)
        self.second_dim = check_count("second_dim", second_dim)
        self.every = check_count("every", every)
        self.solver = Solver(
            check_number("ridge", ridge, "be positive", lambda value: value > 0),
            check_number("memory", memory, "lie in [0, 1)", lambda value: 0 <= value < 1),
        )
        both = first_dim + second_dim
        self.register_buffer("weight", torch.zeros(second_dim, first_dim))
        self.register_buffer("deviation", torch.ones(second_dim))
        self.register_buffer("mean", torch.zeros(both))
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("products", torch.zeros(both, both))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self._next: dict[str, Tensor] = {}  # what the step leaves, kept when it is done

    @property
    def due(self) -> bool:
        """Whether W is solved at the next step."""
        return int(self.steps) % self.every == 0

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Mean squared error per column of W z1 against z2, on all ranks; gradients go to both.

        Args:
            first: (n, p).
            second: (n, q), rows of the same states.

        Raises:
            ValueError: shapes are others.
        """
        for name, rows, dim in (("first", first, self.first_dim), ("second", second, self.second_dim)):
            if rows.ndim != 2 or rows.shape[1] != dim or len(rows) != len(first):
                raise ValueError(f"{name} must be ({len(first)}, {dim}), got {tuple(rows.shape)}")
        first, second = at_least_float32(first), at_least_float32(second)
        if self.due:
            with torch.no_grad():
                before = {name: getattr(self, name) for name in ("seen", "mean", "products")}
                self._next = self.solver(first.detach(), second.detach(), before)
        now = self._next or {name: getattr(self, name) for name in ("weight", "mean", "deviation")}
        weight, mean, deviation = (now[name].to(first.dtype) for name in ("weight", "mean", "deviation"))
        predicted = (first - mean[: self.first_dim]) @ weight.T
        target = (second - mean[self.first_dim :]) / deviation
        n = ranks.count(len(first), first.device)
        return ranks.total((target - predicted).square().sum()) / (n * self.second_dim)

    def after_step(self, step: int) -> None:
        """Keep what the step has found; `step` steps are done."""
        for name, value in self._next.items():
            getattr(self, name).copy_(value)
        self._next = {}
        self.steps.fill_(step)

    def extra_repr(self) -> str:
        return f"ridge={self.solver.ridge}, every={self.every}, memory={self.solver.memory}"
