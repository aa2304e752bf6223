"""Masked autoencoder, MAE (He et al. 2022, CVPR).

Three quarters of the patches of each image, at random, are hidden. The encoder sees the others; a decoder
reconstructs the pixels of the hidden ones from its features and tokens, [CLS] included:

    loss = mean over images, hidden patches and pixels of (y - (p - mean(p)) / sqrt(var(p) + 1e-6))^2

with mean and variance (unbiased, as in the released code) of the pixels of each patch; with
`normalise=False`, of the pixels p as normalized by the source.

Differences from the released recipe: position embeddings are those of timm's models, which are learned; the
decoder has 4 blocks of width 256 by default, for small encoders, where the paper has 8 of 512 for ViT-L. The
first `views` global views are used, one by default; local views and the projector of the model are not.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from isojepa import ranks
from isojepa.data.batch import Batch
from isojepa.encoders.patches import patch_model, select
from isojepa.objectives.autoencoder import PatchDecoder, patches_of, pixel_error
from isojepa.objectives.masked import check_tokens, token_dim, used_views
from isojepa.objectives.objective import Loss, Models, Objective, at_least_float32
from isojepa.registry import Context, Spec, register
from isojepa.validation import check_count, check_number, validate_types


@validate_types
def single_patches(rows: int, tokens: int, ratio: float, generator: torch.Generator) -> Tensor:
    """Random masks of single patches: (rows, tokens) with round(ratio * tokens) True in each row.

    Args:
        rows: number of masks.
        tokens: patches of an image.
        ratio: mask ratio, in [0, 1).
        generator: source of randomness.

    Example:
        >>> single_patches(2, 16, 0.75, torch.Generator()).sum(1).tolist()
        [12, 12]
    """
    check_number("ratio", ratio, "lie in [0, 1)", lambda value: 0 <= value < 1)
    hidden = min(tokens - 1, round(ratio * tokens))
    order = torch.rand(rows, tokens, generator=generator).argsort(1)
    return torch.zeros(rows, tokens, dtype=torch.bool).scatter_(1, order[:, :hidden], True)


_EPS = 1e-6  # added to the variance of a patch


class MAE(Objective):
    """Squared error of the pixels of hidden patches.

    Args:
        dim: of features and tokens.
        pixels: channels * height * width of a patch.
        ratio: mask ratio, in (0, 1).
        width, depth, heads: of the decoder.
        normalise: normalize the pixels of each patch.
        views: number of global views to use.
        seed: initializes the decoder.

    Example:
        >>> MAE(dim=384, pixels=3 * 16 * 16).decoder(torch.zeros(1, 384), (14, 14)).shape
        torch.Size([1, 196, 768])
    """

    prevents_collapse = False

    @validate_types
    def __init__(
        self,
        dim: int,
        pixels: int,
        ratio: float = 0.75,
        width: int = 256,
        depth: int = 4,
        heads: int = 8,
        normalise: bool = True,
        views: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.ratio = check_number("ratio", ratio, "lie in (0, 1)", lambda value: 0 < value < 1)
        self.dim, self.pixels = dim, pixels
        self.normalise, self.views = normalise, check_count("views", views)
        self.decoder = PatchDecoder(dim, pixels, width, depth, heads, tokens=True, seed=seed)

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of images."""
        student = patch_model(next(iter(models.values())))
        x = used_views(batch, self.views)
        grid = student.grid(x)
        mine, whole = ranks.rows(len(batch), x.device)
        masks = [single_patches(whole, grid[0] * grid[1], self.ratio, generator) for _ in range(self.views)]
        hidden = torch.cat([mask[mine] for mask in masks]).to(x.device)
        visible = student.encode(x, ~hidden)
        check_tokens(visible, self.dim)
        pixels = select(self.decoder(visible.features, grid, visible.tokens, ~hidden), hidden)
        total = pixel_error(pixels, self._target(x, grid, hidden))
        return Loss(total, {"reconstruction": total})

    def _target(self, x: Tensor, grid: tuple[int, int], hidden: Tensor) -> Tensor:
        patches = select(patches_of(x, grid), hidden)
        if patches.shape[-1] != self.pixels:
            raise ValueError(
                f"patches of {self.pixels} numbers are expected, got {patches.shape[-1]}: set patch to the "
                f"side of the backbone's patches, {x.shape[-1] // grid[1]}"
            )
        target = at_least_float32(patches)
        if not self.normalise:
            return target
        return (target - target.mean(-1, keepdim=True)) / (target.var(-1, keepdim=True) + _EPS).sqrt()

    def extra_repr(self) -> str:
        return f"ratio={self.ratio}, normalise={self.normalise}, views={self.views}"


@register("objective", "mae")
@dataclass(frozen=True)
class MAESpec(Spec):
    """Masked autoencoder: pixels of hidden patches; for ViTs."""

    costless: ClassVar = ("normalise",)
    ratio: float = 0.75
    """Mask ratio: fraction of hidden patches."""
    decoder_width: int = 256
    """Width of the decoder's blocks."""
    decoder_depth: int = 4
    """Number of the decoder's blocks."""
    decoder_heads: int = 8
    """Attention heads of each block of the decoder."""
    normalise: bool = True
    """Normalize the pixels of each patch."""
    patch: int = 16
    """Patch size of the backbone in pixels."""
    views: int = 1
    """Number of global views to use."""

    def build(self, context: Context) -> MAE:
        if not context.shapes or len(context.shapes[0]) != 3:
            raise ValueError(f"mae needs views that are images, got shapes {context.shapes}")
        return MAE(
            token_dim(context, "mae"),
            context.shapes[0][0] * self.patch**2,
            self.ratio,
            self.decoder_width,
            self.decoder_depth,
            self.decoder_heads,
            self.normalise,
            self.views,
            context.seed,
        )

    def operations(self, batch: float, dim: int) -> float:
        return 6 * batch * self.views * 196 * self.decoder_depth * 12 * self.decoder_width**2
