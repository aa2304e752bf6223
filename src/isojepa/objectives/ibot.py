r"""iBOT: self-distillation of pictures and of hidden patches (Zhou et al. 2022, ICLR, equations 2 and 3).

A student sees global views with some patches hidden, a learned vector in their place, and local views whole;
a teacher, the moving average of all that is the student's, sees global views whole. With probabilities over
prototypes as `distillation.py` makes them, P for the student and Q for the teacher,

    classes = mean over pictures and pairs u != v of views of  - Q_u . log P_v     of embeddings, as DINO
    patches = mean over pictures and global views of the mean over hidden patches of - Q_j . log P_j
    loss    = classes + patches + koleo * sum over global views of KoLeo(features)

Without KoLeo this is iBOT. DINOv2's objective (Oquab et al. 2024, TMLR) is the same with KoLeo, weighted 0.1,
on the student's [CLS] tokens of each global view, and Sinkhorn's iteration in place of the centre.

Half of the pictures have hidden patches, in blocks of 0.1 to 0.5 of the picture together
(`masks.scattered_blocks`). A picture without any counts as 0 in the mean, as in both released codes.

What differs from the released recipes: [CLS] goes through the model's own projector, patches through a head
of the objective's own (three layers with GELU, no norms) and prototypes of their own, as DINOv2 has it, where
iBOT's default shares the head; the centre of the patches is that of the hidden ones; prototypes are not held
fixed in the first epoch, and weight decay does not rise.
"""

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from isojepa import ranks
from isojepa.arguments import check_count, check_number, checked
from isojepa.encoders.layers import follow
from isojepa.encoders.mlp import MLP
from isojepa.encoders.patches import patch_model
from isojepa.objectives.distillation import Distillation, across_views, entropy
from isojepa.objectives.koleo import koleo
from isojepa.objectives.masked import check_tokens, token_dim
from isojepa.objectives.masks import scattered_blocks
from isojepa.objectives.objective import Loss, Models, Objective, at_least_float32, check_views, embed_views
from isojepa.objectives.teachers import Teacher
from isojepa.registry import Context, Spec, register
from isojepa.worlds.batch import Batch


class IBOT(Objective):
    """Distillation of pictures and of hidden patches, with KoLeo where it has a weight.

    Args:
        dim: of the model's embedding.
        tokens: dimension of the model's features and tokens.
        prototypes: K, of pictures and of patches.
        width: hidden units of the head of patches.
        bottleneck: dimension in which patches meet their prototypes.
        decay, last_decay: of the teacher, at the first and the last step.
        koleo: weight of KoLeo.
        chance: that a picture has hidden patches, in [0, 1].
        least, most: share of the patches that is hidden then.
        centring: "mean" or "sinkhorn".
        student_temperature, teacher_temperature, first_temperature, warmup, centre_decay: see `Distillation`.
        seed: draws prototypes and head.

    Example:
        >>> objective = IBOT(dim=64, tokens=384, koleo=0.1, centring="sinkhorn")  # DINOv2's
        >>> objective.patch_head(torch.zeros(5, 384)).shape
        torch.Size([5, 256])
    """

    spreads = False

    @checked
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
        scattered_blocks(0, (1, 1), torch.Generator(), chance=chance, least=least, most=most)  # checks them
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
        """Over which the teacher's decay rises."""
        self.teacher.plan(steps)

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of at least two views."""
        model = next(iter(models.values()))
        student, count = patch_model(model), batch.global_views
        x, local = torch.cat(batch.views[:count]), batch.views[count:]
        hidden = self._hidden(student.grid(x), count, len(batch), generator).to(x.device)
        seen = student.encode(x, ~hidden, self.filler)
        check_tokens(seen, self.tokens)
        h = student.project(seen.features).unflatten(0, (count, -1))
        if local:
            h = torch.cat([h, embed_views(model, local)])
        check_views(h, generator)
        with torch.no_grad():
            teacher = patch_model(self.teacher.average(model))
            whole = teacher.encode(x)
            taught = teacher.project(whole.features).unflatten(0, (count, -1))
            taught_patches = self.teacher_patch_head(whole.tokens[hidden])
        told_patches = self.patch_head(seen.tokens[hidden])
        with torch.autocast(x.device.type, enabled=False):  # sums over a batch need their digits
            target, log_target = self.classes.teach(taught)
            alignment = across_views(self.classes.student(h), target)
            patches = self._patches(told_patches, taught_patches, hidden)
            terms = {
                "alignment": alignment,
                "patches": patches,
                "teacher_entropy": entropy(target, log_target),
            }
            total = alignment + patches
            if self.koleo:
                features = at_least_float32(seen.features).unflatten(0, (count, -1))
                terms["koleo"] = torch.stack([koleo(view) for view in features]).sum()
                total = total + self.koleo * terms["koleo"]
        return Loss(total, terms)

    def after_step(self, models: Models, step: int) -> None:
        """Move the teacher with its heads, the centres and the temperature."""
        decay = self.teacher.decay_at(step)
        self.teacher.follow(next(iter(models.values())), step)
        follow(self.teacher_patch_head, self.patch_head, decay)
        for part in (self.classes, self.patches):
            part.after_step(step, decay)

    def _patches(self, told: Tensor, taught: Tensor, hidden: Tensor) -> Tensor:
        """Mean over pictures of the mean cross entropy of their hidden patches (hidden, dim)."""
        target, _ = self.patches.teach(taught)
        crossed = -(target * self.patches.student(told)).sum(-1)
        share = (1 / hidden.sum(1).clamp(min=1)).to(crossed)[:, None].expand(hidden.shape)[hidden]
        return ranks.total((crossed * share).sum()) / ranks.count(len(hidden), hidden.device)

    def _hidden(self, grid: tuple[int, int], views: int, rows: int, generator: torch.Generator) -> Tensor:
        """Hidden patches (views * batch, token) of this rank's pictures."""
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
    """What iBOT and DINOv2 are set by."""

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
    """Directions that embeddings, and patches, are compared with."""
    width: int = 2048
    """Hidden units of the head of patches."""
    bottleneck: int = 256
    """Dimension in which patches meet their prototypes."""
    decay: float = 0.996
    """Share of the teacher that stays at the first step."""
    last_decay: float = 1.0
    """Share of it that stays at the last step; between them half a cosine."""
    chance: float = 0.5
    """Probability that a picture has hidden patches."""
    least: float = 0.1
    """Least share of the patches that is hidden then."""
    most: float = 0.5
    """Largest share of them."""
    centring: str = "mean"
    """What keeps the teacher from one prototype: mean (a moving centre) or sinkhorn (balanced batches)."""
    koleo: float = 0.0
    """Weight of KoLeo, which spreads the features."""
    student_temperature: float = 0.1
    """Temperature of the student."""
    teacher_temperature: float = 0.07
    """Temperature of the teacher after the warm-up."""
    first_temperature: float = 0.04
    """Temperature of the teacher at the first step."""
    warmup: int = 1000
    """Steps over which the teacher's temperature rises."""
    centre_decay: float = 0.9
    """Share of the centre that stays at a step."""

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
    """Self-distillation of pictures and of hidden patches; for ViTs."""


@register("objective", "dinov2")
@dataclass(frozen=True)
class DINOv2Spec(_MaskedDistillation):
    """DINOv2's objective: DINO, hidden patches as iBOT, KoLeo and balanced targets; for ViTs."""

    centring: str = "sinkhorn"
    """What keeps the teacher from one prototype: mean (a moving centre) or sinkhorn (balanced batches)."""
    koleo: float = 0.1
    """Weight of KoLeo, which spreads the features."""
