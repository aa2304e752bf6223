"""Networks that others trained: their layers against ones written out, their weights against random ones."""

import importlib.machinery
import importlib.util
import pickle
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from isojepa.data.images.source import open_images
from isojepa.encoders.backbones import Backbone, BackboneSpec
from isojepa.encoders.weights import load_weights
from isojepa.probes.features import features_of
from isojepa.probes.linear import linear_probe
from isojepa.registry import Context
from isojepa_lab.baselines.classic_backbones import DIMS, classic
from tests.vision import timm_or_skip

HERE = Path(__file__).parents[3]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """tools/data as a module."""
    loader = importlib.machinery.SourceFileLoader("tools_data", str(HERE / "tools" / "data"))
    spec = importlib.util.spec_from_loader("tools_data", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_squeezenet_equals_its_layers_written_out_with_the_weights_as_others_keep_them(tool) -> None:
    rng = np.random.default_rng(0)
    sizes = {2: (64, 16, 64), 3: (128, 16, 64), 4: (128, 32, 128), 5: (256, 32, 128), 6: (256, 48, 192),
             7: (384, 48, 192), 8: (384, 64, 256), 9: (512, 64, 256)}  # fmt: skip

    def layer(side: int, n_in: int, n_out: int) -> list[np.ndarray]:
        kernel = rng.normal(size=(side, side, n_in, n_out)) / np.sqrt(side * side * n_in)
        return [kernel.astype(np.float32), (0.1 * rng.normal(size=n_out)).astype(np.float32)]

    theirs = {"conv1": layer(3, 3, 64)}
    for fire, (n_in, few, each) in sizes.items():
        theirs[f"fire{fire}/squeeze1x1"] = layer(1, n_in, few)
        theirs[f"fire{fire}/expand1x1"] = layer(1, few, each)
        theirs[f"fire{fire}/expand3x3"] = layer(3, few, each)

    def turned(kernel: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(kernel.transpose(3, 2, 0, 1).copy())

    net = classic("squeezenet-features")
    net.load_state_dict(tool.squeezenet(theirs, turned))
    picture = torch.rand(2, 3, 65, 64, generator=torch.Generator().manual_seed(0))
    normal = (picture - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]

    def same(x: torch.Tensor, name: str) -> torch.Tensor:
        kernel, bias = theirs[name]
        return F.conv2d(x, turned(kernel), torch.from_numpy(bias), padding=kernel.shape[0] // 2)

    # blue, green, red from 0 to 255 less their means; the picture's edge is looked at apart, see below
    x = 255 * picture.flip(1) - torch.tensor(tool.CAFFE)[:, None, None]
    x = F.pad(x, (0, 1, 1, 1))
    x = F.relu(F.conv2d(x, turned(theirs["conv1"][0]), torch.from_numpy(theirs["conv1"][1]), stride=2))
    first = net.layers[:3](normal).detach()
    inside = (..., slice(1, -1), slice(None, -1))
    torch.testing.assert_close(first[inside], x[inside], rtol=1e-4, atol=1e-2)
    x = first  # beyond the edge others see grey of their mean, we of ours, half a step of 255 apart
    for fire in sizes:
        if fire in (2, 4, 6):
            x = F.max_pool2d(x, 3, 2)
        inner = F.relu(same(x, f"fire{fire}/squeeze1x1"))
        x = F.relu(torch.cat([same(inner, f"fire{fire}/expand{side}x{side}") for side in (1, 3)], 1))
    with torch.no_grad():
        torch.testing.assert_close(net.forward_features(normal), x, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize(
    ("name", "widths", "features"),
    [
        ("alexnet-features", [64, 192, 384, 256, 256], 256),
        ("vgg16-features", [64, 64, 128, 128, *[256] * 3, *[512] * 6], 512),
    ],
)
def test_a_network_is_the_convolutions_that_were_published(
    name: str, widths: list[int], features: int
) -> None:
    backbone = Backbone(name)
    convolutions = [part for part in backbone.modules() if isinstance(part, torch.nn.Conv2d)]
    assert [part.out_channels for part in convolutions] == widths
    x = torch.zeros(2, 3, 64, 64)
    assert backbone.num_features == features
    assert backbone.features(x).shape == (2, features)
    assert backbone.tokens(x).shape[::2] == (2, features)


@pytest.mark.parametrize("name", DIMS)
def test_a_backbone_of_the_name_is_the_network_and_its_dimension_needs_no_weights(name: str) -> None:
    backbone, network = Backbone(name, in_channels=1, seed=3), classic(name, 1, seed=3)
    for ours, theirs in zip(backbone.body.parameters(), network.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    spec = BackboneSpec(name, projector="none")
    assert spec.embedding(Context()) == backbone.num_features == DIMS[name]
    assert not spec.transformer(Context())


def test_a_pickle_that_names_anything_but_arrays_is_refused_before_it_is_made(tool, tmp_path) -> None:
    class Bad:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "touched",))

    for content in (pickle.dumps({"a": Bad()}), pickle.dumps(np.float64(1.0)), pickle.dumps([print])):
        (tmp_path / "file").write_bytes(content)
        with (tmp_path / "file").open("rb") as file, pytest.raises(tool.Failed, match="arrays alone"):
            tool.Arrays(file).load()
    assert not (tmp_path / "touched").exists()
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    (tmp_path / "file").write_bytes(pickle.dumps({"a": [array]}, protocol=3))
    with (tmp_path / "file").open("rb") as file:
        assert (tool.Arrays(file).load()["a"][0] == array).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenetv2_100", "resnet50", *DIMS])
def test_weights_of_others_are_put_in_their_places(name: str) -> None:
    """Mixed up weights would do no better than random ones; these do, on emoji that no network has seen."""
    timm_or_skip()
    weights, emoji = (HERE / "data" / place for place in ("encoders", "emoji/google"))
    for place in (weights, emoji):
        if not place.exists():
            pytest.skip(f"{place} is not here: tools/data fetches it")
    pictures = open_images(emoji, split="train")
    with np.load(emoji / "train.npz") as arrays:
        ids = torch.from_numpy(np.unique(arrays["states"], return_index=True)[1])
    ids = ids[torch.randperm(len(ids), generator=torch.Generator().manual_seed(0))[:600]]
    labels = torch.as_tensor(pictures.labels)[ids]
    size = 64 if name == "vgg16-features" else 128  # the slowest: a quarter of the time
    found = {}
    for kind in ("trained", "random"):
        backbone = Backbone(name)
        if kind == "trained":
            assert load_weights(backbone.body, weights / f"{name}.safetensors").by == "names"
        x = features_of(backbone, pictures, size=size, ids=ids, channels=3, mean=MEAN, std=STD, batch=50)
        found[kind] = linear_probe(x[:400], labels[:400], x[400:], labels[400:]).accuracy
    assert found["trained"] > found["random"] + 0.05, found
