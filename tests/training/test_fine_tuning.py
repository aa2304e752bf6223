"""Fine-tuning and regression networks."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isojepa.data.images.image_sets import Stack
from isojepa.encoders.backbones import Backbone
from isojepa.encoders.mlp import MLP
from isojepa.encoders.model import Headed
from isojepa.importing import import_timm
from isojepa.seeds import generator
from isojepa.training.fine_tuning import LayerDecay, StandardizedNetwork, fine_tune, layers_of
from isojepa.training.recipe import decayed_groups


@pytest.mark.parametrize(
    "name", ["vit_tiny_patch16_224", "resnet10t", "convnext_atto", "mobilenetv3_small_050"]
)
def test_layers_of_timm_models_are_in_the_order_that_timm_has_them(name):
    try:
        timm = import_timm()
    except ImportError as error:
        pytest.skip(str(error))
    with torch.device("meta"):
        body = timm.create_model(name, num_classes=0)
    expected = import_timm("models").group_parameters(body, body.group_matcher(), reverse=True)
    found = layers_of(body)
    assert set(found) == {key for key, _ in body.named_parameters()}
    names = list(found)
    for one, other in itertools.pairwise(names):
        assert (found[one] < found[other]) == (expected[one] < expected[other])
    assert sorted(set(found.values())) == list(range(max(found.values()) + 1))
    assert max(found.values()) >= 4


def test_rates_fall_from_layer_to_layer_and_a_head_is_not_slowed():
    model = LayerDecay(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), 0.5)
    assert model.learning_rates() == {
        "backbone.0.weight": 0.25,
        "backbone.0.bias": 0.25,
        "backbone.2.weight": 0.5,
        "backbone.2.bias": 0.5,
    }
    whole = nn.ModuleList([model, nn.Linear(2, 2)])
    groups = decayed_groups(whole, 0.1)
    assert [(group["rate"], group["weight_decay"]) for group in groups] == [
        (1.0, 0.1),
        (0.5, 0.1),
        (0.25, 0.1),
        (1.0, 0.0),
        (0.5, 0.0),
        (0.25, 0.0),
    ]
    assert sum(len(group["params"]) for group in groups) == 6
    assert [group["rate"] for group in decayed_groups(whole, 0.0)] == [1.0, 0.5, 0.25]
    with pytest.raises(ValueError, match=r"decay must lie in \(0, 1\]"):
        LayerDecay(nn.Linear(2, 2), 0)


def test_labels_are_learned():
    draw = np.random.default_rng(0)
    labels = np.arange(300) % 2
    images = draw.integers(0, 100, size=(300, 8, 8))
    images[labels == 1, 2:6, 2:6] += 80
    train, test = (
        Stack(images[part].astype(np.uint8), labels[part]) for part in (slice(0, 200), slice(200, 300))
    )
    backbone = Backbone("convnet", in_channels=1, image_size=8)
    model = Headed(backbone, nn.Linear(backbone.num_features, 3))
    found = fine_tune(model, train, test, steps=60, batch=32, learning_rate=3e-3, progress=False)
    assert found.score.accuracy > 0.9
    assert found.score.interval[0] < found.score.accuracy
    assert found.run.status in ("done", "collapsed")
    x = torch.zeros(2, 1, 8, 8)
    assert found.head(found.model.eval()(x)).shape == (2, 2)
    bare = Stack(images.astype(np.uint8))
    with pytest.raises(ValueError, match="test pictures without any"):
        fine_tune(model, train, bare)


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_the_maps_of_a_standardised_network_are_the_network(layers):
    source = generator(0, "rows")
    x = 3 * torch.randn(200, 5, generator=source) + 7
    x[:, 2] = 4.0  # a column without spread
    y = torch.tensor([0.01, 30.0]) * torch.randn(200, 2, generator=source) - 5
    network = StandardizedNetwork(MLP(5, 2, 16, layers), x, y)
    *hidden, (weight, bias) = network.maps()
    assert len(hidden) == layers - 1
    h = x
    for first, second in hidden:
        h = functional.gelu(functional.linear(h, first, second))
    torch.testing.assert_close(functional.linear(h, weight, bias), network(x), rtol=1e-4, atol=1e-5)
