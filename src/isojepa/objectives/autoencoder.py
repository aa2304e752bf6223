"""An autoencoder: all pixels of an image, reconstructed from its features.

    loss = mean over images and pixels of (g(f(x)) - x)^2

f(x) are the features of the model (the [CLS] token of a ViT), the only input of the decoder g. Pixels are
normalized by the source. Any backbone works. The first `views` global views are used, one by default; the
projector of the model is not.

The decoder is a small transformer, as that of MAE (He et al. 2022, CVPR): the features and the visible tokens
are mapped to its width, a learned mask token replaces each hidden patch, fixed positions are added, blocks
attend over all of them, and a linear map gives the pixels of each patch.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from isojepa import ranks
from isojepa.data.batch import Batch
from isojepa.objectives.masked import sine_positions, used_views
from isojepa.objectives.objective import Loss, Models, Objective, at_least_float32
from isojepa.registry import Context, Spec, register
from isojepa.seeds import borrowed
from isojepa.validation import check_count, validate_types

_MAX_PATCHES = 8  # of the decoder in a row


class Autoencoder(Objective):
    """Squared error of images reconstructed from their features.

    Args:
        dim: of the features of the model.
        channels: of an image.
        patch: side of the decoder's patches in pixels.
        width, depth, heads: of the decoder.
        views: number of global views to use.
        seed: initializes the decoder.

    Example:
        >>> from isojepa.encoders import Backbone
        >>> model = Backbone("convnet-8-16", in_channels=1)
        >>> batch = Batch((torch.randn(4, 1, 28, 28),) * 2)
        >>> objective = Autoencoder(dim=16, channels=1, patch=4, width=16, depth=1)
        >>> sorted(objective({"encoder": model}, batch, torch.Generator()).terms)
        ['reconstruction']
    """

    prevents_collapse = False

    @validate_types
    def __init__(
        self,
        dim: int,
        channels: int,
        patch: int,
        width: int = 256,
        depth: int = 4,
        heads: int = 8,
        views: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.patch, self.views = check_count("patch", patch), check_count("views", views)
        self.decoder = PatchDecoder(
            dim, check_count("channels", channels) * patch**2, width, depth, heads, seed=seed
        )

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of images; no randomness."""
        x = used_views(batch, self.views)
        if x.ndim != 4 or x.shape[-2] % self.patch or x.shape[-1] % self.patch:
            raise ValueError(
                f"views must be images of whole patches of {self.patch} pixels, got {tuple(x.shape[1:])}"
            )
        grid = x.shape[-2] // self.patch, x.shape[-1] // self.patch
        features: Tensor = next(iter(models.values())).features(x)
        total = pixel_error(self.decoder(features, grid), at_least_float32(patches_of(x, grid)))
        return Loss(total, {"reconstruction": total})

    def extra_repr(self) -> str:
        return f"patch={self.patch}, views={self.views}"


@register("objective", "autoencoder")
@dataclass(frozen=True)
class AutoencoderSpec(Spec):
    """An autoencoder: all pixels of an image, from its features."""

    decoder_width: int = 256
    """Width of the decoder's blocks."""
    decoder_depth: int = 4
    """Number of the decoder's blocks."""
    decoder_heads: int = 8
    """Attention heads of each block."""
    patch: int | None = None
    """Side of the decoder's patches; by default the smallest that divides the image into at most 8 x 8."""
    views: int = 1
    """Number of global views to use."""

    def resolve(self, context: Context) -> "AutoencoderSpec":
        """Fill in the side of the patches if the size of the images is known."""
        if self.patch is not None or not context.shapes or len(context.shapes[0]) != 3:
            return self
        side = context.shapes[0][-1]
        patch = next(size for size in range(1, side + 1) if side % size == 0 and side // size <= _MAX_PATCHES)
        return replace(self, patch=patch)

    def build(self, context: Context) -> Autoencoder:
        patch = self.resolve(context).patch
        if patch is None or not context.shapes:
            raise ValueError(f"autoencoder needs views that are images, got shapes {context.shapes}")
        if context.feature_dim is None:
            raise ValueError("autoencoder needs to know the dimension of the features: set the encoder's dim")
        return Autoencoder(
            context.feature_dim,
            context.shapes[0][0],
            patch,
            self.decoder_width,
            self.decoder_depth,
            self.decoder_heads,
            self.views,
            context.seed,
        )

    def operations(self, batch: float, dim: int) -> float:
        return 6 * batch * self.views * _MAX_PATCHES**2 * self.decoder_depth * 12 * self.decoder_width**2


_EXPANSION = 4  # hidden units of a block, in multiples of its width


class PatchDecoder(nn.Module):
    """Transformer decoder of the pixels of every patch.

    Args:
        dim: of features and tokens.
        pixels: channels * height * width of a patch.
        width: of the blocks, a multiple of 4 and of the heads.
        depth: number of blocks.
        heads: attention heads of each block.
        tokens: whether patch tokens are an input besides the features.
        seed: initializes the weights.

    Example:
        >>> decoder = PatchDecoder(dim=8, pixels=12, width=16, depth=1, heads=2)
        >>> decoder(torch.zeros(2, 8), (3, 3)).shape
        torch.Size([2, 9, 12])
    """

    @validate_types
    def __init__(
        self,
        dim: int,
        pixels: int,
        width: int = 256,
        depth: int = 4,
        heads: int = 8,
        tokens: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        for name, value in {"dim": dim, "pixels": pixels, "heads": heads}.items():
            check_count(name, value)
        check_count("depth", depth, least=0)
        if check_count("width", width) % 4 or width % heads:
            raise ValueError(f"width must be a multiple of 4 and of {heads} heads, got {width}")
        self.width = width
        with borrowed(seed, "decoder"):  # torch's layers draw from the global generator
            self.of_picture = nn.Linear(dim, width)
            self.of_tokens = nn.Linear(dim, width) if tokens else None
            self.unknown = nn.Parameter(torch.empty(width).normal_(std=0.02))
            layers = [
                nn.TransformerEncoderLayer(
                    width,
                    heads,
                    _EXPANSION * width,
                    dropout=0.0,
                    activation="gelu",
                    batch_first=True,
                    norm_first=True,
                )
                for _ in range(depth)
            ]
            self.blocks = nn.Sequential(*layers)
            self.norm = nn.LayerNorm(width)
            self.to_pixels = nn.Linear(width, pixels)

    def forward(
        self,
        features: Tensor,
        grid: tuple[int, int],
        tokens: Tensor | None = None,
        visible: Tensor | None = None,
    ) -> Tensor:
        """Pixels (batch, patch, pixels).

        Args:
            features: (batch, dim).
            grid: rows and columns of patches.
            tokens: (batch, visible patches, dim), in reading order.
            visible: (batch, patch) their places, the same number of True in each row.
        """
        n, patches = len(features), grid[0] * grid[1]
        first = self.of_picture(features)[:, None]
        places = self.unknown.to(first.dtype).expand(n, patches, -1)
        if tokens is not None and visible is not None and self.of_tokens is not None:
            mapped = self.of_tokens(tokens).to(first.dtype)
            places = places.masked_scatter(visible[..., None], mapped)
        places = places + sine_positions(*grid, self.width).to(places)
        h = self.norm(self.blocks(torch.cat([first, places], 1)))
        pixels: Tensor = self.to_pixels(h[:, 1:])
        return pixels


def patches_of(x: Tensor, grid: tuple[int, int]) -> Tensor:
    """Cut images (batch, channels, height, width) into patches (batch, patch, channels * rows * columns).

    Raises:
        ValueError: the grid does not divide the image.

    Example:
        >>> patches_of(torch.arange(16.0).view(1, 1, 4, 4), (2, 2))[0, 1].tolist()
        [2.0, 3.0, 6.0, 7.0]
    """
    if x.shape[-2] % grid[0] or x.shape[-1] % grid[1]:
        raise ValueError(
            f"images must be whole patches, got {tuple(x.shape[-2:])} pixels in a grid of "
            f"{grid[0]} x {grid[1]}"
        )
    cut = x.unflatten(3, (grid[1], -1)).unflatten(2, (grid[0], -1))  # (batch, channels, row, y, column, x)
    patches: Tensor = cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
    return patches


def pixel_error(predicted: Tensor, target: Tensor) -> Tensor:
    """Mean squared difference of (batch, patch, pixels) over the batch of all ranks."""
    with torch.autocast(predicted.device.type, enabled=False):  # sums over a batch need their digits
        predicted = at_least_float32(predicted)
        n = ranks.count(len(predicted), predicted.device) * predicted.shape[1] * predicted.shape[2]
        return ranks.total((predicted - target).square().sum()) / n
