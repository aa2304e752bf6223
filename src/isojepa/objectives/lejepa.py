"""LeJEPA on vectors and on images: alignment plus SIGReg (Balestriero & LeCun 2025, "LeJEPA").

For embeddings h_v of V views of a batch, the first V_g of them global,

    loss = weight * mean_v SIGReg(h_v) + (1 - weight) * mean_v d(q(h_v), c)
    c    = (1/V_g) (h_1 + ... + h_{V_g})

(equations 5 to 7 and Algorithm 2). d is the squared distance, as a mean over dimensions ("centre", Algorithm
2) or as a sum ("centre-sum", the equations): the sum multiplies the alignment, relative to SIGReg, by the
dimension of the embedding. Without local views V_g = V. `LeJEPA` is the loss of embeddings.

`ImageLeJEPA` is an objective with two more options of the paper (Table 4): a predictor q, else the identity;
and centers c from an exponential moving average of the encoder, without gradient, which the paper calls SWA.
The paper recommends no predictor, and the average for vision transformers only. SIGReg always sees the
embedding of the encoder itself.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from isojepa.data.batch import Batch
from isojepa.encoders.mlp import MLP
from isojepa.objectives.alignment import ALIGNMENTS, CENTERED
from isojepa.objectives.objective import (
    Loss,
    Models,
    Objective,
    Regularizer,
    Teacher,
    at_least_float32,
    check_views,
    check_weight,
    combine,
    embed_views,
)
from isojepa.objectives.sigreg import SIGReg
from isojepa.objectives.vicreg import Whitening
from isojepa.registry import Context, Spec, register
from isojepa.validation import choose, short_repr, validate_types


class LeJEPA(nn.Module):
    """weight * regularizer + (1 - weight) * alignment.

    Args:
        weight: lambda, in [0, 1].
        regularizer: keeps the embeddings from collapsing; SIGReg by default.
        alignment: "centre", "centre-sum" or "pairwise" (see `isojepa.objectives.alignment`).
        global_views: number of leading views that define the center; all by default.

    Example:
        >>> loss = LeJEPA(weight=1e-3)(torch.randn(2, 64, 8))
        >>> sorted(loss.terms)
        ['alignment', 'regularizer']
    """

    @validate_types
    def __init__(
        self,
        weight: float = 2e-3,
        regularizer: Regularizer | None = None,
        alignment: str = "centre",
        global_views: int | None = None,
    ) -> None:
        super().__init__()
        self.weight = check_weight(weight)
        self.regularizer = SIGReg() if regularizer is None else regularizer
        if not callable(self.regularizer):
            raise ValueError(f"regularizer must be callable, got {short_repr(regularizer)}")
        choose("alignment", alignment, ALIGNMENTS)
        if global_views is not None and (global_views < 1 or alignment not in CENTERED):
            raise ValueError(f"global_views must be positive, with alignment 'centre', got {global_views}")
        self.alignment = alignment
        self.global_views = global_views

    def forward(
        self, views: Tensor, generator: torch.Generator | None = None, *, global_views: int | None = None
    ) -> Loss:
        """Return the loss of views (view, batch, dim).

        Args:
            views: embeddings.
            generator: draws the slices of the regularizer.
            global_views: number of leading views of this batch that define the center, unless the module
                has the argument.
        """
        check_views(views, generator)
        global_views = global_views if self.global_views is None else self.global_views
        if global_views is not None and not 1 <= global_views <= len(views):
            raise ValueError(f"global_views must be at most the {len(views)} views, got {global_views}")
        if global_views not in (None, len(views)) and self.alignment not in CENTERED:
            raise ValueError(
                f"global_views must be all views, or alignment 'centre', got {global_views} of {len(views)} "
                f"with {self.alignment!r}"
            )
        if self.alignment in CENTERED:
            alignment = CENTERED[self.alignment](views, global_views)
        else:
            alignment = ALIGNMENTS[self.alignment](views)
        return combine(self.weight, alignment, self.regularizer(views, generator))

    def extra_repr(self) -> str:
        return f"weight={self.weight}, alignment={self.alignment!r}, global_views={self.global_views}"


@register("objective", "lejepa", default=True)
@dataclass(frozen=True)
class LeJEPASpec(Spec):
    """LeJEPA with SIGReg: alignment, and Gaussian projections."""

    costless: ClassVar = ("weight", "t_max")
    weight: float = 2e-3
    """Weight λ of the regularizer, in [0, 1]."""
    alignment: str = "centre"
    """Alignment: centre, centre-sum or pairwise."""
    slices: int | None = None
    """Number of slices (random directions); by default 8 per embedding dimension, 16 to 1024."""
    knots: int = 17
    """Quadrature points of the Epps-Pulley test."""
    t_max: float = 5.0
    """End of the quadrature interval."""
    pooled: bool = False
    """Test all views as one sample instead of each view."""
    unbiased: bool = False
    """Remove the O(1/batch) bias of the Epps-Pulley statistic."""
    test: str = "epps-pulley"
    """Univariate test to average over slices; `isojepa list tests`."""
    sampler: str = "gaussian"
    """Sampler of directions: gaussian, sobol or orthogonal."""
    resample: bool = True
    """Draw new directions at every step instead of keeping those of the seed."""

    def resolve(self, context: Context) -> "LeJEPASpec":
        if self.slices is not None or context.embedding is None:
            return self
        return replace(self, slices=SIGReg().slices_for(context.embedding))

    def build(self, context: Context) -> LeJEPA:
        regularizer = SIGReg(
            slices=self.slices,
            knots=self.knots,
            t_max=self.t_max,
            pooled=self.pooled,
            unbiased=self.unbiased,
            seed=0 if self.resample else context.seed,
            test=self.test,
            sampler=self.sampler,
            resample=self.resample,
        )
        return LeJEPA(self.weight, regularizer, self.alignment)

    def operations(self, batch: float, dim: int) -> float:
        return 2 * batch * SIGReg(self.slices).slices_for(dim) * (6 * dim + 150)


@register("objective", "whitening")
@dataclass(frozen=True)
class WhiteningSpec(Spec):
    """LeJEPA with a whitening penalty: alignment, mean and covariance."""

    costless: ClassVar = ("weight",)
    weight: float = 0.1  # unlike SIGReg's value, it does not grow with the batch
    """Weight λ of the regularizer, in [0, 1]."""
    alignment: str = "centre"
    """Alignment: centre, centre-sum or pairwise."""
    pooled: bool = False
    """Take all views as one sample instead of each view."""

    def build(self, context: Context) -> LeJEPA:
        return LeJEPA(self.weight, Whitening(self.pooled), self.alignment)


CENTER_VIEWS = {"global": "the global views define the center", "all": "all views define the center"}


class ImageLeJEPA(Objective):
    """weight * regularizer + (1 - weight) * distance of all views to the center of the global views.

    Args:
        weight: lambda, in [0, 1].
        regularizer: keeps the embeddings from collapsing; SIGReg with 1,024 slices by default.
        alignment: "centre" (Algorithm 2) or "centre-sum" (equations 5 to 7).
        centre: views that define the center: "global", or "all" (Algorithm 2 for backbones other than ViTs).
        predictor: applied to the embeddings before the comparison with the center.
        average: EMA decay of a teacher that gives the centers; the encoder itself if none.

    Example:
        >>> from isojepa.encoders.model import as_model
        >>> from isojepa.data.batch import Batch
        >>> batch = Batch((torch.randn(16, 8),) * 4, global_views=2)
        >>> loss = ImageLeJEPA()({"encoder": as_model(nn.Linear(8, 4))}, batch, torch.Generator())
        >>> sorted(loss.terms)
        ['alignment', 'regularizer']
    """

    @validate_types
    def __init__(
        self,
        weight: float = 0.05,
        regularizer: Regularizer | None = None,
        alignment: str = "centre",
        centre: str = "global",
        predictor: nn.Module | None = None,
        average: float | None = None,
    ) -> None:
        super().__init__()
        self.weight = check_weight(weight)
        self.regularizer = SIGReg(slices=1024) if regularizer is None else regularizer
        if not callable(self.regularizer):
            raise ValueError(f"regularizer must be callable, got {short_repr(regularizer)}")
        choose("alignment", alignment, CENTERED)
        choose("centre", centre, CENTER_VIEWS)
        self.alignment, self.centre = alignment, centre
        self.predictor = predictor
        self.teacher = None if average is None else Teacher(average)

    def start(self, models: Models) -> None:
        """Copy the model as the teacher, if there is one."""
        if self.teacher is not None:
            self.teacher.start(next(iter(models.values())))

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of at least two views."""
        model = next(iter(models.values()))
        h = embed_views(model, batch.views)
        central = len(batch.views) if self.centre == "all" else batch.global_views
        predicted = h if self.predictor is None else self.predictor(h.flatten(0, 1)).view_as(h)
        with torch.autocast(h.device.type, enabled=False):  # sums over a batch need their digits
            check_views(h, generator)
            center: Tensor | None = None
            if self.teacher is not None:
                center = at_least_float32(self.teacher(model, batch.views[:central])).mean(0)
            elif self.predictor is not None:
                center = at_least_float32(h[:central]).mean(0)
            alignment = CENTERED[self.alignment](predicted, central, center)
            return combine(self.weight, alignment, self.regularizer(h, generator))

    def after_step(self, models: Models, step: int) -> None:
        """Update the teacher."""
        if self.teacher is not None:
            self.teacher.follow(next(iter(models.values())))

    def extra_repr(self) -> str:
        return f"weight={self.weight}, alignment={self.alignment!r}, centre={self.centre!r}"


@register("objective", "lejepa-images")
@dataclass(frozen=True)
class ImageLeJEPASpec(Spec):
    """LeJEPA as published for images: global and local views, 1,024 slices."""

    costless: ClassVar = ("weight", "t_max", "average")
    weight: float = 0.05
    """Weight λ of the regularizer, in [0, 1]."""
    alignment: str = "centre"
    """Squared distance to the center: centre (mean over dimensions) or centre-sum (sum)."""
    centre: str = "auto"
    """Views that define the center: global; all; or auto, as published: global for ViTs, all for others."""
    predictor: int = 0
    """Hidden width of a two-layer predictor between embedding and alignment; 0 for none."""
    average: float | None = None
    """EMA decay of a teacher that gives the centers; by default the encoder itself does."""
    slices: int = 1024
    """Number of slices (random directions)."""
    knots: int = 17
    """Quadrature points of the Epps-Pulley test."""
    t_max: float = 5.0
    """End of the quadrature interval."""
    pooled: bool = False
    """Test all views as one sample instead of each view."""
    unbiased: bool = False
    """Remove the O(1/batch) bias of the Epps-Pulley statistic."""
    sampler: str = "gaussian"
    """Sampler of directions: gaussian, sobol or orthogonal."""

    def resolve(self, context: Context) -> "ImageLeJEPASpec":
        """Fill in the views that define the center."""
        if self.centre != "auto":
            return self
        return replace(self, centre="all" if context.transformer is False else "global")

    def build(self, context: Context) -> ImageLeJEPA:
        regularizer = SIGReg(
            self.slices, self.knots, self.t_max, self.pooled, self.unbiased, sampler=self.sampler
        )
        predictor = None
        if self.predictor:
            if context.embedding is None:
                raise ValueError("a predictor needs to know the embedding dimension: set the encoder's dim")
            predictor = MLP(context.embedding, context.embedding, self.predictor, 2, context.seed)
        centre = self.resolve(context).centre
        return ImageLeJEPA(self.weight, regularizer, self.alignment, centre, predictor, self.average)

    def operations(self, batch: float, dim: int) -> float:
        return 2 * batch * (self.slices * (6 * dim + 150) + 6 * self.predictor * dim)
