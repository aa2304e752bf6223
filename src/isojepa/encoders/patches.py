"""Patch masking of vision transformers, for masked objectives.

A ViT cuts an image into a grid of patches, adds a position to each, and lets them attend to each other and to
[CLS]. Patches can be hidden in two ways:

    dropped     only the visible ones are computed (I-JEPA's context, MAE): cheaper, the fewer there are
    replaced    a mask token takes their place, with their position (iBOT, DINOv2)

A model that supports it has the three methods of `PatchModel`; of timm's models, those whose forward pass is
that of its `VisionTransformer`, which most of the names with "vit" and "deit" have.
"""

import sys
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import Tensor


@dataclass(frozen=True)
class EncodedPatches:
    """Features and tokens of the visible patches of images.

    Attributes:
        features: (batch, dim) as `Model.features`: of a ViT that pools by it, the [CLS] token.
        tokens: (batch, token, channels) of the computed patches, in reading order.
    """

    features: Tensor
    tokens: Tensor


@runtime_checkable
class PatchModel(Protocol):
    """A model that can encode a subset of the patches of an image."""

    def grid(self, x: Tensor) -> tuple[int, int]:
        """Rows and columns of the patch grid of images (batch, channels, height, width)."""
        ...

    def encode(
        self, x: Tensor, visible: Tensor | None = None, filler: Tensor | None = None
    ) -> EncodedPatches:
        """Features and tokens of the visible patches; with a mask token `filler`, of all."""
        ...

    def project(self, features: Tensor) -> Tensor:
        """Features (batch, dim) to embeddings, so that embed(x) = project(features(x))."""
        ...


def patch_model(model: object) -> PatchModel:
    """Check that a model can encode a subset of patches, and return it.

    Raises:
        ValueError: it cannot.
    """
    if isinstance(model, PatchModel):
        return model
    inner = getattr(model, "encoder", model)
    raise ValueError(
        f"a masked objective needs a vision transformer, such as vit_small_patch16_224 of timm, got "
        f"{type(inner).__name__}: in Python, a model with the methods grid, encode and project"
    )


def check_mask(mask: Tensor, shape: tuple[int, ...], even: bool = True) -> None:
    """Check a mask of tokens.

    Args:
        mask: boolean tensor.
        shape: expected (batch, token).
        even: whether each row must have the same number of True.

    Raises:
        ValueError: shape, type or numbers of True are wrong.
    """
    if mask.shape != shape or mask.dtype != torch.bool:
        raise ValueError(
            f"mask must be True and False of shape {tuple(shape)}, got {mask.dtype} of {tuple(mask.shape)}"
        )
    counts = mask.sum(1)
    if even and bool((counts != counts[0]).any()):
        raise ValueError(f"mask must have as many True in each row, got {counts.tolist()}")


def select(tokens: Tensor, mask: Tensor) -> Tensor:
    """The tokens where a mask is True: (batch, token, channels) to (batch, selected, channels).

    Raises:
        ValueError: the mask has another shape, or rows have unequal numbers of True.

    Example:
        >>> select(torch.arange(6.0).view(1, 3, 2), torch.tensor([[True, False, True]])).tolist()
        [[[0.0, 1.0], [4.0, 5.0]]]
    """
    check_mask(mask, tuple(tokens.shape[:2]))
    return tokens[mask].reshape(len(tokens), -1, tokens.shape[-1])


def patch_grid(body: Any, x: Tensor) -> tuple[int, int]:
    """Rows and columns of the patch grid of a ViT of timm.

    Raises:
        ValueError: the model has another forward pass than timm's VisionTransformer.
    """
    if not _is_plain(body):
        raise ValueError(
            "single patches can be encoded by a vision transformer whose forward pass is that of timm's "
            f"VisionTransformer, such as vit_small_patch16_224 or deit_tiny_patch16_224, got "
            f"{type(body).__name__}"
        )
    return cast(tuple[int, int], tuple(body.patch_embed.dynamic_feat_size(tuple(x.shape[-2:]))))


def encode_patches(body: Any, x: Tensor, visible: Tensor | None, filler: Tensor | None) -> Tensor:
    """Forward pass of a ViT on a subset of patches: tokens after the last norm, [CLS] and registers first.

    Args:
        body: a ViT of timm.
        x: images.
        visible: (batch, token), or None for all.
        filler: (channels,) mask token in place of hidden patches; None drops them.
    """
    tokens = body.patch_embed(
        x
    )  # (batch, token, channels), or (batch, row, column, channels) for images of any size
    if visible is not None and filler is not None:
        tokens = torch.where(visible.reshape(*tokens.shape[:-1], 1), tokens, filler.to(tokens.dtype))
    tokens = body._pos_embed(tokens)
    if visible is not None and filler is None:
        first = body.num_prefix_tokens
        tokens = torch.cat([tokens[:, :first], select(tokens[:, first:], visible)], 1)
    tokens = body.norm_pre(body.patch_drop(tokens))
    encoded: Tensor = body.norm(body.blocks(tokens))
    return encoded


def _is_plain(body: object) -> bool:
    """Whether the forward pass is that of timm's ViT, which `encode_patches` repeats."""
    timm = sys.modules.get("timm.models.vision_transformer")  # imported if the body is one of its models
    method = getattr(type(body), "forward_features", None)
    return timm is not None and method is timm.VisionTransformer.forward_features
