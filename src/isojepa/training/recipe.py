"""The recipe of a training run: how long, how fast, on what. The defaults live here."""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypedDict

from isojepa.arguments import check_fields
from isojepa.names import choose, unknown
from isojepa.training.schedules import SCHEDULES

PRECISIONS = ("float32", "bfloat16", "float16")
EXECUTION = ("accelerator", "devices", "workers", "compile", "checkpoint_seconds")
"""Settings that may differ when a run goes on elsewhere: they are no part of what the run is."""


@dataclass(frozen=True)
class Recipe:
    """How an encoder is trained."""

    steps: int = 2000
    """Number of optimiser steps."""
    batch: int = 2048
    """States per step, on all ranks together; fresh at each, unless the source is a finite set."""
    batch_start: int | None = 256
    """States at the first step, from which the batch grows geometrically; none for a constant one."""
    pairs: int | None = None
    """Size of a fixed training set that batches are drawn from, all of it at most; none for fresh pairs."""
    learning_rate: float = 2e-2
    """Peak learning rate of AdamW."""
    schedule: str = "warmup-cosine"
    """Learning-rate schedule: constant-cosine, warmup-cosine or constant."""
    warmup: float = 0.025
    """Share of the steps that warmup-cosine spends rising."""
    weight_decay: float = 0.0
    """AdamW's weight decay."""
    decay_all: bool = False
    """Decay biases and norms too, which most recipes leave alone."""
    beta2: float = 0.95
    """AdamW's decay of the squared-gradient average."""
    clip: float | None = None
    """Largest gradient norm; none for no clipping."""
    average: float | None = None
    """Decay of a moving average of the weights, which is evaluated and kept in their place; none for none."""
    precision: str = "float32"
    """Precision of the models' forward pass: float32, bfloat16 or float16; weights and losses are float32."""
    accumulate: int = 1
    """Parts that a batch is cut into to save memory; the loss is the mean of theirs."""
    sync_norms: bool = False
    """Batch normalisation over the batch of all ranks instead of each rank's share."""
    eval_every: int = 200
    """Steps between held-out evaluations."""
    eval_samples: int = 10_000
    """Held-out states of an evaluation."""
    checkpoint_seconds: float = 10.0
    """Time between two checkpoints, at least: saving takes 2 % of the time at most; 0 for each step."""
    accelerator: str = "auto"
    """Device, as lightning-fabric names it: auto, cpu, gpu, mps, ..."""
    devices: int = 1
    """Number of ranks, one device or process each, that share every batch."""
    workers: int = 0
    """Processes that load a finite set, per rank; none of the result depends on it."""
    compile: bool = False
    """Compile the models with torch.compile."""

    def batch_at(self, step: int) -> int:
        """States of one step."""
        if self.batch_start is None:
            return self.batch
        done = step / max(1, self.steps - 1)
        start = min(self.batch_start, self.batch)
        return round(float(start * (self.batch / start) ** done))

    def checked(self) -> "Recipe":
        """Return the recipe, or say what is wrong with it.

        Not in the constructor, so that the command line tells it like every other error.

        Raises:
            ValueError: a value is out of range.
        """
        check_fields(self)
        whole = {"steps": 1, "batch": 2, "eval_every": 1, "eval_samples": 8, "accumulate": 1, "devices": 1}
        for name, least in {**whole, "workers": 0}.items():
            value = getattr(self, name)
            if int(value) != value or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, got {value}")
        for name in ("batch_start", "pairs"):
            value = getattr(self, name)
            if value is not None and (int(value) != value or value < 2):
                raise ValueError(f"{name} must be none or an integer of at least 2, got {value}")
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate must be positive and finite, got {self.learning_rate}")
        for name in ("warmup", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)}")
        for name in ("weight_decay", "checkpoint_seconds"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be finite and must not be negative, got {getattr(self, name)}")
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise ValueError(f"clip must be positive and finite or none, got {self.clip}")
        if self.average is not None and not 0 < self.average < 1:
            raise ValueError(f"average must lie in (0, 1) or be none, got {self.average}")
        if self.precision not in PRECISIONS:
            raise ValueError(unknown("precision", self.precision, PRECISIONS))
        choose("schedule", self.schedule, SCHEDULES)
        return self


SYNONYMS = {  # names of other libraries for settings of a recipe
    "lr": "learning_rate",
    "batch_size": "batch",
    "epochs": "steps",
    "max_steps": "steps",
    "max_epochs": "steps",
    "iterations": "steps",
    "wd": "weight_decay",
    "device": "accelerator",
    "gpus": "devices",
    "num_workers": "workers",
    "grad_clip": "clip",
    "ema": "average",
    "dtype": "precision",
}


def check_settings(settings: Iterable[str]) -> None:
    """See that keywords are settings of a recipe.

    Raises:
        TypeError: one is none; the message names the one that is meant.
    """
    names = [item.name for item in dataclasses.fields(Recipe)]
    for name in settings:
        if name in SYNONYMS:
            raise TypeError(f"fit takes no setting {name!r}; did you mean {SYNONYMS[name]!r}?")
        if name not in names:
            raise TypeError(unknown("a setting of fit", name, names))


class Settings(TypedDict, total=False):
    """The recipe's settings as keywords of `fit`; what each is, see `Recipe`."""

    steps: int
    batch: int
    batch_start: int | None
    pairs: int | None
    learning_rate: float
    schedule: str
    warmup: float
    weight_decay: float
    decay_all: bool
    beta2: float
    clip: float | None
    average: float | None
    precision: str
    accumulate: int
    sync_norms: bool
    eval_every: int
    eval_samples: int
    checkpoint_seconds: float
    accelerator: str
    devices: int
    workers: int
    compile: bool
