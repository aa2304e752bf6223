"""The attention of [CLS], against what a block computes when its softmax is written out."""

import pytest
import torch

from isojepa.encoders import Backbone
from isojepa.encoders.backbones import NoAttention
from tests.vision import timm_or_skip

SMALL = "depth=2, embed_dim=48, num_heads=3, patch_size=8"


def pictures(size=32, channels=3):
    return torch.randn(2, channels, size, size, generator=torch.Generator().manual_seed(0))


def written_out(body, x):
    """The weights that the last block drops out of, (batch, head, token, token)."""
    attention, seen = body.blocks[-1].attn, []
    attention.fused_attn = False
    hook = attention.attn_drop.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    body.forward_features(x)
    hook.remove()
    attention.fused_attn = True
    return seen[0]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("vit_tiny_patch16_224", SMALL),
        ("vit_tiny_patch16_224", f"{SMALL}, reg_tokens=4, qk_norm=True"),
        ("deit_tiny_distilled_patch16_224", SMALL),
        ("eva02_tiny_patch14_224", "depth=2, embed_dim=48, num_heads=3, patch_size=8"),  # rotary positions
        ("beit_base_patch16_224", SMALL),  # relative positions as a bias
    ],
)
@torch.no_grad()
def test_attention_is_the_row_of_the_blocks_own_softmax(name, options):
    timm_or_skip()
    backbone = Backbone(name, image_size=32, options=options).eval()
    for parameter in backbone.body.blocks[-1].parameters():
        parameter.mul_(4)  # random weights alone attend to all alike
    x = pictures()
    found = backbone.attention(x)
    truth = written_out(backbone.body, x)[:, :, 0, backbone.body.num_prefix_tokens :]
    assert found.shape == (2, 3, 4, 4)
    torch.testing.assert_close(found.flatten(2), truth, rtol=1e-4, atol=1e-6)
    assert truth.std() > 1e-4 * truth.mean()
    torch.testing.assert_close(backbone.attention(x), found)  # listening left nothing behind


def test_a_convolutional_backbone_says_that_it_has_no_attention():
    with pytest.raises(NoAttention, match=r"has no \[CLS\] token"):
        Backbone("convnet").attention(pictures())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("vit_tiny_patch16_224", f"{SMALL}, class_token=False, global_pool=avg"),
        ("swin_tiny_patch4_window7_224", "depths=(1, 1), embed_dim=24, num_heads=(2, 4), window_size=4"),
    ],
)
def test_transformers_without_a_class_token_say_so(name, options):
    timm_or_skip()
    with pytest.raises(NoAttention):
        Backbone(name, image_size=32, options=options).attention(pictures())
