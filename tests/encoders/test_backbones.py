"""Backbones of all families: shapes, sizes, seeds, options, and what they refuse."""

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import isojepa as ij
from isojepa.encoders import Backbone, Headed, Projector
from isojepa.encoders.backbones import BackboneSpec, parse_options, pooled_dim
from isojepa.encoders.layers import ActingBatchNorm, BatchNorm, synchronised
from isojepa.objectives import LeJEPA
from isojepa.registry import Context
from isojepa.seeds import generator
from isojepa.testing import check_encoder, check_objective, check_spec
from isojepa.worlds.as_source import Arrays
from isojepa.worlds.batch import Batch
from tests.encoders.families import FAMILIES, SIDE
from tests.reference.global_state import untouched
from tests.vision import timm_or_skip

RECIPE = {"steps": 25, "batch": 32, "learning_rate": 3e-3, "eval_every": 25, "clip": 1.0}
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


def test_the_small_resnet_has_the_weights_of_resnet18_but_for_stem_and_classifier():
    timm = timm_or_skip()
    theirs = timm.create_model("resnet18", num_classes=0, pretrained=False)
    convolutions = [
        [tuple(part.weight.shape) for part in model.modules() if isinstance(part, nn.Conv2d)]
        for model in (theirs, Backbone("resnet18-small"))
    ]
    assert convolutions[0][0] == (64, 3, 7, 7)
    assert convolutions[1][0] == (64, 3, 3, 3)
    assert sorted(convolutions[0][1:]) == sorted(convolutions[1][1:])


@pytest.mark.parametrize(
    "name", ["convnet", "gridnet-4-8", "resnet18-small-4", "test_resnet", "test_vit", "test_efficientnet"]
)
def test_weights_come_from_the_seed_alone(name):
    timm_or_skip()
    with untouched():
        first = Backbone(name, image_size=64, dim=8, seed=1)
    torch.manual_seed(42)
    again, other = (Backbone(name, image_size=64, dim=8, seed=seed) for seed in (1, 2))
    pairs = list(zip(first.parameters(), again.parameters(), other.parameters(), strict=True))
    assert all(torch.equal(one, two) for one, two, _ in pairs)
    drawn = [(one, three) for one, _, three in pairs if one.ndim > 1]
    assert all(not torch.equal(one, three) for one, three in drawn)


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


def test_a_probe_reads_means_of_patches_of_a_vit_without_class_token_and_features_of_the_rest():
    x = pictures(2, 3, 32, 32)
    backbone = vit(options="class_token=False, global_pool=avg")
    h = backbone.layers_features(x)
    assert h.shape == (2, 96)
    torch.testing.assert_close(h.reshape(2, 2, 48).mean(-1), torch.zeros(2, 2), rtol=0, atol=1e-5)
    convnet = Backbone("convnet").eval()
    assert torch.equal(convnet.layers_features(x), convnet(x))


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


def test_maps_of_a_picture_that_is_no_square_have_its_shape():
    assert vit().maps(pictures(1, 3, 32, 16)).shape == (1, 48, 4, 2)


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
        (lambda: Backbone("convnet-16-x"), "widths behind 'convnet' must be positive integers"),
        (lambda: Backbone("convnet-0"), "width must be a positive integer, got 0"),
        (lambda: Backbone("resnet18-small-4-4"), "'resnet18-small' must have one width behind it at most"),
        (lambda: Backbone("convnet", in_channels=0), "in_channels must be a positive integer, got 0"),
        (lambda: Backbone(nn.Linear(4, 2)), "image_size must be given beside a module"),
        (lambda: Backbone(nn.Linear(4, 2), image_size=5), r"does not take pictures of \(2, 3, 5, 5\)"),
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
    with pytest.raises(ValueError, match=r"views must be pictures \(channels, height, width\)"):
        spec.build(Context(shapes=((8,), (8,))))


def test_a_spec_survives_flags_and_records_as_plain_values():
    check_spec(BackboneSpec("vit_small_patch16_224", "2048-2048-16", 512, "reg_tokens=4, drop_path_rate=0.1"))
    assert pooled_dim.cache_info is not None  # nothing of timm was needed to write it


def source() -> Arrays:
    base = pictures(64, 3, SIDE, SIDE)
    noise = torch.randn(2, *base.shape, generator=generator(0, "noise"))
    return Arrays([base + 0.3 * noise[0], base + 0.3 * noise[1]])


def test_a_record_of_a_backbone_with_a_projector_gives_the_model_back(tmp_path):
    timm_or_skip()
    model = Headed(
        Backbone("test_vit", image_size=SIDE, options="reg_tokens=1", seed=5), Projector(64, "16-4", seed=5)
    )
    ij.fit(
        model,
        source(),
        LeJEPA(0.05),
        record=tmp_path / "run",
        batch_start=None,
        eval_samples=32,
        **RECIPE | {"steps": 2},
    )
    again = ij.load(tmp_path / "run")
    x = pictures(3, 3, SIDE, SIDE)
    assert type(again.backbone) is Backbone
    assert torch.equal(again(x), model.eval()(x))
    assert torch.equal(again.features(x), model.features(x))


def test_synchronised_norms_of_a_mobilenet_compute_the_same_in_one_process():
    timm_or_skip()
    x = pictures(4, 3, SIDE, SIDE)
    plain, synced = (Headed(Backbone("mobilenetv3_small_050"), Projector(1024, "8-4")) for _ in range(2))
    synchronised(synced)
    kinds = {type(part) for part in synced.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)}
    assert kinds == {BatchNorm, ActingBatchNorm}
    torch.testing.assert_close(synced(x), plain(x))
    assert list(synced.state_dict()) == list(plain.state_dict())


def test_the_objective_reaches_every_weight_of_a_backbone_through_crops_of_two_sizes():
    model = Headed(Backbone("convnet"), Projector(128, "32-8"))
    views = (pictures(6, 3, 28, 28), pictures(6, 3, 28, 28) + 1, pictures(6, 3, 16, 16))
    check_objective(LeJEPA(0.05), model, Batch(views, global_views=2))


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_trains_without_collapse(name):
    """Noisy copies of 64 pictures: they come nearer to each other, and stay apart from the rest."""
    timm_or_skip()
    build, features, _ = FAMILIES[name]
    data = source()
    model = Headed(build(0), Projector(features, "64-8"))
    before = loss(model, data)
    run = ij.fit(model, data, LeJEPA(0.05), batch_start=None, eval_samples=32, **RECIPE)
    assert run.status == "done"
    assert loss(model, data) < before
    with torch.no_grad():
        h = model.eval()(data.views[0])
        values = torch.linalg.svdvals(h - h.mean(0))
    share = values / values.sum()
    rank = torch.exp(-(share * share.log()).sum()).item()
    assert rank > 3  # of 8 directions; one if it collapsed


def loss(model: nn.Module, data: Arrays) -> float:
    """Of all pictures, in training mode: running statistics lag behind weights that move."""
    h = torch.stack([copy.deepcopy(model).train()(view) for view in data.views])
    return LeJEPA(0.05)(h, generator(0, "slices")).total.item()
