"""Backbones: any model of timm by name, the small networks of this package, or a module.

Backbones: a model of timm by name, a small one of `convnets`, or any module, as a `Model` of pictures.

What a backbone answers, for pictures (batch, channels, height, width):

    features          (batch, num_features): pooled as the model pools, behind a linear map where `dim` is set
    tokens            (batch, token, channels): one vector for each patch of a ViT or position of a map
    encode            features and tokens of some patches alone, of a plain ViT: what masked objectives train
    maps              (batch, channels, height, width): the same as a picture, to look at
    layers_features   (batch, ...): what published probes read: of a ViT the [CLS] tokens behind its last two
                      blocks, each through the final LayerNorm, side by side; of others the pooled features
    attention         (batch, head, height, width): how much [CLS] attends to each patch in the last block, of
                      a ViT; other backbones have none and say so

Global and local crops have sizes of their own. Convolutional models take any; ViTs interpolate their position
embeddings and Swin Transformers cut their windows anew; LeViT, MaxViT and others keep to the one they were
built for, and say so at the first picture of another, before training begins.

timm's models by name: made without downloading anything, with weights of a seed, for pictures of any size.

Options of a model are plain text, `"reg_tokens=4, drop_path_rate=0.1"`, so that they survive flags, YAML and
records: names and values as Python writes keyword arguments; a word without quotes is text.

How much [CLS] attends to each patch in the last block of a ViT, as that block itself computes it.

The block hands queries q, keys k and values v to `scaled_dot_product_attention`, which returns its result and
not the weights

    softmax(q_cls k^T / sqrt(dim of a head) + bias),

so that call is listened to, and the row of [CLS] is computed beside it from the same q, k and bias: whatever
the block does before it (norms of queries and keys, rotary positions, relative biases) is in them.
"""

import ast
import contextlib
import difflib
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from isojepa.arguments import check_count, checked
from isojepa.encoders.convnets import CLASSIC_NAMES as CLASSICS
from isojepa.encoders.convnets import DIMS, classic, small_dim, small_model
from isojepa.encoders.convnets import NAMES as SMALL
from isojepa.encoders.layers import Projector, linear, projector_widths
from isojepa.encoders.model import Headed, evaluating
from isojepa.encoders.patches import Encoded, check_mask, encode_patches, patch_grid, select
from isojepa.names import shown
from isojepa.registry import Context, Spec, register
from isojepa.seeds import borrowed, generator
from isojepa.vision import import_timm

NAMES = (*SMALL, *CLASSICS)  # of this package
_OURS = ("pretrained", "num_classes", "in_chans", "checkpoint_path", "cache_dir")  # not for options to say
_NEAR = 3  # names that a message proposes


def parse_options(text: str) -> dict[str, Any]:
    """Options by name.

    Raises:
        ValueError: the text is no list of names and plain values.

    Example:
        >>> parse_options("reg_tokens=4, global_pool=avg, depths=(1, 1, 2, 1)")
        {'reg_tokens': 4, 'global_pool': 'avg', 'depths': (1, 1, 2, 1)}
    """
    try:
        call = ast.parse(f"options({text})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
            raise ValueError
        found = {str(item.arg): _value(item.value) for item in call.keywords if item.arg is not None}
        if len(found) != len(call.keywords):
            raise ValueError
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(
            f'options must be names and values such as "reg_tokens=4, drop_path_rate=0.1", got {shown(text)}'
        ) from None
    for name in _OURS:
        if name in found:
            raise ValueError(
                f"options must leave {', '.join(_OURS)} out, which follow from the run, got "
                f"{name}={found[name]!r}"
            )
    return found


def create(name: str, in_channels: int, image_size: int | None, options: str, seed: int) -> nn.Module:
    """A model of timm without a classifier.

    Args:
        name: as `timm.list_models()` has it.
        in_channels: of a picture.
        image_size: side of the largest pictures it will see; the model's own by default.
        options: more arguments, as text.
        seed: draws the weights.

    Raises:
        ValueError: there is no such model, or it does not take the options.
        ImportError: timm is not installed.
    """
    arguments = creation(name, in_channels, image_size, options)
    with borrowed(seed, "backbone"):  # timm draws from the global generator
        made: nn.Module = _made(name, arguments)
        return made


def creation(name: str, in_channels: int, image_size: int | None, options: str) -> dict[str, Any]:
    """Arguments of `timm.create_model`, besides `num_classes=0`, that make the same model.

    Raises:
        ValueError: there is no such model, or it does not take the options.
    """
    arguments: dict[str, Any] = {"in_chans": in_channels, **parse_options(options)}
    with torch.device("meta"):  # shapes alone: to ask its class what it takes
        taken = _arguments(type(_made(name, arguments)))
    sizes: dict[str, Any] = {"dynamic_img_size": True, "strict_img_size": False}
    if image_size is not None:
        sizes["img_size"] = image_size
    return {key: value for key, value in sizes.items() if key in taken} | arguments


@functools.lru_cache(maxsize=64)
def pooled_dim(name: str, options: str) -> int:
    """Dimension of a model's pooled features, from its shapes alone: no weights are made.

    Raises:
        ValueError: there is no such model, or it does not take the options.
    """
    with torch.device("meta"):
        return feature_dim(_made(name, parse_options(options)))


@functools.lru_cache(maxsize=64)
def is_transformer(name: str, options: str) -> bool:
    """Whether a model of timm is a vision transformer: blocks of one width over tokens, from shapes alone.

    Raises:
        ValueError: there is no such model, or it does not take the options.
    """
    with torch.device("meta"):
        return is_vit(_made(name, parse_options(options)))


def is_vit(body: Any) -> bool:
    """Whether a model is blocks of one width with tokens before the patches, as timm's ViTs are."""
    return all(
        hasattr(body, name) for name in ("num_prefix_tokens", "forward_intermediates", "blocks", "norm")
    )


def feature_dim(model: Any) -> int:
    """What a model of timm without a classifier returns for each picture.

    Not `embed_dim`, which for models in stages is the first one's; and not always timm's `num_features`: the
    later MobileNets have one more layer between it and the classifier.
    """
    return int(model.head_hidden_size)


def _made(name: str, arguments: dict[str, Any]) -> Any:
    timm = import_timm()
    if not timm.is_model(name):
        raise ValueError(_unknown(name))
    try:
        return timm.create_model(name, pretrained=False, num_classes=0, **arguments)
    except (TypeError, ValueError, AssertionError, RuntimeError, LookupError, ArithmeticError) as error:
        told = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        raise ValueError(f"backbone {name!r} cannot be made with {told}: {error}") from error


def _unknown(name: str) -> str:
    known = [*NAMES, *import_timm().list_models()]
    near = difflib.get_close_matches(name[:100], known, n=_NEAR, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return (
        f"backbone must be {', '.join(NAMES)} or one of timm's {len(known) - len(NAMES)} models, "
        f"got {shown(name)}{hint}"
    )


def _arguments(model: type) -> set[str]:
    """What the constructors of a class and its bases take by name."""
    bases = [base for base in model.__mro__ if "__init__" in vars(base) and base not in (nn.Module, object)]
    return {name for base in bases for name in inspect.signature(base).parameters}


def _value(node: ast.expr) -> Any:
    """A plain value, or a word without quotes as text."""
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


class NoAttention(ValueError):
    """A model in whose last block no [CLS] token attends to patches."""


def class_attention(body: Any, call: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    """Weights of [CLS] in the last block, for each head.

    Args:
        body: a model as timm's ViTs are, with `blocks`, `cls_token` and `num_prefix_tokens`.
        call: runs the blocks on pictures.
        x: pictures (batch, channels, height, width).

    Returns:
        (batch, head, patches); what is missing to 1 goes to [CLS] itself and to registers.

    Raises:
        NoAttention: it has no [CLS] token, or its last block attends in another way.
    """
    name = type(body).__name__
    blocks, token = (getattr(body, part, None) for part in ("blocks", "cls_token"))
    if not isinstance(token, Tensor) or not isinstance(blocks, nn.Sequential | nn.ModuleList):
        raise NoAttention(f"{name} has no [CLS] token that attends to patches")
    heard = _Listening()
    with _around(blocks[-1], heard), heard:
        call(x)
    if len(heard.rows) != 1 or heard.rows[0].ndim != 4 or len(heard.rows[0]) != len(x):
        raise NoAttention(f"the last block of {name} does not attend by one softmax over all tokens")
    return heard.rows[0][:, :, 0, body.num_prefix_tokens :]


class _Listening(TorchFunctionMode):
    """Computes the first row of weights of each attention, while `on`."""

    def __init__(self) -> None:
        super().__init__()
        self.on = False
        self.rows: list[Tensor] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if self.on and func is F.scaled_dot_product_attention:
            self.rows.append(_first_row(*args, **given))
        return func(*args, **given)


def _first_row(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The weights (batch, head, 1, token) of the first query."""
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = query[..., :1, :] @ key.mT * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if attn_mask is not None:
        bias = attn_mask[..., :1, :]
        scores = scores.masked_fill(~bias, -math.inf) if bias.dtype == torch.bool else scores + bias
    if is_causal:
        scores[..., 1:] = -math.inf
    return scores.softmax(-1)


@contextlib.contextmanager
def _around(block: nn.Module, heard: _Listening) -> Iterator[None]:
    """Listen inside a block alone, and have it call the attention that is listened to."""

    def begin(*_: Any) -> None:
        heard.on = True

    def end(*_: Any) -> None:
        heard.on = False

    # timm's name for "call scaled_dot_product_attention rather than write the softmax out"
    parts: list[Any] = [part for part in block.modules() if hasattr(part, "fused_attn")]
    before = [part.fused_attn for part in parts]
    hooks = (block.register_forward_pre_hook(begin), block.register_forward_hook(end))
    try:
        for part in parts:
            part.fused_attn = True
        yield
    finally:
        for part, value in zip(parts, before, strict=True):
            part.fused_attn = value
        for hook in hooks:
            hook.remove()


_BLOCKS = 2  # of a ViT, whose [CLS] tokens a probe reads


class Backbone(nn.Module):
    """A model of pictures: features, tokens and maps.

    Args:
        backbone: a name of timm's, "convnet", "gridnet", "resnet18-small" (see `isojepa.encoders.convnets`),
            "alexnet-features" and others of `isojepa.encoders.convnets`, or a module
            from pictures to features (batch, dim), or to maps, which are averaged.
        in_channels: of a picture.
        image_size: side of the largest pictures it will see, for models that are built for a size; the
            model's own by default.
        dim: of the features, by a linear map behind the pooled ones; these themselves by default.
        options: further arguments of a timm model, e.g. "reg_tokens=4, drop_path_rate=0.1".
        seed: draws the weights of a named backbone, and of the linear map.

    Attributes:
        num_features: dimension of the features.

    Raises:
        ValueError: there is no such model, it does not take the arguments, or nobody knows its dimension.
        ImportError: timm is needed and not installed.

    Example:
        >>> backbone = Backbone("convnet", in_channels=1)
        >>> x = torch.zeros(2, 1, 28, 28)
        >>> backbone.num_features, backbone.features(x).shape, backbone.tokens(x).shape
        (128, torch.Size([2, 128]), torch.Size([2, 16, 128]))
    """

    @checked
    def __init__(
        self,
        backbone: str | nn.Module,
        *,
        in_channels: int = 3,
        image_size: int | None = None,
        dim: int | None = None,
        options: str = "",
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_count("in_channels", in_channels)
        if image_size is not None:
            check_count("image_size", image_size)
        self.body, pooled = _body(backbone, in_channels, image_size, options, seed)
        self.reduction: nn.Module = nn.Identity()
        if dim is not None:
            self.reduction = linear(pooled, check_count("dim", dim), generator(seed, "reduction"))
        if isinstance(backbone, str):
            self.backbone = backbone  # with the rest, what a record makes it again from
        self.in_channels, self.image_size, self.dim = in_channels, image_size, dim
        self.options, self.seed = options, seed
        self.num_features = pooled if dim is None else dim
        self._sizes: set[tuple[int, ...]] = set()  # that it is known to take

    def features(self, x: Tensor) -> Tensor:
        """Pooled features (batch, num_features).

        Raises:
            ValueError: the model does not take pictures of this size.
        """
        pooled = self._called(self.body, x)
        h: Tensor = self.reduction(pooled.mean((-2, -1)) if pooled.ndim == 4 else pooled)
        return h

    embed = features

    def forward(self, x: Tensor) -> Tensor:
        """The features."""
        return self.features(x)

    def tokens(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """One vector for each patch or position, in reading order; [CLS] and registers are left out.

        Args:
            x: pictures.
            mask: (batch, token) of True and False, as many True in each row. The whole picture is seen all
                the same; the tokens where it is True are given.

        Raises:
            ValueError: the backbone has none, or the mask is not one of them.
        """
        tokens = self.maps(x).flatten(2).transpose(1, 2)
        return tokens if mask is None else select(tokens, mask)

    def grid(self, x: Tensor) -> tuple[int, int]:
        """Rows and columns of the patches that pictures are cut into.

        Raises:
            ValueError: the backbone is no plain ViT.
        """
        return patch_grid(self.body, x)

    def encode(self, x: Tensor, visible: Tensor | None = None, filler: Tensor | None = None) -> Encoded:
        """Features and tokens of the patches that are visible, which alone are computed.

        Args:
            x: pictures.
            visible: (batch, token) of True and False; all by default. Without a filler as many True in each
                row.
            filler: (channels,) what stands in the place of each hidden patch, so that all are computed.

        Returns:
            As `features` and `tokens` have them: of the visible patches, or with a filler of all.

        Raises:
            ValueError: the backbone is no plain ViT, or `visible` is no mask of its patches.
        """
        height, width = self.grid(x)
        if visible is not None:
            check_mask(visible, (len(x), height * width), even=filler is None)
        body: Any = self.body
        found = self._called(lambda x: encode_patches(body, x, visible, filler), x)
        return Encoded(self.reduction(body.forward_head(found)), found[:, body.num_prefix_tokens :])

    def project(self, features: Tensor) -> Tensor:
        """The features: there is no head."""
        return features

    def maps(self, x: Tensor) -> Tensor:
        """The features of each patch or position as a picture (batch, channels, height, width).

        Raises:
            ValueError: the backbone has none.
        """
        body: Any = self.body
        if not hasattr(body, "forward_features"):  # the name that timm gives it, and `convnets`
            raise ValueError(f"{type(body).__name__} has no tokens: give it the method forward_features(x)")
        found: Tensor = self._called(body.forward_features, x)
        if found.ndim == 4:
            return found.movedim(-1, 1) if getattr(body, "output_fmt", "") == "NHWC" else found
        patches = found[:, getattr(body, "num_prefix_tokens", 0) :]
        height, width = _grid(patches.shape[1], x.shape[-2] / x.shape[-1])
        maps: Tensor = patches.transpose(1, 2).unflatten(2, (height, width))
        return maps

    def layers_features(self, x: Tensor) -> Tensor:
        """What published probes read.

        Of a ViT the [CLS] tokens behind its last two blocks through its final LayerNorm, side by side (the
        means over the patches where it has no [CLS]); of other backbones the features.
        """
        body: Any = self.body
        if not is_vit(body):
            return self.features(x)

        classed = body.num_prefix_tokens > 0

        def last_blocks(x: Tensor) -> Any:
            return body.forward_intermediates(
                x,
                indices=_BLOCKS,
                norm=True,
                return_prefix_tokens=classed,
                output_fmt="NLC",
                intermediates_only=True,
            )

        found = []
        for block in self._called(last_blocks, x):
            h = block[1][:, 0] if classed else block.mean(1)  # (patches, [CLS] and registers), or patches
            if isinstance(body.norm, nn.Identity):  # a model that normalises behind its pooling
                h = F.layer_norm(h, h.shape[-1:])
            found.append(h)
        return torch.cat(found, 1)

    def attention(self, x: Tensor) -> Tensor:
        """How much [CLS] attends to each patch in the last block: (batch, head, height, width).

        The weights are those of the block itself; what is missing to 1 goes to [CLS] and to registers.

        Raises:
            NoAttention: the backbone has no [CLS] token, or attends in another way.
        """
        body: Any = self.body
        weights = class_attention(body, lambda x: self._called(body.forward_features, x), x)
        found: Tensor = weights.unflatten(2, _grid(weights.shape[2], x.shape[-2] / x.shape[-1]))
        return found

    def _called(self, part: Any, x: Tensor) -> Any:
        size = tuple(x.shape[1:])
        try:
            found = part(x)
        except (AssertionError, RuntimeError, ValueError) as error:
            if size in self._sizes:
                raise  # not the size's fault
            raise ValueError(self._refusal(x, error)) from error
        self._sizes.add(size)
        return found

    def _refusal(self, x: Tensor, error: Exception) -> str:
        name = vars(self).get("backbone", type(self.body).__name__)
        if x.ndim != 4 or x.shape[1] != self.in_channels:
            return (
                f"pictures must be (batch, {self.in_channels}, height, width) for backbone {name!r}, got "
                f"{tuple(x.shape)}"
            )
        built = "its own size" if self.image_size is None else f"{self.image_size} pixels"
        return (
            f"backbone {name!r}, built for pictures of {built}, does not take {tuple(x.shape[-2:])}: cut "
            "global and local crops at one size that it takes (or no local ones) and set image_size to it, "
            "or choose a backbone of any size, such as a ResNet, ConvNeXt or ViT; "
            f"it says: {' '.join(str(error).split()) or type(error).__name__}"
        )


@register("encoder", "backbone")
@dataclass(frozen=True)
class BackboneSpec(Spec):
    """A backbone of pictures and a projector: any model of timm, or a small convolutional one."""

    backbone: str = "convnet"
    """convnet, convnet-32-64-128, gridnet, resnet18-small, or a model of timm by its name."""
    projector: str = "2048-2048-64"
    """Widths of the head that only the loss sees: 2048-2048-64, linear-32, none."""
    features: int | None = None
    """Dimension of the features, by a linear map behind the pooled ones; if none, those themselves."""
    options: str = ""
    """Further arguments of a timm model, e.g. reg_tokens=4,drop_path_rate=0.1."""

    def build(self, context: Context) -> nn.Module:
        """The backbone with its projector, for the views of the context.

        Raises:
            ValueError: views are no pictures, or the backbone cannot be made for them.
        """
        channels, size = _pictures(context)
        backbone = Backbone(
            self.backbone,
            in_channels=channels,
            image_size=size,
            dim=self.features,
            options=self.options,
            seed=context.seed,
        )
        if not projector_widths(self.projector):
            return backbone
        return Headed(backbone, Projector(backbone.num_features, self.projector, context.seed))

    def embedding(self, context: Context) -> int:
        """The last width of the projector; without one, the dimension of the features."""
        widths = projector_widths(self.projector)
        return widths[-1] if widths else self.feature_dim(context)

    def feature_dim(self, context: Context) -> int:
        """The dimension that is asked for, or that of the pooled features."""
        if self.features is not None:
            return self.features
        own = _own_dim(self.backbone)
        return pooled_dim(self.backbone, self.options) if own is None else own

    def transformer(self, context: Context) -> bool:
        """Whether the backbone is one of timm's vision transformers."""
        return _own_dim(self.backbone) is None and is_transformer(self.backbone, self.options)


def _body(
    backbone: str | nn.Module, in_channels: int, image_size: int | None, options: str, seed: int
) -> tuple[nn.Module, int]:
    """The module, and the dimension of its pooled features."""
    if isinstance(backbone, str):
        small = _own_model(backbone, in_channels, seed)
        if small is None:
            made = create(backbone, in_channels, image_size, options, seed)
            return made, feature_dim(made)
        if options:
            raise ValueError(f"options must be empty for backbone {backbone!r}, got {options!r}")
        return small, small.num_features
    if options:
        raise ValueError(f"options are for backbones by name, got {options!r} beside a module")
    if image_size is None:
        raise ValueError("image_size must be given beside a module, to see what it makes of a picture")
    parameter = next(backbone.parameters(), torch.zeros(0))
    blank = torch.zeros(2, in_channels, image_size, image_size).to(parameter)
    with evaluating(backbone), torch.no_grad():
        try:
            h = backbone(blank)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"the module does not take pictures of {tuple(blank.shape)}: {error}") from error
    if not isinstance(h, Tensor) or h.ndim not in (2, 4) or len(h) != len(blank):
        got = tuple(h.shape) if isinstance(h, Tensor) else type(h).__name__
        raise ValueError(f"a backbone must return (batch, dim) or (batch, dim, height, width), got {got}")
    return backbone, h.shape[1]


def _own_model(name: str, in_channels: int = 3, seed: int = 0) -> Any:
    """A network of this package by its name; None if it has none."""
    small = small_model(name, in_channels, seed)
    return classic(name, in_channels, seed) if small is None else small


def _own_dim(name: str) -> int | None:
    """Dimension of the features of a network of this package, which is not built; None if it has none."""
    dim = small_dim(name)
    return DIMS.get(name) if dim is None else dim


def _pictures(context: Context) -> tuple[int, int]:
    """Channels of the views, and the largest side."""
    shapes = context.shapes
    if not shapes or any(len(shape) != 3 for shape in shapes) or len({shape[0] for shape in shapes}) > 1:
        raise ValueError(
            f"views must be pictures (channels, height, width) for a backbone, got shapes {shapes}"
        )
    return shapes[0][0], max(side for shape in shapes for side in shape[1:])


def _grid(tokens: int, ratio: float) -> tuple[int, int]:
    """Rows and columns of tokens of a picture whose height is `ratio` times its width."""
    height = max(1, round((tokens * ratio) ** 0.5))
    if tokens % height:
        raise ValueError(
            f"{tokens} tokens are no grid of a picture whose height is {ratio:g} times its width"
        )
    return height, tokens // height
