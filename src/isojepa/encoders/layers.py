"""Layers: seeded linear maps, projectors, batch normalization over ranks, moving averages of weights.

Initialization draws from a given generator; building a network reads no global state.

A projector is the head between the features of a backbone and the embeddings of the loss: linear maps with
batch normalization and ReLU between them, none after the last; LeJEPA's experiments use up to three
(Balestriero & LeCun 2025). Its name lists its widths:

    "2048-2048-64"   features -> 2048 -> 2048 -> 64, the published one
    "2048-2048-16"   of the published small example, whose backbone ends in 512 features
    "256-32"         two layers
    "linear-32"      one linear map
    "none"           no projector: the loss sees the features themselves

Batch normalization over ranks: for the values of one channel over the samples and positions of the whole
batch, n in all,

    y = (x - m) / sqrt(v + eps) * weight + bias,     m = (1/n) sum x,     v = (1/n) sum (x - m)^2

(Ioffe & Szegedy 2015). Sums run over all ranks, so values, gradients and running statistics are those of one
process with the whole batch, on any device and backend; torch's SyncBatchNorm rejects CPU tensors. The mean
is computed first and used, without gradient, as a shift c:

    s1 = sum (x - c),   s2 = sum (x - c)^2,      m = c + s1/n,   v = s2/n - (s1/n)^2

m and v do not depend on c, and s1/n is as small as the rounding of the mean, so no digits cancel if the mean
is large relative to the standard deviation. For C channels a forward pass exchanges one count, C and 2C
numbers, a backward pass 2C.

Exponential moving averages of weights, as named tensors:

    target <- d * target + (1 - d) * source

for parameters, with EMA decay d; buffers, such as the running statistics of a norm, are copied.
"""

import itertools
import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from isojepa import ranks
from isojepa.seeds import generator
from isojepa.validation import check_count, short_repr, validate_types


def linear(n_in: int, n_out: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer with torch's default initialization, uniform on +-1/sqrt(n_in), from `generator`."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, n_in, n_out)
    bound = 1 / math.sqrt(n_in)
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer


def identity(dim: int) -> nn.Linear:
    """A linear layer initialized to the identity."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, dim, dim)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(dim))
        layer.bias.zero_()
    return layer


class Projector(nn.Module):
    """Linear maps with batch normalization and ReLU between them.

    Args:
        in_dim: features of the backbone.
        widths: of each layer, the last of the embedding: "2048-2048-64", "linear-32".
        seed: initializes the weights.

    Example:
        >>> import torch
        >>> Projector(512, "2048-2048-16")(torch.zeros(4, 512)).shape
        torch.Size([4, 16])
    """

    @validate_types
    def __init__(self, in_dim: int, widths: str = "2048-2048-64", seed: int = 0) -> None:
        super().__init__()
        sizes = [check_count("in_dim", in_dim), *projector_widths(widths)]
        if len(sizes) < 2:
            raise ValueError("widths must be one at least: without a projector use the backbone alone")
        source = generator(seed, "projector")
        parts: list[nn.Module] = []
        for n_in, n_out in itertools.pairwise(sizes):
            parts += [linear(n_in, n_out, source), nn.BatchNorm1d(n_out), nn.ReLU()]
        self.body = nn.Sequential(*parts[:-2])
        self.in_dim, self.widths, self.seed = in_dim, widths, seed  # from which a run directory rebuilds it
        self.out_dim = sizes[-1]

    def forward(self, h: Tensor) -> Tensor:
        """Features (batch, in_dim) to embeddings (batch, out_dim)."""
        projected: Tensor = self.body(h)
        return projected


def projector_widths(name: str) -> tuple[int, ...]:
    """The widths in the name of a projector; none for "none".

    Raises:
        ValueError: it has no widths.

    Example:
        >>> projector_widths("2048-2048-64"), projector_widths("linear-32"), projector_widths("none")
        ((2048, 2048, 64), (32,), ())
    """
    if name == "none":
        return ()
    words = name.removeprefix("linear-").split("-")
    if not all(word.isdecimal() for word in words) or (name.startswith("linear-") and len(words) > 1):
        raise ValueError(
            'projector must be widths such as "2048-2048-64", "linear-32" for one linear map, or "none", '
            f"got {short_repr(name)}"
        )
    return tuple(check_count("a width of the projector", int(word)) for word in words)


_PLAIN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_ACTING = ("timm.layers.norm_act", "BatchNormAct2d")  # by name: timm may be missing


class BatchNorm(_BatchNorm):
    """Batch normalization over all ranks, of inputs with any number of positions.

    Takes the arguments of `nn.BatchNorm1d` and has its parameters, buffers and state dict. Without a
    distributed job it is torch's. Ranks may hold batches of different sizes, also empty ones, but all must
    take part; `ranks.alone` restricts statistics to one rank. Statistics of an evaluation without running
    statistics are over all ranks too.

    Args:
        num_features: channels.
        eps: added to the variance.
        momentum: weight of the newest batch in the running statistics; None for the mean of all batches.
        affine: learn a weight and a bias for each channel.
        track_running_stats: keep running statistics, and normalize by them in evaluation mode.

    Example:
        >>> BatchNorm(3)(torch.randn(8, 3, 4, 4)).shape
        torch.Size([8, 3, 4, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Normalize (batch, channels, ...).

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
        centered = x - shift.view(shape)
        first, second = ranks.total(torch.stack((centered.sum(axes), centered.square().sum(axes)))) / n
        variance = second - first**2
        if self.training and self.track_running_stats:
            self._track((shift + first).detach(), variance.detach() * (n / (n - 1)))
        scale = torch.rsqrt(variance + self.eps)
        if self.weight is not None:
            scale = scale * self.weight
        y: Tensor = (centered - first.view(shape)) * scale.view(shape)
        if self.bias is not None:
            y = y + self.bias.view(shape)
        return y.to(input.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor) -> None:
        """Update the running statistics."""
        assert self.running_mean is not None  # for the type checker: all three exist, or none
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        weight = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean), weight)
        self.running_var.lerp_(variance.to(self.running_var), weight)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2 or input.shape[1] != self.num_features:
            raise ValueError(
                f"input must be (batch, {self.num_features}, ...), got shape {tuple(input.shape)}"
            )


class ActingBatchNorm(BatchNorm):
    """`BatchNorm` followed by dropout and activation, as timm's `BatchNormAct2d`."""

    drop: nn.Module
    act: nn.Module

    def forward(self, input: Tensor) -> Tensor:
        """Normalize (batch, channels, ...), then drop and activate."""
        y: Tensor = self.act(self.drop(super().forward(input)))
        return y


def synchronised(module: nn.Module) -> nn.Module:
    """Synchronize every `nn.BatchNorm1d`, `2d` and `3d` of a module, and timm's, over ranks, in place.

    Only the class of each changes: parameters, buffers, hooks, modes and references stay.

    Args:
        module: any module, also a batch normalization itself.

    Returns:
        The same module.

    Raises:
        ValueError: a part is a batch normalization of another class, whose forward pass would be lost.
            Nothing is changed then.

    Example:
        >>> type(synchronised(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))[1]).__name__
        'BatchNorm'
    """
    parts = [(name, part) for name, part in module.named_modules() if isinstance(part, _BatchNorm)]
    for name, part in parts:
        classes = (*_PLAIN, BatchNorm, ActingBatchNorm, nn.SyncBatchNorm)
        if type(part) not in classes and not _acts(part):
            raise ValueError(
                f"batch normalization must be nn.BatchNorm1d, 2d or 3d to be synchronised, got "
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


@torch.no_grad()
def follow(target: nn.Module, source: nn.Module, decay: float) -> None:
    """Update an exponential moving average of the parameters of a module, in place, and copy its buffers.

    Args:
        target: the average, e.g. a teacher.
        source: the module, with parameters and buffers of the same names and shapes.
        decay: EMA decay, in [0, 1]; 0 copies.

    Raises:
        ValueError: the modules differ in names or shapes, or the decay is out of range.

    Example:
        >>> teacher, student = nn.Linear(2, 2), nn.Linear(2, 2)
        >>> follow(teacher, student, decay=0.0)
        >>> torch.equal(teacher.weight, student.weight)
        True
    """
    check_decay(decay)
    move(parameters_of(target), parameters_of(source), decay)
    copy(buffers_of(target), buffers_of(source))


def move(targets: Mapping[str, Tensor], sources: Mapping[str, Tensor], decay: float) -> None:
    """Average tensors by name, in place."""
    _check_names(targets, sources)
    averaged = [name for name, target in targets.items() if target.is_floating_point() or target.is_complex()]
    if averaged:  # in one call, which matters on a device
        values = [sources[name].to(targets[name]) for name in averaged]
        torch._foreach_lerp_([targets[name] for name in averaged], values, 1 - decay)
    for name in targets.keys() - averaged:  # a counter has no average
        targets[name].copy_(sources[name])


def copy(targets: Mapping[str, Tensor], sources: Mapping[str, Tensor]) -> None:
    """Copy tensors by name, in place."""
    _check_names(targets, sources)
    for name, target in targets.items():
        target.copy_(sources[name])


def _check_names(targets: Mapping[str, Tensor], sources: Mapping[str, Tensor]) -> None:
    ours = {name: tuple(tensor.shape) for name, tensor in targets.items()}
    theirs = {name: tuple(tensor.shape) for name, tensor in sources.items()}
    if ours != theirs:
        odd = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
        raise ValueError(
            f"weights must have the same names and shapes, got {odd[0]!r} of shape {ours.get(odd[0])} here "
            f"and {theirs.get(odd[0])} there ({len(odd)} differ)"
        )


def check_decay(decay: float) -> float:
    """Check that the decay lies in [0, 1], and return it."""
    if not 0 <= decay <= 1:
        raise ValueError(f"decay must lie in [0, 1], got {decay}")
    return float(decay)


def parameters_of(module: nn.Module) -> dict[str, Tensor]:
    """Parameters by name; tied ones once."""
    return {name: parameter.detach() for name, parameter in module.named_parameters()}


def buffers_of(module: nn.Module) -> dict[str, Tensor]:
    """Buffers by name."""
    return dict(module.named_buffers())


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name."""
    return parameters_of(module) | buffers_of(module)


def clones(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of tensors, without their graphs."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
