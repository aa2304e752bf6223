r"""Masked autoencoder, MAE (He et al. 2022, CVPR).

Three quarters of the patches of each picture, anywhere, are hidden. The encoder sees the others; a decoder is
given what it makes of them, [CLS] among it, and tells the pixels of the hidden ones:

    loss = mean over pictures, hidden patches and pixels of (y - (p - mean(p)) / sqrt(var(p) + 1e-6))^2

with mean and variance (unbiased, as the released code has it) of the pixels of each patch; with
`normalise=False`, of the pixels p as the source normalises them.

What differs from the released recipe: positions of the encoder are those of timm's models, which are learned;
the decoder is 4 blocks of 256 by default, for small encoders, where the paper has 8 of 512 for ViT-L. Only
`views` of the global views are used, one by default; local ones are not, nor is the model's projector.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from isojepa import ranks
from isojepa.arguments import check_count, check_number, checked
from isojepa.encoders.patches import patch_model, select
from isojepa.objectives.decoders import Decoder, patches_of
from isojepa.objectives.masked import check_tokens, token_dim, used_views
from isojepa.objectives.masks import single_patches
from isojepa.objectives.objective import Loss, Models, Objective, at_least_float32
from isojepa.registry import Context, Spec, register
from isojepa.worlds.batch import Batch

_EPS = 1e-6  # added to the variance of a patch


class MAE(Objective):
    """Squared error of the pixels of hidden patches.

    Args:
        dim: of the model's features and tokens.
        pixels: numbers of a patch: channels * height * width.
        ratio: share of the patches that is hidden, in [0, 1).
        width, depth, heads: of the decoder.
        normalise: normalise the pixels of each patch.
        views: global views that are used.
        seed: draws the decoder.

    Example:
        >>> MAE(dim=384, pixels=3 * 16 * 16).decoder(torch.zeros(1, 384), (14, 14)).shape
        torch.Size([1, 196, 768])
    """

    spreads = False

    @checked
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
        self.decoder = Decoder(dim, pixels, width, depth, heads, tokens=True, seed=seed)

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of pictures."""
        student = patch_model(next(iter(models.values())))
        x = used_views(batch, self.views)
        grid = student.grid(x)
        mine, whole = ranks.rows(len(batch), x.device)
        masks = [single_patches(whole, grid[0] * grid[1], self.ratio, generator) for _ in range(self.views)]
        hidden = torch.cat([mask[mine] for mask in masks]).to(x.device)
        seen = student.encode(x, ~hidden)
        check_tokens(seen, self.dim)
        told = select(self.decoder(seen.features, grid, seen.tokens, ~hidden), hidden)
        total = pixel_error(told, self._target(x, grid, hidden))
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


def pixel_error(told: Tensor, target: Tensor) -> Tensor:
    """Mean squared difference of (batch, patch, pixels) over the batch of all ranks."""
    with torch.autocast(told.device.type, enabled=False):  # sums over a batch need their digits
        told = at_least_float32(told)
        n = ranks.count(len(told), told.device) * told.shape[1] * told.shape[2]
        return ranks.total((told - target).square().sum()) / n


@register("objective", "mae")
@dataclass(frozen=True)
class MAESpec(Spec):
    """Masked autoencoder: pixels of hidden patches; for ViTs."""

    costless: ClassVar = ("normalise",)
    ratio: float = 0.75
    """Share of the patches that is hidden."""
    decoder_width: int = 256
    """Width of the decoder's blocks."""
    decoder_depth: int = 4
    """Number of the decoder's blocks."""
    decoder_heads: int = 8
    """Heads of each of them."""
    normalise: bool = True
    """Normalise the pixels of each patch."""
    patch: int = 16
    """Side of the backbone's patches in pixels."""
    views: int = 1
    """Global views that are used."""

    def build(self, context: Context) -> MAE:
        if not context.shapes or len(context.shapes[0]) != 3:
            raise ValueError(f"mae needs views that are pictures, got shapes {context.shapes}")
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
