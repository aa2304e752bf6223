"""Self-distillation over prototypes: DINO, iBOT and DINOv2.

K unit vectors are prototypes; logits are cosines with them. With the logits s of a student, t of a teacher,
its exponential moving average, and temperatures T_s and T_t,

    student  log softmax(s / T_s)
    teacher  softmax((t - c) / T_t), the center c a moving average of the batch mean of t ("mean", DINO), or
             Sinkhorn's balanced assignments of the batch at temperature T_t ("sinkhorn", SwAV, DINOv2)

Both prevent the collapse of the teacher to one prototype. T_t warms up linearly.

DINO (Caron et al. 2021, ICCV, Algorithm 1). The student sees all views, the teacher the global views only:

    loss = mean over pairs u != v and the batch of  - softmax((t_u - c) / T_t) . log softmax(s_v / T_s)

After each step the center moves towards the mean of the teacher's logits over the batch of all ranks, and the
teacher towards the student. Not implemented of the released recipe: a head of three layers (here the
projector of the model), prototypes frozen in the first epoch, schedules of EMA decay and weight decay.

iBOT (Zhou et al. 2022, ICLR, equations 2 and 3). The student sees global views with a mask token for some
patches, and local views; the teacher sees global views unmasked. With probabilities over prototypes P of the
student and Q of the teacher,

    classes = mean over images and pairs u != v of views of  - Q_u . log P_v     of embeddings, as DINO
    patches = mean over images and global views of the mean over hidden patches of - Q_j . log P_j
    loss    = classes + patches + koleo * sum over global views of KoLeo(features)

DINOv2 (Oquab et al. 2024, TMLR) adds KoLeo with weight 0.1 on the [CLS] tokens of the student in each global
view, and replaces the center by Sinkhorn's iteration. Half of the images have hidden patches, in blocks that
cover 0.1 to 0.5 of the image (`scattered_blocks`; Bao et al. 2022, ICLR, BEiT, Algorithm 1). An image without
hidden patches counts as 0 in the mean, as in both released codes.

Differences from the released recipes: [CLS] passes the projector of the model, patches a head of the
objective (three layers with GELU, no norms) with separate prototypes, as in DINOv2, where iBOT by default
shares the head; the center of the patches is that of the hidden ones; prototypes are not frozen in the first
epoch, and weight decay is constant.

KoLeo spreads vectors on the sphere (Sablayrolles et al. 2019, ICLR, equation 3):

    KoLeo(x) = - (1/n) sum_i log min_{j != i} |u_i - u_j|,    u_i = x_i / |x_i|

up to a constant the Kozachenko-Leonenko estimate of minus the entropy of the u_i. The nearest neighbor is
searched in the batch of all ranks; DINOv2's code searches on each device.
"""

import copy
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from isojepa import ranks
from isojepa.data.batch import Batch
from isojepa.encoders.layers import follow
from isojepa.encoders.mlp import MLP
from isojepa.encoders.patches import patch_model
from isojepa.objectives.masked import Grid, check_tokens, token_dim
from isojepa.objectives.objective import (
    Loss,
    Models,
    Objective,
    Teacher,
    at_least_float32,
    check_samples,
    check_views,
    embed_views,
)
from isojepa.registry import Context, Spec, register
from isojepa.validation import check_count, check_number, choose, validate_types
from isojepa_lab.baselines.swav import Prototypes, across_views, sinkhorn

CENTRINGS = {"mean": "subtract a moving average of the logits", "sinkhorn": "balance the assignments"}


class Distillation(nn.Module):
    """Prototypes of student and teacher, the center of the teacher, and both temperatures.

    Args:
        dim: of the vectors.
        prototypes: number of prototypes K.
        student_temperature: T_s.
        teacher_temperature: T_t after the warm-up.
        first_temperature: T_t at the first step.
        warmup: warm-up steps of T_t.
        centre_decay: EMA decay of the center, in [0, 1].
        centring: "mean" or "sinkhorn".
        seed: initializes the prototypes.

    Example:
        >>> part = Distillation(dim=4, prototypes=6)
        >>> target, log_target = part.teach(torch.randn(2, 5, 4))
        >>> target.shape, part.student(torch.randn(3, 5, 4)).shape
        (torch.Size([2, 5, 6]), torch.Size([3, 5, 6]))
    """

    centre: Tensor
    steps: Tensor

    @validate_types
    def __init__(
        self,
        dim: int,
        prototypes: int = 1024,
        student_temperature: float = 0.1,
        teacher_temperature: float = 0.07,
        first_temperature: float = 0.04,
        warmup: int = 1000,
        centre_decay: float = 0.9,
        centring: str = "mean",
        seed: int = 0,
    ) -> None:
        super().__init__()
        temperatures = {
            "student_temperature": student_temperature,
            "teacher_temperature": teacher_temperature,
            "first_temperature": first_temperature,
        }
        for name, value in temperatures.items():
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value}")
        if warmup < 0:
            raise ValueError(f"warmup must not be negative, got {warmup}")
        if not 0 <= centre_decay <= 1:
            raise ValueError(f"centre_decay must lie in [0, 1], got {centre_decay}")
        choose("centring", centring, CENTRINGS)
        self.student_temperature, self.teacher_temperature = student_temperature, teacher_temperature
        self.first_temperature, self.warmup = first_temperature, warmup
        self.centre_decay, self.centring = centre_decay, centring
        self.head = Prototypes(dim, prototypes, seed)
        self.teacher_head = copy.deepcopy(self.head).requires_grad_(False)
        self.register_buffer("centre", torch.zeros(prototypes))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self._means: list[Tensor] = []  # mean teacher logits of the parts of the batch of this step

    @property
    def temperature(self) -> float:
        """T_t of the next step."""
        done = min(1.0, int(self.steps) / self.warmup) if self.warmup else 1.0
        return self.first_temperature + done * (self.teacher_temperature - self.first_temperature)

    def student(self, h: Tensor) -> Tensor:
        """Log probabilities of the student: (..., dim) to (..., prototypes)."""
        return functional.log_softmax(self.head(h) / self.student_temperature, -1)

    @torch.no_grad()
    def teach(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities of the teacher for vectors (..., dim), and their logarithms.

        All ranks must call it together; a rank may have no vectors.
        """
        logits = self.teacher_head(h)
        rows = logits.reshape(-1, logits.shape[-1])
        if self.centring == "sinkhorn":
            target = sinkhorn(rows, self.temperature).reshape(logits.shape)
            return target, target.clamp(min=torch.finfo(target.dtype).tiny).log()
        log_target = functional.log_softmax((logits - self.centre) / self.temperature, -1)
        if self.training and (n := ranks.count(len(rows), rows.device)):
            self._means.append(ranks.total(rows.sum(0)) / n)
        return log_target.exp(), log_target

    def after_step(self, step: int, decay: float) -> None:
        """Update the prototypes of the teacher, its center and its temperature; `step` steps are done."""
        follow(self.teacher_head, self.head, decay)
        if self._means:
            self.centre.lerp_(torch.stack(self._means).mean(0).to(self.centre), 1 - self.centre_decay)
        self._means = []
        self.steps.fill_(step)

    def extra_repr(self) -> str:
        return (
            f"student_temperature={self.student_temperature}, "
            f"teacher_temperature={self.teacher_temperature}, first_temperature={self.first_temperature}, "
            f"warmup={self.warmup}, centre_decay={self.centre_decay}, centring={self.centring!r}"
        )


def entropy(target: Tensor, log_target: Tensor) -> Tensor:
    """Mean entropy of probabilities (view, batch, K)."""
    n = ranks.count(target.shape[1], target.device)
    return -ranks.total((target * log_target).sum()) / (n * len(target))


_KOLEO_EPS = 1e-8  # added to distances, and to coordinate differences as by torch's pairwise_distance


def koleo(x: Tensor) -> Tensor:
    """KoLeo of a batch.

    Args:
        x: (samples, dim) of this rank.

    Returns:
        A scalar, the same on all ranks.

    Raises:
        ValueError: all ranks together have fewer than two samples.

    Example:
        >>> round(float(koleo(torch.eye(3))), 4)  # - log sqrt 2
        -0.3466
    """
    u = ranks.gather(functional.normalize(at_least_float32(check_samples(x)), dim=-1, eps=_KOLEO_EPS))
    with torch.no_grad():
        nearest = (u @ u.T).fill_diagonal_(-2.0).argmax(1)
    distance = functional.pairwise_distance(u, u[nearest], eps=_KOLEO_EPS)
    return -torch.log(distance + _KOLEO_EPS).mean()


class DINO(Objective):
    """Cross entropy between the teacher on global views and the student on the other views.

    Args:
        dim: of the embedding.
        prototypes: number of prototypes K.
        decay: EMA decay of the teacher, in [0, 1].
        student_temperature: T_s.
        teacher_temperature: T_t after the warm-up.
        first_temperature: T_t at the first step.
        warmup: warm-up steps of T_t.
        centre_decay: EMA decay of the center, in [0, 1].
        seed: initializes the prototypes.

    Example:
        >>> from isojepa.encoders.model import as_model
        >>> batch = Batch((torch.randn(16, 8),) * 4, global_views=2)
        >>> models = {"encoder": as_model(torch.nn.Linear(8, 4))}
        >>> loss = DINO(dim=4, prototypes=32)(models, batch, torch.Generator())
        >>> sorted(loss.terms)
        ['alignment', 'teacher_entropy']
    """

    prevents_collapse = False

    @validate_types
    def __init__(
        self,
        dim: int,
        prototypes: int = 1024,
        decay: float = 0.996,
        student_temperature: float = 0.1,
        teacher_temperature: float = 0.07,
        first_temperature: float = 0.04,
        warmup: int = 1000,
        centre_decay: float = 0.9,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.distillation = Distillation(
            dim,
            prototypes,
            student_temperature,
            teacher_temperature,
            first_temperature,
            warmup,
            centre_decay,
            seed=seed,
        )
        self.teacher = Teacher(decay)

    def start(self, models: Models) -> None:
        """Copy the model as the teacher."""
        self.teacher.start(next(iter(models.values())))

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of at least two views."""
        model = next(iter(models.values()))
        h = check_views(embed_views(model, batch.views), generator)
        h_teacher = self.teacher(model, batch.views[: batch.global_views])
        with torch.autocast(h.device.type, enabled=False):  # sums over a batch need their digits
            target, log_target = self.distillation.teach(h_teacher)
            alignment = across_views(self.distillation.student(h), target)
        return Loss(alignment, {"alignment": alignment, "teacher_entropy": entropy(target, log_target)})

    def after_step(self, models: Models, step: int) -> None:
        """Update the teacher, its center and its temperature."""
        self.teacher.follow(next(iter(models.values())), step)
        self.distillation.after_step(step, self.teacher.decay_at(step))


@register("objective", "dino")
@dataclass(frozen=True)
class DINOSpec(Spec):
    """DINO: self-distillation over prototypes with an EMA teacher."""

    costless: ClassVar = (
        "decay",
        "student_temperature",
        "teacher_temperature",
        "first_temperature",
        "warmup",
        "centre_decay",
    )
    prototypes: int = 1024
    """Number of prototypes."""
    decay: float = 0.996
    """EMA decay of the teacher."""
    student_temperature: float = 0.1
    """Temperature of the student."""
    teacher_temperature: float = 0.07
    """Temperature of the teacher after the warm-up."""
    first_temperature: float = 0.04
    """Temperature of the teacher at the first step."""
    warmup: int = 1000
    """Warm-up steps of the temperature of the teacher."""
    centre_decay: float = 0.9
    """EMA decay of the center."""

    def build(self, context: Context) -> DINO:
        if context.embedding is None:
            raise ValueError("dino needs to know the embedding dimension: set the encoder's dim")
        return DINO(
            context.embedding,
            self.prototypes,
            self.decay,
            self.student_temperature,
            self.teacher_temperature,
            self.first_temperature,
            self.warmup,
            self.centre_decay,
            context.seed,
        )

    def operations(self, batch: float, dim: int) -> float:
        return 2 * batch * self.prototypes * (6 * dim + 50)


@validate_types
def scattered_blocks(
    rows: int,
    grid: Grid,
    generator: torch.Generator,
    *,
    chance: float = 0.5,
    least: float = 0.1,
    most: float = 0.5,
    tries: int = 12,
) -> Tensor:
    """Masks of blocks of many shapes: (rows, token), with unequal numbers of True.

    Each row has blocks with probability `chance`, and then a budget uniform from `least` to `most`. Blocks
    are placed one after another, with an area up to the rest of the budget and an aspect ratio log-uniform
    from 0.3 to 1/0.3; a block that would exceed the budget is skipped.

    Args:
        rows: number of masks.
        grid: rows and columns of patches.
        generator: source of randomness.
        chance: probability that a row has blocks, in [0, 1].
        least, most: bounds of its fraction of hidden patches, in [0, 1].
        tries: number of attempted blocks per row.

    Example:
        >>> mask = scattered_blocks(6, (8, 8), torch.Generator(), chance=1.0)
        >>> mask.shape, bool((mask.sum(1) <= 32).all())
        (torch.Size([6, 64]), True)
    """
    for name, value in {"chance": chance, "least": least, "most": most}.items():
        check_number(name, value, "lie in [0, 1]", lambda value: 0 <= value <= 1)
    if least > most:
        raise ValueError(f"least must not exceed most, got {least} and {most}")
    height, width = grid
    uniform = torch.rand(rows, 2 + 4 * tries, generator=generator, dtype=torch.float64)
    share = least + (most - least) * uniform[:, 1]
    allowed = torch.where(uniform[:, 0] < chance, (share * height * width).round(), torch.zeros(()).double())
    mask = torch.zeros(rows, height, width, dtype=torch.bool)
    down, across = torch.arange(height), torch.arange(width)
    for draw in uniform[:, 2:].reshape(rows, tries, 4).unbind(1):
        budget = allowed - mask.sum((1, 2))
        area = draw[:, 0] * budget
        aspect = torch.exp((2 * draw[:, 1] - 1) * math.log(1 / 0.3))
        tall = (area * aspect).sqrt().round().clamp(1, height)
        wide = (area / aspect).sqrt().round().clamp(1, width)
        top = (draw[:, 2] * (height - tall + 1)).floor()[:, None]
        side = (draw[:, 3] * (width - wide + 1)).floor()[:, None]
        inside = (down >= top) & (down < top + tall[:, None])
        beside = (across >= side) & (across < side + wide[:, None])
        more = mask | (inside[:, :, None] & beside[:, None, :])
        fits = more.sum((1, 2)) <= allowed
        mask = torch.where(fits[:, None, None], more, mask)
    return mask.flatten(1)


class IBOT(Objective):
    """Self-distillation of images and of hidden patches, with KoLeo if it has a weight.

    Args:
        dim: of the embedding.
        tokens: dimension of features and tokens.
        prototypes: number of prototypes K, of images and of patches.
        width: hidden units of the patch head.
        bottleneck: output dimension of the patch head.
        decay, last_decay: EMA decay of the teacher at the first and the last step.
        koleo: weight of KoLeo.
        chance: probability that an image has hidden patches, in [0, 1].
        least, most: bounds of the fraction of hidden patches then.
        centring: "mean" or "sinkhorn".
        student_temperature, teacher_temperature, first_temperature, warmup, centre_decay: see `Distillation`.
        seed: initializes prototypes and head.

    Example:
        >>> objective = IBOT(dim=64, tokens=384, koleo=0.1, centring="sinkhorn")  # DINOv2's
        >>> objective.patch_head(torch.zeros(5, 384)).shape
        torch.Size([5, 256])
    """

    prevents_collapse = False

    @validate_types
    def __init__(
        self,
        dim: int,
        tokens: int,
        prototypes: int = 1024,
        width: int = 2048,
        bottleneck: int = 256,
        decay: float = 0.996,
        last_decay: float = 1.0,
        koleo: float = 0.0,
        chance: float = 0.5,
        least: float = 0.1,
        most: float = 0.5,
        centring: str = "mean",
        student_temperature: float = 0.1,
        teacher_temperature: float = 0.07,
        first_temperature: float = 0.04,
        warmup: int = 1000,
        centre_decay: float = 0.9,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.koleo = check_number("koleo", koleo, "not be negative", lambda value: value >= 0)
        scattered_blocks(
            0, (1, 1), torch.Generator(), chance=chance, least=least, most=most
        )  # validates them
        self.tokens, self.chance, self.least, self.most = check_count("tokens", tokens), chance, least, most
        shared: dict[str, Any] = {
            "prototypes": prototypes,
            "student_temperature": student_temperature,
            "teacher_temperature": teacher_temperature,
            "first_temperature": first_temperature,
            "warmup": warmup,
            "centre_decay": centre_decay,
            "centring": centring,
        }
        self.classes = Distillation(dim, **shared, seed=seed)
        self.patches = Distillation(bottleneck, **shared, seed=seed + 1)
        self.patch_head = MLP(tokens, bottleneck, width, 3, seed)
        self.teacher_patch_head = copy.deepcopy(self.patch_head).requires_grad_(False)
        self.filler = nn.Parameter(torch.zeros(tokens))
        self.teacher = Teacher(decay, last_decay)

    def start(self, models: Models) -> None:
        """Copy the model as the teacher."""
        self.teacher.start(next(iter(models.values())))

    def plan(self, steps: int) -> None:
        """Set the length of the decay schedule."""
        self.teacher.plan(steps)

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of at least two views."""
        model = next(iter(models.values()))
        student, count = patch_model(model), batch.global_views
        x, local = torch.cat(batch.views[:count]), batch.views[count:]
        hidden = self._hidden(student.grid(x), count, len(batch), generator).to(x.device)
        masked = student.encode(x, ~hidden, self.filler)
        check_tokens(masked, self.tokens)
        h = student.project(masked.features).unflatten(0, (count, -1))
        if local:
            h = torch.cat([h, embed_views(model, local)])
        check_views(h, generator)
        with torch.no_grad():
            teacher = patch_model(self.teacher.average(model))
            whole = teacher.encode(x)
            h_teacher = teacher.project(whole.features).unflatten(0, (count, -1))
            teacher_patches = self.teacher_patch_head(whole.tokens[hidden])
        student_patches = self.patch_head(masked.tokens[hidden])
        with torch.autocast(x.device.type, enabled=False):  # sums over a batch need their digits
            target, log_target = self.classes.teach(h_teacher)
            alignment = across_views(self.classes.student(h), target)
            patches = self._patches(student_patches, teacher_patches, hidden)
            terms = {
                "alignment": alignment,
                "patches": patches,
                "teacher_entropy": entropy(target, log_target),
            }
            total = alignment + patches
            if self.koleo:
                features = at_least_float32(masked.features).unflatten(0, (count, -1))
                terms["koleo"] = torch.stack([koleo(view) for view in features]).sum()
                total = total + self.koleo * terms["koleo"]
        return Loss(total, terms)

    def after_step(self, models: Models, step: int) -> None:
        """Update the teacher with its heads, the centers and the temperature."""
        decay = self.teacher.decay_at(step)
        self.teacher.follow(next(iter(models.values())), step)
        follow(self.teacher_patch_head, self.patch_head, decay)
        for part in (self.classes, self.patches):
            part.after_step(step, decay)

    def _patches(self, student: Tensor, teacher: Tensor, hidden: Tensor) -> Tensor:
        """Mean over images of the mean cross entropy of their hidden patches (hidden, dim)."""
        target, _ = self.patches.teach(teacher)
        cross_entropy = -(target * self.patches.student(student)).sum(-1)
        weights = (1 / hidden.sum(1).clamp(min=1)).to(cross_entropy)[:, None].expand(hidden.shape)[hidden]
        return ranks.total((cross_entropy * weights).sum()) / ranks.count(len(hidden), hidden.device)

    def _hidden(self, grid: tuple[int, int], views: int, rows: int, generator: torch.Generator) -> Tensor:
        """Hidden patches (views * batch, token) of the images on this rank."""
        mine, whole = ranks.rows(rows, self.filler.device)
        masks = [
            scattered_blocks(whole, grid, generator, chance=self.chance, least=self.least, most=self.most)
            for _ in range(views)
        ]
        return torch.cat([mask[mine] for mask in masks])

    def extra_repr(self) -> str:
        return f"koleo={self.koleo}, chance={self.chance}, least={self.least}, most={self.most}"


@dataclass(frozen=True)
class _MaskedDistillation(Spec):
    """Settings of iBOT and DINOv2."""

    costless: ClassVar = (
        "decay",
        "last_decay",
        "koleo",
        "chance",
        "student_temperature",
        "teacher_temperature",
        "first_temperature",
        "warmup",
        "centre_decay",
    )
    prototypes: int = 1024
    """Number of prototypes, of images and of patches."""
    width: int = 2048
    """Hidden units of the patch head."""
    bottleneck: int = 256
    """Output dimension of the patch head."""
    decay: float = 0.996
    """EMA decay of the teacher at the first step."""
    last_decay: float = 1.0
    """EMA decay of the teacher at the last step (cosine schedule)."""
    chance: float = 0.5
    """Probability that an image has hidden patches."""
    least: float = 0.1
    """Smallest fraction of hidden patches then."""
    most: float = 0.5
    """Largest fraction of hidden patches then."""
    centring: str = "mean"
    """Centering of the teacher: mean (EMA center) or sinkhorn (balanced assignments)."""
    koleo: float = 0.0
    """Weight of the KoLeo regularizer."""
    student_temperature: float = 0.1
    """Temperature of the student."""
    teacher_temperature: float = 0.07
    """Temperature of the teacher after the warm-up."""
    first_temperature: float = 0.04
    """Temperature of the teacher at the first step."""
    warmup: int = 1000
    """Warm-up steps of the temperature of the teacher."""
    centre_decay: float = 0.9
    """EMA decay of the center."""

    def build(self, context: Context) -> IBOT:
        tokens = token_dim(context, self.name)
        if context.embedding is None:
            raise ValueError(f"{self.name} needs to know the embedding dimension: set the encoder's dim")
        return IBOT(
            context.embedding,
            tokens,
            self.prototypes,
            self.width,
            self.bottleneck,
            self.decay,
            self.last_decay,
            self.koleo,
            self.chance,
            self.least,
            self.most,
            self.centring,
            self.student_temperature,
            self.teacher_temperature,
            self.first_temperature,
            self.warmup,
            self.centre_decay,
            context.seed,
        )

    def operations(self, batch: float, dim: int) -> float:
        return 2 * batch * 40 * (6 * self.width**2 + self.prototypes * self.bottleneck * 6)


@register("objective", "ibot")
@dataclass(frozen=True)
class IBOTSpec(_MaskedDistillation):
    """iBOT: self-distillation of images and of hidden patches; for ViTs."""


@register("objective", "dinov2")
@dataclass(frozen=True)
class DINOv2Spec(_MaskedDistillation):
    """DINOv2: iBOT with KoLeo and Sinkhorn centering; for ViTs."""

    centring: str = "sinkhorn"
    """Centering of the teacher: mean (EMA center) or sinkhorn (balanced assignments)."""
    koleo: float = 0.1
    """Weight of the KoLeo regularizer."""
