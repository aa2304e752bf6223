"""Some patches of a picture alone: what a ViT sees, what it does not, and who cannot do so."""

import pytest
import torch
from torch import nn

from isojepa.encoders import Backbone, Headed
from isojepa.encoders.model import as_model
from isojepa.encoders.patches import patch_model
from isojepa.seeds import generator
from tests.objectives.vits import DIM, GRID, vit
from tests.vision import timm_or_skip

PLAIN = "patch_size=4, embed_dim=16, depth=2, num_heads=2"
KINDS = {
    "class": PLAIN,
    "mean": f"{PLAIN}, global_pool=avg, class_token=False",
    "registers": f"{PLAIN}, reg_tokens=3",
    "normalised before": f"{PLAIN}, pre_norm=True",
    "classes without position": f"{PLAIN}, no_embed_class=True",
}


def x(n: int = 3, side: int = 16) -> torch.Tensor:
    return torch.randn(n, 3, side, side, generator=generator(0, "x"))


def half(n: int = 3) -> torch.Tensor:
    order = torch.rand(n, 16, generator=generator(0, "half")).argsort(1)
    return order < 8


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("side", [16, 24])
def test_all_patches_together_are_the_picture(options, side):
    model = vit(options=options).eval()
    seen = model.encode(x(side=side))
    assert model.grid(x(side=side)) == (side // 4, side // 4)
    assert torch.equal(seen.features, model.features(x(side=side)))
    assert torch.equal(seen.tokens, model.tokens(x(side=side)))
    everything = torch.ones(3, (side // 4) ** 2, dtype=torch.bool)
    torch.testing.assert_close(model.encode(x(side=side), everything).tokens, seen.tokens)
    torch.testing.assert_close(model.encode(x(side=side), everything, torch.ones(16)).tokens, seen.tokens)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_hidden_patches_are_not_seen(options):
    """Their pixels may be anything; those of visible ones matter."""
    model, visible = vit(options=options).eval(), half()
    pixels = visible.unflatten(1, GRID).repeat_interleave(4, 1).repeat_interleave(4, 2)[:, None]
    for filler in (None, torch.linspace(-1, 1, DIM)):
        seen = model.encode(x(), visible, filler)
        other = model.encode(torch.where(pixels, x(), torch.full((), 7.0)), visible, filler)
        torch.testing.assert_close(seen.features, other.features)
        torch.testing.assert_close(seen.tokens, other.tokens)
        assert seen.tokens.shape == (3, 8 if filler is None else 16, DIM)
        changed = model.encode(torch.where(pixels, x() + 1, x()), visible, filler)
        assert not torch.allclose(seen.features, changed.features)


def test_left_out_patches_are_those_that_attention_never_meets():
    """The same as a model whose attention is forbidden to look at hidden patches."""
    model, visible = vit().eval(), half()
    body = model.body
    tokens = body._pos_embed(body.patch_embed(x()))
    allowed = torch.cat([torch.ones(3, 1, dtype=torch.bool), visible], 1)
    for block in body.blocks:
        tokens = block(tokens, attn_mask=allowed[:, None, None, :].expand(3, 1, 17, 17))
    tokens = body.norm(tokens)
    seen = model.encode(x(), visible)
    torch.testing.assert_close(seen.features, tokens[:, 0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(seen.tokens.flatten(0, 1), tokens[:, 1:][visible], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("visible", "message"),
    [
        (
            torch.ones(3, 9, dtype=torch.bool),
            r"mask must be True and False of shape \(3, 16\), got torch.bool",
        ),
        (torch.ones(3, 16), r"mask must be True and False of shape \(3, 16\), got torch.float32"),
        (torch.eye(3, 16).bool() | (torch.arange(16) < 2), r"as many True in each row, got \[2, 2, 3\]"),
    ],
)
def test_masks_of_other_patches_are_refused(visible, message):
    with pytest.raises(ValueError, match=message):
        vit().encode(x(), visible)


@pytest.mark.parametrize("backbone", ["convnet-8", "eva02_tiny_patch14_224"])
def test_backbones_without_single_patches_say_so(backbone):
    timm_or_skip()
    options = "embed_dim=24, depth=1, num_heads=2" if backbone.startswith("eva") else ""
    model = Backbone(backbone, image_size=28, options=options)
    with pytest.raises(ValueError, match=r"whose forward pass is that of timm's VisionTransformer.*got"):
        Headed(model, nn.Identity()).encode(x(side=28))


def test_other_models_are_told_which_methods_they_lack():
    with pytest.raises(ValueError, match=r"needs a vision transformer.*got Linear: in Python.* encode"):
        patch_model(as_model(nn.Linear(2, 2)))
