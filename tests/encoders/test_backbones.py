"""Backbones of all families: shapes, sizes, seeds, options, and what they refuse."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from isojepa.encoders import Backbone, Headed
from isojepa.encoders.backbones import BackboneSpec, parse_options
from isojepa.registry import Context
from isojepa.seeds import generator
from isojepa.testing import check_encoder
from tests.encoders.families import FAMILIES, SIDE
from tests.vision import timm_or_skip

SMALL = ("convnet", "convnet-8-12", "gridnet-8-12", "resnet18-small-4")
VIT = "patch_size=8, embed_dim=48, depth=3, num_heads=3"


def pictures(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(0, "pictures"))


def vit(**settings) -> Backbone:
    timm_or_skip()
    options = settings.pop("options", "")
    return Backbone(
        "vit_tiny_patch16_224", **{"image_size": 32, "options": f"{VIT}, {options}", **settings}
    ).eval()


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    timm_or_skip()
    build, features, any_size = FAMILIES[request.param]
    return build(0), features, any_size


def test_every_family_keeps_the_contract_of_encoders_and_counts_its_features(family):
    backbone, features, _ = family
    x = pictures(3, 3, SIDE, SIDE)
    check_encoder(backbone, x)
    assert backbone.num_features == features == backbone.eval()(x).shape[1]


def test_every_family_has_maps_and_tokens_in_the_same_order(family):
    backbone, _, _ = family
    x = pictures(2, 3, SIDE, SIDE)
    with torch.no_grad():
        maps, tokens = backbone.eval().maps(x), backbone.tokens(x)
    _, channels, height, width = maps.shape
    assert tokens.shape == (2, height * width, channels)
    for row, column in itertools.product(range(height), range(width)):
        assert torch.equal(tokens[:, row * width + column], maps[:, :, row, column])


def test_local_crops_are_taken_by_the_families_of_any_size_and_refused_with_advice_by_others(family):
    backbone, features, any_size = family
    with torch.no_grad():
        if any_size:
            assert backbone.eval()(pictures(2, 3, SIDE // 2, SIDE // 2)).shape == (2, features)
            return
        with pytest.raises(
            ValueError, match=r"does not take \(32, 32\): cut global and local crops at one size"
        ):
            backbone.eval()(pictures(2, 3, SIDE // 2, SIDE // 2))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("channels", [1, 3])
def test_small_convolutional_backbones_take_any_size_without_timm(name, channels, monkeypatch):
    monkeypatch.setattr("isojepa.encoders.backbones.import_timm", None)
    backbone = Backbone(name, in_channels=channels)
    for side in (12, 28, 33):
        check_encoder(backbone, pictures(3, channels, side, side))


def test_features_are_those_of_timms_own_model_of_the_same_weights():
    timm = timm_or_skip()
    backbone = Backbone("test_vit", image_size=32).eval()
    theirs = timm.create_model("test_vit", pretrained=False, num_classes=0, img_size=32).eval()
    theirs.load_state_dict(backbone.body.state_dict())
    x = pictures(2, 3, 32, 32)
    torch.testing.assert_close(backbone(x), theirs(x), rtol=0, atol=1e-6)


def test_a_probe_reads_the_normalised_class_tokens_behind_the_last_two_blocks_of_a_vit():
    backbone = vit()
    x, kept = pictures(2, 3, 32, 32), []
    hooks = [
        block.register_forward_hook(lambda _, __, out: kept.append(out[:, 0]))
        for block in backbone.body.blocks[-2:]
    ]
    backbone.body.forward_features(x)
    for hook in hooks:
        hook.remove()
    norm = backbone.body.norm
    truth = torch.cat([F.layer_norm(h, (48,), norm.weight, norm.bias, norm.eps) for h in kept], 1)
    assert len(kept) == 2
    torch.testing.assert_close(backbone.layers_features(x), truth, rtol=0, atol=1e-6)
    torch.testing.assert_close(backbone.layers_features(x)[:, 48:], backbone(x), rtol=0, atol=1e-6)


def test_tokens_leave_class_and_register_tokens_out_and_those_of_a_mask_are_given():
    backbone = vit(options="reg_tokens=4")
    x = pictures(3, 3, 32, 32)
    assert backbone.body.num_prefix_tokens == 5
    tokens = backbone.tokens(x)
    assert torch.equal(tokens, backbone.body.forward_features(x)[:, 5:])
    mask = torch.zeros(3, 16, dtype=torch.bool)
    mask[0, [1, 4]] = mask[1, [0, 15]] = mask[2, [7, 8]] = True
    truth = torch.stack([tokens[0, [1, 4]], tokens[1, [0, 15]], tokens[2, [7, 8]]])
    assert torch.equal(backbone.tokens(x, mask), truth)
    with pytest.raises(ValueError, match=r"as many True in each row, got \[3, 2, 2\]"):
        backbone.tokens(x, mask | torch.tensor([[True] + [False] * 15] + [[False] * 16] * 2))
    with pytest.raises(ValueError, match=r"mask must be True and False of shape \(3, 16\)"):
        backbone.tokens(x, mask[:, :4])


def test_any_module_is_a_backbone_whose_maps_are_averaged():
    net = nn.Sequential(nn.Conv2d(1, 6, 3, stride=2), nn.ReLU())
    backbone = Backbone(net, in_channels=1, image_size=12)
    x = pictures(2, 1, 12, 12)
    assert backbone.num_features == 6
    torch.testing.assert_close(backbone(x), net(x).mean((2, 3)))
    with pytest.raises(ValueError, match="Sequential has no tokens: give it the method forward_features"):
        backbone.tokens(x)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Backbone("vit_smal_patch16_224"), r"did you mean 'vit_small_patch16_224'"),
        (lambda: Backbone("convnt"), r"one of timm's \d+ models, got 'convnt'; did you mean 'convnet'"),
        (
            lambda: Backbone("hf-hub:somebody/model"),
            "backbone must be convnet, gridnet, resnet18-small, .* or one of timm's",
        ),
        (lambda: Backbone("test_vit", options="regs=4"), "'test_vit' cannot be made with in_chans=3, regs=4"),
        (lambda: Backbone("test_vit", options="reg_tokens"), 'options must be names and values such as "reg'),
        (lambda: Backbone("test_vit", options="num_classes=9"), "options must leave pretrained, num_classes"),
        (lambda: Backbone("convnet", options="depth=2"), "options must be empty for backbone 'convnet'"),
        (lambda: Backbone("resnet18-small-4-4"), "'resnet18-small' must have one width after it at most"),
        (lambda: Backbone(nn.Linear(4, 2)), "image_size must be given with a module"),
        (lambda: Backbone(nn.Linear(4, 2), image_size=5), r"does not take images of \(2, 3, 5, 5\)"),
        (lambda: Backbone(nn.Flatten(0), image_size=4), r"\(batch, dim, height, width\), got \(96,\)"),
        (lambda: Backbone("convnet")(torch.zeros(2, 1, 28, 28)), r"must be \(batch, 3, height, width\) for"),
        (lambda: Backbone("test_vit", image_size=64)(torch.zeros(2, 3, 63, 64)), r"does not take \(63, 64\)"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(build, message):
    timm_or_skip()
    with pytest.raises(ValueError, match=message):
        build()


def test_options_are_plain_values_and_nothing_is_executed():
    assert parse_options("") == {}
    found = parse_options("a=1, b=-2.5e-3, c=True, d=None, e=word, f='a, b', g=[1, (2, 3)]")
    assert list(found) == list("abcdefg")
    assert list(found.values()) == [1, -2.5e-3, True, None, "word", "a, b", [1, (2, 3)]]
    for text in ("print(1)", "a=print(1)", "**{}", "a=1, a=2", "a=1)(b=2", "1", "a=x.y", "("):
        with pytest.raises(ValueError, match="options must be names and values"):
            parse_options(text)


def test_a_spec_builds_for_the_views_of_its_world_and_knows_its_embedding():
    timm_or_skip()
    context = Context(shapes=((1, 32, 32), (1, 32, 32), (1, 16, 16)), seed=3)
    options = f"{VIT}, reg_tokens=2"
    spec = BackboneSpec("vit_tiny_patch16_224", "64-8", 24, options)
    model = spec.build(context)
    assert isinstance(model, Headed)
    assert spec.embedding(context) == model(pictures(4, 1, 16, 16)).shape[1] == 8
    assert model.features(pictures(4, 1, 32, 32)).shape == (4, 24)
    same = Backbone(
        "vit_tiny_patch16_224", in_channels=1, image_size=32, dim=24, options=options, seed=3
    ).state_dict()
    assert all(torch.equal(same[name], value) for name, value in model.backbone.state_dict().items())
    for bare, dim in ((BackboneSpec("convnet-8-12", "none"), 12), (BackboneSpec("test_vit", "none"), 64)):
        assert bare.embedding(context) == dim == bare.build(context).num_features
    with pytest.raises(ValueError, match=r"views must be images \(channels, height, width\)"):
        spec.build(Context(shapes=((8,), (8,))))
