"""Teaching: a student with a trained teacher, knowledge distillation, and two learners at once.

`RidgeCoupling` (Social-JEPA, A.6) is the linear map between two models while they train: z2 ~ W z1, solved
repeatedly and never differentiated. Of rows z1 (n, p) and z2 (n, q) of the same states, with means m1, m2 and
the standard deviations s2 of the columns of z2,

    W = S21 (S11 + r tr(S11)/p I)^-1        S11 = cov(z1),  S21 = cov(z2 / s2, z1)

is ridge regression with a penalty of r times the mean variance of z1: W exists for batches smaller than p
too, and the strength of the penalty does not depend on units. The error compares (z2 - m2) / s2 with W (z1 -
m1), so predicting the mean gives 1 per column. W, means and standard deviations carry no gradient. If W was
solved on the very rows that it is applied to, the gradient of the squared error is, up to the ridge, that of
its minimum over W. Moments are those of the batch on all ranks; with a memory, also those of earlier batches,
discounted by the factor `memory` from one solution to the next.

Students minimize

    total = inner(student) + beta * term

`TeacherStudent` is that of Algorithm 2: with features z_T of the teacher and z_S of the student,

    term = mean |(z_T - m_T) / s_T - W_t (z_S - m_S)|^2 / q

with W_t solved on the current pairs, or every few steps. Algorithm 2 has the sum of squares; standardized and
per column, beta does not depend on the width and units of the teacher.

`KnowledgeDistillation` is the baseline (Hinton, Vinyals & Dean 2015), in two variants:

    with a head   p = softmax(head(z_T) / T): a linear probe of the teacher, trained with labels. The student
    has a
                  learned head, and term = T^2 KL(p | q), as published.
    without       p_i = softmax over j != i of -|u_i - u_j|^2 / (2 q T), of features u with columns
    standardized over
                  the batch: similarities of states. No labels are needed, and widths may differ.
                  term = KL(p | q), mean over the batch. Cosines instead of distances, as usual, would not
                  depend on the distance of a state from the mean.

Views of both observers come in one batch; those of the student are first (`isojepa.data.Paired`). Without a
pairing teacher and student see the same views. Global views are paired by index; if the teacher has fewer,
its index wraps around. The teacher gets no gradient and stays in evaluation mode.

`MutualLearning` (Social-JEPA, Section 3.7 and Algorithm 2, mode Mutual) trains two models:

    total = inner_1(model 1) + inner_2(model 2) + gamma * mean |(z2 - m2) / s2 - W (z1 - m1)|^2 / q

z1 and z2 are the features of paired observations. W carries no gradient; both models do. Table 9 has two
methods:

    method A, weak coupling      W is solved every few steps, `RidgeCoupling(every=...)`: in between, both
    models
                                 move towards a fixed map
    method B, strong coupling    W is solved at each step, `RidgeCoupling(every=1)`

With gamma = 0 the models learn separately and no W is solved. Only its inner objective prevents z2 from
shrinking to the part that W explains.
"""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from isojepa import ranks
from isojepa.data.batch import Batch
from isojepa.data.observers import Pairing
from isojepa.encoders.mlp import MLPSpec
from isojepa.encoders.model import Model, Plain, as_model
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.objectives.objective import Loss, Models, Objective, as_objective, at_least_float32
from isojepa.registry import Context, Spec, component_field, register
from isojepa.validation import check_count, check_number, validate_types


class RidgeSolver(nn.Module):
    """Solve W from rows and earlier moments; a module so that its operations can be counted separately.

    Args:
        ridge: penalty r.
        memory: weight of earlier moments.
    """

    def __init__(self, ridge: float, memory: float) -> None:
        super().__init__()
        self.ridge, self.memory = ridge, memory

    def forward(self, first: Tensor, second: Tensor, before: dict[str, Tensor]) -> dict[str, Tensor]:
        """Solve W on rows (n, p) and (n, q) of all ranks.

        Args:
            first, second: the rows.
            before: earlier moments: their weight "seen" (), "mean" (p + q,) and centered "products".

        Returns:
            The moments by the same names, "weight" W (q, p) and "deviation" (q,), the standard deviations of
            z2.
        """
        both = torch.cat((first, second), 1)
        if both.device.type != "mps":  # which has no float64
            both = both.double()
        n = ranks.count(len(both), both.device)
        mean = ranks.mean(both, n)
        centered = both - mean
        count, products = both.new_tensor(float(n)), ranks.total(centered.T @ centered)
        if self.memory:
            old = self.memory * before["seen"].to(both)
            step, total = mean - before["mean"].to(both), count + old
            products = products + self.memory * before["products"].to(both)
            products = products + torch.outer(step, step) * (old * count / total)
            mean, count = mean - step * (old / total), total
        weight, deviation = self._solve(products / count, first.shape[1])
        return {"seen": count, "mean": mean, "products": products, "weight": weight, "deviation": deviation}

    def _solve(self, covariance: Tensor, width: int) -> tuple[Tensor, Tensor]:
        gram, cross = covariance[:width, :width], covariance[:width, width:]
        deviation = covariance.diagonal()[width:].clamp_min(0).sqrt()
        deviation = torch.where(deviation > 0, deviation, torch.ones_like(deviation))
        # a collapsed model has no variance: its W is 0, not 0/0
        penalty = (self.ridge * gram.diagonal().mean()).clamp_min(torch.finfo(gram.dtype).tiny)
        ridged = gram + penalty * torch.eye(width, dtype=gram.dtype, device=gram.device)
        factor, _ = torch.linalg.cholesky_ex(ridged)  # NaN gives NaN, which the training loop reports
        return torch.cholesky_solve(cross / deviation, factor).T, deviation


class RidgeCoupling(nn.Module):
    """Linear map from the features of one model to those of another, solved repeatedly.

    Args:
        first_dim, second_dim: p and q.
        ridge: penalty r, positive.
        every: steps between two solutions.
        memory: discount of earlier batches per solution, in [0, 1); 0 for the current batch only.

    Example:
        >>> coupling = RidgeCoupling(2, 2, ridge=1e-6)
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

    @validate_types
    def __init__(
        self, first_dim: int, second_dim: int, *, ridge: float = 1e-3, every: int = 1, memory: float = 0.0
    ) -> None:
        super().__init__()
        self.first_dim = check_count("first_dim", first_dim)
        self.second_dim = check_count("second_dim", second_dim)
        self.every = check_count("every", every)
        self.solver = RidgeSolver(
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
        self._next: dict[str, Tensor] = {}  # solution of this step, stored after it

    @property
    def due(self) -> bool:
        """Whether W is solved at the next step."""
        return int(self.steps) % self.every == 0

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Mean squared error per column of W z1 against z2, on all ranks, with gradients to both.

        Args:
            first: (n, p).
            second: (n, q), rows of the same states.

        Raises:
            ValueError: shapes do not match.
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
        """Store the solution of the step; `step` steps are done."""
        for name, value in self._next.items():
            getattr(self, name).copy_(value)
        self._next = {}
        self.steps.fill_(step)

    def extra_repr(self) -> str:
        return f"ridge={self.solver.ridge}, every={self.every}, memory={self.solver.memory}"


class FeatureCache:
    """Features that a model has computed in this step, so that a second use needs no second forward pass.

    Views are recognized by content. Features of other views are computed.

    Args:
        model: the model.

    Attributes:
        model: a shallow copy with the same weights, which records its features.

    Example:
        >>> calls = []
        >>> def double(x):
        ...     calls.append(len(x))
        ...     return 2 * x
        >>> cache, x = FeatureCache(Plain(double)), torch.arange(6.0).reshape(6, 1)
        >>> _ = cache.model.embed(x)
        >>> cache.features(x[3:]).flatten().tolist(), calls
        ([6.0, 8.0, 10.0], [6])
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._cache: list[tuple[Tensor, Tensor]] = []
        # a shallow copy shares all weights; its `embed` calls the replaced `features`
        twin: Any = copy.copy(model)
        compute = model.features

        def features(x: Tensor) -> Tensor:
            h = compute(x)
            self._cache.append((x, h))
            return h

        twin.features = features
        if isinstance(model, Plain):
            twin.embed = features
        self.model: Model = twin

    def features(self, view: Tensor) -> Tensor:
        """Features (batch, dim) of a view, from the cache if it was part of an earlier call."""
        for x, h in self._cache:
            if x.shape[1:] != view.shape[1:] or len(x) % len(view):
                continue
            for start in range(0, len(x), len(view)):
                if torch.equal(x[start : start + len(view)], view):
                    return h[start : start + len(view)]
        h = self._model.features(view)
        self._cache.append((view, h))
        return h


class FrozenTeacher(nn.Module):
    """A frozen trained model: no gradient, always in evaluation mode.

    Args:
        model: any model that is a module.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> "FrozenTeacher":
        """Stay in evaluation mode."""
        return super().train(False)

    def forward(self, views: tuple[Tensor, ...]) -> Tensor:
        """Features (view * batch, dim)."""
        with torch.no_grad():
            return torch.cat([as_model(self.model).features(view) for view in views])


class TeacherTerm(Objective):
    """Base of objectives with a teacher: inner objective plus weight times a term; subclasses define `_term`.

    Args:
        inner: objective of the student: an `Objective`, or a loss of views such as `LeJEPA`.
        teacher: a trained model; it is frozen.
        weight: beta, not negative.
        pairing: assigns views to student (the first observer) and teacher; None if both see all.
    """

    term = "teaching"

    def __init__(
        self, inner: Callable[..., Any], teacher: nn.Module, weight: float, pairing: Pairing | None
    ) -> None:
        super().__init__()
        self.inner, self.teacher = as_objective(inner), FrozenTeacher(teacher)
        self.weight = check_number("weight", weight, "be at least 0", lambda value: value >= 0)
        self.pairing = pairing

    def start(self, models: Models) -> None:
        """Start the inner objective."""
        self.inner.start(models)

    def plan(self, steps: int) -> None:
        """Set up schedules of the inner objective."""
        self.inner.plan(steps)

    def views_for_model(self, models: Models, batch: Batch) -> Mapping[str, Batch]:
        """The views of the first observer."""
        return dict.fromkeys(models, split_observers(self.pairing, batch)[0])

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of paired views."""
        first, second = split_observers(self.pairing, batch)
        name, model = next(iter(models.items()))
        cache = FeatureCache(model)
        loss = self.inner({**models, name: cache.model}, first, generator)
        pairs = matched_views(first, second)
        student = torch.cat([cache.features(view) for view, _ in pairs])
        teacher = self.teacher(tuple(view for _, view in pairs))
        with torch.autocast(student.device.type, enabled=False):  # sums over a batch need their digits
            term = self._term(at_least_float32(student), at_least_float32(teacher), len(pairs))
        return Loss(loss.total + self.weight * term, {**loss.terms, self.term: term})

    def _term(self, student: Tensor, teacher: Tensor, views: int) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must define _term(student, teacher, views)")

    def after_step(self, models: Models, step: int) -> None:
        """Update the inner objective."""
        self.inner.after_step(models, step)

    def extra_repr(self) -> str:
        return f"weight={self.weight}, pairing={self.pairing}"


class TeacherStudent(TeacherTerm):
    """Features of the student, under a linear map solved during training, approximate those of the teacher.

    Args:
        inner: objective of the student.
        teacher: a trained model; it is frozen.
        coupling: from the student's features to the teacher's.
        weight: beta.
        pairing: assigns views to student and teacher; None if both see all.

    Example:
        >>> from isojepa.objectives.lejepa import LeJEPA
        >>> student, teacher = nn.Linear(3, 2), nn.Linear(3, 4)
        >>> objective = TeacherStudent(LeJEPA(), teacher, RidgeCoupling(2, 4))
        >>> batch = Batch((torch.randn(32, 3), torch.randn(32, 3)))
        >>> sorted(objective({"encoder": as_model(student)}, batch, torch.Generator()).terms)
        ['alignment', 'regularizer', 'teaching']
    """

    @validate_types
    def __init__(
        self,
        inner: Callable[..., Any],
        teacher: nn.Module,
        coupling: RidgeCoupling,
        weight: float = 1.0,
        pairing: Pairing | None = None,
    ) -> None:
        super().__init__(inner, teacher, weight, pairing)
        self.coupling = coupling

    def _term(self, student: Tensor, teacher: Tensor, views: int) -> Tensor:
        term: Tensor = self.coupling(student, teacher)
        return term

    def after_step(self, models: Models, step: int) -> None:
        """Store W, and update the inner objective."""
        super().after_step(models, step)
        self.coupling.after_step(step)


class KnowledgeDistillation(TeacherTerm):
    """Knowledge distillation: class probabilities, or similarities of states, of the teacher as targets.

    Args:
        inner: objective of the student.
        teacher: a trained model; it is frozen.
        weight: beta.
        temperature: T.
        head: of the teacher, features to logits; it is frozen. None compares similarities of states.
        dim: of the features of the student, with a head.
        pairing: assigns views to student and teacher; None if both see all.

    Example:
        >>> from isojepa.objectives.lejepa import LeJEPA
        >>> student, teacher = nn.Linear(3, 2), nn.Linear(3, 4)
        >>> batch = Batch((torch.randn(32, 3), torch.randn(32, 3)))
        >>> objective = KnowledgeDistillation(LeJEPA(), teacher)
        >>> loss = objective({"encoder": as_model(student)}, batch, torch.Generator())
        >>> sorted(loss.terms)
        ['alignment', 'distillation', 'regularizer']
    """

    term = "distillation"

    @validate_types
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
            nn.init.zeros_(self.own_head.weight)  # uniform classes, without randomness
            nn.init.zeros_(self.own_head.bias)

    def _term(self, student: Tensor, teacher: Tensor, views: int) -> Tensor:
        if self.head is not None and self.own_head is not None:
            target = functional.log_softmax(self.head(teacher) / self.temperature, -1)
            predicted = functional.log_softmax(self.own_head(student) / self.temperature, -1)
            divergence = (target.exp() * (target - predicted)).sum()
            n = ranks.count(len(student), student.device)
            return self.temperature**2 * ranks.total(divergence) / n
        terms = [
            _divergence(ranks.gather(one), ranks.gather(other), self.temperature)
            for one, other in zip(student.chunk(views), teacher.chunk(views), strict=True)
        ]
        return torch.stack(terms).mean()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, temperature={self.temperature}"


def split_observers(pairing: Pairing | None, batch: Batch) -> tuple[Batch, Batch]:
    """The batch of each observer; the same twice without a pairing."""
    return (batch, batch) if pairing is None else pairing.divide(batch)


def matched_views(first: Batch, second: Batch) -> list[tuple[Tensor, Tensor]]:
    """Pairs of global views of two observers."""
    return [(first.views[v], second.views[v % second.global_views]) for v in range(first.global_views)]


def _divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """KL divergence of the distributions over the other rows, mean over rows."""
    target, predicted = (_log_similarities(rows, temperature) for rows in (teacher, student))
    terms = (target.exp() * (target - predicted)).masked_fill(_diagonal(len(target), target.device), 0.0)
    return terms.sum(1).mean()


def _log_similarities(rows: Tensor, temperature: float) -> Tensor:
    """(n, n) log softmax over the other rows of minus half the squared distance per column, over T."""
    centered = rows - rows.mean(0)
    unit = centered / centered.square().mean(0).sqrt().clamp_min(torch.finfo(rows.dtype).eps)
    squares = unit.square().sum(1)
    distances = squares[:, None] + squares - 2 * unit @ unit.T
    diagonal = _diagonal(len(rows), rows.device)
    logits = (-distances / (2 * rows.shape[1] * temperature)).masked_fill(diagonal, -math.inf)
    return functional.log_softmax(logits, -1).masked_fill(diagonal, 0.0)


def _diagonal(n: int, device: torch.device) -> Tensor:
    return torch.eye(n, dtype=torch.bool, device=device)


@register("objective", "taught")
@dataclass(frozen=True)
class TeacherStudentSpec(Spec):
    """Teacher-student: features of the student approximate those of a teacher under a linear map."""

    costless: ClassVar = ("beta", "ridge", "memory")
    teacher: str = ""
    """Run directory of the teacher, or its safetensors file from `isojepa export`."""
    inner: Spec = component_field("objective", LeJEPASpec)
    """Objective of the student itself; `isojepa list objectives`."""
    beta: float = 1.0
    """Weight of the teacher's term."""
    every: int = 1
    """Steps between two solutions of the linear map."""
    memory: float = 0.0
    """Discount of earlier pairs per solution, in [0, 1)."""
    ridge: float = 1e-3
    """Ridge penalty of the map, relative to the mean variance of the features."""

    def resolve(self, context: Context) -> "TeacherStudentSpec":
        return replace(self, inner=self.inner.resolve(observer_context(context)))

    def build(self, context: Context) -> TeacherStudent:
        teacher = context.trained(self.teacher)
        dims = student_dim(context), teacher_dim(teacher, context)
        coupling = RidgeCoupling(*dims, ridge=self.ridge, every=self.every, memory=self.memory)
        return TeacherStudent(
            self.inner.build(observer_context(context)), teacher, coupling, self.beta, context.pairing
        )

    def operations(self, batch: float, dim: int) -> float:
        return self.inner.operations(batch, dim) + 12 * batch * dim**2


@register("objective", "imitated")
@dataclass(frozen=True)
class KnowledgeDistillationSpec(Spec):
    """Knowledge distillation: similarities of states for the teacher are targets of the student."""

    costless: ClassVar = ("beta", "softness")
    teacher: str = ""
    """Run directory of the teacher, or its safetensors file from `isojepa export`."""
    inner: Spec = component_field("objective", LeJEPASpec)
    """Objective of the student itself; `isojepa list objectives`."""
    beta: float = 1.0
    """Weight of the teacher's term."""
    softness: float = 0.1
    """Temperature of the similarities."""

    def resolve(self, context: Context) -> "KnowledgeDistillationSpec":
        return replace(self, inner=self.inner.resolve(observer_context(context)))

    def build(self, context: Context) -> KnowledgeDistillation:
        teacher = context.trained(self.teacher)
        inner = self.inner.build(observer_context(context))
        return KnowledgeDistillation(inner, teacher, self.beta, self.softness, pairing=context.pairing)

    def operations(self, batch: float, dim: int) -> float:
        return self.inner.operations(batch, dim) + 12 * batch**2 * dim


def observer_context(context: Context, observer: int = 0) -> Context:
    """The context of the components of one observer, with the shapes of its views."""
    if context.pairing is None or context.shapes is None:
        return context
    first = context.pairing.views[0]
    return replace(
        context, shapes=context.shapes[first:] if observer else context.shapes[:first], pairing=None
    )


def student_dim(context: Context) -> int:
    """Dimension of the features of the trained model.

    Raises:
        ValueError: it is unknown.
    """
    if context.feature_dim is None:
        raise ValueError("teaching needs to know the dimension of the features: set the encoder's dim")
    return context.feature_dim


def teacher_dim(teacher: nn.Module, context: Context) -> int:
    """Dimension of the features of a teacher, by a forward pass on its views.

    Raises:
        ValueError: it does not accept them.
    """
    shapes = observer_context(context, observer=1).shapes
    if shapes is None:
        raise ValueError("teaching needs to know the shapes of the views, got a world of unknown shapes")
    try:
        features: Tensor = FrozenTeacher(teacher)((torch.zeros(2, *shapes[0]),))
        return features.shape[1]
    except RuntimeError as error:
        raise ValueError(f"the teacher does not take views of shape {shapes[0]}: {error}") from error


PARTNER = "partner"


class MutualLearning(Objective):
    """Two models, each with its objective, and the linear map between their features.

    Args:
        inner: objective of the first model: an `Objective`, or a loss of views.
        coupling: from the features of the first model to those of the second.
        weight: gamma, not negative.
        pairing: assigns views to the models; None if both see all.
        second: objective of the second model; by default a copy of `inner`.
        partner: the second model, if the run trains one model and this objective owns the other.

    Example:
        >>> from isojepa.objectives.lejepa import LeJEPA
        >>> objective = MutualLearning(LeJEPA(), RidgeCoupling(2, 2))
        >>> models = {name: as_model(nn.Linear(3, 2)) for name in ("left", "right")}
        >>> batch = Batch((torch.randn(32, 3), torch.randn(32, 3)))
        >>> sorted(objective(models, batch, torch.Generator()).terms)
        ['alignment', 'cross', 'regularizer', 'right.alignment', 'right.regularizer']
    """

    @validate_types
    def __init__(
        self,
        inner: Callable[..., Any],
        coupling: RidgeCoupling,
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
        """Start both inner objectives."""
        first, second = self._both(models)
        self.inner.start(first)
        self.second.start(second)

    def plan(self, steps: int) -> None:
        """Set up schedules of both."""
        self.inner.plan(steps)
        self.second.plan(steps)

    def views_for_model(self, models: Models, batch: Batch) -> Mapping[str, Batch]:
        """The views of the observer of each model."""
        parts = split_observers(self.pairing, batch)
        return dict(zip(models, parts, strict=False))

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of paired views."""
        parts = split_observers(self.pairing, batch)
        caches: list[FeatureCache] = []
        losses: list[Loss] = []
        names: list[str] = []
        for objective, one, part in zip((self.inner, self.second), self._both(models), parts, strict=True):
            name, model = next(iter(one.items()))
            caches.append(FeatureCache(model))
            losses.append(objective({name: caches[-1].model}, part, generator))
            names.append(name)
        others = {f"{names[1]}.{name}": value for name, value in losses[1].terms.items()}
        total, terms = losses[0].total + losses[1].total, {**losses[0].terms, **others}
        if not self.weight:
            return Loss(total, terms)
        pairs = matched_views(*parts)
        first, second = (
            torch.cat([cache.features(pair[side]) for pair in pairs]) for side, cache in enumerate(caches)
        )
        with torch.autocast(first.device.type, enabled=False):  # sums over a batch need their digits
            term = self.coupling(first, second)
        return Loss(total + self.weight * term, {**terms, "cross": term})

    def after_step(self, models: Models, step: int) -> None:
        """Store W, and update both inner objectives."""
        for objective, one in zip((self.inner, self.second), self._both(models), strict=True):
            objective.after_step(one, step)
        self.coupling.after_step(step)

    def _both(self, models: Models) -> tuple[dict[str, Model], dict[str, Model]]:
        both = list(models.items())
        if self.partner is not None:
            both = [*both[:1], (PARTNER, as_model(self.partner))]
        if len(both) != 2:
            raise ValueError(
                f"mutual teaching needs two models, or one and a partner of the objective, got {len(both)}"
            )
        return dict(both[:1]), dict(both[1:])

    def extra_repr(self) -> str:
        return f"weight={self.weight}, pairing={self.pairing}"


@register("objective", "mutual")
@dataclass(frozen=True)
class MutualLearningSpec(Spec):
    """Mutual learning: two models, each with its objective, coupled by a linear map."""

    costless: ClassVar = ("gamma", "ridge", "memory")
    partner: Spec = component_field("encoder", MLPSpec)
    """The second model; `isojepa list encoders`."""
    inner: Spec = component_field("objective", LeJEPASpec)
    """Objective of each model; `isojepa list objectives`."""
    gamma: float = 1.0
    """Weight of the coupling term."""
    every: int = 1
    """Steps between two solutions of the map: 1 is method B, more is method A."""
    memory: float = 0.0
    """Discount of earlier pairs per solution, in [0, 1)."""
    ridge: float = 1e-3
    """Ridge penalty of the map, relative to the mean variance of the features."""

    def resolve(self, context: Context) -> "MutualLearningSpec":
        second = observer_context(context, observer=1)
        return replace(
            self,
            inner=self.inner.resolve(observer_context(context)),
            partner=self.partner.resolve(second),
        )

    def build(self, context: Context) -> MutualLearning:
        first, second = observer_context(context), observer_context(context, observer=1)
        second = replace(second, seed=context.seed + 1)  # two models of one seed would start equal
        second = replace(
            second,
            embedding=self.partner.embedding(second),
            feature_dim=self.partner.feature_dim(second),
            transformer=self.partner.transformer(second),
        )
        coupling = RidgeCoupling(
            student_dim(first), student_dim(second), ridge=self.ridge, every=self.every, memory=self.memory
        )
        return MutualLearning(
            self.inner.build(first),
            coupling,
            self.gamma,
            context.pairing,
            self.inner.build(second),
            self.partner.build(second),
        )

    def operations(self, batch: float, dim: int) -> float:
        return 2 * self.inner.operations(batch, dim) + 12 * batch * dim**2
