r"""LeJEPA on vectors and on images: alignment plus SIGReg.

LeJEPA: alignment to the centre of the views plus a regularizer (Balestriero & LeCun 2025, Algorithm 2).

LeJEPA with global and local views, a predictor, and an averaged encoder for the centres.

For embeddings h_v of V views of a batch, the first V_g of them global,

    loss = weight * mean_v SIGReg(h_v) + (1 - weight) * mean_v d(q(h_v), c)
    c    = (1/V_g) (h_1 + ... + h_{V_g})

(Balestriero & LeCun 2025, "LeJEPA", equations 5 to 7 and Algorithm 2). d is the squared distance, as a mean
over dimensions ("centre", Algorithm 2) or as a sum ("centre-sum", the equations): with the sum, alignment
counts as many times more against SIGReg as the embedding has dimensions. Without local views V_g = V.

Two options that the paper tries (its Table 4): a predictor q, else the identity; and centres c made by a
moving average of the encoder, which the paper calls SWA, without gradient. Its advice is no predictor, and
the average for vision transformers alone. What SIGReg sees is in any case the encoder's own embedding.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from isojepa.arguments import checked
from isojepa.encoders.mlp import MLP
from isojepa.names import choose, shown
from isojepa.objectives.alignment import ALIGNMENTS, CENTRES
from isojepa.objectives.objective import (
    Loss,
    Models,
    Objective,
    Regularizer,
    at_least_float32,
    check_views,
    check_weight,
    combine,
    embed_views,
)
from isojepa.objectives.sigreg import SIGReg
from isojepa.objectives.teachers import Teacher
from isojepa.objectives.vicreg import Whitening
from isojepa.registry import Context, Spec, register
from isojepa.worlds.batch import Batch


class LeJEPA(nn.Module):
    """weight * regularizer + (1 - weight) * alignment.

    Args:
        weight: lambda, in [0, 1].
        regularizer: keeps the embeddings from collapsing; SIGReg by default.
        alignment: "centre", "centre-sum" or "pairwise" (see `isojepa.objectives.alignment`).
        global_views: how many of the first views make the centre; all by default.

    Example:
        >>> loss = LeJEPA(weight=1e-3)(torch.randn(2, 64, 8))
        >>> sorted(loss.terms)
        ['alignment', 'regularizer']
    """

    @checked
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
            raise ValueError(f"regularizer must be callable, got {shown(regularizer)}")
        choose("alignment", alignment, ALIGNMENTS)
        if global_views is not None and (global_views < 1 or alignment not in CENTRES):
            raise ValueError(f"global_views must be positive, with alignment 'centre', got {global_views}")
        self.alignment = alignment
        self.global_views = global_views

    def forward(
        self, views: Tensor, generator: torch.Generator | None = None, *, global_views: int | None = None
    ) -> Loss:
        """Return the loss of views (view, batch, dim).

        Args:
            views: embeddings.
            generator: draws the regularizer's slices.
            global_views: how many of the first views of this batch make the centre, where the module was not
                told.
        """
        check_views(views, generator)
        global_views = global_views if self.global_views is None else self.global_views
        if global_views is not None and not 1 <= global_views <= len(views):
            raise ValueError(f"global_views must be at most the {len(views)} views, got {global_views}")
        if global_views not in (None, len(views)) and self.alignment not in CENTRES:
            raise ValueError(
                f"global_views must be all views, or alignment 'centre', got {global_views} of {len(views)} "
                f"with {self.alignment!r}"
            )
        if self.alignment in CENTRES:
            alignment = CENTRES[self.alignment](views, global_views)
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
    """Random directions; if none are given, 8 per embedding dimension, 16 to 1024."""
    knots: int = 17
    """Quadrature points of the Epps-Pulley test."""
    t_max: float = 5.0
    """End of that quadrature."""
    pooled: bool = False
    """Test all views as one sample instead of one by one."""
    unbiased: bool = False
    """Remove the O(1/batch) bias of the Epps-Pulley statistic."""
    test: str = "epps-pulley"
    """Univariate test that is averaged over slices; `isojepa list tests`."""
    sampler: str = "gaussian"
    """How directions are drawn: gaussian, sobol or orthogonal."""
    resample: bool = True
    """Draw new directions at every step, or keep those of the seed."""

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
    weight: float = 0.1  # unlike SIGReg's, its value does not grow with the batch
    """Weight λ of the regularizer, in [0, 1]."""
    alignment: str = "centre"
    """Alignment: centre, centre-sum or pairwise."""
    pooled: bool = False
    """Take all views as one sample instead of one by one."""

    def build(self, context: Context) -> LeJEPA:
        return LeJEPA(self.weight, Whitening(self.pooled), self.alignment)


MAKERS = {"global": "the global views make the centre", "all": "all views make the centre"}


class ImageLeJEPA(Objective):
    """weight * regularizer + (1 - weight) * distance of all views to the centre of the global ones.

    Args:
        weight: lambda, in [0, 1].
        regularizer: keeps the embeddings from collapsing; SIGReg with 1,024 slices by default.
        alignment: "centre" (Algorithm 2) or "centre-sum" (equations 5 to 7).
        centre: views that make the centre: "global", or "all" (Algorithm 2 for backbones other than ViT).
        predictor: applied to the embeddings of the views before they are compared with the centre.
        average: decay of a moving average of the encoder that makes the centres; the encoder itself if none.

    Example:
        >>> from isojepa.encoders.model import as_model
        >>> from isojepa.worlds.batch import Batch
        >>> batch = Batch((torch.randn(16, 8),) * 4, global_views=2)
        >>> loss = ImageLeJEPA()({"encoder": as_model(nn.Linear(8, 4))}, batch, torch.Generator())
        >>> sorted(loss.terms)
        ['alignment', 'regularizer']
    """

    @checked
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
            raise ValueError(f"regularizer must be callable, got {shown(regularizer)}")
        choose("alignment", alignment, CENTRES)
        choose("centre", centre, MAKERS)
        self.alignment, self.centre = alignment, centre
        self.predictor = predictor
        self.teacher = None if average is None else Teacher(average)

    def start(self, models: Models) -> None:
        """Copy the model, if centres come from its average."""
        if self.teacher is not None:
            self.teacher.start(next(iter(models.values())))

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of at least two views."""
        model = next(iter(models.values()))
        h = embed_views(model, batch.views)
        makers = len(batch.views) if self.centre == "all" else batch.global_views
        predicted = h if self.predictor is None else self.predictor(h.flatten(0, 1)).view_as(h)
        with torch.autocast(h.device.type, enabled=False):  # sums over a batch need their digits
            check_views(h, generator)
            centre: Tensor | None = None
            if self.teacher is not None:
                centre = at_least_float32(self.teacher(model, batch.views[:makers])).mean(0)
            elif self.predictor is not None:
                centre = at_least_float32(h[:makers]).mean(0)
            alignment = CENTRES[self.alignment](predicted, makers, centre)
            return combine(self.weight, alignment, self.regularizer(h, generator))

    def after_step(self, models: Models, step: int) -> None:
        """Move the average."""
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
    """Squared distance to the centre: centre (mean over dimensions) or centre-sum (sum)."""
    centre: str = "auto"
    """Views that make the centre: global; all; or auto, as published: global for ViTs, all for others."""
    predictor: int = 0
    """Hidden width of a predictor of two layers between embedding and alignment; 0 for none."""
    average: float | None = None
    """Decay of a moving average of the encoder that makes the centres; none for the encoder itself."""
    slices: int = 1024
    """Random directions."""
    knots: int = 17
    """Quadrature points of the Epps-Pulley test."""
    t_max: float = 5.0
    """End of that quadrature."""
    pooled: bool = False
    """Test all views as one sample instead of one by one."""
    unbiased: bool = False
    """Remove the O(1/batch) bias of the Epps-Pulley statistic."""
    sampler: str = "gaussian"
    """How directions are drawn: gaussian, sobol or orthogonal."""

    def resolve(self, context: Context) -> "ImageLeJEPASpec":
        """The same with the views that make the centre written out."""
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
