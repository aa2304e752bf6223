"""Masked prediction in latent space: I-JEPA (Assran et al. 2023, CVPR) as Social-JEPA trains it.

Of each image, blocks of patches are targets (`target_blocks`: 4 blocks of half the sides of the grid, 0.6 of
the patches together). The encoder f sees the other patches only; its moving average f' sees the whole image.
With the context feature c = f(visible), the [CLS] token of a ViT, and the position e_j of patch j,

    loss = mean over images, target patches j and dimensions of (p(c, e_j) - t_j)^2
    t_j  = LayerNorm(f'(x)_j), without gradient
    p(c, e) = W_2 GELU(LayerNorm(W_1 [c, e] + b_1)) + b_2,   2,048 hidden units

The EMA decay of f' rises from 0.996 to 1 on a cosine schedule (Social-JEPA, appendices A.1 and A.2).

Choices where the papers are silent or disagree:

- Social-JEPA describes the predictor as an MLP of two layers with GELU and LayerNorm from context latents to
  target latents, and aligns [CLS]; it does not state the input of the MLP. The predictor of I-JEPA is a
  transformer over the context tokens, without [CLS]. An MLP cannot attend, so here its input is [CLS] and
  sines and cosines of the target's row and column: the loss depends on the context through [CLS] alone.
  LayerNorm precedes GELU.
- Targets are layer-normalized without affine weights, as in I-JEPA's code (`normalise=False`: the plain
  equation of Social-JEPA). The loss is the squared error of Social-JEPA, not I-JEPA's smooth L1, and a patch
  in two blocks counts once.
- I-JEPA draws blocks of 0.15 to 0.2 of the area with several aspect ratios, and cuts targets out of a context
  block of 0.85 to 1; here blocks have one size, and the context is every other patch.
- The encoder to use afterwards is f, as everywhere in the package; I-JEPA keeps f'.

The first `views` global views are used, one by default, each by itself; local views are not. The projector of
the model is not used: configure the encoder without one. Backbones without [CLS] give c by their own pooling.

Masks are (rows, token), True for hidden patches, tokens in reading order. The union U of the random blocks
varies in size: four blocks of 7 x 7 in a grid of 14 x 14 cover 0.58 of the patches on average, 0.25 to 1.
Tensors stay rectangular through rejection sampling: blocks are drawn until

    |U| = T,   T the size nearest to ratio * patches that is not rare,

so their positions are uniform given that. |U| follows from the intersections of rectangles by
inclusion-exclusion, and only accepted layouts are rasterized.

Positions are fixed, as in MAE and I-JEPA. With a quarter of the dimensions D for each of sin and cos of row
and column, and frequencies

    w_k = 10000^(-k / (D/4)),    k = 0, ..., D/4 - 1,

the position of a patch at (r, c) is (sin(r w), cos(r w), sin(c w), cos(c w)), for grids of any size.
"""

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from isojepa import ranks
from isojepa.data.batch import Batch
from isojepa.encoders.layers import linear
from isojepa.encoders.patches import EncodedPatches, PatchModel, patch_model, select
from isojepa.objectives.objective import Loss, Models, Objective, Teacher, at_least_float32
from isojepa.registry import Context, Spec, register
from isojepa.seeds import generator as make_generator
from isojepa.validation import check_count, check_number, validate_types

_LAYOUTS = 20_000  # sampled layouts that estimate the distribution of the size of the union


_MIN_FREQUENCY = 1e-3  # of a size that rejection sampling may ask for


_MAX_CHUNK = 16_384  # layouts per draw


_MAX_BLOCKS = 8  # the terms of inclusion-exclusion double with each block


Grid = tuple[int, int]


class PatchPredictor(nn.Module):
    """MLP from the context feature and target positions to target latents.

    Args:
        dim: of the context feature and of the targets.
        width: hidden units.
        seed: initializes the weights.

    Example:
        >>> PatchPredictor(8, 32)(torch.zeros(2, 8), torch.zeros(2, 5, 8)).shape
        torch.Size([2, 5, 8])
    """

    @validate_types
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
        # W [c, e] = W_c c + W_e e: the first term is the same for all targets of an image
        hidden = functional.linear(context, of_context, self.first.bias)[:, None]
        hidden = hidden + functional.linear(places, of_places)
        predicted: Tensor = self.second(functional.gelu(self.norm(hidden)))
        return predicted


class Masked(Objective):
    """Squared error of the latents of hidden blocks, predicted from the visible patches.

    Args:
        dim: of the model's features and tokens.
        width: hidden units of the predictor.
        blocks: target blocks of each image.
        ratio: fraction of the patches that they cover together, in (0, 1).
        share: side of a block as a fraction of the grid's, in (0, 1).
        decay, last_decay: EMA decay of the teacher at the first and the last step.
        normalise: layer-normalize the targets.
        views: number of global views to use.
        seed: initializes the predictor.

    Example:
        >>> objective = Masked(dim=384)  # for vit_small_patch16_224
        >>> objective.plan(steps=1000)
        >>> [round(objective.teacher.decay_at(step), 4) for step in (0, 500, 1000)]
        [0.996, 0.998, 1.0]
    """

    prevents_collapse = False

    @validate_types
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
        union_size((4, 4), blocks, ratio, share)  # validates them
        self.blocks, self.ratio, self.share = blocks, ratio, share
        self.normalise, self.views = normalise, check_count("views", views)
        self.predictor = PatchPredictor(dim, width, seed)
        self.teacher = Teacher(decay, last_decay)

    def start(self, models: Models) -> None:
        """Copy the model as the teacher."""
        self.teacher.start(next(iter(models.values())))

    def plan(self, steps: int) -> None:
        """Set the length of the decay schedule."""
        self.teacher.plan(steps)

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of images."""
        model = next(iter(models.values()))
        student = patch_model(model)
        x = used_views(batch, self.views)
        hidden = self._hidden(student, x, len(batch), generator)
        context = student.encode(x, ~hidden)
        check_tokens(context, self.predictor.dim)
        with torch.no_grad():
            latents = select(patch_model(self.teacher.average(model)).encode(x).tokens, hidden)
        places = sine_positions(*student.grid(x), self.predictor.positions).to(x.device)
        places = select(places.expand(len(x), -1, -1), hidden).to(context.features.dtype)
        predicted = at_least_float32(self.predictor(context.features, places))
        with torch.autocast(x.device.type, enabled=False):  # sums over a batch need their digits
            target = at_least_float32(latents)
            if self.normalise:
                target = functional.layer_norm(target, target.shape[-1:])
            n = ranks.count(len(x), x.device) * target.shape[1] * target.shape[2]
            total = ranks.total((predicted - target).square().sum()) / n
        return Loss(total, {"alignment": total})

    def after_step(self, models: Models, step: int) -> None:
        """Update the teacher."""
        self.teacher.follow(next(iter(models.values())), step)

    def _hidden(self, student: PatchModel, x: Tensor, rows: int, generator: torch.Generator) -> Tensor:
        """Target patches (views * batch, token) of the images on this rank."""
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
    """The first global views as one batch of images (views * batch, ...).

    Raises:
        ValueError: there are fewer global views.
    """
    if views > batch.global_views:
        raise ValueError(
            f"views must not exceed the global ones, which are {batch.global_views}, got {views}"
        )
    return torch.cat(batch.views[:views])


def check_tokens(encoded: EncodedPatches, dim: int) -> None:
    """Check that features and tokens have the dimension that the objective was built for.

    Raises:
        ValueError: they do not.
    """
    for name, x in (("features", encoded.features), ("tokens", encoded.tokens)):
        if x.shape[-1] != dim:
            raise ValueError(
                f"{name} of {dim} dimensions are needed, got {x.shape[-1]}: leave the encoder's setting "
                "features empty, so that its features are those of the backbone"
            )


def token_dim(context: Context, name: str) -> int:
    """Dimension of the features of a vision transformer.

    Raises:
        ValueError: it is unknown, or the encoder is no vision transformer.
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
    """I-JEPA as Social-JEPA trains it: latents of hidden blocks, from the visible patches; for ViTs."""

    costless: ClassVar = ("decay", "last_decay", "normalise")
    width: int = 2048
    """Hidden units of the predictor."""
    blocks: int = 4
    """Target blocks of each image."""
    ratio: float = 0.6
    """Fraction of the patches that the target blocks cover together."""
    share: float = 0.5
    """Side of a target block as a fraction of the side of the patch grid."""
    decay: float = 0.996
    """EMA decay of the teacher at the first step."""
    last_decay: float = 1.0
    """EMA decay of the teacher at the last step (cosine schedule)."""
    normalise: bool = True
    """Layer-normalize the targets."""
    views: int = 1
    """Number of global views to use."""

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


@validate_types
def target_blocks(
    rows: int,
    grid: Grid,
    generator: torch.Generator,
    *,
    blocks: int = 4,
    ratio: float = 0.6,
    share: float = 0.5,
) -> Tensor:
    """Masks of target blocks: (rows, token), the same number of True in each row.

    Args:
        rows: number of masks.
        grid: rows and columns of patches.
        generator: source of randomness.
        blocks: blocks of each mask; they may overlap.
        ratio: fraction of the patches that the blocks cover together, in (0, 1).
        share: side of a block as a fraction of the grid's, in (0, 1); halves round up.

    Raises:
        ValueError: a setting is out of range, or the grid too small for such blocks.

    Example:
        >>> mask = target_blocks(5, (14, 14), torch.Generator())
        >>> mask.sum(1).tolist(), 118 / 196
        ([118, 118, 118, 118, 118], 0.6020408163265306)
    """
    size, frequency = _common_size(grid, blocks, ratio, share)
    sides = _sides(grid, share)
    accepted: list[Tensor] = []
    missing = check_count("rows", rows, least=0)
    while missing > 0:
        count = min(_MAX_CHUNK, 16 + math.ceil(1.2 * missing / frequency))
        offsets = _offsets(count, grid, sides, blocks, generator)
        fitting = offsets[_union(offsets, sides) == size][:missing]
        accepted.append(fitting)
        missing -= len(fitting)
    return (
        _rasterize(torch.cat(accepted), grid, sides) if accepted else torch.zeros(0, math.prod(grid)).bool()
    )


def union_size(grid: Grid, blocks: int = 4, ratio: float = 0.6, share: float = 0.5) -> int:
    """Number of patches in each mask: the size of the union nearest to the ratio, unless rare.

    Raises:
        ValueError: a setting is out of range, or the grid too small for such blocks.
    """
    return _common_size(grid, blocks, ratio, share)[0]


@functools.lru_cache(maxsize=64)
def _common_size(grid: Grid, blocks: int, ratio: float, share: float) -> tuple[int, float]:
    """That size, and the fraction of layouts that have it."""
    check_count("blocks", blocks, most=_MAX_BLOCKS)
    check_number("ratio", ratio, "lie in (0, 1)", lambda value: 0 < value < 1)
    check_number("share", share, "lie in (0, 1)", lambda value: 0 < value < 1)
    sides, patches = _sides(grid, share), math.prod(grid)
    offsets = _offsets(_LAYOUTS, grid, sides, blocks, make_generator(0, "blocks"))
    counts = torch.bincount(_union(offsets, sides), minlength=patches + 1)[:patches].double() / _LAYOUTS
    sizes = {size: share for size, share in enumerate(counts.tolist()) if share >= _MIN_FREQUENCY}
    if not sizes:
        raise ValueError(
            f"blocks must leave patches to see, got {blocks} of {sides[0]} x {sides[1]} in a grid of "
            f"{grid[0]} x {grid[1]}: take smaller patches, fewer blocks or a smaller share"
        )
    return min(sizes.items(), key=lambda item: (abs(item[0] - ratio * patches), item[0]))


def _sides(grid: Grid, share: float) -> Grid:
    """Height and width of a block: at least 1, at most the grid's."""
    height, width = (min(side, max(1, math.floor(share * side + 0.5))) for side in grid)
    return height, width


def _offsets(count: int, grid: Grid, sides: Grid, blocks: int, generator: torch.Generator) -> Tensor:
    """Top row and left column of blocks: (count, block, 2)."""
    axes = [
        torch.randint(length - side + 1, (count, blocks), generator=generator)
        for length, side in zip(grid, sides, strict=True)
    ]
    return torch.stack(axes, -1)


def _union(offsets: Tensor, sides: Grid) -> Tensor:
    """Number of patches in the union of the blocks of each layout: (count,)."""
    corners = offsets.to(torch.int32).permute(1, 2, 0).unbind(0)  # of each block, (2, count)
    size = torch.tensor(sides, dtype=torch.int32)[:, None]
    total = torch.zeros(len(offsets), dtype=torch.int32)
    subsets: list[tuple[Tensor, Tensor, int]] = []  # of blocks so far: bounds of the corners, and the sign
    for corner in corners:
        more = [
            (torch.maximum(low, corner), torch.minimum(high, corner), -sign) for low, high, sign in subsets
        ]
        more.append((corner, corner, 1))
        for low, high, sign in more:
            height, width = (high + size - low).clamp_(min=0)  # sides of the intersection
            total.add_(height * width, alpha=sign)
        subsets += more
    return total.long()


def _rasterize(offsets: Tensor, grid: Grid, sides: Grid) -> Tensor:
    """Layouts as masks (count, token)."""
    inside = []
    for axis, (length, side) in enumerate(zip(grid, sides, strict=True)):
        start, places = offsets[..., axis, None], torch.arange(length)
        inside.append((places >= start) & (places < start + side))
    return (inside[0][..., :, None] & inside[1][..., None, :]).any(1).flatten(1)


@functools.lru_cache(maxsize=32)
def sine_positions(height: int, width: int, dim: int) -> Tensor:
    """Positions (height * width, dim) in reading order, float32 on the CPU; do not change them in place.

    Raises:
        ValueError: the dimension is no multiple of 4.

    Example:
        >>> sine_positions(2, 3, 8).shape
        torch.Size([6, 8])
    """
    check_count("height", height)
    check_count("width", width)
    if check_count("dim", dim) % 4:
        raise ValueError(f"the dimension of positions must be a multiple of 4, got {dim}")
    quarter = dim // 4
    frequencies = 10_000.0 ** (-torch.arange(quarter, dtype=torch.float64) / quarter)
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    angles = [place.flatten()[:, None] * frequencies for place in (rows, columns)]
    return torch.cat([wave(angle) for angle in angles for wave in (torch.sin, torch.cos)], 1).float()


def position_dim(dim: int) -> int:
    """The smallest multiple of 4 that is at least `dim`."""
    return -(-dim // 4) * 4
