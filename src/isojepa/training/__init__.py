"""Training: the only training loop, its schedules, checkpoints, records and loggers."""

from isojepa.training.identity import record_id
from isojepa.training.loggers import TensorBoard, WeightsAndBiases
from isojepa.training.loop import fit
from isojepa.training.recipe import Recipe
from isojepa.training.records import Record
from isojepa.training.run import Run, RunWarning
from isojepa.training.schedules import SCHEDULES

__all__ = [
    "SCHEDULES",
    "Recipe",
    "Record",
    "Run",
    "RunWarning",
    "TensorBoard",
    "WeightsAndBiases",
    "fit",
    "record_id",
]
