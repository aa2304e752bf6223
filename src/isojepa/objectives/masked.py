r"""Masked prediction in latent space: I-JEPA (Assran et al. 2023, CVPR) as Social-JEPA trains it.

The settings are those of Social-JEPA's appendices A.1 and A.2.
Of each picture, blocks of patches are targets (`masks.target_blocks`: 4 of half the grid's sides, 0.6 of the
patches together). The encoder f sees the other patches alone; a moving average f' of it sees the whole
picture. With the context's feature c = f(visible), which is its [CLS] token, and the position e_j of patch j,

    loss = mean over pictures, target patches j and dimensions of (p(c, e_j) - t_j)^2
    t_j  = LayerNorm(f'(x)_j), without gradient
    p(c, e) = W_2 GELU(LayerNorm(W_1 [c, e] + b_1)) + b_2,   2,048 hidden units

The decay of f' rises from 0.996 to 1 on half a cosine over the run.

What the papers leave open, or differ in, and what is done here:

- Social-JEPA says that the predictor is an MLP of two layers with GELU and LayerNorm which maps context
  latents to target latents, and that [CLS] is what is aligned; not what the MLP reads. I-JEPA's predictor is
  a transformer over the context's patch tokens and has no [CLS]. An MLP cannot attend, so here it reads one
  vector of the context, [CLS], beside sines and cosines of the target's row and column. All that the loss
  knows of the context goes through [CLS], which is thereby trained; LayerNorm stands before GELU.
- Targets are layer-normalised, without weights, as I-JEPA's code does (`normalise=False` takes them as they
  are, the plain equation of Social-JEPA). The loss is the squared error of Social-JEPA, not I-JEPA's smooth
  L1, and a patch in two blocks counts once.
- I-JEPA draws blocks of 0.15 to 0.2 of the area of several shapes, and a context block of 0.85 to 1 from
  which targets are cut out; here blocks are of one size and the context is all that is outside.
- The encoder that is kept is f, as everywhere in the package; I-JEPA keeps f'.

Only `views` of the global views are used, one by default, each by itself; local ones are not. The model's
projector is not used: give the encoder none. Backbones without [CLS] give c by their own pooling.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from isojepa import ranks
from isojepa.arguments import check_count, checked
from isojepa.encoders.layers import linear
from isojepa.encoders.patches import Encoded, PatchModel, patch_model, select
from isojepa.objectives.masks import target_blocks, union_size
from isojepa.objectives.objective import Loss, Models, Objective, at_least_float32
from isojepa.objectives.positions import position_dim, sine_positions
from isojepa.objectives.teachers import Teacher
from isojepa.registry import Context, Spec, register
from isojepa.seeds import generator as make_generator
from isojepa.worlds.batch import Batch


class Predictor(nn.Module):
    """From one vector of the context and the places of targets to their latents.

    Args:
        dim: of the context's vector and of the targets.
        width: hidden units.
        seed: draws the initial weights.

    Example:
        >>> Predictor(8, 32)(torch.zeros(2, 8), torch.zeros(2, 5, 8)).shape
        torch.Size([2, 5, 8])
    """

    @checked
    def __init__(self, dim: int, width: int = 2048, seed: int = 0) -> None:
        super().__init__()
        source = make_generator(seed, "predictor")
        self.positions = position_dim(check_count("dim", dim))
        self.dim = dim
        self.first = linear(dim + self.positions, check_count("width", width), source)
        self.norm = nn.LayerNorm(width)
        self.second = linear(width, dim, source)

    def forward(self, context: Tensor, places: Tensor) -> Tensor:
        """Context (batch, dim) and positions (batch, target, positions) to (batch, target, dim)."""
        of_context, of_places = self.first.weight.split([self.dim, self.positions], 1)
        # W [c, e] = W_c c + W_e e: the context's part is the same for all targets of a picture
        hidden = functional.linear(context, of_context, self.first.bias)[:, None]
        hidden = hidden + functional.linear(places, of_places)
        predicted: Tensor = self.second(functional.gelu(self.norm(hidden)))
        return predicted


class Masked(Objective):
    """Squared error of the latents of hidden blocks, predicted from the features of the other patches.

    Args:
        dim: of the model's features and tokens.
        width: hidden units of the predictor.
        blocks: targets of each picture.
        ratio: share of the patches that they cover together, in (0, 1).
        share: side of a block over that of the grid, in (0, 1).
        decay, last_decay: of the average that gives the targets, at the first and the last step.
        normalise: normalise targets over their dimensions.
        views: global views that are used.
        seed: draws the predictor.

    Example:
        >>> objective = Masked(dim=384)  # for vit_small_patch16_224
        >>> objective.plan(steps=1000)
        >>> [round(objective.teacher.decay_at(step), 4) for step in (0, 500, 1000)]
        [0.996, 0.998, 1.0]
    """

    spreads = False

    @checked
    def __init__(
        self,
        dim: int,
        width: int = 2048,
        blocks: int = 4,
        ratio: float = 0.6,
        share: float = 0.5,
        decay: float = 0.996,
        last_decay: float = 1.0,
        normalise: bool = True,
        views: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        union_size((4, 4), blocks, ratio, share)  # which says what is wrong with them
        self.blocks, self.ratio, self.share = blocks, ratio, share
        self.normalise, self.views = normalise, check_count("views", views)
        self.predictor = Predictor(dim, width, seed)
        self.teacher = Teacher(decay, last_decay)

    def start(self, models: Models) -> None:
        """Copy the model as the one that gives targets."""
        self.teacher.start(next(iter(models.values())))

    def plan(self, steps: int) -> None:
        """Over which the decay rises."""
        self.teacher.plan(steps)

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of pictures."""
        model = next(iter(models.values()))
        student = patch_model(model)
        x = used_views(batch, self.views)
        hidden = self._hidden(student, x, len(batch), generator)
        seen = student.encode(x, ~hidden)
        check_tokens(seen, self.predictor.dim)
        with torch.no_grad():
            found = select(patch_model(self.teacher.average(model)).encode(x).tokens, hidden)
        places = sine_positions(*student.grid(x), self.predictor.positions).to(x.device)
        places = select(places.expand(len(x), -1, -1), hidden).to(seen.features.dtype)
        predicted = at_least_float32(self.predictor(seen.features, places))
        with torch.autocast(x.device.type, enabled=False):  # sums over a batch need their digits
            target = at_least_float32(found)
            if self.normalise:
                target = functional.layer_norm(target, target.shape[-1:])
            n = ranks.count(len(x), x.device) * target.shape[1] * target.shape[2]
            total = ranks.total((predicted - target).square().sum()) / n
        return Loss(total, {"alignment": total})

    def after_step(self, models: Models, step: int) -> None:
        """Move the average."""
        self.teacher.follow(next(iter(models.values())), step)

    def _hidden(self, student: PatchModel, x: Tensor, rows: int, generator: torch.Generator) -> Tensor:
        """Targets (views * batch, token) of this rank's pictures."""
        mine, whole = ranks.rows(rows, x.device)
        masks = [
            target_blocks(
                whole,
                student.grid(x),
                generator,
                blocks=self.blocks,
                ratio=self.ratio,
                share=self.share,
            )[mine]
            for _ in range(self.views)
        ]
        return torch.cat(masks).to(x.device)

    def extra_repr(self) -> str:
        return (
            f"blocks={self.blocks}, ratio={self.ratio}, share={self.share}, normalise={self.normalise}, "
            f"views={self.views}"
        )


def used_views(batch: Batch, views: int) -> Tensor:
    """The first global views as one batch of pictures (views * batch, ...).

    Raises:
        ValueError: there are fewer.
    """
    if views > batch.global_views:
        raise ValueError(
            f"views must not exceed the global ones, which are {batch.global_views}, got {views}"
        )
    return torch.cat(batch.views[:views])


def check_tokens(seen: Encoded, dim: int) -> None:
    """Say that features and tokens must have the dimension that an objective was built for.

    Raises:
        ValueError: they have others.
    """
    for name, found in (("features", seen.features), ("tokens", seen.tokens)):
        if found.shape[-1] != dim:
            raise ValueError(
                f"{name} of {dim} dimensions are needed, got {found.shape[-1]}: leave the encoder's setting "
                "features empty, so that its features are those of the backbone"
            )


def token_dim(context: Context, name: str) -> int:
    """The dimension that a masked objective is built for.

    Raises:
        ValueError: nobody knows it, or the encoder is no vision transformer.
    """
    if context.transformer is False:
        raise ValueError(
            f"{name} needs a vision transformer: set the encoder's backbone to one of timm's, such as "
            "vit_small_patch16_224"
        )
    if context.feature_dim is None:
        raise ValueError(f"{name} needs to know the dimension of the features: set the encoder's dim")
    return context.feature_dim


@register("objective", "masked")
@dataclass(frozen=True)
class MaskedSpec(Spec):
    """I-JEPA as Social-JEPA trains it: latents of hidden blocks, predicted from the rest; for ViTs."""

    costless: ClassVar = ("decay", "last_decay", "normalise")
    width: int = 2048
    """Hidden units of the predictor."""
    blocks: int = 4
    """Blocks that are predicted, of each picture."""
    ratio: float = 0.6
    """Share of the patches that they cover together."""
    share: float = 0.5
    """Side of a block over that of the grid of patches."""
    decay: float = 0.996
    """Share of the averaged encoder that stays at the first step."""
    last_decay: float = 1.0
    """Share of it that stays at the last step; between them half a cosine."""
    normalise: bool = True
    """Normalise targets over their dimensions."""
    views: int = 1
    """Global views that are used."""

    def build(self, context: Context) -> Masked:
        return Masked(
            token_dim(context, "masked"),
            self.width,
            self.blocks,
            self.ratio,
            self.share,
            self.decay,
            self.last_decay,
            self.normalise,
            self.views,
            context.seed,
        )

    def operations(self, batch: float, dim: int) -> float:
        return 6 * batch * self.views * self.width * dim * 120
