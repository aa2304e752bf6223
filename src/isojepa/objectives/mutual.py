r"""Two models that learn at once and stay translatable into each other.

Social-JEPA, Section 3.7 and Algorithm 2, mode Mutual:

    total = inner_1(model 1) + inner_2(model 2) + gamma * mean |(z2 - m2) / s2 - W (z1 - m1)|^2 / q

z1 and z2 are the features of paired observations. W carries no gradient; both models do. Two ways of Table 9:

    method A, weak coupling      W is solved every so many steps, `Coupling(every=...)`: in between each model
                                 moves towards a map that stands still
    method B, strong coupling    W is solved at each step, `Coupling(every=1)`

With gamma = 0 the two learn apart and no W is solved. Nothing keeps z2 from shrinking towards what W
explains of it but its own objective: an inner objective that lets features collapse is not held up by this
one.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import nn

from isojepa.arguments import check_number, checked
from isojepa.encoders.mlp import MLPSpec
from isojepa.encoders.model import Model, as_model
from isojepa.objectives.coupling import Coupling
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.objectives.objective import Listened, Loss, Models, Objective, as_objective
from isojepa.objectives.teaching import divided, meeting_views, own_context, own_dim
from isojepa.registry import Context, Spec, chosen, register
from isojepa.worlds.batch import Batch
from isojepa.worlds.observers import Pairing

PARTNER = "partner"


class Mutual(Objective):
    """Two models, each with its objective, and the map from the first's features to the second's.

    Args:
        inner: what the first model minimises by itself: an `Objective`, or a loss of views.
        coupling: from the first's features to the second's.
        weight: gamma, not negative.
        pairing: which views are whose; None if both see all.
        second: what the second minimises; by default a copy of `inner`.
        partner: the second model, where the run trains one by name and this objective is to own the other.

    Example:
        >>> from isojepa.objectives.lejepa import LeJEPA
        >>> objective = Mutual(LeJEPA(), Coupling(2, 2))
        >>> models = {name: as_model(nn.Linear(3, 2)) for name in ("left", "right")}
        >>> batch = Batch((torch.randn(32, 3), torch.randn(32, 3)))
        >>> sorted(objective(models, batch, torch.Generator()).terms)
        ['alignment', 'cross', 'regularizer', 'right.alignment', 'right.regularizer']
    """

    @checked
    def __init__(
        self,
        inner: Callable[..., Any],
        coupling: Coupling,
        weight: float = 1.0,
        pairing: Pairing | None = None,
        second: Callable[..., Any] | None = None,
        partner: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.inner = as_objective(inner)
        self.second = copy.deepcopy(self.inner) if second is None else as_objective(second)
        self.coupling, self.pairing, self.partner = coupling, pairing, partner
        self.weight = check_number("weight", weight, "be at least 0", lambda value: value >= 0)

    def start(self, models: Models) -> None:
        """Let both inner objectives look at their models."""
        first, second = self._both(models)
        self.inner.start(first)
        self.second.start(second)

    def plan(self, steps: int) -> None:
        """Tell both."""
        self.inner.plan(steps)
        self.second.plan(steps)

    def seen(self, models: Models, batch: Batch) -> Mapping[str, Batch]:
        """The views of each model's observer."""
        parts = divided(self.pairing, batch)
        return dict(zip(models, parts, strict=False))

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of paired views."""
        parts = divided(self.pairing, batch)
        heard: list[Listened] = []
        losses: list[Loss] = []
        names: list[str] = []
        for objective, one, part in zip((self.inner, self.second), self._both(models), parts, strict=True):
            name, model = next(iter(one.items()))
            heard.append(Listened(model))
            losses.append(objective({name: heard[-1].model}, part, generator))
            names.append(name)
        others = {f"{names[1]}.{name}": value for name, value in losses[1].terms.items()}
        total, terms = losses[0].total + losses[1].total, {**losses[0].terms, **others}
        if not self.weight:
            return Loss(total, terms)
        met = meeting_views(*parts)
        first, second = (
            torch.cat([listened.features(pair[side]) for pair in met]) for side, listened in enumerate(heard)
        )
        with torch.autocast(first.device.type, enabled=False):  # sums over a batch need their digits
            term = self.coupling(first, second)
        return Loss(total + self.weight * term, {**terms, "cross": term})

    def after_step(self, models: Models, step: int) -> None:
        """Keep W, and let both inner objectives act."""
        for objective, one in zip((self.inner, self.second), self._both(models), strict=True):
            objective.after_step(one, step)
        self.coupling.after_step(step)

    def _both(self, models: Models) -> tuple[dict[str, Model], dict[str, Model]]:
        given = list(models.items())
        if self.partner is not None:
            given = [*given[:1], (PARTNER, as_model(self.partner))]
        if len(given) != 2:
            raise ValueError(
                f"mutual teaching needs two models, or one and a partner of the objective, got {len(given)}"
            )
        return dict(given[:1]), dict(given[1:])

    def extra_repr(self) -> str:
        return f"weight={self.weight}, pairing={self.pairing}"


@register("objective", "mutual")
@dataclass(frozen=True)
class MutualSpec(Spec):
    """Two models that learn at once, each by its own objective, and stay linear maps of each other."""

    costless: ClassVar = ("gamma", "ridge", "memory")
    partner: Spec = chosen("encoder", MLPSpec)
    """The second model; `isojepa list encoders`."""
    inner: Spec = chosen("objective", LeJEPASpec)
    """What each minimises by itself; `isojepa list objectives`."""
    gamma: float = 1.0
    """Weight of the error of the map between them."""
    every: int = 1
    """Steps between two solutions of the map: 1 is method B, more method A."""
    memory: float = 0.0
    """Weight of earlier pairs at the next solution, in [0, 1)."""
    ridge: float = 1e-3
    """Penalty of the map, against the mean variance of the first model's features."""

    def resolve(self, context: Context) -> "MutualSpec":
        second = own_context(context, observer=1)
        return replace(
            self,
            inner=self.inner.resolve(own_context(context)),
            partner=self.partner.resolve(second),
        )

    def build(self, context: Context) -> Mutual:
        first, second = own_context(context), own_context(context, observer=1)
        second = replace(second, seed=context.seed + 1)  # two models of one seed would begin alike
        second = replace(
            second,
            embedding=self.partner.embedding(second),
            feature_dim=self.partner.feature_dim(second),
            transformer=self.partner.transformer(second),
        )
        coupling = Coupling(
            own_dim(first), own_dim(second), ridge=self.ridge, every=self.every, memory=self.memory
        )
        return Mutual(
            self.inner.build(first),
            coupling,
            self.gamma,
            context.pairing,
            self.inner.build(second),
            self.partner.build(second),
        )

    def operations(self, batch: float, dim: int) -> float:
        return 2 * self.inner.operations(batch, dim) + 12 * batch * dim**2
