"""Rows behind each layer of a model are what its layers give."""

import pytest
import torch
from torch import nn

from isojepa.encoders.backbones import Backbone
from isojepa.encoders.depth import layer_rows, layers_of
from isojepa.encoders.model import Headed
from tests.vision import timm_or_skip


def test_the_last_layer_of_a_convnet_gives_its_features_before_norm_and_relu():
    backbone = Backbone("convnet-4-8-16", in_channels=1)
    x = torch.randn(6, 1, 28, 28)
    rows = layer_rows(backbone, x)
    assert [part.shape[1] for part in rows.values()] == [4, 8, 16]
    first = backbone.body.body[0](x).mean((-2, -1))
    assert torch.allclose(next(iter(rows.values())), first, atol=1e-6)


def test_blocks_of_a_transformer_give_their_class_tokens():
    timm_or_skip()
    backbone = Backbone(
        "vit_tiny_patch16_224", image_size=32, options="patch_size=8,depth=3,embed_dim=48,num_heads=3"
    )
    x = torch.randn(4, 3, 32, 32)
    rows = layer_rows(Headed(backbone, nn.Linear(48, 8)), x)
    assert len(rows) == 3
    with torch.no_grad():
        last = backbone.eval().body.norm(rows["backbone.body.blocks.2"])
        assert torch.allclose(last, backbone.features(x), atol=1e-5)


def test_a_function_has_no_layers():
    with pytest.raises(ValueError, match="torch module"):
        layers_of(lambda x: x)
    with pytest.raises(ValueError, match="layers in a row"):
        layers_of(nn.Linear(2, 2))
