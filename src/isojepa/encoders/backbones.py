"""Backbones: models of timm by name, small networks, registered ones, or any module, as a `Model` of images.

For images (batch, channels, height, width) a `Backbone` returns

    features          (batch, num_features): pooled as the model pools, after a linear map if `dim` is set
    tokens            (batch, token, channels): one vector per patch of a ViT or position of a map encode
    features and tokens of a subset of patches, of a plain ViT, for masked objectives maps
    (batch, channels, height, width): the tokens as a map layers_features   (batch, ...): the input of
    published probes: of a ViT the [CLS] tokens of its last two blocks,
                      each through the final LayerNorm, concatenated; of others the pooled features
    attention         (batch, head, height, width): attention of [CLS] to each patch in the last block of a
    ViT;
                      other backbones raise an error

Global and local crops may differ in size. Convolutional models accept any; ViTs interpolate their position
embeddings and Swin Transformers rebuild their windows; LeViT, MaxViT and others accept only the size that
they were built for, and raise an error at the first image of another, before training begins.

Models of timm are built without a download, with weights of a seed, for images of any size. Their options are
plain text, `"reg_tokens=4, drop_path_rate=0.1"`, to survive flags, YAML and run directories: names and values
in the syntax of Python keyword arguments; a word without quotes is text.

Attention of [CLS]: the block passes queries q, keys k and values v to `scaled_dot_product_attention`, which
returns no weights

    softmax(q_cls k^T / sqrt(dim of a head) + bias),

so that call is intercepted, and the row of [CLS] is computed from the same q, k and bias, which include
everything that the block does before (norms of queries and keys, rotary positions, relative biases).
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

from isojepa.encoders.convnets import small_dim, small_model
from isojepa.encoders.layers import Projector, linear, projector_widths
from isojepa.encoders.model import Headed, evaluating
from isojepa.encoders.patches import EncodedPatches, check_mask, encode_patches, patch_grid, select
from isojepa.importing import import_timm
from isojepa.registry import LAB, Context, Spec, components, find, register
from isojepa.seeds import borrowed, generator
from isojepa.validation import check_count, short_repr, validate_types

_RESERVED_OPTIONS = (
    "pretrained",
    "num_classes",
    "in_chans",
    "checkpoint_path",
    "cache_dir",
)  # set by the run
_MAX_SUGGESTIONS = 3


def parse_options(text: str) -> dict[str, Any]:
    """Parse the options of a model.

    Raises:
        ValueError: the text is no list of names and literal values.

    Example:
        >>> parse_options("reg_tokens=4, global_pool=avg, depths=(1, 1, 2, 1)")
        {'reg_tokens': 4, 'global_pool': 'avg', 'depths': (1, 1, 2, 1)}
    """
    try:
        call = ast.parse(f"options({text})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
            raise ValueError
        options = {str(item.arg): _value(item.value) for item in call.keywords if item.arg is not None}
        if len(options) != len(call.keywords):
            raise ValueError
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(
            'options must be names and values such as "reg_tokens=4, drop_path_rate=0.1", got '
            f"{short_repr(text)}"
        ) from None
    for name in _RESERVED_OPTIONS:
        if name in options:
            raise ValueError(
                f"options must leave {', '.join(_RESERVED_OPTIONS)} out, which follow from the run, got "
                f"{name}={options[name]!r}"
            )
    return options


def create(name: str, in_channels: int, image_size: int | None, options: str, seed: int) -> nn.Module:
    """A model of timm without a classifier.

    Args:
        name: as `timm.list_models()` has it.
        in_channels: channels of an image.
        image_size: side of the largest images; by default that of the model.
        options: further arguments, as text.
        seed: initializes the weights.

    Raises:
        ValueError: there is no such model, or it does not take the options.
        ImportError: timm is not installed.
    """
    arguments = creation(name, in_channels, image_size, options)
    with borrowed(seed, "backbone"):  # timm draws from the global generator
        made: nn.Module = _made(name, arguments)
        return made


def creation(name: str, in_channels: int, image_size: int | None, options: str) -> dict[str, Any]:
    """Arguments of `timm.create_model`, besides `num_classes=0`, for the model.

    Raises:
        ValueError: there is no such model, or it does not take the options.
    """
    arguments: dict[str, Any] = {"in_chans": in_channels, **parse_options(options)}
    with torch.device("meta"):  # shapes only: for the arguments of its class
        accepted = _arguments(type(_made(name, arguments)))
    sizes: dict[str, Any] = {"dynamic_img_size": True, "strict_img_size": False}
    if image_size is not None:
        sizes["img_size"] = image_size
    return {key: value for key, value in sizes.items() if key in accepted} | arguments


@functools.lru_cache(maxsize=64)
def pooled_dim(name: str, options: str) -> int:
    """Dimension of the pooled features of a model, from shapes only.

    Raises:
        ValueError: there is no such model, or it does not take the options.
    """
    with torch.device("meta"):
        return feature_dim(_made(name, parse_options(options)))


@functools.lru_cache(maxsize=64)
def is_transformer(name: str, options: str) -> bool:
    """Whether a model of timm is a vision transformer, with blocks of one width, from shapes only.

    Raises:
        ValueError: there is no such model, or it does not take the options.
    """
    with torch.device("meta"):
        return is_vit(_made(name, parse_options(options)))


def is_vit(body: Any) -> bool:
    """Whether a model has blocks of one width and prefix tokens, as timm's ViTs do."""
    return all(
        hasattr(body, name) for name in ("num_prefix_tokens", "forward_intermediates", "blocks", "norm")
    )


def feature_dim(model: Any) -> int:
    """Output dimension of a model of timm without a classifier.

    `embed_dim` is that of the first stage; `num_features` precedes one more layer in the later MobileNets.
    """
    return int(model.head_hidden_size)


def _made(name: str, arguments: dict[str, Any]) -> Any:
    timm = import_timm()
    if not timm.is_model(name):
        raise ValueError(_unknown(name))
    try:
        return timm.create_model(name, pretrained=False, num_classes=0, **arguments)
    except (TypeError, ValueError, AssertionError, RuntimeError, LookupError, ArithmeticError) as error:
        listed = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        raise ValueError(f"backbone {name!r} cannot be made with {listed}: {error}") from error


def _unknown(name: str) -> str:
    names = _registered()
    models = import_timm().list_models()
    near = difflib.get_close_matches(name[:100], [*names, *models], n=_MAX_SUGGESTIONS, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    known = f"{', '.join(names)} or one of timm's {len(models)} models"
    return f"backbone must be {known}, got {short_repr(name)}{hint}"


def _arguments(model: type) -> set[str]:
    """Names of the arguments of the constructors of a class and its bases."""
    bases = [base for base in model.__mro__ if "__init__" in vars(base) and base not in (nn.Module, object)]
    return {name for base in bases for name in inspect.signature(base).parameters}


def _value(node: ast.expr) -> Any:
    """A literal value, or a word without quotes as text."""
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


class NoAttention(ValueError):
    """The last block of the model has no attention of a [CLS] token to patches."""


def class_attention(body: Any, call: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    """Attention weights of [CLS] in the last block, for each head.

    Args:
        body: a model with `blocks`, `cls_token` and `num_prefix_tokens`, as timm's ViTs.
        call: runs the blocks on images.
        x: images (batch, channels, height, width).

    Returns:
        (batch, head, patches); the rest of 1 is attention to [CLS] itself and to registers.

    Raises:
        NoAttention: it has no [CLS] token, or its last block uses another form of attention.
    """
    name = type(body).__name__
    blocks, token = (getattr(body, part, None) for part in ("blocks", "cls_token"))
    if not isinstance(token, Tensor) or not isinstance(blocks, nn.Sequential | nn.ModuleList):
        raise NoAttention(f"{name} has no [CLS] token that attends to patches")
    recorder = _AttentionRecorder()
    with _recording(blocks[-1], recorder), recorder:
        call(x)
    if len(recorder.rows) != 1 or recorder.rows[0].ndim != 4 or len(recorder.rows[0]) != len(x):
        raise NoAttention(f"the last block of {name} does not attend by one softmax over all tokens")
    return recorder.rows[0][:, :, 0, body.num_prefix_tokens :]


class _AttentionRecorder(TorchFunctionMode):
    """Computes the first row of the weights of each attention call while `on`."""

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
        options = dict(kwargs or {})
        if self.on and func is F.scaled_dot_product_attention:
            self.rows.append(_first_row(*args, **options))
        return func(*args, **options)


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
def _recording(block: nn.Module, recorder: _AttentionRecorder) -> Iterator[None]:
    """Record inside one block only, and make it call `scaled_dot_product_attention`."""

    def begin(*_: Any) -> None:
        recorder.on = True

    def end(*_: Any) -> None:
        recorder.on = False

    # timm's flag for scaled_dot_product_attention instead of an explicit softmax
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


_PROBED_BLOCKS = 2  # last blocks of a ViT whose [CLS] tokens are features of probes


class Backbone(nn.Module):
    """A model of images: features, tokens and maps.

    Args:
        backbone: a name of timm's, "convnet", "gridnet", "resnet18-small" (see `isojepa.encoders.convnets`),
            a registered component of the kind "backbone", or a module from images to features
            (batch, dim), or to maps, which are averaged.
        in_channels: channels of an image.
        image_size: side of the largest images, for models that are built for a size; by default that of the
            model.
        dim: of the features, by a linear map after pooling; by default the pooled features.
        options: further arguments of a timm model, e.g. "reg_tokens=4, drop_path_rate=0.1".
        seed: initializes the weights of a named backbone, and of the linear map.

    Attributes:
        num_features: dimension of the features.

    Raises:
        ValueError: there is no such model, it does not take the arguments, or its dimension is unknown.
        ImportError: timm is needed and not installed.

    Example:
        >>> backbone = Backbone("convnet", in_channels=1)
        >>> x = torch.zeros(2, 1, 28, 28)
        >>> backbone.num_features, backbone.features(x).shape, backbone.tokens(x).shape
        (128, torch.Size([2, 128]), torch.Size([2, 16, 128]))
    """

    @validate_types
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
            self.backbone = backbone  # from which, with the rest, a run directory rebuilds it
        self.in_channels, self.image_size, self.dim = in_channels, image_size, dim
        self.options, self.seed = options, seed
        self.num_features = pooled if dim is None else dim
        self._sizes: set[tuple[int, ...]] = set()  # sizes that it has accepted

    def features(self, x: Tensor) -> Tensor:
        """Pooled features (batch, num_features).

        Raises:
            ValueError: the model does not accept images of this size.
        """
        pooled = self._called(self.body, x)
        h: Tensor = self.reduction(pooled.mean((-2, -1)) if pooled.ndim == 4 else pooled)
        return h

    embed = features

    def forward(self, x: Tensor) -> Tensor:
        """The features."""
        return self.features(x)

    def tokens(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """One vector for each patch or position, in reading order, without [CLS] and registers.

        Args:
            x: images.
            mask: boolean (batch, token), the same number of True in each row: selects tokens of the whole
                image.

        Raises:
            ValueError: the backbone has no tokens, or the mask has another shape.
        """
        tokens = self.maps(x).flatten(2).transpose(1, 2)
        return tokens if mask is None else select(tokens, mask)

    def grid(self, x: Tensor) -> tuple[int, int]:
        """Rows and columns of the patch grid.

        Raises:
            ValueError: the backbone is no plain ViT.
        """
        return patch_grid(self.body, x)

    def encode(
        self, x: Tensor, visible: Tensor | None = None, filler: Tensor | None = None
    ) -> EncodedPatches:
        """Features and tokens of the visible patches.

        Args:
            x: images.
            visible: boolean (batch, token); all by default. Without a filler the same number of True in each
                row.
            filler: (channels,) mask token that replaces each hidden patch; by default they are dropped.

        Returns:
            Features and tokens of the visible patches, or with a filler of all.

        Raises:
            ValueError: the backbone is no plain ViT, or `visible` is no mask of its patches.
        """
        height, width = self.grid(x)
        if visible is not None:
            check_mask(visible, (len(x), height * width), even=filler is None)
        body: Any = self.body
        tokens = self._called(lambda x: encode_patches(body, x, visible, filler), x)
        return EncodedPatches(self.reduction(body.forward_head(tokens)), tokens[:, body.num_prefix_tokens :])

    def project(self, features: Tensor) -> Tensor:
        """The features: there is no head."""
        return features

    def maps(self, x: Tensor) -> Tensor:
        """The features of each patch or position as a map (batch, channels, height, width).

        Raises:
            ValueError: the backbone has none.
        """
        body: Any = self.body
        if not hasattr(body, "forward_features"):  # timm's name of the method
            raise ValueError(f"{type(body).__name__} has no tokens: give it the method forward_features(x)")
        output: Tensor = self._called(body.forward_features, x)
        if output.ndim == 4:
            return output.movedim(-1, 1) if getattr(body, "output_fmt", "") == "NHWC" else output
        patches = output[:, getattr(body, "num_prefix_tokens", 0) :]
        height, width = _grid(patches.shape[1], x.shape[-2] / x.shape[-1])
        maps: Tensor = patches.transpose(1, 2).unflatten(2, (height, width))
        return maps

    def layers_features(self, x: Tensor) -> Tensor:
        """The input of published probes.

        Of a ViT the [CLS] tokens of its last two blocks through its final LayerNorm, concatenated (means over
        patches if it has no [CLS]); of other backbones the features.
        """
        body: Any = self.body
        if not is_vit(body):
            return self.features(x)

        has_prefix = body.num_prefix_tokens > 0

        def last_blocks(x: Tensor) -> Any:
            return body.forward_intermediates(
                x,
                indices=_PROBED_BLOCKS,
                norm=True,
                return_prefix_tokens=has_prefix,
                output_fmt="NLC",
                intermediates_only=True,
            )

        parts = []
        for block in self._called(last_blocks, x):
            h = block[1][:, 0] if has_prefix else block.mean(1)  # (patches, [CLS] and registers), or patches
            if isinstance(body.norm, nn.Identity):  # a model that normalizes after pooling
                h = F.layer_norm(h, h.shape[-1:])
            parts.append(h)
        return torch.cat(parts, 1)

    def attention(self, x: Tensor) -> Tensor:
        """Attention of [CLS] to each patch in the last block: (batch, head, height, width).

        The rest of 1 is attention to [CLS] and to registers.

        Raises:
            NoAttention: the backbone has no [CLS] token, or uses another form of attention.
        """
        body: Any = self.body
        weights = class_attention(body, lambda x: self._called(body.forward_features, x), x)
        maps: Tensor = weights.unflatten(2, _grid(weights.shape[2], x.shape[-2] / x.shape[-1]))
        return maps

    def _called(self, part: Any, x: Tensor) -> Any:
        size = tuple(x.shape[1:])
        try:
            output = part(x)
        except (AssertionError, RuntimeError, ValueError) as error:
            if size in self._sizes:
                raise  # the size was accepted before
            raise ValueError(self._size_error(x, error)) from error
        self._sizes.add(size)
        return output

    def _size_error(self, x: Tensor, error: Exception) -> str:
        name = vars(self).get("backbone", type(self.body).__name__)
        if x.ndim != 4 or x.shape[1] != self.in_channels:
            return (
                f"images must be (batch, {self.in_channels}, height, width) for backbone {name!r}, got "
                f"{tuple(x.shape)}"
            )
        built = "its own size" if self.image_size is None else f"{self.image_size} pixels"
        return (
            f"backbone {name!r}, built for images of {built}, does not take {tuple(x.shape[-2:])}: cut "
            "global and local crops at one size that it takes (or no local ones) and set image_size to it, "
            "or choose a backbone of any size, such as a ResNet, ConvNeXt or ViT; "
            f"it says: {' '.join(str(error).split()) or type(error).__name__}"
        )


@register("encoder", "backbone")
@dataclass(frozen=True)
class BackboneSpec(Spec):
    """A backbone of images and a projector: any model of timm, or a small convolutional network."""

    backbone: str = "convnet"
    """convnet, convnet-32-64-128, gridnet, resnet18-small, or the name of a model of timm."""
    projector: str = "2048-2048-64"
    """Widths of the projector: 2048-2048-64, linear-32, none."""
    features: int | None = None
    """Dimension of the features, by a linear map after pooling; by default the pooled features."""
    options: str = ""
    """Further arguments of a timm model, e.g. reg_tokens=4,drop_path_rate=0.1."""

    def build(self, context: Context) -> nn.Module:
        """The backbone with its projector, for the views of the context.

        Raises:
            ValueError: views are no images, or the backbone cannot be made for them.
        """
        channels, size = _image_shape(context)
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
        """The setting `features`, or the dimension of the pooled features."""
        if self.features is not None:
            return self.features
        dim = _network_dim(self.backbone)
        return pooled_dim(self.backbone, self.options) if dim is None else dim

    def transformer(self, context: Context) -> bool:
        """Whether the backbone is one of timm's vision transformers."""
        return _network_dim(self.backbone) is None and is_transformer(self.backbone, self.options)


def _body(
    backbone: str | nn.Module, in_channels: int, image_size: int | None, options: str, seed: int
) -> tuple[nn.Module, int]:
    """The module, and the dimension of its pooled features."""
    if isinstance(backbone, str):
        network = _network(backbone, in_channels, seed)
        if network is None:
            made = create(backbone, in_channels, image_size, options, seed)
            return made, feature_dim(made)
        if options:
            raise ValueError(f"options must be empty for backbone {backbone!r}, got {options!r}")
        return network, network.num_features
    if options:
        raise ValueError(f"options are for backbones by name, got {options!r} with a module")
    if image_size is None:
        raise ValueError("image_size must be given with a module, to determine its output shape")
    parameter = next(backbone.parameters(), torch.zeros(0))
    blank = torch.zeros(2, in_channels, image_size, image_size).to(parameter)
    with evaluating(backbone), torch.no_grad():
        try:
            h = backbone(blank)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"the module does not take images of {tuple(blank.shape)}: {error}") from error
    if not isinstance(h, Tensor) or h.ndim not in (2, 4) or len(h) != len(blank):
        got = tuple(h.shape) if isinstance(h, Tensor) else type(h).__name__
        raise ValueError(f"a backbone must return (batch, dim) or (batch, dim, height, width), got {got}")
    return backbone, h.shape[1]


def _network(name: str, in_channels: int = 3, seed: int = 0) -> Any:
    """A small network or a registered one by its name; None for a name of timm."""
    small = small_model(name, in_channels, seed)
    if small is not None or name not in _registered():
        return small
    return find("backbone", name)().build(Context(shapes=((in_channels, 1, 1),), seed=seed))


def _network_dim(name: str) -> int | None:
    """Dimension of the features of such a network, which is not built; None for a name of timm."""
    dim = small_dim(name)
    if dim is not None or name not in _registered():
        return dim
    return find("backbone", name)().feature_dim(Context())


def _registered() -> tuple[str, ...]:
    """Names of registered backbones, those of isojepa-lab also without it."""
    return tuple(dict.fromkeys((*components("backbone"), *LAB["backbone"])))


def _image_shape(context: Context) -> tuple[int, int]:
    """Channels of the views, and the largest side."""
    shapes = context.shapes
    if not shapes or any(len(shape) != 3 for shape in shapes) or len({shape[0] for shape in shapes}) > 1:
        raise ValueError(
            f"views must be images (channels, height, width) for a backbone, got shapes {shapes}"
        )
    return shapes[0][0], max(side for shape in shapes for side in shape[1:])


def _grid(tokens: int, ratio: float) -> tuple[int, int]:
    """Rows and columns of the tokens of an image whose height is `ratio` times its width."""
    height = max(1, round((tokens * ratio) ** 0.5))
    if tokens % height:
        raise ValueError(f"{tokens} tokens are no grid of an image whose height is {ratio:g} times its width")
    return height, tokens // height
