"""Convolutional backbones for small pictures, 16 to 64 pixels: two quick ones of any widths, and a ResNet-18.

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
"""

import itertools
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isojepa.arguments import check_count, checked
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
