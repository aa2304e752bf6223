"""Each objective trains a small vision transformer on pictures of waves, and does not collapse."""

import math
import warnings

import pytest
import torch

from isojepa.data.batch import Batch
from isojepa.data.source import Facts
from isojepa.encoders.backbones import BackboneSpec
from isojepa.registry import Context, components, find
from isojepa.seeds import generator as make_generator
from isojepa.training.loop import fit
from tests.vision import timm_or_skip

SIDE, CLASSES = 32, 6
VIT = "patch_size=8, embed_dim=48, depth=2, num_heads=3"
UNPROJECTED = ("masked", "mae", "autoencoder", "supervised", "random")  # objectives that see no projector
SMALL = {"prototypes": 128, "width": 128, "bottleneck": 64, "warmup": 100, "decay": 0.98}
SETTINGS = {
    "masked": {"width": 512, "decay": 0.98, "views": 2},
    "mae": {"patch": 8, "decoder_width": 64, "decoder_depth": 2},
    "autoencoder": {"decoder_width": 64, "decoder_depth": 2},
    "moco": {"width": 256, "decay": 0.98},
    "swav": {"prototypes": 64},
    "dino": {"prototypes": 128, "warmup": 100, "decay": 0.98},
    "ibot": SMALL,
    "dinov2": SMALL,
    "simclr": {},
    "barlow-twins": {},
    "vicreg": {},
    "lejepa-images": {"slices": 128},
    "supervised": {},
}


SETTINGS = {name: values for name, values in SETTINGS.items() if name in components("objective")}


class Waves:
    """Plane waves of six directions: two views share direction and length, and differ in phase and noise."""

    facts = Facts(shapes=((3, SIDE, SIDE),) * 2, classes=CLASSES)

    def sample(self, n, generator):
        labels = torch.randint(CLASSES, (n,), generator=generator)
        angle = math.pi * (labels + 0.4 * torch.rand(n, generator=generator) - 0.2) / CLASSES
        length = 8 + 4 * torch.rand(n, generator=generator)
        return Batch(tuple(self._view(angle, length, generator) for _ in range(2)), labels=labels)

    def _view(self, angle, length, generator):
        n = len(angle)
        phase, contrast = torch.rand(2, n, generator=generator)
        y, x = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
        along = x * torch.cos(angle)[:, None, None] + y * torch.sin(angle)[:, None, None]
        wave = torch.sin(2 * math.pi * (along / length[:, None, None] + phase[:, None, None]))
        colour = 0.6 + 0.4 * torch.rand(n, 3, 1, 1, generator=generator)
        noise = 0.3 * torch.randn(n, 3, SIDE, SIDE, generator=generator)
        return (0.7 + 0.7 * contrast[:, None, None, None]) * colour * wave[:, None] + noise


def built(name):
    projector = "none" if name in UNPROJECTED else "128-32"
    spec = BackboneSpec("vit_tiny_patch16_224", projector, None, VIT)
    shapes = Waves.facts.shapes
    embedding = 48 if projector == "none" else 32
    context = Context(shapes=shapes, classes=CLASSES, embedding=embedding, feature_dim=48, transformer=True)
    return spec.build(context), find("objective", name)(**SETTINGS.get(name, {})).build(context)


def scores(model):
    """Accuracy of a ridge classifier of the features on fresh pictures, and their effective rank."""
    train, test = (Waves().sample(1000, make_generator(seed, "scores")) for seed in (1, 2))
    with torch.no_grad():
        h, fresh = (model.features(batch.views[0]).double() for batch in (train, test))
    mean, deviation = h.mean(0), h.std(0) + 1e-6
    values = torch.linalg.svdvals(h - mean)
    share = values / values.sum()
    rank = torch.exp(-(share * torch.log(share + 1e-12)).sum()).item()
    a, b = (torch.cat([(x - mean) / deviation, torch.ones(len(x), 1)], 1) for x in (h, fresh))
    one_hot = torch.nn.functional.one_hot(train.labels, CLASSES).double()
    weights = torch.linalg.solve(a.T @ a + torch.eye(49), a.T @ one_hot)
    return ((b @ weights).argmax(1) == test.labels).double().mean().item(), rank


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SETTINGS)
def test_a_small_vision_transformer_learns_and_does_not_collapse(name):
    """More is read from its features than from those of the same network as it was drawn."""
    timm_or_skip()
    untrained, _ = scores(built("random")[0].eval())
    model, objective = built(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of embeddings that the objective does not spread
        run = fit(
            model,
            Waves(),
            objective,
            steps=300,
            batch=64,
            batch_start=None,
            learning_rate=1e-3,
            warmup=0.1,
            weight_decay=0.05,
            clip=1.0,
            eval_every=50,
            evaluations=(),
            progress=False,
            accelerator="cpu",
        )
    accuracy, rank = scores(model)
    losses = [row["loss"] for row in run.metrics]
    assert max(losses) - min(losses) > 0.02 * abs(losses[0])  # it moves
    assert rank > 3, f"effective rank {rank:.1f} of 48"
    assert accuracy > untrained + 0.1, f"{accuracy:.2f} against {untrained:.2f} untrained"
