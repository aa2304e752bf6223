"""AlexNet, VGG-16 and SqueezeNet: the convolutions of networks that others trained, pooled over positions.

    alexnet      Krizhevsky (2014), five convolutions, 256 features
    vgg16        Simonyan & Zisserman (2015), thirteen, 512
    squeezenet   Iandola et al. (2016), version 1.1, a convolution and eight fire modules, 512

They have no normalisation: what they are good for are weights of others, which `load_weights` puts into them;
drawn weights, as He et al. (2015) do, are what those are compared with. timm has none of the three in this
form. Their names stand beside those of `convnets`.
"""

import math

import torch
from torch import Tensor, nn

from isojepa.arguments import check_count
from isojepa.seeds import generator

DIMS = {"alexnet-features": 256, "vgg16-features": 512, "squeezenet-features": 512}  # of the features
NAMES = tuple(DIMS)
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
        self.squeeze = _convolution(n_in, few, 1)
        self.one, self.three = _convolution(few, each, 1), _convolution(few, each, 3, padding=1)

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
    if name not in NAMES:
        return None
    check_count("in_channels", in_channels)
    layers = {NAMES[0]: _alexnet, NAMES[1]: _vgg16, NAMES[2]: _squeezenet}[name](in_channels)
    return Classic(layers, DIMS[name], seed)


def _alexnet(n_in: int) -> list[nn.Module]:
    return [
        _convolution(n_in, 64, 11, stride=4, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        _convolution(64, 192, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        _convolution(192, 384, 3, padding=1),
        nn.ReLU(),
        _convolution(384, 256, 3, padding=1),
        nn.ReLU(),
        _convolution(256, 256, 3, padding=1),
        nn.ReLU(),
    ]


def _vgg16(n_in: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for width in _VGG:
        if width:
            layers += [_convolution(n_in, width, 3, padding=1), nn.ReLU()]
            n_in = width
        else:
            layers.append(nn.MaxPool2d(2, 2))
    return layers


def _squeezenet(n_in: int) -> list[nn.Module]:
    # the published weights are for an input padded below and on the right where its side is even
    layers: list[nn.Module] = [_Same(), _convolution(n_in, 64, 3, stride=2), nn.ReLU(), nn.MaxPool2d(3, 2)]
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


def _convolution(n_in: int, n_out: int, side: int, **options: int) -> nn.Conv2d:
    layer: nn.Conv2d = nn.utils.skip_init(nn.Conv2d, n_in, n_out, side, **options)
    return layer
