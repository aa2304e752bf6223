"""The callbacks in the real libraries, where they are installed, on loops of a few steps."""

import builtins
import sys

import pytest
import torch
from torch import nn

from isojepa.seeds import generator
from isojepa.watching import lightning_callback, transformers_callback


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


def without(names, monkeypatch):
    """As if some libraries were not installed."""
    real = builtins.__import__

    def refuse(name, *rest, **more):
        if name.partition(".")[0] in names:
            raise ImportError(name)
        return real(name, *rest, **more)

    for name in [name for name in sys.modules if name.partition(".")[0] in names]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(builtins, "__import__", refuse)


def test_a_missing_library_is_named_with_its_pip_command(monkeypatch):
    without({"lightning", "pytorch_lightning", "transformers"}, monkeypatch)
    with pytest.raises(ImportError, match="pip install lightning"):
        lightning_callback()
    with pytest.raises(ImportError, match="pip install transformers"):
        transformers_callback()
