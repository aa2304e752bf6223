"""Images as a source: a crop is a function of the seed, the epoch and the picture, wherever it is made."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from isojepa import testing
from isojepa.data.images import Images, Stack, Views
from isojepa.data.images.augmentations import product, recolor_tensors
from isojepa.data.images.views import Deferred
from isojepa.data.source import Streams, deferring
from isojepa.seeds import generator
from isojepa.training.distributed import RankBatches
from isojepa.training.recipe import Recipe
from tests.data.images.conftest import Unequal, noise

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
        by_id(RankBatches(stacked(), replace(recipe, workers=count), 3).from_step(0))
        for count in (0, workers)
    )
    assert alone.keys() == loaded.keys()
    assert all(torch.equal(a, b) for key in alone for a, b in zip(alone[key], loaded[key], strict=True))


def test_ranks_and_parts_of_a_batch_see_the_crops_of_the_whole():
    recipe = Recipe(steps=3, batch=16, batch_start=None)
    whole = by_id(RankBatches(stacked(), recipe, 3).from_step(0))
    cut = replace(recipe, accumulate=2)
    parts = [list(RankBatches(stacked(), cut, 3, rank, 2).from_step(0)) for rank in range(2)]
    found = by_id([[*first, *second] for first, second in zip(*parts, strict=True)])
    assert found.keys() == whole.keys()
    assert all(torch.equal(a, b) for key in whole for a, b in zip(whole[key], found[key], strict=True))


@pytest.mark.parametrize("workers", [0, 2])
def test_views_that_are_left_to_the_device_are_the_same(workers):
    recipe = Recipe(steps=3, batch=16, batch_start=None, workers=workers)
    for source in (stacked(), Images(Unequal(), SMALL)):
        assert deferring(source)
        made = [part for (part,) in RankBatches(source, recipe, 3).from_step(0)]
        left = [part for (part,) in RankBatches(source, recipe, 3, defer=True).from_step(0)]
        for wanted, pending in zip(made, left, strict=True):
            assert isinstance(pending, Deferred)
            found = pending.to("cpu")
            assert torch.equal(found.ids, wanted.ids)
            assert torch.equal(found.labels, wanted.labels)
            assert found.global_views == wanted.global_views == 2
            assert all(torch.equal(a, b) for a, b in zip(found.views, wanted.views, strict=True))


def test_the_form_of_devices_makes_the_views_of_processors(monkeypatch):
    calm = replace(SMALL, solarize=0.0)  # which jumps: a last bit may decide
    sources = [Images(stacked().pictures, calm), Images(Unequal(), calm)]
    pending = [source.defer(ids := torch.arange(source.facts.size), streams(ids)) for source in sources]
    loops = [one.to("cpu").views for one in pending]
    monkeypatch.setattr("isojepa.data.images.augmentations._looped", product)
    monkeypatch.setattr("isojepa.data.images.views.recolor", recolor_tensors)
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
