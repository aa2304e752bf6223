r"""An autoencoder: the features of a picture must tell all of its pixels.

    loss = mean over pictures and pixels of (g(f(x)) - x)^2

f are the model's features (of a ViT its [CLS] token), g the decoder of `decoders.py`, which is given nothing
else: no patch is known to it. Pixels are as the source normalises them. Works with every backbone. Only
`views` of the global views are used, one by default; the model's projector is not.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from isojepa.arguments import check_count, checked
from isojepa.objectives.decoders import Decoder, patches_of
from isojepa.objectives.mae import pixel_error
from isojepa.objectives.masked import used_views
from isojepa.objectives.objective import Loss, Models, Objective, at_least_float32
from isojepa.registry import Context, Spec, register
from isojepa.worlds.batch import Batch

_ACROSS = 8  # patches of the decoder in a row, at most


class Autoencoder(Objective):
    """Squared error of pictures that are decoded from their features.

    Args:
        dim: of the model's features.
        channels: of a picture.
        patch: side in pixels of the patches that the decoder writes.
        width, depth, heads: of the decoder.
        views: global views that are used.
        seed: draws the decoder.

    Example:
        >>> from isojepa.encoders import Backbone
        >>> model = Backbone("convnet-8-16", in_channels=1)
        >>> batch = Batch((torch.randn(4, 1, 28, 28),) * 2)
        >>> objective = Autoencoder(dim=16, channels=1, patch=4, width=16, depth=1)
        >>> sorted(objective({"encoder": model}, batch, torch.Generator()).terms)
        ['reconstruction']
    """

    spreads = False

    @checked
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
        self.decoder = Decoder(
            dim, check_count("channels", channels) * patch**2, width, depth, heads, seed=seed
        )

    def forward(self, models: Models, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of a batch of pictures; nothing is drawn."""
        x = used_views(batch, self.views)
        if x.ndim != 4 or x.shape[-2] % self.patch or x.shape[-1] % self.patch:
            raise ValueError(
                f"views must be pictures of whole patches of {self.patch} pixels, got {tuple(x.shape[1:])}"
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
    """An autoencoder: all pixels of a picture, from its features."""

    decoder_width: int = 256
    """Width of the decoder's blocks."""
    decoder_depth: int = 4
    """Number of the decoder's blocks."""
    decoder_heads: int = 8
    """Heads of each of them."""
    patch: int | None = None
    """Side of the decoder's patches; if none, the least that divides the picture into 8 x 8 or fewer."""
    views: int = 1
    """Global views that are used."""

    def resolve(self, context: Context) -> "AutoencoderSpec":
        """The same with the side of patches written out, where the pictures' is known."""
        if self.patch is not None or not context.shapes or len(context.shapes[0]) != 3:
            return self
        side = context.shapes[0][-1]
        patch = next(size for size in range(1, side + 1) if side % size == 0 and side // size <= _ACROSS)
        return replace(self, patch=patch)

    def build(self, context: Context) -> Autoencoder:
        patch = self.resolve(context).patch
        if patch is None or not context.shapes:
            raise ValueError(f"autoencoder needs views that are pictures, got shapes {context.shapes}")
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
        return 6 * batch * self.views * _ACROSS**2 * self.decoder_depth * 12 * self.decoder_width**2
