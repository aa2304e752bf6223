r"""A student that learns by its own objective and from a teacher that was trained before (Social-JEPA, A.6).

    total = inner(student) + beta * term

`Taught` is Algorithm 2's TeacherStudent: with z_T the teacher's features and z_S the student's of the same
states,

    term = mean |(z_T - m_T) / s_T - W_t (z_S - m_S)|^2 / q

where W_t is solved on the current pairs, or every so many steps, and carries no gradient (`coupling`).
Algorithm 2 has the sum of squares; standardised and per column, beta means the same whatever the teacher's
width and units.

`Imitated` is the baseline, knowledge distillation (Hinton, Vinyals & Dean 2015). Its targets are a teacher's
softened class probabilities, and there are no classes here. Two answers:

    with a head   p = softmax(head(z_T) / T): a linear probe of the teacher, which has seen labels. The
                  student has a head of its own, which is learned, and term = T^2 KL(p | q), as published.
    without       p_i = softmax over j != i of -|u_i - u_j|^2 / (2 q T), of features u with each column
                  standardised over the batch: which states of the batch the teacher finds alike. No label is
                  used, and widths may differ. term = KL(p | q), the mean over the batch. Cosines in place
                  of distances, as is usual, would not tell how far from the mean a state lies.

Both observers' views come in one batch; the student's are first (`isojepa.worlds.Paired`). Without a
pairing teacher and student see the same views. Global views meet by number, the student's v the teacher's
v; where the teacher has fewer, it begins anew. No gradient enters the teacher, which stays in evaluation
mode.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from isojepa import ranks
from isojepa.arguments import check_number, checked
from isojepa.encoders.model import as_model
from isojepa.objectives.coupling import Coupling
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.objectives.objective import Listened, Loss, Models, Objective, as_objective, at_least_float32
from isojepa.registry import Context, Spec, chosen, register
from isojepa.worlds.batch import Batch
from isojepa.worlds.observers import Pairing


class Frozen(nn.Module):
    """A trained model that never changes: no gradient, always in evaluation mode.

    Args:
        model: any model that is a module.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> "Frozen":
        """Stay as it is."""
        return super().train(False)

    def forward(self, views: tuple[Tensor, ...]) -> Tensor:
        """Features (view * batch, dim)."""
        with torch.no_grad():
            return torch.cat([as_model(self.model).features(view) for view in views])


class FromTeacher(Objective):
    """An objective of the student plus a weight times what the teacher says; subclasses define `_term`.

    Args:
        inner: what the student minimises by itself: an `Objective`, or a loss of views such as `LeJEPA`.
        teacher: a trained model; it is frozen.
        weight: beta, not negative.
        pairing: which views are the student's, the first observer's; None if both see all.
    """

    term = "teaching"

    def __init__(
        self, inner: Callable[..., Any], teacher: nn.Module, weight: float, pairing: Pairing | None
    ) -> None:
        super().__init__()
        self.inner, self.teacher = as_objective(inner), Frozen(teacher)
        self.weight = check_number("weight", weight, "be at least 0", lambda value: value >= 0)
        self.pairing = pairing

    def start(self, models: Models) -> None:
        """Let the inner objective look at the student."""
        self.inner.start(models)

    def plan(self, steps: int) -> None:
        """Tell the inner objective."""
        self.inner.plan(steps)

    def seen(self, models: Models, batch: Batch) -> Mapping[str, Batch]:
        """The first observer's views."""
        return dict.fromkeys(models, divided(self.pairing, batch)[0])

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of paired views."""
        own, others = divided(self.pairing, batch)
        name, model = next(iter(models.items()))
        listened = Listened(model)
        loss = self.inner({**models, name: listened.model}, own, generator)
        met = meeting_views(own, others)
        student = torch.cat([listened.features(view) for view, _ in met])
        taught = self.teacher(tuple(view for _, view in met))
        with torch.autocast(student.device.type, enabled=False):  # sums over a batch need their digits
            term = self._term(at_least_float32(student), at_least_float32(taught), len(met))
        return Loss(loss.total + self.weight * term, {**loss.terms, self.term: term})

    def _term(self, student: Tensor, taught: Tensor, views: int) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must define _term(student, taught, views)")

    def after_step(self, models: Models, step: int) -> None:
        """Let the inner objective act."""
        self.inner.after_step(models, step)

    def extra_repr(self) -> str:
        return f"weight={self.weight}, pairing={self.pairing}"


class Taught(FromTeacher):
    """The student's features, by a map that is solved as it learns, are to be the teacher's.

    Args:
        inner: what the student minimises by itself.
        teacher: a trained model; it is frozen.
        coupling: from the student's features to the teacher's.
        weight: beta.
        pairing: which views are the student's; None if both see all.

    Example:
        >>> from isojepa.objectives.lejepa import LeJEPA
        >>> student, teacher = nn.Linear(3, 2), nn.Linear(3, 4)
        >>> objective = Taught(LeJEPA(), teacher, Coupling(2, 4))
        >>> batch = Batch((torch.randn(32, 3), torch.randn(32, 3)))
        >>> sorted(objective({"encoder": as_model(student)}, batch, torch.Generator()).terms)
        ['alignment', 'regularizer', 'teaching']
    """

    @checked
    def __init__(
        self,
        inner: Callable[..., Any],
        teacher: nn.Module,
        coupling: Coupling,
        weight: float = 1.0,
        pairing: Pairing | None = None,
    ) -> None:
        super().__init__(inner, teacher, weight, pairing)
        self.coupling = coupling

    def _term(self, student: Tensor, taught: Tensor, views: int) -> Tensor:
        term: Tensor = self.coupling(student, taught)
        return term

    def after_step(self, models: Models, step: int) -> None:
        """Keep W, and let the inner objective act."""
        super().after_step(models, step)
        self.coupling.after_step(step)


class Imitated(FromTeacher):
    """Knowledge distillation: the student is to find alike what the teacher finds alike.

    Args:
        inner: what the student minimises by itself.
        teacher: a trained model; it is frozen.
        weight: beta.
        temperature: T.
        head: of the teacher, features to logits; it is frozen. None compares states of the batch.
        dim: of the student's features, where there is a head.
        pairing: which views are the student's; None if both see all.

    Example:
        >>> from isojepa.objectives.lejepa import LeJEPA
        >>> student, teacher = nn.Linear(3, 2), nn.Linear(3, 4)
        >>> batch = Batch((torch.randn(32, 3), torch.randn(32, 3)))
        >>> loss = Imitated(LeJEPA(), teacher)({"encoder": as_model(student)}, batch, torch.Generator())
        >>> sorted(loss.terms)
        ['alignment', 'distillation', 'regularizer']
    """

    term = "distillation"

    @checked
    def __init__(
        self,
        inner: Callable[..., Any],
        teacher: nn.Module,
        weight: float = 1.0,
        temperature: float = 0.1,
        head: nn.Linear | None = None,
        dim: int | None = None,
        pairing: Pairing | None = None,
    ) -> None:
        super().__init__(inner, teacher, weight, pairing)
        self.temperature = check_number("temperature", temperature, "be positive", lambda value: value > 0)
        if (head is None) != (dim is None):
            raise ValueError(
                f"head and dim go together, the teacher's head and the student's width, got {head}, {dim}"
            )
        self.head = None if head is None else head.requires_grad_(False)
        self.own_head: nn.Linear | None = None
        if head is not None and dim is not None:
            self.own_head = nn.utils.skip_init(nn.Linear, dim, head.out_features)
            nn.init.zeros_(self.own_head.weight)  # all classes alike: nothing is drawn
            nn.init.zeros_(self.own_head.bias)

    def _term(self, student: Tensor, taught: Tensor, views: int) -> Tensor:
        if self.head is not None and self.own_head is not None:
            target = functional.log_softmax(self.head(taught) / self.temperature, -1)
            found = functional.log_softmax(self.own_head(student) / self.temperature, -1)
            divergence = (target.exp() * (target - found)).sum()
            n = ranks.count(len(student), student.device)
            return self.temperature**2 * ranks.total(divergence) / n
        terms = [
            _divergence(ranks.gather(one), ranks.gather(other), self.temperature)
            for one, other in zip(student.chunk(views), taught.chunk(views), strict=True)
        ]
        return torch.stack(terms).mean()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, temperature={self.temperature}"


def divided(pairing: Pairing | None, batch: Batch) -> tuple[Batch, Batch]:
    """Each observer's batch; the same twice where there is one."""
    return (batch, batch) if pairing is None else pairing.divide(batch)


def meeting_views(own: Batch, others: Batch) -> list[tuple[Tensor, Tensor]]:
    """Global views of one observer, each with that of the other that it is compared with."""
    return [(own.views[v], others.views[v % others.global_views]) for v in range(own.global_views)]


def _divergence(student: Tensor, taught: Tensor, temperature: float) -> Tensor:
    """KL of the distributions over the other rows, mean over rows."""
    target, found = (_alike(rows, temperature) for rows in (taught, student))
    apart = (target.exp() * (target - found)).masked_fill(_own(len(found), found.device), 0.0)
    return apart.sum(1).mean()


def _alike(rows: Tensor, temperature: float) -> Tensor:
    """(n, n) log of softmax over the others of minus the halved squared distance per column, over T."""
    centred = rows - rows.mean(0)
    unit = centred / centred.square().mean(0).sqrt().clamp_min(torch.finfo(rows.dtype).eps)
    squares = unit.square().sum(1)
    apart = squares[:, None] + squares - 2 * unit @ unit.T
    alike = (-apart / (2 * rows.shape[1] * temperature)).masked_fill(_own(len(rows), rows.device), -math.inf)
    return functional.log_softmax(alike, -1).masked_fill(_own(len(rows), rows.device), 0.0)


def _own(n: int, device: torch.device) -> Tensor:
    return torch.eye(n, dtype=torch.bool, device=device)


@register("objective", "taught")
@dataclass(frozen=True)
class TaughtSpec(Spec):
    """A student with its own objective whose features, by a map solved on the way, are to be a teacher's."""

    costless: ClassVar = ("beta", "ridge", "memory")
    teacher: str = ""
    """Record of the teacher, or the safetensors file that `isojepa export` wrote of it."""
    inner: Spec = chosen("objective", LeJEPASpec)
    """What the student minimises by itself; `isojepa list objectives`."""
    beta: float = 1.0
    """Weight of what the teacher says."""
    every: int = 1
    """Steps between two solutions of the map."""
    memory: float = 0.0
    """Weight of earlier pairs at the next solution, in [0, 1)."""
    ridge: float = 1e-3
    """Penalty of the map, against the mean variance of the student's features."""

    def resolve(self, context: Context) -> "TaughtSpec":
        return replace(self, inner=self.inner.resolve(own_context(context)))

    def build(self, context: Context) -> Taught:
        teacher = context.trained(self.teacher)
        dims = own_dim(context), teacher_dim(teacher, context)
        coupling = Coupling(*dims, ridge=self.ridge, every=self.every, memory=self.memory)
        return Taught(self.inner.build(own_context(context)), teacher, coupling, self.beta, context.pairing)

    def operations(self, batch: float, dim: int) -> float:
        return self.inner.operations(batch, dim) + 12 * batch * dim**2


@register("objective", "imitated")
@dataclass(frozen=True)
class ImitatedSpec(Spec):
    """A student with its own objective that is to find alike what a teacher finds alike: distillation."""

    costless: ClassVar = ("beta", "softness")
    teacher: str = ""
    """Record of the teacher, or the safetensors file that `isojepa export` wrote of it."""
    inner: Spec = chosen("objective", LeJEPASpec)
    """What the student minimises by itself; `isojepa list objectives`."""
    beta: float = 1.0
    """Weight of what the teacher says."""
    softness: float = 0.1
    """Temperature of the similarities."""

    def resolve(self, context: Context) -> "ImitatedSpec":
        return replace(self, inner=self.inner.resolve(own_context(context)))

    def build(self, context: Context) -> Imitated:
        teacher = context.trained(self.teacher)
        inner = self.inner.build(own_context(context))
        return Imitated(inner, teacher, self.beta, self.softness, pairing=context.pairing)

    def operations(self, batch: float, dim: int) -> float:
        return self.inner.operations(batch, dim) + 12 * batch**2 * dim


def own_context(context: Context, observer: int = 0) -> Context:
    """What one observer's components may ask: the shapes of its own views."""
    if context.pairing is None or context.shapes is None:
        return context
    first = context.pairing.views[0]
    return replace(
        context, shapes=context.shapes[first:] if observer else context.shapes[:first], pairing=None
    )


def own_dim(context: Context) -> int:
    """Dimension of the features of the model that is trained.

    Raises:
        ValueError: nobody knows it.
    """
    if context.feature_dim is None:
        raise ValueError("teaching needs to know the dimension of the features: set the encoder's dim")
    return context.feature_dim


def teacher_dim(teacher: nn.Module, context: Context) -> int:
    """Dimension of a teacher's features, by trying it on the views it will see.

    Raises:
        ValueError: it does not take them.
    """
    shapes = own_context(context, observer=1).shapes
    if shapes is None:
        raise ValueError(
            "teaching needs to know the shapes of the views, got a world that does not tell them"
        )
    try:
        tried: Tensor = Frozen(teacher)((torch.zeros(2, *shapes[0]),))
        return tried.shape[1]
    except RuntimeError as error:
        raise ValueError(f"the teacher does not take views of shape {shapes[0]}: {error}") from error
