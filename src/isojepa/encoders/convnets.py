"""Small convolutional networks for images of 16 to 64 pixels, and that of the published pixel experiments.

`ConvNet` is a sequence of 3x3 convolutions of stride 2 with batch normalization and ReLU, averaged over
positions: with widths 16-32-64-128 a training step on images of 28 pixels costs a few milliseconds per
hundred on one core. `SmallResNet` is the ResNet-18 of He et al. (2016) with the stem of their CIFAR networks:
a 3x3 convolution of stride 1 and no max-pool, so an image of 28 pixels has 4x4 positions in the last stage.
`GridNet` is for training on a CPU: its first convolution already halves the image, and its features are
averages over quarters of the image, so that they encode location. None needs an extra. Their names are
"convnet", or "convnet-32-64-128" for other widths, "gridnet" likewise, and "resnet18-small", or
"resnet18-small-16" for another width of the first stage. Weights are initialized as by He et al. (2015):
normal with variance 2 / (9 channels out).

`Conv` is the convolutional encoder of the published pixel experiments: four halvings, an average, two linear
maps.

    4 x [Conv 4x4, stride 2, padding 1 -> BatchNorm -> GELU], channels 3k -> 32 -> 64 -> 128 -> 256
    AvgPool(4) -> Linear(256, 256) -> BatchNorm -> GELU -> Linear(256, dim)

Klindt, LeCun & Balestriero (2026), "When Does LeJEPA Learn a World Model?", Appendix D, as the paper lists
it, with 4x4 kernels and biases throughout: 757,922 parameters for one frame and two latents. Its text states
about 1.1 million, which no reading of the list gives. Without BatchNorm, its authors report, 36 % of their
runs collapsed. One frame shows no velocity: `frames` of them may be stacked in the channels.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isojepa.encoders.layers import linear
from isojepa.registry import Context, Spec, register
from isojepa.seeds import generator
from isojepa.validation import check_count, validate_types

WIDTHS = (16, 32, 64, 128)
_NAMED = {"convnet": WIDTHS, "gridnet": (64, 128, 256), "resnet18-small": (64,)}  # with their widths
_GRID = 2  # a GridNet averages over 2 x 2 parts of the image
_STAGES = (1, 2, 4, 8)  # widths of a ResNet's stages, in multiples of the first


class _Pooled(nn.Module):
    """Base of the networks: pooled feature maps."""

    num_features: int

    def forward_features(self, x: Tensor) -> Tensor:
        """Feature maps (batch, channels, height, width)."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Features (batch, num_features), averaged over the positions."""
        return self.forward_features(x).mean((-2, -1))


class ConvNet(_Pooled):
    """3x3 convolutions, of stride 2 after the first, each with batch normalization and ReLU.

    Args:
        in_channels: channels of an image.
        widths: channels after each convolution.
        seed: initializes the weights.

    Example:
        >>> net = ConvNet(in_channels=1)
        >>> net(torch.zeros(2, 1, 28, 28)).shape, net(torch.zeros(2, 1, 16, 16)).shape
        (torch.Size([2, 128]), torch.Size([2, 128]))
    """

    @validate_types
    def __init__(self, in_channels: int = 3, widths: Sequence[int] = WIDTHS, seed: int = 0) -> None:
        super().__init__()
        self.body = _strided(in_channels, widths, seed, first=(3, 1))
        self.num_features = widths[-1]

    def forward_features(self, x: Tensor) -> Tensor:
        """Feature maps, a side 2 ** (convolutions - 1) times smaller."""
        maps: Tensor = self.body(x.contiguous(memory_format=torch.channels_last))
        return maps


class GridNet(_Pooled):
    """Convolutions of stride 2, 4x4 and then 3x3, whose maps are averaged over the quarters of the image.

    Args:
        in_channels: channels of an image.
        widths: channels after each convolution; each of the last gives four features.
        seed: initializes the weights.

    Example:
        >>> net = GridNet(in_channels=1)
        >>> net(torch.zeros(2, 1, 28, 28)).shape, net(torch.zeros(2, 1, 16, 16)).shape
        (torch.Size([2, 1024]), torch.Size([2, 1024]))
    """

    @validate_types
    def __init__(
        self, in_channels: int = 3, widths: Sequence[int] = _NAMED["gridnet"], seed: int = 0
    ) -> None:
        super().__init__()
        self.body = _strided(in_channels, widths, seed, first=(4, 2))
        self.num_features = widths[-1] * _GRID**2

    def forward_features(self, x: Tensor) -> Tensor:
        """Feature maps, a side 2 ** convolutions times smaller."""
        maps: Tensor = self.body(x.contiguous(memory_format=torch.channels_last))
        return maps

    def forward(self, x: Tensor) -> Tensor:
        """Features (batch, num_features), averaged over the quarters of the image."""
        return F.adaptive_avg_pool2d(self.forward_features(x), _GRID).flatten(1)


class _Block(nn.Module):
    """A residual block of two convolutions."""

    def __init__(self, n_in: int, n_out: int, stride: int, source: torch.Generator) -> None:
        super().__init__()
        self.conv1, self.bn1 = _convolution(n_in, n_out, stride, source), nn.BatchNorm2d(n_out)
        self.conv2, self.bn2 = _convolution(n_out, n_out, 1, source), nn.BatchNorm2d(n_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or n_in != n_out:
            across = _convolution(n_in, n_out, stride, source, side=1)
            self.shortcut = nn.Sequential(across, nn.BatchNorm2d(n_out))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(inner + self.shortcut(x))


class SmallResNet(_Pooled):
    """ResNet-18 with a 3x3 stem of stride 1 and no max-pool.

    Args:
        in_channels: channels of an image.
        width: channels of the first stage; 64 is ResNet-18, with 512 features.
        blocks: in each of the four stages.
        seed: initializes the weights.

    Example:
        >>> SmallResNet(in_channels=1, width=8)(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 64])
    """

    @validate_types
    def __init__(self, in_channels: int = 3, width: int = 64, blocks: int = 2, seed: int = 0) -> None:
        super().__init__()
        check_count("in_channels", in_channels)
        check_count("width", width)
        check_count("blocks", blocks)
        source = generator(seed, "init")
        self.stem = nn.Sequential(
            _convolution(in_channels, width, 1, source), nn.BatchNorm2d(width), nn.ReLU()
        )
        sizes = [width, *(width * times for times in _STAGES)]
        stages: list[nn.Module] = []
        for index, (n_in, n_out) in enumerate(itertools.pairwise(sizes)):
            first = _Block(n_in, n_out, 2 if index else 1, source)
            stages += [first, *(_Block(n_out, n_out, 1, source) for _ in range(blocks - 1))]
        self.stages = nn.Sequential(*stages)
        self.num_features = sizes[-1]

    def forward_features(self, x: Tensor) -> Tensor:
        """Feature maps, a side eight times smaller."""
        maps: Tensor = self.stages(self.stem(x))
        return maps


def small_model(name: str, in_channels: int = 3, seed: int = 0) -> _Pooled | None:
    """The network of a name, or None for other names.

    Raises:
        ValueError: a width is no positive integer.

    Example:
        >>> small_model("convnet-8-24").num_features, small_model("resnet18-small-4").num_features
        (24, 32)
        >>> small_model("resnet50") is None
        True
    """
    kind, widths = _named(name)
    if kind == "resnet18-small":
        return SmallResNet(in_channels, widths[0], seed=seed)
    if kind is None:
        return None
    return (ConvNet if kind == "convnet" else GridNet)(in_channels, widths, seed)


def small_dim(name: str) -> int | None:
    """Dimension of the features of the network of a name, without building it; None for other names.

    Raises:
        ValueError: a width is no positive integer.

    Example:
        >>> small_dim("convnet-8-24"), small_dim("gridnet-8-24"), small_dim("resnet18-small-4")
        (24, 96, 32)
    """
    kind, widths = _named(name)
    features = {"convnet": 1, "gridnet": _GRID**2, "resnet18-small": _STAGES[-1]}
    return None if kind is None else widths[-1] * features[kind]


class _NetworkSpec(Spec):
    """A network of this module by the name of its spec, with the usual widths."""

    def build(self, context: Context) -> nn.Module:
        network = small_model(self.name, 3 if context.shapes is None else context.shapes[0][0], context.seed)
        assert network is not None
        return network

    def feature_dim(self, context: Context) -> int | None:
        return small_dim(self.name)


@register("backbone", "convnet")
@dataclass(frozen=True)
class ConvNetSpec(_NetworkSpec):
    """Strided convolutions, averaged over positions; convnet-32-64-128 for other widths."""


@register("backbone", "gridnet")
@dataclass(frozen=True)
class GridNetSpec(_NetworkSpec):
    """Strided convolutions, averaged over quarters of the image; for training on a CPU."""


@register("backbone", "resnet18-small")
@dataclass(frozen=True)
class SmallResNetSpec(_NetworkSpec):
    """ResNet-18 with a 3x3 stem of stride 1; resnet18-small-16 for another width."""


def _named(name: str) -> tuple[str | None, Sequence[int]]:
    """The kind of network and its widths in a name; by default the usual widths."""
    for kind, default in _NAMED.items():
        if name == kind or name.startswith(f"{kind}-"):
            words = name.removeprefix(kind).split("-")[1:]
            if not all(word.isdecimal() for word in words):
                raise ValueError(f"widths after {kind!r} must be positive integers, got {name!r}")
            if kind == "resnet18-small" and len(words) > 1:
                raise ValueError(f"{kind!r} must have one width after it at most, got {name!r}")
            return kind, [int(word) for word in words] or default
    return None, ()


def _strided(in_channels: int, widths: Sequence[int], seed: int, first: tuple[int, int]) -> nn.Sequential:
    """Convolutions, batch normalization and ReLU: 3x3 of stride 2, the first of the given side and stride.

    Channels-last weights and images take a third less time on a CPU; a ResNet-18 gains nothing.
    """
    sizes = [check_count("in_channels", in_channels), *(check_count("width", width) for width in widths)]
    if len(sizes) < 2:
        raise ValueError(f"widths must be one at least, got {tuple(widths)}")
    source = generator(seed, "init")
    parts: list[nn.Module] = []
    for index, (n_in, n_out) in enumerate(itertools.pairwise(sizes)):
        side, stride = (3, 2) if index else first
        layer = _convolution(n_in, n_out, stride, source, side, padding=1)
        parts += [layer, nn.BatchNorm2d(n_out), nn.ReLU()]
    body = nn.Sequential(*parts)
    body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in its stubs
    return body


def _convolution(
    n_in: int, n_out: int, stride: int, source: torch.Generator, side: int = 3, padding: int | None = None
) -> nn.Conv2d:
    """A convolution without bias, which the following normalization would cancel."""
    padding = side // 2 if padding is None else padding
    layer: nn.Conv2d = nn.utils.skip_init(
        nn.Conv2d, n_in, n_out, side, stride=stride, padding=padding, bias=False
    )
    with torch.no_grad():
        layer.weight.normal_(0.0, math.sqrt(2 / (side**2 * n_out)), generator=source)
    return layer


CONV_WIDTHS = (32, 64, 128, 256)
_HALVED = 2 ** len(CONV_WIDTHS)


class Conv(nn.Module):
    """Images (batch, 3 frames, size, size) to embeddings (batch, dim).

    Args:
        dim: of the embedding.
        frames: number of frames in the channels of an image.
        size: side of the images in pixels, a multiple of 16; 64 is published.
        batch_norm: batch normalization after each layer but the last.
        seed: initializes the weights.

    Raises:
        ValueError: a setting is out of range; or, in a call, images have another size.

    Example:
        >>> Conv(dim=2)(torch.zeros(4, 3, 64, 64)).shape, sum(p.numel() for p in Conv(dim=2).parameters())
        (torch.Size([4, 2]), 757922)
    """

    @validate_types
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
        for n_in, n_out in itertools.pairwise((3 * frames, *CONV_WIDTHS)):
            norm = [nn.BatchNorm2d(n_out)] if batch_norm else []
            parts += [_conv_convolution(n_in, n_out, source), *norm, nn.GELU()]
        # channels-last weights and images: 15 % less time per step on a CPU
        self.body = nn.Sequential(*parts)
        self.body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in its stubs
        last = CONV_WIDTHS[-1]
        norm1 = [nn.BatchNorm1d(last)] if batch_norm else []
        self.head = nn.Sequential(linear(last, last, source), *norm1, nn.GELU(), linear(last, dim, source))
        self.dim, self.frames, self.size = dim, frames, size
        self.batch_norm, self.seed = batch_norm, seed  # from which a run directory rebuilds it

    def forward(self, x: Tensor) -> Tensor:
        """The embedding."""
        shape = (3 * self.frames, self.size, self.size)
        if x.ndim != 4 or tuple(x.shape[1:]) != shape:
            raise ValueError(
                f"images must be (batch, {shape[0]}, {self.size}, {self.size}), for which the encoder was "
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
    """Embedding dimension; by default the number of latents."""
    frames: int = 1
    """Number of frames in the channels of an image."""
    batch_norm: bool = True
    """Batch normalization after each layer but the last."""

    def resolve(self, context: Context) -> "ConvSpec":
        return replace(self, dim=self.embedding(context))

    def build(self, context: Context) -> Conv:
        shape = None if context.shapes is None else context.shapes[0]
        if shape is None or len(shape) != 3 or shape[0] != 3 * self.frames or shape[1] != shape[2]:
            raise ValueError(
                f"encoder 'conv' takes square images of {3 * self.frames} channels, three for each of "
                f"{self.frames} frames, got observations of shape {shape}"
            )
        return Conv(self.embedding(context), self.frames, shape[1], self.batch_norm, context.seed)

    def embedding(self, context: Context) -> int:
        return context.latents if self.dim is None else self.dim


def _conv_convolution(n_in: int, n_out: int, source: torch.Generator) -> nn.Conv2d:
    """A halving convolution with torch's default initialization, uniform on +-1/sqrt(inputs)."""
    layer: nn.Conv2d = nn.utils.skip_init(nn.Conv2d, n_in, n_out, 4, stride=2, padding=1)
    bound = 1 / math.sqrt(layer.weight[0].numel())
    with torch.no_grad():
        for parameter in (layer.weight, layer.bias):
            assert parameter is not None
            parameter.uniform_(-bound, bound, generator=source)
    return layer
