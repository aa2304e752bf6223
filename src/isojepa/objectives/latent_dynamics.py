r"""Latent dynamics: an encoder and an action-conditioned predictor of the next embedding, trained together.

    s_t = (h_t, h_{t-1}, ..., h_{t-k+1})        the last k embeddings
    h^_{t+1} = A s_t + B a_t + c + network(s_t, a_t)
    prediction = mean over batch, dim, starts and steps of (h^ - h)^2
    total = weight * SIGReg + (1 - weight) * prediction + inverse * mean (g(h_t, h_{t+1}) - a_t)^2

In the manner of LeWorldModel (Maes, Le Lidec, Scieur, LeCun & Balestriero 2026): no stop-gradient, no
teacher; SIGReg alone keeps embeddings from collapsing. With `rollout` above 1 the predictor is fed its own
predictions for as many steps. The inverse term asks that the action can be read off two embeddings in a row;
it is off by default. The last layer of the network starts at 0, so the predictor starts linear; a width of 0
leaves it so.

Batches have views in the order of time and actions (batch, views - 1, actions): `isojepa.worlds.Windows`.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from isojepa import ranks
from isojepa.arguments import check_count, check_number, checked
from isojepa.encoders.layers import linear
from isojepa.encoders.mlp import MLP
from isojepa.objectives.loss import Loss, Regularizer, at_least_float32, check_weight, combine
from isojepa.objectives.objective import Models, Objective, embed_views
from isojepa.objectives.sigreg import SIGReg
from isojepa.registry import Context, Spec, register
from isojepa.seeds import generator as make_generator
from isojepa.worlds.batch import Batch


class Predictor(nn.Module):
    """h' = A s + B a + c, and a small network beside it whose last layer starts at 0.

    Args:
        dim: of an embedding.
        actions: of an action.
        history: embeddings in a state.
        width: of the network's hidden layer; 0 for no network.
        seed: draws the initial weights.
    """

    @checked
    def __init__(self, dim: int, actions: int, history: int = 3, width: int = 128, seed: int = 0) -> None:
        super().__init__()
        inputs = check_count("history", history) * check_count("dim", dim) + check_count("actions", actions)
        self.linear = linear(inputs, dim, make_generator(seed, "predictor"))
        self.network: nn.Module | None = None
        if check_count("width", width, 0):
            network = MLP(inputs, dim, width, 2, seed)
            last = network.body[-1]
            for parameter in last.parameters():
                nn.init.zeros_(parameter)
            self.network = network

    def forward(self, state: Tensor, action: Tensor) -> Tensor:
        """The next embedding (batch, dim) of states (batch, history * dim) and actions (batch, actions)."""
        inputs = torch.cat((state, action.to(state)), dim=-1)
        found: Tensor = self.linear(inputs)
        return found if self.network is None else found + self.network(inputs)


class LatentDynamics(Objective):
    """Prediction of the next embedding from the last ones and the action, with SIGReg.

    Args:
        dim: of an embedding.
        actions: of an action.
        history: embeddings in a state.
        rollout: steps that are predicted in a row, the predictor fed its own predictions.
        weight: lambda, the share of the regularizer.
        inverse: weight of the inverse-dynamics term; 0 leaves it out.
        width: of the predictor's network, and of the inverse one; 0 for a linear predictor.
        regularizer: of the embeddings; SIGReg by default.
        seed: draws the predictor.

    Example:
        >>> from isojepa.encoders.model import as_model
        >>> batch = Batch(tuple(torch.randn(4, 16, 5)), actions=torch.randn(16, 3, 2))
        >>> objective = LatentDynamics(dim=3, actions=2, inverse=0.1)
        >>> sorted(objective({"encoder": as_model(torch.nn.Linear(5, 3))}, batch, torch.Generator()).terms)
        ['alignment', 'inverse', 'regularizer']
    """

    @checked
    def __init__(
        self,
        dim: int,
        actions: int,
        history: int = 3,
        rollout: int = 1,
        weight: float = 0.02,
        inverse: float = 0.0,
        width: int = 128,
        regularizer: Regularizer | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.weight = check_weight(weight)
        self.inverse = check_number("inverse", inverse, "not be negative", lambda value: value >= 0)
        self.history, self.rollout = check_count("history", history), check_count("rollout", rollout)
        self.regularizer = SIGReg() if regularizer is None else regularizer
        self.predictor = Predictor(dim, actions, history, width, seed)
        self.actions = actions
        self.inverter = MLP(2 * dim, actions, max(width, 16), 3, seed) if self.inverse else None

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of windows.

        Raises:
            ValueError: there are no actions between the views, or too few views.
        """
        actions = self._actions(batch)
        h = embed_views(next(iter(models.values())), batch.views)
        with torch.autocast(h.device.type, enabled=False):  # sums over a batch need their digits
            h, actions = at_least_float32(h), at_least_float32(actions)
            loss = combine(self.weight, self._prediction(h, actions), self.regularizer(h, generator))
            if self.inverter is None:
                return loss
            pairs = torch.cat((h[:-1], h[1:]), dim=-1)
            guessed: Tensor = self.inverter(pairs).transpose(0, 1)
            inverse = _mean_square(guessed - actions)
            return Loss(loss.total + self.inverse * inverse, {**loss.terms, "inverse": inverse})

    def _prediction(self, h: Tensor, actions: Tensor) -> Tensor:
        """Mean squared error over all starts and all steps of their rollouts; h is (view, batch, dim)."""
        missed = []
        for start in range(len(h) - self.history - self.rollout + 1):
            now = start + self.history - 1
            past = [h[now - k] for k in range(self.history)]  # the newest first
            for step in range(self.rollout):
                found = self.predictor(torch.cat(past, dim=-1), actions[:, now + step])
                missed.append(found - h[now + step + 1])
                past = [found, *past[:-1]]
        return _mean_square(torch.stack(missed, dim=1))

    def _actions(self, batch: Batch) -> Tensor:
        if batch.actions is None:
            raise ValueError(
                "latent dynamics needs actions between the views, got a source whose batches have none: "
                "pairs that no action made say nothing of it; use isojepa.worlds.Windows"
            )
        wanted = (len(batch), len(batch.views) - 1, self.actions)
        if tuple(batch.actions.shape) != wanted:
            raise ValueError(
                f"actions must be (batch, views - 1, actions), {wanted}, got {tuple(batch.actions.shape)}"
            )
        if len(batch.views) < self.history + self.rollout:
            raise ValueError(
                f"views must be at least history + rollout, {self.history} + {self.rollout}, got "
                f"{len(batch.views)}: draw longer windows"
            )
        return batch.actions

    def extra_repr(self) -> str:
        return f"history={self.history}, rollout={self.rollout}, weight={self.weight}, inverse={self.inverse}"


def _mean_square(values: Tensor) -> Tensor:
    """Mean of squares over (batch, ...), the batch that of all ranks."""
    n = ranks.count(len(values), values.device)
    return ranks.total(values.square().sum()) / (n * values.shape[1:].numel())


@register("objective", "latent-dynamics")
@dataclass(frozen=True)
class LatentDynamicsSpec(Spec):
    """Next-embedding prediction under actions with SIGReg; for sources with actions."""

    costless: ClassVar = ("weight",)
    weight: float = 0.02
    """Lambda, the share of the regularizer, in [0, 1]."""
    history: int = 3
    """Embeddings that the predictor sees."""
    rollout: int = 1
    """Steps that are predicted in a row, the predictor fed its own predictions."""
    inverse: float = 0.0
    """Weight of the term that reads the action off two embeddings; 0 leaves it out."""
    width: int = 128
    """Hidden dimension of the predictor's network; 0 for a linear predictor."""
    slices: int | None = None
    """Random directions of SIGReg; if none are given, 8 per embedding dimension, 16 to 1024."""

    def resolve(self, context: Context) -> "LatentDynamicsSpec":
        if self.slices is not None or context.embedding is None:
            return self
        return replace(self, slices=SIGReg().slices_for(context.embedding))

    def build(self, context: Context) -> LatentDynamics:
        if context.actions is None:
            raise ValueError("latent-dynamics needs a source with actions, got one without")
        if context.embedding is None:
            raise ValueError(
                "latent-dynamics needs to know the dimension of the embedding: set the encoder's dim"
            )
        return LatentDynamics(
            context.embedding,
            context.actions,
            self.history,
            self.rollout,
            self.weight,
            self.inverse,
            self.width,
            SIGReg(self.slices),
            context.seed,
        )

    def operations(self, batch: float, dim: int) -> float:
        predicted = 6 * batch * self.rollout * (self.history * dim) * (dim + 2 * self.width)
        return predicted + 2 * batch * SIGReg(self.slices).slices_for(dim) * (6 * dim + 150)
