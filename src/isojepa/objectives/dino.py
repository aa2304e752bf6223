r"""Self-distillation without labels, as DINO does it (Caron et al. 2021, ICCV, Algorithm 1).

Embeddings are normalised and compared with K prototypes, unit vectors too. A student, the model that is
trained, sees all views; a teacher, the moving average of model and prototypes, the global ones alone. With
the student's logits s_v, the teacher's t_u, temperatures T_s and T_t, and a centre c in R^K,

    loss = mean over pairs u != v and the batch of  - softmax((t_u - c) / T_t) . log softmax(s_v / T_s)

After each step the centre moves towards the mean of the teacher's logits over the batch of all ranks, the
teacher towards the student. T_t rises along a straight line over the first steps.

What the released recipe does besides and this does not: a head of three layers (here the model's own
projector), prototypes that stay fixed in the first epoch, a decay that rises to 1 and a weight decay that
rises. There is no weight: nothing is balanced against anything.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from isojepa.arguments import checked
from isojepa.objectives.distillation import Distillation, across_views, entropy
from isojepa.objectives.objective import Loss, Models, Objective, check_views, embed_views
from isojepa.objectives.teachers import Teacher
from isojepa.registry import Context, Spec, register
from isojepa.worlds.batch import Batch


class DINO(Objective):
    """Cross entropy between what a teacher makes of the global views and a student of the others.

    Args:
        dim: of the model's embedding.
        prototypes: K.
        decay: share of the teacher that stays at a step, in [0, 1].
        student_temperature: T_s.
        teacher_temperature: T_t, after the warm-up.
        first_temperature: T_t at the first step.
        warmup: steps over which T_t rises.
        centre_decay: share of the centre that stays at a step, in [0, 1].
        seed: draws the prototypes.

    Example:
        >>> from isojepa.encoders.model import as_model
        >>> batch = Batch((torch.randn(16, 8),) * 4, global_views=2)
        >>> models = {"encoder": as_model(torch.nn.Linear(8, 4))}
        >>> loss = DINO(dim=4, prototypes=32)(models, batch, torch.Generator())
        >>> sorted(loss.terms)
        ['alignment', 'teacher_entropy']
    """

    spreads = False

    @checked
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
        taught = self.teacher(model, batch.views[: batch.global_views])
        with torch.autocast(h.device.type, enabled=False):  # sums over a batch need their digits
            target, log_target = self.distillation.teach(taught)
            alignment = across_views(self.distillation.student(h), target)
        return Loss(alignment, {"alignment": alignment, "teacher_entropy": entropy(target, log_target)})

    def after_step(self, models: Models, step: int) -> None:
        """Move the teacher, the centre and the temperature."""
        self.teacher.follow(next(iter(models.values())), step)
        self.distillation.after_step(step, self.teacher.decay_at(step))


@register("objective", "dino")
@dataclass(frozen=True)
class DINOSpec(Spec):
    """Self-distillation: a student predicts the prototypes that its moving average sees."""

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
    """Steps over which the teacher's temperature rises."""
    centre_decay: float = 0.9
    """Share of the centre that stays at a step."""

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
