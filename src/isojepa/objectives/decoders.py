"""A decoder of pictures: pixels of patches, from a vector of the picture and tokens of some patches.

A small transformer, as that of MAE (He et al. 2022, CVPR): the picture's vector and the known tokens are
mapped to its width, a learned vector stands where a patch is not known, fixed positions are added, blocks
attend over all of them, and a linear map gives the pixels of each patch.
"""

import torch
from torch import Tensor, nn

from isojepa.arguments import check_count, checked
from isojepa.objectives.positions import sine_positions
from isojepa.seeds import borrowed

_EXPANSION = 4  # hidden units of a block over its width


class Decoder(nn.Module):
    """Pixels of every patch of pictures.

    Args:
        dim: of the picture's vector and of tokens.
        pixels: numbers of a patch: channels * height * width.
        width: of its blocks, a multiple of 4 and of the heads.
        depth: number of blocks.
        heads: of each.
        tokens: whether it is given tokens of patches besides the picture's vector.
        seed: draws the initial weights.

    Example:
        >>> decoder = Decoder(dim=8, pixels=12, width=16, depth=1, heads=2)
        >>> decoder(torch.zeros(2, 8), (3, 3)).shape
        torch.Size([2, 9, 12])
    """

    @checked
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
        picture: Tensor,
        grid: tuple[int, int],
        tokens: Tensor | None = None,
        known: Tensor | None = None,
    ) -> Tensor:
        """Pixels (batch, patch, pixels).

        Args:
            picture: (batch, dim).
            grid: rows and columns of patches.
            tokens: (batch, known patches, dim), in reading order.
            known: (batch, patch) where they are, as many True in each row.
        """
        n, patches = len(picture), grid[0] * grid[1]
        first = self.of_picture(picture)[:, None]
        places = self.unknown.to(first.dtype).expand(n, patches, -1)
        if tokens is not None and known is not None and self.of_tokens is not None:
            given = self.of_tokens(tokens).to(first.dtype)
            places = places.masked_scatter(known[..., None], given)
        places = places + sine_positions(*grid, self.width).to(places)
        h = self.norm(self.blocks(torch.cat([first, places], 1)))
        pixels: Tensor = self.to_pixels(h[:, 1:])
        return pixels


def patches_of(x: Tensor, grid: tuple[int, int]) -> Tensor:
    """Pictures (batch, channels, height, width) cut into patches (batch, patch, channels * rows * columns).

    Raises:
        ValueError: the grid does not divide the picture.

    Example:
        >>> patches_of(torch.arange(16.0).view(1, 1, 4, 4), (2, 2))[0, 1].tolist()
        [2.0, 3.0, 6.0, 7.0]
    """
    if x.shape[-2] % grid[0] or x.shape[-1] % grid[1]:
        raise ValueError(
            f"pictures must be whole patches, got {tuple(x.shape[-2:])} pixels in a grid of "
            f"{grid[0]} x {grid[1]}"
        )
    cut = x.unflatten(3, (grid[1], -1)).unflatten(2, (grid[0], -1))  # (batch, channels, row, y, column, x)
    patches: Tensor = cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
    return patches
