"""Watching real training loops: what is seen, what is told, and that nothing is changed by it."""

import copy
import math
import pickle
import warnings

import pytest
import torch
from torch import nn

import isojepa as ij
from isojepa.seeds import generator
from isojepa.training import TensorBoard
from isojepa.watching import CollapseWarning, WatchWarning
from tests.distributed import joined, run_ranks


def network(dim=6):
    torch_state = torch.get_rng_state()
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(5, 16), nn.Dropout(0.1), nn.ReLU(), nn.Linear(16, dim))
    torch.set_rng_state(torch_state)
    return made


def batches(count, n=64, seed=0):
    source = generator(seed, "batches")
    return [torch.randn(n, 5, generator=source) for _ in range(count)]


def trained(watch_with=None, steps=30):
    """Weights after a plain loop, watched or not."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch = None if watch_with is None else watch_with(model)
    with torch.random.fork_rng():
        torch.manual_seed(1)  # dropout draws from it
        for x in batches(steps):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            if watch is not None:
                watch.step()
        left = torch.rand(1)
    return model, left, watch


def test_three_lines_measure_at_the_first_step_and_at_every_pace(capsys):
    model, _, watch = trained(lambda model: ij.watch(model, every=10))
    watch.close()
    assert [row["step"] for row in watch.history] == [1, 10, 20, 30]
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 4
    assert told[1].startswith("watch: step 10, effective rank ")
    assert " of 6, gaussianity " in told[1]
    assert watch.table().count("\n") == 4
    assert not model._forward_hooks


def test_watching_changes_no_bit_of_training_nor_of_the_global_generator():
    plain, left, _ = trained()
    watched, also_left, _ = trained(lambda model: ij.watch(model, every=3, show=False))
    assert torch.equal(left, also_left)
    for a, b in zip(plain.parameters(), watched.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_numbers_are_those_of_the_most_recent_rows():
    model, seen = network(), []
    watch = ij.watch(model, every=50, rows=100, show=False)
    for x in batches(100, n=30):
        seen.append(model(x).detach())
        row = watch.step()
    from isojepa.watching.numbers import measure

    assert row == {"step": 100, **measure(torch.cat(seen)[-100:])}


def test_between_measurements_nothing_is_copied(monkeypatch):
    copied = []
    real = ij.watching.watcher.Rows.add
    monkeypatch.setattr(
        ij.watching.watcher.Rows, "add", lambda self, h: (copied.append(len(h)), real(self, h))[1]
    )
    model = network()
    watch = ij.watch(model, every=100, rows=128, show=False)
    for x in batches(200):
        model(x)
        watch.step()
    assert len(copied) <= 1 + 2 * 3  # two or three batches of 64 fill 128 rows


def test_what_is_kept_is_bounded_detached_and_not_the_models_own():
    model = network()
    watch = ij.watch(model, every=1000, rows=256, show=False)
    for x in batches(40, n=100):
        h = model(x)
        watch.step()
    kept = watch._rows.whole()
    assert len(kept) <= 256
    assert sum(map(len, watch._rows._parts)) < 256 + 100
    assert not kept.requires_grad
    before = kept.clone()
    h.detach().zero_()
    assert torch.equal(before, watch._rows.whole())


def test_an_optimizer_counts_the_steps_also_when_gradients_are_accumulated():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ij.watch(model, every=2, optimizer=optimizer, show=False) as watch:
        for index, x in enumerate(batches(12)):
            model(x).square().mean().backward()
            if index % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()
    assert watch.steps == 4
    assert [row["step"] for row in watch.history] == [1, 2, 4]
    optimizer.step()
    assert watch.steps == 4  # closed


def collapsing(model, watch):
    """Views alone are drawn together, and nothing keeps the embeddings apart."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for x in batches(600):
        optimizer.zero_grad()
        h = model(x)
        (h - h.roll(1, 0)).square().mean().backward()
        optimizer.step()
        watch.step()


def test_collapse_gives_one_alarm_with_advice_while_it_happens():
    model = network()
    with ij.watch(model, every=20, show=False) as watch:
        with pytest.warns(CollapseWarning, match="weight") as told:
            collapsing(model, watch)
        assert [alarm.kind for alarm in watch.alarms].count("collapse") == 1
        assert len(told) == len(watch.alarms)
        assert watch.alarms[0].step < watch.steps


def losing_dimensions(watch):
    z = torch.randn(128, 16, generator=generator(0, "z"))
    scale = torch.ones(16)
    for step in range(60):
        scale[3:] *= 0.8 if step > 20 else 1.0
        watch(z * scale + 1e-3 * torch.randn(128, 16, generator=generator(step, "n")))


def test_dimensional_collapse_is_seen_by_the_rank():
    watch = ij.watch(every=10, show=False)
    with pytest.warns(CollapseWarning) as told:
        losing_dimensions(watch)
    assert any("effective rank fell" in str(one.message) for one in told)
    assert watch.history[1]["effective_rank"] > 14
    assert "dimensions" in {alarm.kind for alarm in watch.alarms}


def test_a_sound_run_gives_no_alarm(spiral):
    """SIGReg spreads the embedding: whatever it does on its way, nothing is said."""
    model = ij.encoders.MLP(2, 2, width=32, layers=2)
    objective = ij.objectives.LeJEPA(weight=0.05, regularizer=ij.objectives.SIGReg(slices=16))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    with warnings.catch_warnings(), ij.watch(model, every=10, views=2, show=False) as watch:
        warnings.simplefilter("error", WatchWarning)
        for step in range(150):
            views = spiral.sample(256, generator(0, "data", step)).views
            loss = objective(torch.stack([model(x) for x in views]), generator(0, "slices", step))
            optimizer.zero_grad()
            loss.total.backward()
            optimizer.step()
            watch.step()
    first, last = watch.history[0], watch.history[-1]
    assert not watch.alarms
    assert last["gaussianity"] < 0.2 * first["gaussianity"]
    assert last["effective_rank"] > 1.9
    assert last["disagreement"] < 0.6


def test_views_called_one_by_one_or_stacked_or_handed_in_agree():
    x = torch.stack(batches(3))
    model = network().train()
    model[1].p = 0.0
    found = []
    for calls in ([x[0], x[1], x[2]], [x.flatten(0, 1)], [x[0], x[1:].flatten(0, 1)]):
        with ij.watch(model, views=3, show=False) as watch:
            for part in calls:
                model(part)
            found.append(watch.step())
    with ij.watch(show=False) as watch:
        found.append(watch(model(x.flatten(0, 1)).unflatten(0, (3, 64))))
    with ij.watch(show=False) as watch:
        found.append(watch([model(part) for part in x]))
    for row in found[1:]:
        assert row == pytest.approx(found[0], rel=1e-5)
    assert not math.isnan(found[0]["alignment"])


def test_views_that_do_not_fit_are_told_and_rows_are_still_measured():
    model = network()
    with ij.watch(model, views=2, show=False) as watch:
        model(batches(1, n=33)[0])
        with pytest.warns(WatchWarning, match="not 2 views"):
            row = watch.step()
    assert math.isnan(row["alignment"])
    assert row["effective_rank"] > 1


def test_changing_batch_sizes_and_a_last_short_batch_are_taken():
    model = network()
    with ij.watch(model, every=3, rows=64, show=False) as watch:
        for n in (64, 1, 7, 2000, 3, 30, 1, 1, 1):
            model(batches(1, n=n)[0])
            watch.step()
    assert [row["step"] for row in watch.history] == [1, 3, 6, 9]
    assert all(row["effective_rank"] > 1 for row in watch.history)


def test_a_changing_dimension_starts_anew():
    with ij.watch(every=1, rows=64, show=False) as watch:
        watch(torch.randn(40, 8, generator=generator(0, "a")))
        row = watch(torch.randn(40, 3, generator=generator(0, "b")))
    assert row["effective_rank"] <= 3


class Two(nn.Module):
    """Returns what models of others return: several tensors by name."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(5, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        h = self.backbone(x)
        return {"logits": self.head(h), "features": h}


def test_of_two_outputs_one_must_be_named_before_anything_is_lost():
    model, (x,) = Two(), batches(1)
    with (
        ij.watch(model, show=False),
        pytest.raises(ValueError, match=r"'logits' \(64, 3\), 'features' \(64, 8\)"),
    ):
        model(x)
    with ij.watch(model, output="features", show=False) as by_name:
        model(x)
        by_name.step()
    with ij.watch(model, at="backbone", show=False) as by_place:
        model(x)
        by_place.step()
    assert by_name.history == by_place.history


def test_an_output_that_turns_odd_later_is_left_out_and_told_once():
    class Odd(nn.Module):
        answer = None

        def forward(self, x):
            return x if self.answer is None else self.answer

    model = Odd()
    with ij.watch(model, every=1, show=False) as watch:
        model(batches(1)[0])
        watch.step()
        model.answer = "text"
        with pytest.warns(WatchWarning, match="left out"):
            model(batches(1)[0])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model(batches(1)[0])
            watch.step()
    assert len(watch.history) == 2


def test_nan_is_an_alarm_and_not_an_error():
    with ij.watch(every=1, show=False) as watch, pytest.warns(CollapseWarning, match="NaN or Inf"):
        watch(torch.full((32, 4), math.nan))
    assert watch.alarms[0].kind == "broken"


def test_a_module_that_is_never_called_is_told_once():
    with ij.watch(Two(), every=1, show=False) as watch:
        assert watch.step() is None
        with pytest.warns(WatchWarning, match="no output was seen"):
            watch.step()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            watch.step()
    assert not watch.history


def test_evaluation_is_not_watched_unless_asked_for():
    model = network()
    for evaluating, seen in ((False, 0), (True, 1)):
        with ij.watch(model.eval(), evaluating=evaluating, show=False) as watch:
            model(batches(1)[0])
            watch.step()
        assert len(watch.history) == seen


def test_copies_of_a_watched_model_are_not_watched_and_can_be_pickled():
    model = network()
    with ij.watch(model, every=1, show=False) as watch:
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            twin.train()(batches(1)[0])
        watch.step()
        assert not watch.history
        assert set(model.state_dict()) == set(network().state_dict())


class Halved(nn.Module):
    def forward(self, x):
        return x.bfloat16()


def test_half_precision_is_watched_in_float32():
    model, (x,) = Halved(), batches(1)
    with ij.watch(model, every=1, show=False) as watch:
        model(x)
        row = watch.step()
    with ij.watch(show=False) as exact:
        assert exact(x.bfloat16().float()) == pytest.approx(row, nan_ok=True)


def test_a_measurement_under_autocast_is_that_outside_of_it():
    x, y = batches(2)
    with torch.autocast("cpu", torch.bfloat16), ij.watch(show=False) as inside:
        inside(torch.stack((x, y)))
    with ij.watch(show=False) as outside:
        outside(torch.stack((x, y)))
    assert inside.history == outside.history


@pytest.mark.parametrize("at", ["", "3"])
def test_compiled_models_are_watched(at):
    torch._dynamo.reset()
    compiled = torch.compile(network(), backend="eager")
    with ij.watch(compiled, at=at, every=1, show=False) as watch:
        for x in batches(3):
            compiled(x)
            watch.step()
    assert len(watch.history) == 3
    torch._dynamo.reset()


def test_vmap_over_a_watched_model_is_left_alone():
    model = network().eval()
    with ij.watch(model, evaluating=True, show=False):
        out = torch.func.vmap(model)(torch.stack(batches(2, n=4)))
    assert out.shape == (2, 4, 6)


def test_loggers_and_functions_receive_every_row_by_the_name_of_the_watch(tmp_path):
    pytest.importorskip("tensorboard", reason="the extra 'loggers' is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    rows = []
    _, _, watch = trained(
        lambda model: ij.watch(
            model, every=10, name="teacher", loggers=[TensorBoard(tmp_path), rows.append], show=False
        )
    )
    watch.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    written = [(event.step, event.value) for event in events.Scalars("teacher/effective_rank")]
    truth = [(row["step"], row["effective_rank"]) for row in watch.history]
    assert written == [(step, pytest.approx(value, rel=1e-6)) for step, value in truth]
    assert [row["teacher/effective_rank"] for row in rows] == [value for _, value in truth]


def test_the_picture_is_written(tmp_path):
    _, _, watch = trained(lambda model: ij.watch(model, every=10, show=False))
    assert watch.plot(tmp_path / "watch.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    "settings",
    [
        {"every": 0},
        {"every": "often"},
        {"rows": 1},
        {"views": 1},
        {"drop": 1.5},
        {"at": "backbon"},
        {"start": -1},
    ],
)
def test_wrong_settings_are_named(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        ij.watch(Two(), **settings)


@pytest.mark.parametrize(
    "h",
    [torch.ones(3), torch.ones(2, 3, dtype=torch.int), "h", [torch.ones(2, 3), torch.ones(3, 3)], [], None],
)
def test_what_is_no_embedding_is_refused(h):
    with pytest.raises(ValueError, match=r"embeddings must be|views must have"):
        ij.watch(show=False)(h)


def watched(rank):
    model = nn.parallel.DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ij.watch(model, every=5, at="3", show=False) as watch:
        for x in batches(10, seed=rank):
            model(x).square().mean().backward()
            optimizer.step()
            watch.step()
    return watch.history


def two_ranks(rank, world, folder):
    with joined(rank, world, folder):
        return watched(rank)


def test_of_two_ranks_the_first_watches_and_nobody_waits(tmp_path):
    first, second = run_ranks(two_ranks, 2, tmp_path)
    assert [row["step"] for row in first] == [1, 5, 10]
    assert second == []
