"""The recipe of a training run: how long, how fast, how often it is looked at. The defaults live here."""

from dataclasses import dataclass

from isojepa.names import choose
from isojepa.training.schedules import SCHEDULES


@dataclass(frozen=True)
class Recipe:
    """How an encoder is trained."""

    steps: int = 4000
    """Number of optimiser steps."""
    batch: int = 256
    """Pairs per step, fresh at each."""
    learning_rate: float = 3e-3
    """Peak learning rate of AdamW."""
    schedule: str = "constant-cosine"
    """Learning-rate schedule: constant-cosine, warmup-cosine or constant."""
    warmup: float = 0.05
    """Share of the steps that warmup-cosine spends rising."""
    weight_decay: float = 0.0
    """AdamW's weight decay."""
    beta2: float = 0.999
    """AdamW's decay of the squared-gradient average."""
    clip: float | None = 1.0
    """Largest gradient norm; none for no clipping."""
    eval_every: int = 200
    """Steps between held-out evaluations."""
    eval_samples: int = 4096
    """Held-out pairs of an evaluation."""
    checkpoint_seconds: float = 10.0
    """Time between two checkpoints."""
    accelerator: str = "auto"
    """Device, as lightning-fabric names it: auto, cpu, gpu, mps, ..."""

    def checked(self) -> "Recipe":
        """Return the recipe, or say what is wrong with it.

        Not in the constructor, so that the command line tells it like every other error.

        Raises:
            ValueError: a value is out of range.
        """
        for name, least in {"steps": 1, "batch": 2, "eval_every": 1, "eval_samples": 8}.items():
            value = getattr(self, name)
            if int(value) != value or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, got {value}")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate}")
        for name in ("warmup", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)}")
        for name in ("weight_decay", "checkpoint_seconds"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be positive or none, got {self.clip}")
        choose("schedule", self.schedule, SCHEDULES)
        return self


DEFAULT = Recipe()
