"""Watching other training loops: numbers, alarms, outputs, callbacks; nothing is changed by it."""

import math
import warnings
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

import isojepa as ij
from isojepa.seeds import generator
from isojepa.training import (
    CollapseWarning,
    WatchWarning,
    lightning_callback,
    transformers_callback,
)
from isojepa.training.watch import (
    NAMES,
    Alarms,
    embeddings_in,
    measure,
    variances,
)
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
    assert row == {"step": 100, **measure(torch.cat(seen)[-100:])}


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


def test_nan_is_an_alarm_and_not_an_error():
    with ij.watch(every=1, show=False) as watch, pytest.warns(CollapseWarning, match="NaN or Inf"):
        watch(torch.full((32, 4), math.nan))
    assert watch.alarms[0].kind == "broken"


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


@pytest.mark.parametrize(
    "settings",
    [
        {"every": 0},
        {"rows": 1},
        {"views": 1},
        {"drop": 1.5},
        {"at": "backbon"},
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


GOOD = {
    "nonfinite": 0.0,
    "effective_rank": 8.0,
    "smallest_variance": 0.9,
    "mean_variance": 1.0,
    "mean_length": 0.1,
}


def kinds(*rows, **settings):
    rule = Alarms(**settings)
    found = [rule.judge(100 * (place + 1), {**GOOD, **row}, 8) for place, row in enumerate(rows)]
    return [[alarm.kind for alarm in alarms] for alarms in found]


def test_total_collapse_is_told_at_once_and_once():
    assert kinds({}, {"mean_variance": 1e-8}, {"mean_variance": 1e-9}) == [[], ["collapse"], []]
    assert kinds({"mean_variance": 1e-3, "mean_length": 100.0}) == [["collapse"]]


def test_falling_rank_is_told_at_the_second_measurement_in_a_row():
    low = {"effective_rank": 3.0}
    assert kinds({}, low, low, low) == [[], [], ["dimensions"], []]
    assert kinds({}, low, {}, low) == [[], [], [], []]
    assert kinds({}, low, low, drop=0.2) == [[], [], []]


def test_a_lost_direction_is_told_only_if_it_was_there():
    lost = {"smallest_variance": 1e-5}
    assert kinds({}, lost, lost) == [[], [], ["direction"]]
    assert kinds(lost, lost, lost) == [[], [], []]  # networks may begin so
    assert kinds({}, {"smallest_variance": math.nan}, {"smallest_variance": math.nan}) == [[], [], []]


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed, "watch"))


@pytest.mark.parametrize("shape", [(300, 7), (7, 300), (40, 40)])
def test_variances_are_the_squared_singular_values_of_centred_rows(shape):
    h = normal(*shape).double() * torch.arange(1, shape[1] + 1)
    truth = np.linalg.svd((h - h.mean(0)).numpy(), compute_uv=False) ** 2 / (shape[0] - 1)
    np.testing.assert_allclose(variances(h), truth, rtol=1e-9, atol=1e-9 * truth[0])


def test_effective_rank_is_rankme_of_the_centred_rows():
    h = normal(500, 6) @ torch.diag(torch.tensor([3.0, 2.0, 1.0, 0.5, 0.1, 0.0])) + 5
    sigma = np.linalg.svd((h - h.mean(0)).double().numpy(), compute_uv=False)
    p = sigma[:5] / sigma[:5].sum()
    assert measure(h)["effective_rank"] == pytest.approx(math.exp(-(p * np.log(p)).sum()), rel=1e-3)


def test_other_laws_are_rejected_and_standardizing_forgives_scale_alone():
    wide, cubes = 3 * normal(512, 4), normal(512, 4) ** 3
    assert measure(wide)["gaussianity_p"] < 0.01
    assert measure(wide, standardize=True)["gaussianity_p"] > 0.01
    assert measure(cubes, standardize=True)["gaussianity_p"] < 0.01


def test_rows_with_nan_are_counted_and_left_out():
    h = normal(400, 5)
    broken = h.clone()
    broken[::4, 2] = math.nan
    row, clean = measure(broken), measure(h[torch.arange(400) % 4 != 0])
    assert row["nonfinite"] == pytest.approx(0.25)
    assert {k: row[k] for k in NAMES[:3]} == {k: clean[k] for k in NAMES[:3]}
    assert measure(torch.full((8, 3), math.inf))["nonfinite"] == 1


H = torch.arange(12.0).reshape(4, 3)


@dataclass
class Output:
    loss: torch.Tensor
    features: torch.Tensor


Pair = namedtuple("Pair", ["loss", "features"])


@pytest.mark.parametrize(
    "output",
    [
        H,
        (torch.tensor(1.0), H),
        {"loss": torch.tensor(1.0), "h": H, "labels": torch.ones(4, 2, dtype=torch.long)},
        Output(torch.tensor(1.0), H),
        Pair(torch.tensor(1.0), H),
        (H, (torch.ones(4, 2), torch.ones(4, 2))),
    ],
)
def test_the_only_tensor_that_fits_is_found(output):
    assert torch.equal(embeddings_in(output), H)


@pytest.mark.parametrize(
    ("output", "choice"),
    [
        (torch.ones(4), None),
        (torch.ones(4, 3, dtype=torch.long), None),
        (torch.ones(1, 2, 3, 4, 5), None),
        (None, None),
        (H, "features"),
        ({"h": H}, "g"),
        ((H,), lambda output: "no tensor"),
    ],
)
def test_what_holds_no_embeddings_is_refused_in_words(output, choice):
    with pytest.raises(ValueError, match="output must be"):
        embeddings_in(output, choice)


def imported(name):
    """A library that is there and can be imported: some import a torchvision that does not fit its torch."""
    try:
        return pytest.importorskip(name, reason=f"{name} is not installed")
    except RuntimeError as error:
        pytest.skip(f"{name} cannot be imported here: {error}")


def data(n=96):
    return torch.randn(n, 5, generator=generator(0, "data"))


@pytest.fixture
def lightning():
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            return __import__(name, fromlist=["Trainer"])
        except (ImportError, RuntimeError):
            continue
    return pytest.skip("lightning is not installed, or does not fit what it imports")


def lightning_module(library):
    class Module(library.LightningModule):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(5, 4)

        def training_step(self, batch, index):
            return self.encoder(batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Module()


def test_a_lightning_loop_is_watched_by_its_optimizer_steps(lightning, tmp_path):
    callback = lightning_callback(at="encoder", every=4, show=False)
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        callbacks=[callback],
        accumulate_grad_batches=2,
        logger=lightning.loggers.CSVLogger(tmp_path),
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    module = lightning_module(lightning)
    trainer.fit(module, torch.utils.data.DataLoader(data(), batch_size=8))
    assert trainer.global_step == 12
    assert [row["step"] for row in callback.watch.history] == [1, 4, 8, 12]
    assert callback.watch.history[-1]["effective_rank"] > 1
    assert not module.encoder._forward_hooks
    written = next(tmp_path.rglob("metrics.csv")).read_text()
    assert "watch/effective_rank" in written


def test_a_transformers_loop_is_watched_and_its_state_keeps_the_rows(tmp_path):
    transformers = imported("transformers")
    imported("accelerate")
    try:
        trainer_of = transformers.Trainer
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"its Trainer cannot be imported here: {error}")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(5, 4)

        def forward(self, x, labels=None):
            h = self.encoder(x)
            return {"loss": h.square().mean(), "h": h}

    callback = transformers_callback(every=3, output="h", show=False)
    rows = [{"x": row} for row in data()]
    arguments = transformers.TrainingArguments(
        str(tmp_path),
        per_device_train_batch_size=16,
        max_steps=6,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = trainer_of(Model(), arguments, train_dataset=rows, callbacks=[callback])
    trainer.train()
    assert [row["step"] for row in callback.watch.history] == [1, 3, 6]
    kept = [row for row in trainer.state.log_history if "watch/effective_rank" in row]
    assert [row["step"] for row in kept] == [1, 3, 6]
    assert not trainer.model._forward_hooks
