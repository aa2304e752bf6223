"""Some patches of a picture alone: what masked objectives ask of a vision transformer.

A ViT cuts a picture into a grid of patches, adds a position to each, and lets them attend to each other and
to [CLS]. Patches can be hidden in two ways:

    left out    only the visible ones are computed (I-JEPA's context, MAE): cheaper, the fewer there are
    filled      a given vector stands in their place, with their position (iBOT, DINOv2)

A model that can do so has the three methods of `PatchModel`; of timm's models those whose forward pass is
that of its `VisionTransformer`, which most of the names with "vit" and "deit" have.
"""

import sys
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import Tensor


@dataclass(frozen=True)
class Encoded:
    """What a model made of the visible patches of pictures.

    Attributes:
        features: (batch, dim) as `Model.features`: of a ViT that pools by it, the [CLS] token.
        tokens: (batch, token, channels) one for each patch that was computed, in reading order.
    """

    features: Tensor
    tokens: Tensor


@runtime_checkable
class PatchModel(Protocol):
    """A model that encodes some patches of a picture."""

    def grid(self, x: Tensor) -> tuple[int, int]:
        """Rows and columns of the patches that pictures (batch, channels, height, width) are cut into."""
        ...

    def encode(self, x: Tensor, visible: Tensor | None = None, filler: Tensor | None = None) -> Encoded:
        """Features and tokens of the visible patches; with a filler for hidden ones, of all."""
        ...

    def project(self, features: Tensor) -> Tensor:
        """Features (batch, dim) to embeddings, so that embed(x) = project(features(x))."""
        ...


def patch_model(model: object) -> PatchModel:
    """The model itself, or say that it does not encode single patches.

    Raises:
        ValueError: it does not.
    """
    if isinstance(model, PatchModel):
        return model
    inner = getattr(model, "encoder", model)
    raise ValueError(
        f"a masked objective needs a vision transformer, such as vit_small_patch16_224 of timm, got "
        f"{type(inner).__name__}: in Python, a model with the methods grid, encode and project"
    )


def check_mask(mask: Tensor, shape: tuple[int, ...], even: bool = True) -> None:
    """Say what is wrong with a mask of tokens.

    Args:
        mask: what was given.
        shape: (batch, token) that it should have.
        even: whether each row must have as many True, and one at least.

    Raises:
        ValueError: something is.
    """
    if mask.shape != shape or mask.dtype != torch.bool:
        raise ValueError(
            f"mask must be True and False of shape {tuple(shape)}, got {mask.dtype} of {tuple(mask.shape)}"
        )
    counts = mask.sum(1)
    if even and bool((counts != counts[0]).any()):
        raise ValueError(f"mask must have as many True in each row, got {counts.tolist()}")


def select(tokens: Tensor, mask: Tensor) -> Tensor:
    """The tokens where a mask is True: (batch, token, channels) to (batch, chosen, channels).

    Raises:
        ValueError: the mask is not one of them, or rows have unequal numbers of True.

    Example:
        >>> select(torch.arange(6.0).view(1, 3, 2), torch.tensor([[True, False, True]])).tolist()
        [[[0.0, 1.0], [4.0, 5.0]]]
    """
    check_mask(mask, tuple(tokens.shape[:2]))
    return tokens[mask].reshape(len(tokens), -1, tokens.shape[-1])


def patch_grid(body: Any, x: Tensor) -> tuple[int, int]:
    """Rows and columns of the patches that a ViT of timm cuts pictures into.

    Raises:
        ValueError: it is no ViT that single patches can be given to.
    """
    if not _is_plain(body):
        raise ValueError(
            "single patches can be encoded by a vision transformer whose forward pass is that of timm's "
            f"VisionTransformer, such as vit_small_patch16_224 or deit_tiny_patch16_224, got "
            f"{type(body).__name__}"
        )
    return cast(tuple[int, int], tuple(body.patch_embed.dynamic_feat_size(tuple(x.shape[-2:]))))


def encode_patches(body: Any, x: Tensor, visible: Tensor | None, filler: Tensor | None) -> Tensor:
    """All tokens behind a ViT's last norm, [CLS] and registers first: its own forward pass, of some patches.

    Args:
        body: a ViT of timm.
        x: pictures.
        visible: (batch, token), or None for all.
        filler: (channels,) in the place of hidden patches; None to leave them out.
    """
    tokens = body.patch_embed(x)  # (batch, token, channels), or in rows and columns for pictures of any size
    if visible is not None and filler is not None:
        tokens = torch.where(visible.reshape(*tokens.shape[:-1], 1), tokens, filler.to(tokens.dtype))
    tokens = body._pos_embed(tokens)
    if visible is not None and filler is None:
        first = body.num_prefix_tokens
        tokens = torch.cat([tokens[:, :first], select(tokens[:, first:], visible)], 1)
    tokens = body.norm_pre(body.patch_drop(tokens))
    found: Tensor = body.norm(body.blocks(tokens))
    return found


def _is_plain(body: object) -> bool:
    """Whether its forward pass is that of timm's ViT, which `encode_patches` takes apart."""
    timm = sys.modules.get("timm.models.vision_transformer")  # there, if the body is one of its models
    own = getattr(type(body), "forward_features", None)
    return timm is not None and own is timm.VisionTransformer.forward_features
