"""The only training loop, its recipe, checkpoints, run directories and loggers; `watch` for other loops."""

from typing import TYPE_CHECKING

from isojepa.lazy import lazy_names

if TYPE_CHECKING:
    from isojepa.training.loggers import TensorBoard, WeightsAndBiases
    from isojepa.training.loop import fit
    from isojepa.training.recipe import SCHEDULES, Recipe
    from isojepa.training.run import Run, RunWarning
    from isojepa.training.run_directory import RunDirectory, record_id
    from isojepa.training.watch import (
        Alarm,
        CollapseWarning,
        Watch,
        WatchWarning,
        lightning_callback,
        transformers_callback,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "SCHEDULES",
    "Alarm",
    "CollapseWarning",
    "Recipe",
    "Run",
    "RunDirectory",
    "RunWarning",
    "TensorBoard",
    "Watch",
    "WatchWarning",
    "WeightsAndBiases",
    "fit",
    "lightning_callback",
    "record_id",
    "transformers_callback",
]
