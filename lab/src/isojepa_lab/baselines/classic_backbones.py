"""AlexNet, VGG-16 and SqueezeNet: the convolutions of published networks, averaged over positions.

    alexnet-features      Krizhevsky (2014), five convolutions, 256 features
    vgg16-features        Simonyan & Zisserman (2015), thirteen, 512
    squeezenet-features   Iandola et al. (2016), version 1.1, a convolution and eight fire modules, 512

They have no normalization layers and hold published weights, which `isojepa.encoders.weights.load_weights`
puts into them; initial weights are drawn as He et al. (2015) do. timm has none of the three in this form.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from isojepa.registry import Context, Spec, register
from isojepa.seeds import generator
from isojepa.validation import check_count, choose

DIMS = {"alexnet-features": 256, "vgg16-features": 512, "squeezenet-features": 512}  # of the features


_VGG = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512)  # 0: max pooling


_FIRES = ((16, 64), (16, 64), (), (32, 128), (32, 128), (), (48, 192), (48, 192), (64, 256), (64, 256))


class Classic(nn.Module):
    """A sequence of layers, averaged over the positions.

    Args:
        layers: from images to feature maps.
        num_features: channels of the maps.
        seed: draws the initial weights.
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
    """A fire module: a squeezing convolution, then two expanding ones in parallel."""

    def __init__(self, n_in: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = _conv(n_in, squeezed, 1)
        self.one, self.three = _conv(squeezed, expanded, 1), _conv(squeezed, expanded, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 2 expanded, height, width)."""
        inner = self.squeeze(x).relu()
        return torch.cat((self.one(inner).relu(), self.three(inner).relu()), 1)


def classic(name: str, in_channels: int = 3, seed: int = 0) -> Classic:
    """The network of a name.

    Example:
        >>> classic("squeezenet-features")(torch.zeros(2, 3, 64, 64)).shape
        torch.Size([2, 512])
    """
    layers = choose("network", name, _LAYERS)(check_count("in_channels", in_channels))
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
    """Zero padding for which a 3x3 convolution of stride 2 halves the side, rounded up."""

    def forward(self, x: Tensor) -> Tensor:
        (top, below), (left, right) = ((1, 1) if side % 2 else (0, 1) for side in x.shape[-2:])
        return nn.functional.pad(x, (left, right, top, below))


def _conv(n_in: int, n_out: int, side: int, **options: int) -> nn.Conv2d:
    layer: nn.Conv2d = nn.utils.skip_init(nn.Conv2d, n_in, n_out, side, **options)
    return layer


_LAYERS = {"alexnet-features": _alexnet, "vgg16-features": _vgg16, "squeezenet-features": _squeezenet}


class _ClassicSpec(Spec):
    """A published network without its classifier; `name` is that of the registered component."""

    def build(self, context: Context) -> Classic:
        shape = (3,) if context.shapes is None else context.shapes[0]
        return classic(self.name, shape[0], context.seed)

    def feature_dim(self, context: Context) -> int:
        return DIMS[self.name]


@register("backbone", "alexnet-features")
@dataclass(frozen=True)
class AlexNetSpec(_ClassicSpec):
    """AlexNet's convolutions, 256 features."""


@register("backbone", "vgg16-features")
@dataclass(frozen=True)
class VGG16Spec(_ClassicSpec):
    """The convolutions of VGG-16, 512 features."""


@register("backbone", "squeezenet-features")
@dataclass(frozen=True)
class SqueezeNetSpec(_ClassicSpec):
    """SqueezeNet 1.1 without its classifier, 512 features."""
