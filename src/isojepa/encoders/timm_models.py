"""timm's models by name: made without downloading anything, with weights of a seed, for pictures of any size.

Options of a model are plain text, `"reg_tokens=4, drop_path_rate=0.1"`, so that they survive flags, YAML and
records: names and values as Python writes keyword arguments; a word without quotes is text.
"""

import ast
import difflib
import functools
import inspect
from typing import Any

import torch
from torch import nn

from isojepa.encoders.classics import NAMES as CLASSICS
from isojepa.encoders.convnets import NAMES as SMALL
from isojepa.names import shown
from isojepa.seeds import borrowed
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
