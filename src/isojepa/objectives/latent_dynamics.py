r"""Latent dynamics: a world model's encoder and predictor, trained end to end by next-latent prediction.

    prediction = mean over batch, dim, starts and steps of (rollout(h_{t-context+1..t}, a_t..)_k - h_{t+k})^2
    total = weight * SIGReg + (1 - weight) * prediction + inverse * mean (g(h_t, h_{t+1}) - a_t)^2

In the manner of LeWorldModel (Maes, Le Lidec, Scieur, LeCun & Balestriero 2026): no stop-gradient, no EMA
teacher; SIGReg alone prevents collapse. With `rollout` above 1 the predictor is applied to its own
predictions for as many steps. The inverse-dynamics term predicts the action from two successive latents.

Batches have views in temporal order and actions (batch, views - 1, actions): `Episodes`, or
`isojepa.data.Windows`.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from isojepa import ranks
from isojepa.data.batch import Batch
from isojepa.encoders.mlp import MLP
from isojepa.encoders.model import module_of
from isojepa.encoders.world_model import WorldModel
from isojepa.objectives.objective import (
    Loss,
    Models,
    Objective,
    Regularizer,
    at_least_float32,
    check_weight,
    combine,
    embed_views,
)
from isojepa.objectives.sigreg import SIGReg
from isojepa.registry import Context, Spec, register
from isojepa.validation import check_count, check_number, validate_types

_INVERSE_WIDTH = 128  # hidden dimension of the inverse-dynamics network


class LatentDynamics(Objective):
    """Next-latent prediction with SIGReg, for a `WorldModel`.

    Args:
        rollout: number of steps predicted in a row, each from the previous prediction.
        weight: lambda, the weight of the regularizer.
        inverse: weight of the inverse-dynamics term; 0 leaves it out.
        regularizer: of the latents; SIGReg by default.
        seed: initializes the inverse-dynamics network.

    Example:
        >>> from isojepa.encoders.model import as_model
        >>> batch = Batch(tuple(torch.randn(3, 16, 5)), actions=torch.randn(16, 2, 2))
        >>> models = {"encoder": as_model(WorldModel(dim=3, observed=5, actions=2))}
        >>> objective = LatentDynamics(rollout=2, inverse=0.1)
        >>> objective.start(models)
        >>> sorted(objective(models, batch, torch.Generator()).terms)
        ['alignment', 'inverse', 'regularizer']
    """

    @validate_types
    def __init__(
        self,
        rollout: int = 4,
        weight: float = 0.02,
        inverse: float = 0.0,
        regularizer: Regularizer | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.rollout, self.weight, self.seed = check_count("rollout", rollout), check_weight(weight), seed
        self.inverse = check_number("inverse", inverse, "not be negative", lambda value: value >= 0)
        self.regularizer = SIGReg() if regularizer is None else regularizer
        self.inverter: MLP | None = None

    def start(self, models: Models) -> None:
        """Build the inverse-dynamics network for the dimensions of the model."""
        model = world_model_of(models)
        if self.inverse and self.inverter is None:
            assert model.actions is not None
            self.inverter = MLP(2 * model.dim, model.actions, _INVERSE_WIDTH, 3, self.seed)

    def window(self, models: Models) -> int:
        """Number of actions between the frames of a context and a rollout."""
        return world_model_of(models).context + self.rollout - 1

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of windows.

        Raises:
            ValueError: the model is no WorldModel, actions are missing, or there are too few views.
        """
        model = world_model_of(models)
        actions = _actions(batch, model, self.rollout)
        h = embed_views(next(iter(models.values())), batch.views)
        with torch.autocast(h.device.type, enabled=False):  # sums over a batch need their digits
            h, actions = at_least_float32(h), at_least_float32(actions)
            loss = combine(self.weight, self._prediction(model, h, actions), self.regularizer(h, generator))
            if self.inverter is None:
                return loss
            pairs = torch.cat((h[:-1], h[1:]), dim=-1)
            actual = model.standardize(actions).to(h.dtype).transpose(0, 1)
            inverse = _mean_square((self.inverter(pairs) - actual).transpose(0, 1))
            return Loss(loss.total + self.inverse * inverse, {**loss.terms, "inverse": inverse})

    def _prediction(self, model: WorldModel, h: Tensor, actions: Tensor) -> Tensor:
        """Mean squared error over all starts and steps of rollouts, of latents (view, batch, dim)."""
        errors = []
        for start in range(len(h) - model.context - self.rollout + 1):
            present = start + model.context
            context = h[start:present].transpose(0, 1)
            predicted = model.rollout(context, actions[:, present - 1 : present - 1 + self.rollout])
            errors.append(predicted - h[present : present + self.rollout].transpose(0, 1))
        return _mean_square(torch.stack(errors, dim=1))

    def extra_repr(self) -> str:
        return f"rollout={self.rollout}, weight={self.weight}, inverse={self.inverse}"


def world_model_of(models: Models) -> WorldModel:
    """The first model, checked to be a WorldModel.

    Raises:
        ValueError: it is another module.
    """
    module = module_of(next(iter(models.values())))
    if not isinstance(module, WorldModel):
        raise ValueError(
            f"latent dynamics trains a WorldModel, got {type(module).__name__}: pass "
            "WorldModel(dim, encoder=...), or --encoder world-model"
        )
    return module


def _actions(batch: Batch, model: WorldModel, rollout: int) -> Tensor:
    """Actions (batch, views - 1, m) of a batch that fits the model."""
    if batch.actions is None:
        raise ValueError(
            "latent dynamics needs actions between the views, got a source whose batches have none: train on "
            "Episodes or isojepa.data.Windows"
        )
    shape = (len(batch), len(batch.views) - 1, model.actions or 0)
    if tuple(batch.actions.shape) != shape:
        raise ValueError(
            f"actions must be (batch, views - 1, actions), {shape}, got {tuple(batch.actions.shape)}"
        )
    if len(batch.views) < model.context + rollout:
        raise ValueError(
            f"views must be at least context + rollout, {model.context} + {rollout}, got {len(batch.views)}: "
            "draw longer windows"
        )
    return batch.actions


def _mean_square(values: Tensor) -> Tensor:
    """Mean of squares over (batch, ...), the batch that of all ranks."""
    n = ranks.count(len(values), values.device)
    return ranks.total(values.square().sum()) / (n * values.shape[1:].numel())


@register("objective", "latent-dynamics")
@dataclass(frozen=True)
class LatentDynamicsSpec(Spec):
    """Next-latent prediction under actions with SIGReg, for the encoder world-model on recorded episodes."""

    costless: ClassVar = ("weight",)
    weight: float = 0.02
    """Weight λ of the regularizer, in [0, 1]."""
    rollout: int = 4
    """Rollout length: steps predicted in a row, each from the previous prediction."""
    inverse: float = 0.0
    """Weight of the inverse-dynamics term; 0 leaves it out."""
    slices: int | None = None
    """Number of slices of SIGReg; by default 8 per embedding dimension, 16 to 1024."""

    def resolve(self, context: Context) -> "LatentDynamicsSpec":
        if self.slices is not None or context.embedding is None:
            return self
        return replace(self, slices=SIGReg().slices_for(context.embedding))

    def build(self, context: Context) -> LatentDynamics:
        if context.actions is None:
            raise ValueError("latent-dynamics needs recorded episodes with actions: --data FILE")
        return LatentDynamics(self.rollout, self.weight, self.inverse, SIGReg(self.slices), context.seed)

    def operations(self, batch: float, dim: int) -> float:
        predicted = 12 * batch * self.rollout * dim * 128
        return predicted + 2 * batch * SIGReg(self.slices).slices_for(dim) * (6 * dim + 150)
