"""Probes while a model trains, and transfer: pictures whose classes are known to be easy."""

import numpy as np
import pytest
import torch
from torch import nn

import isojepa as ij
from isojepa import testing
from isojepa.data.batch import Batch
from isojepa.data.images.image_sets import Stack
from isojepa.data.source import Facts
from isojepa.probes import LinearProbe, Neighbors, Rank, transfer
from isojepa.probes.features import features_of
from isojepa.probes.few_shot import common_labels
from isojepa.probes.linear import linear_probe
from isojepa.probes.rank import lidar, rankme
from isojepa.training.loop import fit


def stripes(n, seed, classes=("none", "top", "bottom")):
    """Noise with a bright half, the class."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 3, n)
    images = draw.integers(0, 150, size=(n, 6, 6))
    images[labels == 1, :3] += 50
    images[labels == 2, 3:] += 50
    return Stack(images.astype(np.uint8), labels, classes)


class Twice:
    """A source of two noisy views of random images and a small one."""

    facts = Facts(shapes=((1, 6, 6), (1, 6, 6), (1, 4, 4)))

    def sample(self, n, generator):
        x = torch.randn(n, 1, 6, 6, generator=generator)
        views = (x, x + 0.1 * torch.randn(n, 1, 6, 6, generator=generator), x[:, :, :4, :4])
        return Batch(views, global_views=2)


def net(dim=4):
    torch_generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, dim, bias=False))
    nn.init.normal_(model[1].weight, generator=torch_generator)
    return model


@pytest.mark.parametrize("kind", [LinearProbe, Neighbors])
def test_the_probes_pass_the_public_check_for_one_model_and_two(kind):
    evaluation = kind(stripes(200, 0), stripes(100, 1), samples=150, test_samples=60)
    testing.check_evaluation(evaluation, net())
    testing.check_evaluation(evaluation, {"left": net(), "right": nn.Flatten()})


def test_rank_passes_the_public_check_for_one_model_and_two():
    testing.check_evaluation(Rank(Twice(), samples=300), nn.Flatten())
    testing.check_evaluation(Rank(Twice(), samples=300), {"left": nn.Flatten(), "right": net()})


def test_the_linear_probe_with_all_pictures_is_that_of_the_features():
    train, test = stripes(300, 0), stripes(200, 1)
    row = LinearProbe(train, test, penalties=(1e-2,))({"encoder": net()}, ij.generator(0, "e"))
    seen = {"mean": train.mean, "std": train.std}
    score = linear_probe(
        features_of(net(), train, **seen),
        train.labels,
        features_of(net(), test, **seen),
        test.labels,
        penalties=(1e-2,),
    )
    assert (row["probe"], row["probe_low"], row["probe_high"]) == (score.accuracy, *score.interval)


def test_pixels_tell_the_stripes_apart_and_a_constant_does_not():
    train, test = stripes(600, 0), stripes(300, 1)
    for kind, key in ((LinearProbe, "probe"), (Neighbors, "knn")):
        rows = [
            kind(train, test)({"encoder": model}, ij.generator(0, "e"))
            for model in (nn.Flatten(), lambda x: torch.ones(len(x), 3))
        ]
        assert rows[0][key] > 0.9
        assert rows[1][key] < 0.5
        assert rows[0][f"{key}_low"] < rows[0][key] <= rows[0][f"{key}_high"]


def test_features_that_are_not_finite_give_nan():
    train, test = stripes(60, 0), stripes(60, 1)
    for kind in (LinearProbe, Neighbors):
        row = kind(train, test)({"encoder": lambda x: x.flatten(1) / 0}, ij.generator(0, "e"))
        assert all(np.isnan(value) for value in row.values())


def test_rank_is_that_of_the_global_views():
    source = Twice()
    row = Rank(source, samples=200)({"encoder": nn.Flatten()}, ij.generator(0, "e"))
    views = source.sample(200, ij.generator(0, "e")).views[:2]
    stacked = torch.stack([view.flatten(1) for view in views])
    assert row == {
        "rankme": pytest.approx(rankme(stacked[0]), rel=1e-5),
        "lidar": pytest.approx(lidar(stacked), rel=1e-5),
    }
    assert row["rankme"] > 20


def test_probes_run_in_the_training_loop():
    train, test = stripes(120, 0), stripes(60, 1)
    evaluations = (
        LinearProbe(train, test, every=2, samples=100),
        Neighbors(train, test, samples=100),
        Rank(Twice(), samples=64),
    )
    model = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16, 4))
    objective = ij.objectives.LeJEPA(0.02, regularizer=ij.objectives.SIGReg(slices=8))

    class Pairs(Twice):
        facts = Facts(shapes=((1, 6, 6), (1, 6, 6)))

        def sample(self, n, generator):
            return Batch(super().sample(n, generator).views[:2])

    run = fit(
        model,
        Pairs(),
        objective,
        steps=4,
        batch=16,
        batch_start=None,
        eval_every=4,
        evaluations=evaluations,
        progress=False,
    )
    assert {"probe", "probe_low", "knn", "rankme"} <= set(run.metrics[-1])
    assert [row["step"] for row in run.metrics] == [2, 4]
    assert "knn" not in run.metrics[0]


def test_transfer_has_a_row_for_each_number_of_labels():
    rows = transfer(nn.Flatten(), stripes(300, 0), stripes(300, 1), draws=3)
    assert [row.shots for row in rows] == [1, 10, None]
    assert rows[0].accuracy < rows[1].accuracy < rows[2].accuracy
    assert rows[2].accuracy > 0.9


def test_labels_are_matched_by_name_and_those_that_differ_are_told():
    train, test = stripes(60, 0), stripes(60, 1, ("bottom", "none", "top"))
    own, other = common_labels(train, test)
    assert (own == train.labels.numpy()).all()
    names = [train.classes[number] for number in other]
    assert names == [test.classes[number] for number in test.labels]
    with pytest.raises(ValueError, match="got 'left'; training has 'none', 'top', 'bottom'"):
        common_labels(train, stripes(60, 1, ("none", "top", "left")))
    bare = Stack(np.zeros((4, 6, 6), dtype=np.uint8))
    for kind in (LinearProbe, Neighbors):
        with pytest.raises(ValueError, match="test pictures without any"):
            kind(train, bare)
    with pytest.raises(ValueError, match="training pictures without any"):
        transfer(nn.Flatten(), bare, test)


def test_settings_that_cannot_be_are_told():
    train, test = stripes(60, 0), stripes(60, 1)
    with pytest.raises(ValueError, match="every must be a positive integer"):
        LinearProbe(train, test, every=0)
    with pytest.raises(ValueError, match="k must be a positive integer of at most 60, got 61"):
        Neighbors(train, test, k=61)
    with pytest.raises(ValueError, match="samples must be an integer of at least 2"):
        Rank(Twice(), samples=1)
