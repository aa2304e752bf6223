"""Small networks that predict rows from rows, trained by the one loop: for policies and transitions."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from isojepa.encoders.mlp import MLP
from isojepa.objectives.objective import Loss, Models, Objective
from isojepa.training.loop import fit
from isojepa.training.recipe import Recipe
from isojepa.worlds.batch import Batch
from isojepa.worlds.source import Facts


class Standardised(nn.Module):
    """A network between standardised columns: x (n, in) as they are given to y (n, out) as they are wanted.

    Args:
        inner: between standardised columns.
        x, y: rows whose mean and deviation count; a column without spread is left as it is.
    """

    def __init__(self, inner: nn.Module, x: Tensor, y: Tensor) -> None:
        super().__init__()
        self.inner = inner
        for name, rows in (("x", x), ("y", y)):
            deviation = rows.std(0)
            self.register_buffer(f"{name}_mean", rows.mean(0))
            self.register_buffer(f"{name}_scale", torch.where(deviation > 1e-8, deviation, 1.0))

    x_mean: Tensor
    x_scale: Tensor
    y_mean: Tensor
    y_scale: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Predictions (n, out)."""
        h: Tensor = self.inner((x - self.x_mean) / self.x_scale)
        return h * self.y_scale + self.y_mean

    def maps(self) -> list[tuple[Tensor, Tensor]]:
        """Weight (out, in) and bias (out,) of each linear map from x to y as they are; GELU is between them.

        Standardising is affine, hence part of the first and the last map: the same function, up to rounding.

        Raises:
            ValueError: the network within is no `MLP`.
        """
        if not isinstance(self.inner, MLP):
            raise ValueError(f"inner must be an MLP to have maps, got {type(self.inner).__name__}")
        found = [
            (part.weight.detach().double(), part.bias.detach().double())
            for part in self.inner.body
            if isinstance(part, nn.Linear)
        ]
        weight, bias = found[0]
        weight = weight / self.x_scale
        found[0] = weight, bias - weight @ self.x_mean.double()
        weight, bias = found[-1]
        found[-1] = weight * self.y_scale[:, None], bias * self.y_scale + self.y_mean
        return [(weight.to(self.x_mean), bias.to(self.x_mean)) for weight, bias in found]


def fit_network(
    x: Tensor, y: Tensor, *, width: int = 64, layers: int = 3, steps: int = 1000, seed: int = 0
) -> Standardised:
    """A network of least squared error, of standardised columns; in evaluation mode.

    Args:
        x: (n, in).
        y: (n, out).
        width, layers: of the network.
        steps: of training, of 512 rows each.
        seed: draws weights and rows.
    """
    x, y = x.float(), y.float()
    inner = MLP(x.shape[1], y.shape[1], width, layers, seed)
    network = Standardised(inner, x, y)
    rows = _Rows((x - network.x_mean) / network.x_scale, (y - network.y_mean) / network.y_scale)
    recipe = Recipe(steps=steps, batch=512, batch_start=None, learning_rate=3e-3, accelerator="cpu")
    fit(inner, rows, _Squares(), recipe=recipe, evaluations=(), seed=seed, progress=False)
    return network.eval().requires_grad_(False)


@dataclass(frozen=True)
class _Rows:
    """Rows x with the rows y that belong to them, drawn with replacement."""

    x: Tensor
    y: Tensor

    @property
    def facts(self) -> Facts:
        return Facts(shapes=(tuple(self.x.shape[1:]),))

    def sample(self, n: int, generator: torch.Generator) -> Batch:
        chosen = torch.randint(len(self.x), (n,), generator=generator)
        return Batch((self.x[chosen],), actions=self.y[chosen])


class _Squares(Objective):
    """Mean squared error of the first model's output against the batch's actions."""

    spreads = False

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        assert batch.actions is not None
        predicted: Tensor = next(iter(models.values())).embed(batch.views[0])
        error = (predicted - batch.actions).square().mean()
        return Loss(error, {"error": error})
