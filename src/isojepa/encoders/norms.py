r"""Batch normalisation of a batch that is spread over ranks.

For the values of one channel over the samples and positions of the whole batch, n in all,

    y = (x - m) / sqrt(v + eps) * weight + bias,     m = (1/n) sum x,     v = (1/n) sum (x - m)^2

(Ioffe & Szegedy 2015). The sums run over all ranks, so values, gradients and running statistics are those of
one process that holds the batch whole, on any device and backend; torch's SyncBatchNorm refuses CPU tensors.

The mean is taken first and used as a shift c, without gradient, of the sums that matter:

    s1 = sum (x - c),   s2 = sum (x - c)^2,      m = c + s1/n,   v = s2/n - (s1/n)^2

m and v do not depend on c, and s1/n is as small as the rounding of the mean, so no digits cancel where the
mean is large against the spread. For C channels a forward pass exchanges one count, C and 2C numbers, a
backward pass 2C.
"""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from isojepa import ranks

_PLAIN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_ACTING = ("timm.layers.norm_act", "BatchNormAct2d")  # told by its name: timm need not be there


class BatchNorm(_BatchNorm):
    """Batch normalisation over all ranks, of inputs with any number of positions.

    Takes the arguments of `nn.BatchNorm1d` and has its parameters, buffers and state dict. Without a
    distributed job it is torch's own. Ranks may hold batches of different sizes, also none at all, as long as
    all of them take part; `ranks.alone` keeps to one rank's samples. As every statistic of a batch, those of
    an evaluation without running statistics are over all ranks.

    Args:
        num_features: channels.
        eps: added to the variance.
        momentum: share of the newest batch in the running statistics; None for the mean of all batches.
        affine: learn a weight and a bias for each channel.
        track_running_stats: keep running statistics, and normalise by them in evaluation mode.

    Example:
        >>> BatchNorm(3)(torch.randn(8, 3, 4, 4)).shape
        torch.Size([8, 3, 4, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (batch, channels, ...).

        Raises:
            ValueError: a wrong shape, or a batch with fewer than two values for each channel.
        """
        self._check_input_dim(input)
        stored = not self.training and self.running_mean is not None
        if stored or ranks.world_size() == 1:
            return super().forward(input)
        x = input if input.dtype == torch.float64 else input.float()  # sums need more digits than half has
        shape = [1, -1] + [1] * (x.ndim - 2)
        axes = [axis for axis in range(x.ndim) if axis != 1]
        n = ranks.count(x.numel() // self.num_features, x.device)
        if n < 2:
            raise ValueError(f"a batch must have at least 2 values for each channel, got {n} on all ranks")
        shift = ranks.total(x.detach().sum(axes)) / n
        centred = x - shift.view(shape)
        first, second = ranks.total(torch.stack((centred.sum(axes), centred.square().sum(axes)))) / n
        variance = second - first**2
        if self.training and self.track_running_stats:
            self._track((shift + first).detach(), variance.detach() * (n / (n - 1)))
        scale = torch.rsqrt(variance + self.eps)
        if self.weight is not None:
            scale = scale * self.weight
        y: Tensor = (centred - first.view(shape)) * scale.view(shape)
        if self.bias is not None:
            y = y + self.bias.view(shape)
        return y.to(input.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics towards those of a batch."""
        assert self.running_mean is not None  # for the type checker: all three are there, or none
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean), share)
        self.running_var.lerp_(variance.to(self.running_var), share)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2 or input.shape[1] != self.num_features:
            raise ValueError(
                f"input must be (batch, {self.num_features}, ...), got shape {tuple(input.shape)}"
            )


class ActingBatchNorm(BatchNorm):
    """The same with what timm's `BatchNormAct2d` does besides: a dropout and an activation of its own."""

    drop: nn.Module
    act: nn.Module

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (batch, channels, ...), then drop and activate."""
        y: Tensor = self.act(self.drop(super().forward(input)))
        return y


def synchronised(module: nn.Module) -> nn.Module:
    """Make every `nn.BatchNorm1d`, `2d` and `3d` of a module tree one over all ranks, in place; timm's too.

    Each changes its class and nothing else: parameters, buffers, hooks, modes and whatever else refers to it
    stay as they are.

    Args:
        module: any module, a batch normalisation itself too.

    Returns:
        The same module.

    Raises:
        ValueError: a part that is a batch normalisation of another kind, whose own forward pass would be
            lost. Nothing is changed then.

    Example:
        >>> type(synchronised(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))[1]).__name__
        'BatchNorm'
    """
    parts = [(name, part) for name, part in module.named_modules() if isinstance(part, _BatchNorm)]
    for name, part in parts:
        known = (*_PLAIN, BatchNorm, ActingBatchNorm, nn.SyncBatchNorm)
        if type(part) not in known and not _acts(part):
            raise ValueError(
                f"batch normalisation must be nn.BatchNorm1d, 2d or 3d to be synchronised, got "
                f"{type(part).__name__} at {name or 'the root'!r}"
            )
    for _, part in parts:
        if type(part) in _PLAIN:
            part.__class__ = BatchNorm
        elif _acts(part):
            part.__class__ = ActingBatchNorm
    return module


def _acts(part: nn.Module) -> bool:
    return (type(part).__module__, type(part).__name__) == _ACTING
