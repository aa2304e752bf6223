r"""Self-distillation over prototypes: what a student and the average of it make of vectors, as probabilities.

K unit vectors are prototypes; logits are cosines with them. With the student's logits s, the teacher's t,
temperatures T_s and T_t,

    student  log softmax(s / T_s)
    teacher  softmax((t - c) / T_t), c the moving average of the mean of t over batches ("mean", DINO), or
             Sinkhorn's balanced assignments of the batch at temperature T_t ("sinkhorn", SwAV, DINOv2)

Either keeps the teacher from giving all to one prototype. T_t rises along a straight line over the first
steps. DINO compares views so, iBOT patches too.
"""

import copy
import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from isojepa import ranks
from isojepa.arguments import check_count, checked
from isojepa.encoders.layers import follow
from isojepa.names import choose
from isojepa.objectives.objective import at_least_float32
from isojepa.objectives.sinkhorn import sinkhorn
from isojepa.seeds import generator as make_generator

CENTRINGS = {"mean": "the moving mean of logits is subtracted", "sinkhorn": "assignments are balanced"}


class Prototypes(nn.Module):
    """Cosines of embeddings with learned directions.

    Args:
        dim: of the embeddings.
        count: number of directions.
        seed: draws the first ones.
    """

    @checked
    def __init__(self, dim: int, count: int, seed: int = 0) -> None:
        super().__init__()
        shape = check_count("count", count), check_count("dim", dim)
        self.weight = nn.Parameter(torch.randn(shape, generator=make_generator(seed, "prototypes")))

    def forward(self, h: Tensor) -> Tensor:
        """(..., dim) to (..., count)."""
        h = at_least_float32(h)
        return functional.normalize(h, dim=-1) @ functional.normalize(self.weight.to(h), dim=-1).T


class Distillation(nn.Module):
    """Prototypes of a student and of its average, the centre of the latter, and both temperatures.

    Args:
        dim: of the vectors.
        prototypes: K.
        student_temperature: T_s.
        teacher_temperature: T_t, after the warm-up.
        first_temperature: T_t at the first step.
        warmup: steps over which T_t rises.
        centre_decay: share of the centre that stays at a step, in [0, 1].
        centring: "mean" or "sinkhorn".
        seed: draws the prototypes.

    Example:
        >>> part = Distillation(dim=4, prototypes=6)
        >>> target, log_target = part.teach(torch.randn(2, 5, 4))
        >>> target.shape, part.student(torch.randn(3, 5, 4)).shape
        (torch.Size([2, 5, 6]), torch.Size([3, 5, 6]))
    """

    centre: Tensor
    steps: Tensor

    @checked
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
        self._seen: list[Tensor] = []  # mean logits of the teacher in the parts of this step's batch

    @property
    def temperature(self) -> float:
        """T_t of the next step."""
        done = min(1.0, int(self.steps) / self.warmup) if self.warmup else 1.0
        return self.first_temperature + done * (self.teacher_temperature - self.first_temperature)

    def student(self, h: Tensor) -> Tensor:
        """Logarithms of the student's probabilities: (..., dim) to (..., prototypes)."""
        return functional.log_softmax(self.head(h) / self.student_temperature, -1)

    @torch.no_grad()
    def teach(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """The teacher's probabilities of its vectors (..., dim), and their logarithms.

        Over ranks, all of them must come here together; one may have no vector.
        """
        logits = self.teacher_head(h)
        rows = logits.reshape(-1, logits.shape[-1])
        if self.centring == "sinkhorn":
            target = sinkhorn(rows, self.temperature).reshape(logits.shape)
            return target, target.clamp(min=torch.finfo(target.dtype).tiny).log()
        log_target = functional.log_softmax((logits - self.centre) / self.temperature, -1)
        if self.training and (n := ranks.count(len(rows), rows.device)):
            self._seen.append(ranks.total(rows.sum(0)) / n)
        return log_target.exp(), log_target

    def after_step(self, step: int, decay: float) -> None:
        """Move the teacher's prototypes by a decay, the centre and the temperature; `step` steps are done."""
        follow(self.teacher_head, self.head, decay)
        if self._seen:
            self.centre.lerp_(torch.stack(self._seen).mean(0).to(self.centre), 1 - self.centre_decay)
        self._seen = []
        self.steps.fill_(step)

    def extra_repr(self) -> str:
        return (
            f"student_temperature={self.student_temperature}, "
            f"teacher_temperature={self.teacher_temperature}, first_temperature={self.first_temperature}, "
            f"warmup={self.warmup}, centre_decay={self.centre_decay}, centring={self.centring!r}"
        )


def across_views(student: Tensor, target: Tensor) -> Tensor:
    """Cross entropy of the teacher's views with the student's others, meaned over pairs and the batch.

    Args:
        student: (view, batch, K) logarithms of probabilities.
        target: (global view, batch, K) probabilities of the first of these views.
    """
    # every student's view meets the teacher's other views: all of them, less its own
    others = target.sum(0).expand(len(student), -1, -1).clone()
    others[: len(target)] -= target
    met = len(student) * len(target) - len(target)
    n = ranks.count(student.shape[1], student.device)
    return -ranks.total((others * student).sum()) / (n * met)


def entropy(target: Tensor, log_target: Tensor) -> Tensor:
    """Mean entropy of probabilities (view, batch, K)."""
    n = ranks.count(target.shape[1], target.device)
    return -ranks.total((target * log_target).sum()) / (n * len(target))
