"""Small convolutional networks for images, and AlexNet, VGG-16 and SqueezeNet.

Convolutional backbones for small pictures, 16 to 64 pixels: two quick ones of any widths, and a ResNet-18.

`ConvNet` halves the picture from one 3x3 convolution to the next, with batch normalisation and ReLU behind
each, and averages what is left over the positions: with widths 16-32-64-128 a training step of 28-pixel
pictures costs a few milliseconds for each hundred on one core. `SmallResNet` is the ResNet-18 of He et al.
(2016) with the stem that their CIFAR networks have: a 3x3 convolution of stride 1 and no max-pool, so that a
picture of 28 pixels still has 4x4 positions in the last stage. `GridNet` is for training on a processor: its
first convolution already halves the picture, and its features are averages over the quarters of the picture
in place of the whole, so that they tell where something is. None needs an extra. Their names are "convnet",
or "convnet-32-64-128" for other widths, "gridnet" likewise, and "resnet18-small", or "resnet18-small-16" for
another width of the first stage.

Weights are drawn as He et al. (2015) do: normal with variance 2 / (9 channels out).

The convolutional encoder of the published pixel experiments: four halvings, an average, two linear maps.

    4 x [Conv 4x4, stride 2, padding 1 -> BatchNorm -> GELU], channels 3k -> 32 -> 64 -> 128 -> 256
    AvgPool(4) -> Linear(256, 256) -> BatchNorm -> GELU -> Linear(256, dim)

Klindt, LeCun & Balestriero (2026), "When Does LeJEPA Learn a World Model?", Appendix D. Built is what the
paper lists, with 4x4 kernels throughout and biases everywhere: 757,922 parameters for one frame and two
latents. Its text says about 1.1 million, which no reading of the list gives. Without BatchNorm, its authors
report, 36 % of their runs collapsed.

A velocity cannot be seen in one frame: `frames` of them, one behind the other in the channels, are taken too.

AlexNet, VGG-16 and SqueezeNet: the convolutions of networks that others trained, pooled over positions.

    alexnet      Krizhevsky (2014), five convolutions, 256 features
    vgg16        Simonyan & Zisserman (2015), thirteen, 512
    squeezenet   Iandola et al. (2016), version 1.1, a convolution and eight fire modules, 512

They have no normalisation: what they are good for are weights of others, which `load_weights` puts into them;
drawn weights, as He et al. (2015) do, are what those are compared with. timm has none of the three in this
form. Their names stand beside those of `convnets`.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isojepa.arguments import check_count, checked
from isojepa.encoders.layers import linear
from isojepa.registry import Context, Spec, register
from isojepa.seeds import generator

WIDTHS = (16, 32, 64, 128)
_NAMED = {"convnet": WIDTHS, "gridnet": (64, 128, 256), "resnet18-small": (64,)}  # with their widths
NAMES = tuple(_NAMED)  # beside those of timm
_GRID = 2  # parts of a side over which a GridNet averages
_STAGES = (1, 2, 4, 8)  # widths of a ResNet's stages, in multiples of the first


class _Pooled(nn.Module):
    """What the two have in common: pooled maps of features."""

    num_features: int

    def forward_features(self, x: Tensor) -> Tensor:
        """Maps (batch, channels, height, width) of features."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Features (batch, num_features), averaged over the positions."""
        return self.forward_features(x).mean((-2, -1))


class ConvNet(_Pooled):
    """3x3 convolutions of stride 2 but for the first, each with batch normalisation and ReLU.

    Args:
        in_channels: of a picture.
        widths: channels behind each convolution.
        seed: draws the initial weights.

    Example:
        >>> net = ConvNet(in_channels=1)
        >>> net(torch.zeros(2, 1, 28, 28)).shape, net(torch.zeros(2, 1, 16, 16)).shape
        (torch.Size([2, 128]), torch.Size([2, 128]))
    """

    @checked
    def __init__(self, in_channels: int = 3, widths: Sequence[int] = WIDTHS, seed: int = 0) -> None:
        super().__init__()
        self.body = _strided(in_channels, widths, seed, first=(3, 1))
        self.num_features = widths[-1]

    def forward_features(self, x: Tensor) -> Tensor:
        """Maps of features, a side 2 ** (convolutions - 1) times smaller."""
        maps: Tensor = self.body(x.contiguous(memory_format=torch.channels_last))
        return maps


class GridNet(_Pooled):
    """Convolutions of stride 2, 4x4 and then 3x3, whose maps are averaged over the quarters of the picture.

    Args:
        in_channels: of a picture.
        widths: channels behind each convolution; there are four features for each of the last.
        seed: draws the initial weights.

    Example:
        >>> net = GridNet(in_channels=1)
        >>> net(torch.zeros(2, 1, 28, 28)).shape, net(torch.zeros(2, 1, 16, 16)).shape
        (torch.Size([2, 1024]), torch.Size([2, 1024]))
    """

    @checked
    def __init__(
        self, in_channels: int = 3, widths: Sequence[int] = _NAMED["gridnet"], seed: int = 0
    ) -> None:
        super().__init__()
        self.body = _strided(in_channels, widths, seed, first=(4, 2))
        self.num_features = widths[-1] * _GRID**2

    def forward_features(self, x: Tensor) -> Tensor:
        """Maps of features, a side 2 ** convolutions times smaller."""
        maps: Tensor = self.body(x.contiguous(memory_format=torch.channels_last))
        return maps

    def forward(self, x: Tensor) -> Tensor:
        """Features (batch, num_features), averaged over the quarters of the picture."""
        return F.adaptive_avg_pool2d(self.forward_features(x), _GRID).flatten(1)


class _Block(nn.Module):
    """Two convolutions beside a shortcut."""

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
        in_channels: of a picture.
        width: channels of the first stage; 64 is ResNet-18, with 512 features.
        blocks: in each of the four stages.
        seed: draws the initial weights.

    Example:
        >>> SmallResNet(in_channels=1, width=8)(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 64])
    """

    @checked
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
        """Maps of features, a side eight times smaller."""
        maps: Tensor = self.stages(self.stem(x))
        return maps


def small_model(name: str, in_channels: int = 3, seed: int = 0) -> _Pooled | None:
    """The network of a name; None if it is not one of these.

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
    """Dimension of the features of the network of a name, which is not built; None if it is not one of these.

    Raises:
        ValueError: a width is no positive integer.

    Example:
        >>> small_dim("convnet-8-24"), small_dim("gridnet-8-24"), small_dim("resnet18-small-4")
        (24, 96, 32)
    """
    kind, widths = _named(name)
    features = {"convnet": 1, "gridnet": _GRID**2, "resnet18-small": _STAGES[-1]}
    return None if kind is None else widths[-1] * features[kind]


def _named(name: str) -> tuple[str | None, Sequence[int]]:
    """The kind of network that a name says and its widths, the default ones where it says none."""
    for known, default in _NAMED.items():
        if name == known or name.startswith(f"{known}-"):
            words = name.removeprefix(known).split("-")[1:]
            if not all(word.isdecimal() for word in words):
                raise ValueError(f"widths behind {known!r} must be positive integers, got {name!r}")
            if known == "resnet18-small" and len(words) > 1:
                raise ValueError(f"{known!r} must have one width behind it at most, got {name!r}")
            return known, [int(word) for word in words] or default
    return None, ()


def _strided(in_channels: int, widths: Sequence[int], seed: int, first: tuple[int, int]) -> nn.Sequential:
    """Convolutions, batch normalisation and ReLU: 3x3 of stride 2, the first of its own side and stride.

    Channels last, weights and pictures: a third less time on a processor; a ResNet-18 gains nothing.
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
    body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # its stubs lack it
    return body


def _convolution(
    n_in: int, n_out: int, stride: int, source: torch.Generator, side: int = 3, padding: int | None = None
) -> nn.Conv2d:
    """A convolution without bias, which the normalisation behind it would take away."""
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
        for n_in, n_out in itertools.pairwise((3 * frames, *CONV_WIDTHS)):
            norm = [nn.BatchNorm2d(n_out)] if batch_norm else []
            parts += [_conv_convolution(n_in, n_out, source), *norm, nn.GELU()]
        # channels last, weights and pictures: 15 % less time for a step on a processor
        self.body = nn.Sequential(*parts)
        self.body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # its stubs lack it
        last = CONV_WIDTHS[-1]
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


def _conv_convolution(n_in: int, n_out: int, source: torch.Generator) -> nn.Conv2d:
    """A halving convolution with torch's own initial law, uniform on +-1/sqrt(inputs)."""
    layer: nn.Conv2d = nn.utils.skip_init(nn.Conv2d, n_in, n_out, 4, stride=2, padding=1)
    bound = 1 / math.sqrt(layer.weight[0].numel())
    with torch.no_grad():
        for parameter in (layer.weight, layer.bias):
            assert parameter is not None
            parameter.uniform_(-bound, bound, generator=source)
    return layer


DIMS = {"alexnet-features": 256, "vgg16-features": 512, "squeezenet-features": 512}  # of the features
CLASSIC_NAMES = tuple(DIMS)
_VGG = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512)  # 0: the side is halved
_FIRES = ((16, 64), (16, 64), (), (32, 128), (32, 128), (), (48, 192), (48, 192), (64, 256), (64, 256))


class Classic(nn.Module):
    """Layers one behind another, averaged over the positions.

    Args:
        layers: from pictures to maps.
        num_features: channels of the maps.
        seed: draws the weights.
    """

    def __init__(self, layers: list[nn.Module], num_features: int, seed: int) -> None:
        super().__init__()
        self.layers, self.num_features = nn.Sequential(*layers), num_features
        source = generator(seed, "init")
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                fan_in = part.weight[0].numel()
                with torch.no_grad():
                    part.weight.normal_(0.0, math.sqrt(2 / fan_in), generator=source)
                    if part.bias is not None:
                        part.bias.zero_()

    def forward_features(self, x: Tensor) -> Tensor:
        """Maps (batch, num_features, height, width)."""
        maps: Tensor = self.layers(x)
        return maps

    def forward(self, x: Tensor) -> Tensor:
        """Features (batch, num_features)."""
        return self.forward_features(x).mean((-2, -1))


class Fire(nn.Module):
    """Few channels, and behind them two convolutions side by side."""

    def __init__(self, n_in: int, few: int, each: int) -> None:
        super().__init__()
        self.squeeze = _conv(n_in, few, 1)
        self.one, self.three = _conv(few, each, 1), _conv(few, each, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 2 each, height, width)."""
        inner = self.squeeze(x).relu()
        return torch.cat((self.one(inner).relu(), self.three(inner).relu()), 1)


def classic(name: str, in_channels: int = 3, seed: int = 0) -> Classic | None:
    """The network of a name; None if it is not one of these.

    Example:
        >>> net = classic("squeezenet-features")
        >>> net(torch.zeros(2, 3, 64, 64)).shape, classic("resnet50") is None
        (torch.Size([2, 512]), True)
    """
    if name not in CLASSIC_NAMES:
        return None
    check_count("in_channels", in_channels)
    layers = {CLASSIC_NAMES[0]: _alexnet, CLASSIC_NAMES[1]: _vgg16, CLASSIC_NAMES[2]: _squeezenet}[name](
        in_channels
    )
    return Classic(layers, DIMS[name], seed)


def _alexnet(n_in: int) -> list[nn.Module]:
    return [
        _conv(n_in, 64, 11, stride=4, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        _conv(64, 192, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        _conv(192, 384, 3, padding=1),
        nn.ReLU(),
        _conv(384, 256, 3, padding=1),
        nn.ReLU(),
        _conv(256, 256, 3, padding=1),
        nn.ReLU(),
    ]


def _vgg16(n_in: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for width in _VGG:
        if width:
            layers += [_conv(n_in, width, 3, padding=1), nn.ReLU()]
            n_in = width
        else:
            layers.append(nn.MaxPool2d(2, 2))
    return layers


def _squeezenet(n_in: int) -> list[nn.Module]:
    # the published weights are for an input padded below and on the right where its side is even
    layers: list[nn.Module] = [_Same(), _conv(n_in, 64, 3, stride=2), nn.ReLU(), nn.MaxPool2d(3, 2)]
    width = 64
    for sizes in _FIRES:
        if sizes:
            layers.append(Fire(width, *sizes))
            width = 2 * sizes[1]
        else:
            layers.append(nn.MaxPool2d(3, 2))
    return layers


class _Same(nn.Module):
    """Zeros around a picture so that a 3x3 convolution of stride 2 gives half its side, rounded up."""

    def forward(self, x: Tensor) -> Tensor:
        (top, below), (left, right) = ((1, 1) if side % 2 else (0, 1) for side in x.shape[-2:])
        return nn.functional.pad(x, (left, right, top, below))


def _conv(n_in: int, n_out: int, side: int, **options: int) -> nn.Conv2d:
    layer: nn.Conv2d = nn.utils.skip_init(nn.Conv2d, n_in, n_out, side, **options)
    return layer
