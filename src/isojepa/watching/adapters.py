"""Watching in the loops of other libraries: a callback of Lightning's, one of Hugging Face's Trainer.

    Trainer(callbacks=[ij.watching.lightning_callback(at="encoder", every=100)])
    Trainer(..., callbacks=[ij.watching.transformers_callback(every=100)])

Both make a `Watch` of the model when training begins and close it at its end. The libraries are imported when
a callback is made, and needed for nothing else.
"""

import sys
from importlib import import_module
from typing import Any

from isojepa.watching.watcher import Watch

_LIGHTNING = ("lightning.pytorch", "pytorch_lightning")


def lightning_callback(**settings: Any) -> Any:
    """A callback of Lightning's; `callback.watch` is its watch while and after it trains.

    Rows go to the trainer's own loggers too. A LightningModule is rarely called itself: name a part by `at`.

    Args:
        settings: of `Watch`, but for model, optimizer and start.

    Raises:
        ImportError: neither lightning nor pytorch_lightning is installed.
    """
    base: Any = _lightning().Callback

    class WatchCallback(base):  # type: ignore[misc]
        """Watches the embeddings of the model that is trained."""

        def __init__(self) -> None:
            super().__init__()
            self.watch: Watch | None = None

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            def log(row: dict[str, float]) -> None:
                for logger in trainer.loggers:
                    named = {name: value for name, value in row.items() if name != "step"}
                    logger.log_metrics(named, step=int(row["step"]))

            given = {**settings, "loggers": (*settings.get("loggers", ()), log)}
            self.watch = Watch(pl_module, start=trainer.global_step, **given)

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            # batches whose gradients are accumulated make one step
            if self.watch is not None and trainer.global_step > self.watch.steps:
                self.watch.step(trainer.global_step)

        def on_train_end(self, *_: Any) -> None:
            self._close()

        def on_exception(self, *_: Any) -> None:
            self._close()

        def _close(self) -> None:
            if self.watch is not None:
                self.watch.close()

    return WatchCallback()


def transformers_callback(**settings: Any) -> Any:
    """A callback of Hugging Face's Trainer; `callback.watch` is its watch while and after it trains.

    Rows go into the trainer's `state.log_history` too, and so into trainer_state.json. For TensorBoard or W&B
    hand in `loggers`: Trainer's own reporters have no door for callbacks.

    Args:
        settings: of `Watch`, but for model, optimizer and start.

    Raises:
        ImportError: transformers is not installed.
    """
    try:
        base: Any = import_module("transformers").TrainerCallback
    except ImportError as error:
        raise ImportError("watching a Trainer needs: pip install transformers accelerate") from error

    class WatchCallback(base):  # type: ignore[misc]
        """Watches the embeddings of the model that is trained."""

        def __init__(self) -> None:
            self.watch: Watch | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            self.watch = Watch(model, start=state.global_step, **settings)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if self.watch is None:
                return
            row = self.watch.step(state.global_step)
            if row is not None:
                state.log_history.append(
                    {
                        key if key == "step" else f"{self.watch.name}/{key}": value
                        for key, value in row.items()
                    }
                )

        def on_train_end(self, *_: Any, **__: Any) -> None:
            if self.watch is not None:
                self.watch.close()

    return WatchCallback()


def _lightning() -> Any:
    """The Lightning that the program uses: it has two names, whose classes are not the same."""
    for name in (*(one for one in _LIGHTNING if one in sys.modules), *_LIGHTNING):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise ImportError("watching a Lightning loop needs: pip install lightning")
