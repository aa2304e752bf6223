"""Finite sets in epochs, views of several shapes, and what evaluations hold: all through one process."""

import numpy as np
import pytest
import torch
from torch import nn

import isojepa as ij
from isojepa.data import Arrays
from isojepa.data.batch import Batch
from isojepa.data.source import Facts
from isojepa.objectives import Objective
from isojepa.probes import online as held_out
from isojepa.training import Recipe
from isojepa.training.distributed import RankBatches
from isojepa.training.loop import fit
from tests.training.crash import assert_same_bits, weights, whole_and_resumed

SHORT = {"steps": 11, "batch": 8, "batch_start": None, "eval_every": 4, "eval_samples": 32, "progress": False}


def numbered(states=20):
    """States whose first coordinate is their number."""
    x = torch.randn(states, 2, generator=ij.generator(0, "test"))
    x[:, 0] = torch.arange(states)
    return Arrays((x, x + 0.1))


def ids_of(source, recipe, seed=0, start=0):
    return [batch.ids.tolist() for (batch,) in RankBatches(source, recipe, seed).from_step(start)]


def test_every_state_comes_once_in_an_epoch():
    """Batches of 8 of 20 states: epochs end within batches."""
    seen = np.concatenate(ids_of(numbered(), Recipe(**{**options(), "steps": 10})))
    assert len(seen) == 80
    for epoch in seen.reshape(4, 20):
        assert sorted(epoch) == list(range(20))


def test_the_order_depends_on_seed_and_epoch_alone():
    recipe = Recipe(**{**options(), "steps": 10})
    rows = np.concatenate(ids_of(numbered(), recipe)).reshape(4, 20)
    assert len({tuple(epoch) for epoch in rows}) == 4
    other = Recipe(**{**options(), "steps": 40, "batch": 2, "learning_rate": 1.0})
    assert np.array_equal(np.concatenate(ids_of(numbered(), other)).reshape(4, 20), rows)
    assert not np.array_equal(np.concatenate(ids_of(numbered(), recipe, seed=1)).reshape(4, 20), rows)


def test_batches_from_the_middle_of_an_epoch_on_are_those_of_the_whole():
    recipe = Recipe(**options())
    assert ids_of(numbered(), recipe, start=4) == ids_of(numbered(), recipe)[4:]
    growing = Recipe(**{**options(), "batch_start": 2, "batch": 16})
    assert ids_of(numbered(), growing, start=4) == ids_of(numbered(), growing)[4:]


def make():
    objective = ij.objectives.LeJEPA(0.02, regularizer=ij.objectives.SIGReg(slices=8))
    return ij.encoders.MLP(2, 2, width=8, layers=2), objective


def test_a_run_over_a_finite_set_that_crashes_ends_with_the_same_bits(tmp_path):
    """In the middle of the second epoch."""
    assert_same_bits(*whole_and_resumed(make, numbered(), tmp_path, 5, **SHORT))


class Noisy:
    """A finite set whose views are noisy: two of each state, from the streams of its rows."""

    facts = Facts(shapes=((2,), (2,)), size=20)

    def sample(self, n, generator):
        x = torch.randn(n, 2, generator=generator)
        return Batch((x, x))

    def take(self, ids, streams):
        noise = [torch.randn(2, 2, generator=streams.of(row)) for row in range(len(ids))]
        first, second = (torch.stack([n[v] for n in noise]) + ids[:, None] / 10 for v in range(2))
        return Batch((first, second), ids=ids)


def test_processes_that_load_do_not_change_a_bit():
    state = torch.get_rng_state()
    alone, loaded = (fit(*_with(Noisy(), make()), workers=workers, **SHORT) for workers in (0, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert alone.metrics == loaded.metrics
    assert torch.equal(weights(alone.encoder), weights(loaded.encoder))


class Pooled(nn.Module):
    """An encoder of pictures of any size."""

    def __init__(self):
        super().__init__()
        self.map = ij.encoders.MLP(12, 3, width=8, layers=2)

    def forward(self, x):
        return self.map(nn.functional.adaptive_avg_pool2d(x, 2).flatten(1))


def crops(states=24, global_views=2):
    """Ten views of two sizes, without latents."""
    stream = ij.generator(0, "crops")
    centres = torch.randn(states, 3, 1, 1, generator=stream)
    sizes = [8, 8, *[4] * 8]
    views = [centres + torch.randn(states, 3, size, size, generator=stream) for size in sizes]
    return Arrays(views, global_views=global_views)


def crop_objective(**options):
    return ij.objectives.LeJEPA(0.1, regularizer=ij.objectives.SIGReg(slices=8), **options)


def test_ten_views_of_two_sizes_without_latents_train():
    run = fit(Pooled(), crops(), crop_objective(), **{**SHORT, "steps": 60, "learning_rate": 5e-3})
    assert run.status == "done"
    assert run.metrics[-1]["loss"] < run.metrics[0]["loss"]
    assert "r2" not in run.metrics[-1]
    assert np.isnan(run.r2)
    assert run.metrics[-1]["smallest_variance"] > 0


def test_lejepa_learns_from_the_batch_which_views_make_the_centre():
    class Direct(Objective):
        """Embeds view by view, and tells LeJEPA itself."""

        def __init__(self):
            super().__init__()
            self.loss = crop_objective(global_views=2)

        def forward(self, models, batch, generator):
            h = torch.stack([models["encoder"].embed(view) for view in batch.views])
            return self.loss(h, generator)

    told = fit(Pooled(), crops(), crop_objective(), **SHORT)
    direct = fit(Pooled(), crops(), Direct(), **SHORT)
    every = fit(Pooled(), crops(global_views=0), crop_objective(), **SHORT)
    # one product of all rows or one for each view: equal to rounding
    torch.testing.assert_close(weights(told.encoder), weights(direct.encoder), rtol=1e-3, atol=1e-5)
    assert not torch.allclose(weights(told.encoder), weights(every.encoder), rtol=1e-3, atol=1e-5)


def test_a_loss_that_knows_no_centre_says_so():
    def apart(views, generator):  # a loss of somebody's own
        return ij.objectives.LeJEPA(0.05)(views, generator)

    with pytest.raises(
        ValueError, match="function takes all views alike, got a batch of which 2 of 10 define the center"
    ):
        fit(Pooled(), crops(), apart, **SHORT)
    assert fit(Pooled(), crops(global_views=0), apart, **SHORT).status == "done"


class Large:
    """Large observations, which counts what it is asked for and how much of it is alive at once."""

    def __init__(self, shapes=((64,), (64,)), known=True):
        self.facts = Facts(dim=2, shapes=shapes if known else None)
        self.shapes, self.asked = shapes, []

    def sample(self, n, generator):
        self.asked.append(n)
        z = torch.randn(n, 2, generator=generator)
        views = tuple(z.mean(1).reshape(n, *[1] * len(shape)).expand(n, *shape) for shape in self.shapes)
        return Batch(views, z=(z,) * len(views))


@pytest.mark.parametrize("kind", ["Recovery", "Spread"])
@pytest.mark.parametrize("known", [True, False])
def test_large_observations_are_drawn_in_parts_and_none_is_kept(monkeypatch, kind, known):
    monkeypatch.setattr(held_out, "_MAX_NUMBERS", 64 * 2 * 100)
    source = Large(known=known)
    evaluation = getattr(ij.probes, kind)(source, 1000)
    encoder = nn.Linear(64, 2)
    rows = [evaluation({"encoder": ij.encoders.as_model(encoder)}, ij.generator(0, "eval")) for _ in range(2)]
    assert max(source.asked) == 100
    assert sum(n for n in source.asked if n > 1) == 2000
    assert evaluation._kept is None
    assert rows[0] == rows[1]


def test_the_views_that_are_not_looked_at_count_as_memory_too(monkeypatch):
    monkeypatch.setattr(held_out, "_MAX_NUMBERS", 64 * 10 * 100)
    source = Large(shapes=((64,),) * 10)
    ij.probes.Spread(source, 1000)({"encoder": ij.encoders.as_model(nn.Linear(64, 2))}, ij.generator(0, "e"))
    assert max(source.asked) == 100


def test_ten_thousand_pictures_of_the_usual_size_are_never_all_there():
    source = Large(shapes=((3, 224, 224),) * 10)

    class Mean(nn.Module):
        def forward(self, x):
            return x[:, :2, 0, 0]

    ij.probes.Recovery(source, 200)({"encoder": ij.encoders.as_model(Mean())}, ij.generator(0, "eval"))
    assert max(source.asked) * 10 * 3 * 224 * 224 * 4 <= 150e6  # bytes


def test_small_observations_are_drawn_once_and_evaluated_as_one_sample(spiral):
    asked = []

    class Counting:
        facts = spiral.facts

        def sample(self, n, generator):
            asked.append(n)
            return spiral.sample(n, generator)

    evaluation = ij.probes.Recovery(Counting(), 500)
    model = {"encoder": ij.encoders.as_model(ij.encoders.MLP(2, 2, width=8, layers=2))}
    rows = [evaluation(model, ij.generator(0, "eval")) for _ in range(3)]
    assert asked == [500]
    assert rows[0] == rows[1] == rows[2]
    evaluation(model, ij.generator(1, "eval"))
    assert asked == [500, 500]


def options():
    return {key: value for key, value in SHORT.items() if key != "progress"}


def _with(source, made):
    model, objective = made
    return model, source, objective
