"""How much [CLS] attends to each patch in the last block of a ViT, as that block itself computes it.

The block hands queries q, keys k and values v to `scaled_dot_product_attention`, which returns its result and
not the weights

    softmax(q_cls k^T / sqrt(dim of a head) + bias),

so that call is listened to, and the row of [CLS] is computed beside it from the same q, k and bias: whatever
the block does before it (norms of queries and keys, rotary positions, relative biases) is in them.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


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
