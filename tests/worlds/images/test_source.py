"""Images as a source: a crop is a function of the seed, the epoch and the picture, wherever it is made."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from isojepa import testing
from isojepa.objectives import LeJEPA
from isojepa.seeds import generator
from isojepa.training.loop import fit
from isojepa.training.recipe import Recipe
from isojepa.training.shares import Shares
from isojepa.worlds.images import Images, Stack, Views
from isojepa.worlds.images.augmentations import product, recolour_tensors
from isojepa.worlds.images.views import Deferred
from isojepa.worlds.source import Streams, deferring
from tests.worlds.images.conftest import Unequal, noise

SMALL = Views(local_views=1, global_size=20, local_size=8)


def stacked(channels=3, size=40):
    return Images(Stack(noise(size, channels, 24, 30), labels=np.arange(size) % 4), SMALL)


def streams(ids, seed=0, epoch=0):
    return Streams(seed, torch.full_like(ids, epoch), ids)


def by_id(batches):
    """Views of each (epoch-order) row by the number of its picture."""
    found = {}
    for step, parts in enumerate(batches):
        for part in parts:
            for row, number in enumerate(part.ids.tolist()):
                found[step, number] = [view[row] for view in part.views]
    return found


@pytest.mark.parametrize(
    "source", [stacked(1), stacked(3), Images(Unequal(), SMALL)], ids=["grey", "colour", "unequal"]
)
def test_images_are_a_source(source):
    testing.check_source(source)


def test_a_crop_does_not_depend_on_its_batch():
    for source in (stacked(), Images(Unequal(), SMALL)):
        size = source.facts.size
        ids = torch.randperm(size, generator=generator(0, "ids"))
        together = source.take(ids, streams(ids))
        for row in range(0, size, 5):
            alone = source.take(ids[row : row + 1], streams(ids[row : row + 1]))
            assert all(torch.equal(a[0], b[row]) for a, b in zip(alone.views, together.views, strict=True))


def test_crops_differ_between_seeds_epochs_and_pictures():
    source = Images(Stack(noise(1, 3, 24, 30).repeat(8, axis=0)), SMALL)  # one picture, eight times
    ids = torch.arange(8)
    first = source.take(ids, streams(ids)).views[0]
    assert torch.equal(first, source.take(ids, streams(ids)).views[0])
    assert not (first == source.take(ids, streams(ids, seed=1)).views[0]).flatten(1).all(1).any()
    assert not (first == source.take(ids, streams(ids, epoch=1)).views[0]).flatten(1).all(1).any()
    assert len(first.flatten(1).unique(dim=0)) == 8


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_that_load_change_no_bit(workers):
    recipe = Recipe(steps=4, batch=16, batch_start=None)
    alone, loaded = (
        by_id(Shares(stacked(), replace(recipe, workers=count), 3).from_step(0)) for count in (0, workers)
    )
    assert alone.keys() == loaded.keys()
    assert all(torch.equal(a, b) for key in alone for a, b in zip(alone[key], loaded[key], strict=True))


def test_ranks_and_parts_of_a_batch_see_the_crops_of_the_whole():
    recipe = Recipe(steps=3, batch=16, batch_start=None)
    whole = by_id(Shares(stacked(), recipe, 3).from_step(0))
    cut = replace(recipe, accumulate=2)
    parts = [list(Shares(stacked(), cut, 3, rank, 2).from_step(0)) for rank in range(2)]
    found = by_id([[*first, *second] for first, second in zip(*parts, strict=True)])
    assert found.keys() == whole.keys()
    assert all(torch.equal(a, b) for key in whole for a, b in zip(whole[key], found[key], strict=True))


@pytest.mark.parametrize("workers", [0, 2])
def test_views_that_are_left_to_the_device_are_the_same(workers):
    recipe = Recipe(steps=3, batch=16, batch_start=None, workers=workers)
    for source in (stacked(), Images(Unequal(), SMALL)):
        assert deferring(source)
        made = [part for (part,) in Shares(source, recipe, 3).from_step(0)]
        left = [part for (part,) in Shares(source, recipe, 3, defer=True).from_step(0)]
        for wanted, pending in zip(made, left, strict=True):
            assert isinstance(pending, Deferred)
            found = pending.to("cpu")
            assert torch.equal(found.ids, wanted.ids)
            assert torch.equal(found.labels, wanted.labels)
            assert found.global_views == wanted.global_views == 2
            assert all(torch.equal(a, b) for a, b in zip(found.views, wanted.views, strict=True))


@pytest.mark.parametrize("index", [slice(2, 5), torch.tensor([4, 0, 3])])
def test_rows_of_views_to_be_made_are_the_views_of_the_rows(index):
    for source in (stacked(), Images(Unequal(), SMALL)):
        ids = torch.arange(6)
        pending = source.defer(ids, streams(ids))
        some, wanted = pending.rows(index), pending.to("cpu").rows(index)
        assert len(some) == 3
        found = some.to("cpu")
        assert torch.equal(found.ids, wanted.ids)
        assert all(torch.equal(a, b) for a, b in zip(found.views, wanted.views, strict=True))


def test_the_form_of_devices_makes_the_views_of_processors(monkeypatch):
    calm = replace(SMALL, solarize=0.0)  # which jumps: a last bit may decide
    sources = [Images(stacked().pictures, calm), Images(Unequal(), calm)]
    pending = [source.defer(ids := torch.arange(source.facts.size), streams(ids)) for source in sources]
    loops = [one.to("cpu").views for one in pending]
    monkeypatch.setattr("isojepa.worlds.images.augmentations._looped", product)
    monkeypatch.setattr("isojepa.worlds.images.views.recolour", recolour_tensors)
    for one, wanted in zip(pending, loops, strict=True):
        found = one.to("cpu").views
        assert any(not torch.equal(a, b) for a, b in zip(found, wanted, strict=True))  # it was another form
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-3)


def test_views_are_normalised_by_the_pictures_or_as_the_settings_say():
    still = replace(SMALL, jitter=0.0, grey=0.0, blur=0.0, solarize=0.0)
    source = Images(Stack(noise(200, 1, 24, 24)), still)
    assert abs(float(source.sample(200, generator(0, "x")).views[0].mean())) < 0.05
    given = Images(source.pictures, replace(still, mean=(0.0,), std=(0.5,)))
    plain = Images(source.pictures, replace(still, mean=(0.0,), std=(1.0,)))
    twice, once = (one.sample(4, generator(0, "x")).views[0] for one in (given, plain))
    torch.testing.assert_close(twice, 2 * once)
    assert bool(((once >= -1e-6) & (once <= 1 + 1e-6)).all())


def test_labels_ids_and_shapes_are_those_of_the_pictures():
    source = stacked()
    batch = source.sample(12, generator(0, "x"))
    assert torch.equal(batch.labels, batch.ids % 4)
    assert source.facts.shapes == ((3, 20, 20), (3, 20, 20), (3, 8, 8))
    assert source.facts.size == 40


def test_pictures_choose_their_own_settings_where_none_are_given():
    assert Images(Stack(noise(3, 28, 28))).views == Views.for_size(28)
    assert Images(Unequal()).views == Views.for_size(31)


def test_settings_of_other_channels_are_refused():
    with pytest.raises(ValueError, match=r"mean must have a number for each of 1 channels, got \(0.5, 0.5\)"):
        Images(Stack(noise(3, 28, 28)), replace(SMALL, mean=(0.5, 0.5), std=(1.0, 1.0)))


def test_images_train_a_network_and_loading_processes_change_nothing():
    def trained(workers):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, 2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
        )
        options = {"steps": 6, "batch": 16, "batch_start": None, "eval_every": 3, "workers": workers}
        run = fit(net, stacked(), LeJEPA(weight=0.05), accelerator="cpu", progress=False, **options)
        return [row["loss"] for row in run.metrics]

    with torch.random.fork_rng():
        alone, loaded = trained(0), trained(2)
    assert alone == loaded
    assert all(np.isfinite(alone))
