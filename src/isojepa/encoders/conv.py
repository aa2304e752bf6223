"""The convolutional encoder of the published pixel experiments: four halvings, an average, two linear maps.

    4 x [Conv 4x4, stride 2, padding 1 -> BatchNorm -> GELU], channels 3k -> 32 -> 64 -> 128 -> 256
    AvgPool(4) -> Linear(256, 256) -> BatchNorm -> GELU -> Linear(256, dim)

Klindt, LeCun & Balestriero (2026), "When Does LeJEPA Learn a World Model?", Appendix D. Built is what the
paper lists, with 4x4 kernels throughout and biases everywhere: 757,922 parameters for one frame and two
latents. Its text says about 1.1 million, which no reading of the list gives. Without BatchNorm, its authors
report, 36 % of their runs collapsed.

A velocity cannot be seen in one frame: `frames` of them, one behind the other in the channels, are taken too.
"""

import itertools
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from isojepa.arguments import check_count, checked
from isojepa.encoders.layers import linear
from isojepa.registry import Context, Spec, register
from isojepa.seeds import generator

WIDTHS = (32, 64, 128, 256)
_HALVED = 2 ** len(WIDTHS)


class Conv(nn.Module):
    """Pictures (batch, 3 frames, size, size) to embeddings (batch, dim).

    Args:
        dim: of the embedding.
        frames: number of frames in a picture's channels.
        size: side of the pictures in pixels, a multiple of 16; 64 is published.
        batch_norm: normalise over the batch behind each layer but the last.
        seed: draws the initial weights.

    Raises:
        ValueError: a setting is out of range; or, when it is called, pictures are of another size.

    Example:
        >>> Conv(dim=2)(torch.zeros(4, 3, 64, 64)).shape, sum(p.numel() for p in Conv(dim=2).parameters())
        (torch.Size([4, 2]), 757922)
    """

    @checked
    def __init__(
        self, dim: int, frames: int = 1, size: int = 64, batch_norm: bool = True, seed: int = 0
    ) -> None:
        super().__init__()
        check_count("dim", dim)
        check_count("frames", frames)
        if check_count("size", size) % _HALVED:
            raise ValueError(f"size must be a multiple of {_HALVED}, got {size}")
        source = generator(seed, "init")
        parts: list[nn.Module] = []
        for n_in, n_out in itertools.pairwise((3 * frames, *WIDTHS)):
            norm = [nn.BatchNorm2d(n_out)] if batch_norm else []
            parts += [_convolution(n_in, n_out, source), *norm, nn.GELU()]
        # channels last, weights and pictures: 15 % less time for a step on a processor
        self.body = nn.Sequential(*parts)
        self.body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # its stubs lack it
        last = WIDTHS[-1]
        norm1 = [nn.BatchNorm1d(last)] if batch_norm else []
        self.head = nn.Sequential(linear(last, last, source), *norm1, nn.GELU(), linear(last, dim, source))
        self.dim, self.frames, self.size = dim, frames, size
        self.batch_norm, self.seed = batch_norm, seed  # with these, what a record makes it again from

    def forward(self, x: Tensor) -> Tensor:
        """The embedding."""
        wanted = (3 * self.frames, self.size, self.size)
        if x.ndim != 4 or tuple(x.shape[1:]) != wanted:
            raise ValueError(
                f"pictures must be (batch, {wanted[0]}, {self.size}, {self.size}), for which the encoder was "
                f"built, got {tuple(x.shape)}: set its size and frames"
            )
        maps: Tensor = self.body(x.contiguous(memory_format=torch.channels_last))
        h: Tensor = self.head(maps.mean((-2, -1)))
        return h


@register("encoder", "conv")
@dataclass(frozen=True)
class ConvSpec(Spec):
    """The convolutional encoder of the published pixel experiments."""

    dim: int | None = None
    """Embedding dimension; the number of latents if none is given."""
    frames: int = 1
    """Frames in a picture's channels."""
    batch_norm: bool = True
    """Normalise over the batch behind each layer but the last."""

    def resolve(self, context: Context) -> "ConvSpec":
        return replace(self, dim=self.embedding(context))

    def build(self, context: Context) -> Conv:
        shape = None if context.shapes is None else context.shapes[0]
        if shape is None or len(shape) != 3 or shape[0] != 3 * self.frames or shape[1] != shape[2]:
            raise ValueError(
                f"encoder 'conv' takes square pictures of {3 * self.frames} channels, three for each of "
                f"{self.frames} frames, got observations of shape {shape}"
            )
        return Conv(self.embedding(context), self.frames, shape[1], self.batch_norm, context.seed)

    def embedding(self, context: Context) -> int:
        return context.latents if self.dim is None else self.dim


def _convolution(n_in: int, n_out: int, source: torch.Generator) -> nn.Conv2d:
    """A halving convolution with torch's own initial law, uniform on +-1/sqrt(inputs)."""
    layer: nn.Conv2d = nn.utils.skip_init(nn.Conv2d, n_in, n_out, 4, stride=2, padding=1)
    bound = 1 / math.sqrt(layer.weight[0].numel())
    with torch.no_grad():
        for parameter in (layer.weight, layer.bias):
            assert parameter is not None
            parameter.uniform_(-bound, bound, generator=source)
    return layer
