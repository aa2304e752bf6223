"""The recipe of a training run: how long, how fast, how often it is looked at. The defaults live here."""

from dataclasses import dataclass

from isojepa.names import choose
from isojepa.training.schedules import SCHEDULES


@dataclass(frozen=True)
class Recipe:
    """How an encoder is trained."""

    steps: int = 2000
    """Number of optimiser steps."""
    batch: int = 2048
    """Pairs per step, fresh at each; at the last step if it grows."""
    batch_start: int | None = 256
    """Pairs at the first step, from which the batch grows geometrically; none for a constant one."""
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
    beta2: float = 0.95
    """AdamW's decay of the squared-gradient average."""
    clip: float | None = None
    """Largest gradient norm; none for no clipping."""
    eval_every: int = 200
    """Steps between held-out evaluations."""
    eval_samples: int = 10_000
    """Held-out pairs of an evaluation."""
    checkpoint_seconds: float = 10.0
    """Time between two checkpoints."""
    accelerator: str = "auto"
    """Device, as lightning-fabric names it: auto, cpu, gpu, mps, ..."""

    def batch_at(self, step: int) -> int:
        """Pairs of one step."""
        if self.batch_start is None:
            return self.batch
        done = step / max(1, self.steps - 1)
        start = min(self.batch_start, self.batch)
        return round(start * (self.batch / start) ** done)

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
        if self.batch_start is not None and (
            int(self.batch_start) != self.batch_start or self.batch_start < 2
        ):
            raise ValueError(f"batch_start must be none or an integer of at least 2, got {self.batch_start}")
        if self.pairs is not None and (int(self.pairs) != self.pairs or self.pairs < 2):
            raise ValueError(f"pairs must be none or an integer of at least 2, got {self.pairs}")
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
