"""Recipe of training: its settings, learning-rate schedules, parameter groups and averaged weights.

**Schedules.** The factor on the peak learning rate is a pure function of the step:

    constant-cosine   1 for the first half, then half a cosine down to 0
    warmup-cosine     linear over the first `warmup` fraction of steps, then half a cosine down to 0
    constant          1

**Parameter groups.** Weight decay pulls weights towards zero. That suits matrices, whose scale a later norm
often undoes, and not biases or the scales of norms, which most published recipes exclude. Excluded here are
parameters of at most one dimension, biases by name, all parameters of torch's norms, and those that a module
lists in `no_weight_decay()`, as the models of timm do. `learning_rates()` of a module returns factors on the
learning rate by parameter name, as fine-tuning needs.

**Averaged weights.** After each step, with decay d,

    average <- d * average + (1 - d) * weights

and buffers, such as the running statistics of a norm, are copied. With warm-up the decay of update t = 0,
1, ... is min(d, (1 + t) / (10 + t)), so the first weights are discounted soon. torch's `AveragedModel`
keeps a deep copy of the module and wraps it; here the average is a set of named tensors, which a checkpoint
stores directly and which any module with these names can take. Averages have the types of the weights: in
half precision, updates below the last digit are lost.
"""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from isojepa.encoders.layers import (
    buffers_of,
    check_decay,
    clones,
    copy,
    move,
    parameters_of,
    tensors_of,
)
from isojepa.validation import choose, unknown, validate_fields, validate_types

Schedule = Callable[[int, int, float], float]


def constant_cosine(step: int, steps: int, warmup: float) -> float:
    """1 for the first half of the run, then half a cosine down to 0."""
    return _cosine(max(0.0, 2 * step / steps - 1))


def warmup_cosine(step: int, steps: int, warmup: float) -> float:
    """A straight line up over the first `warmup` share of the run, then half a cosine down to 0."""
    rising = warmup * steps
    if step < rising:
        return (step + 1) / (math.floor(rising) + 1)
    return _cosine((step - rising) / (steps - rising))


def constant(step: int, steps: int, warmup: float) -> float:
    """Always 1."""
    return 1.0


SCHEDULES: dict[str, Schedule] = {
    "constant-cosine": constant_cosine,
    "warmup-cosine": warmup_cosine,
    "constant": constant,
}


def _cosine(done: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * done))


_NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)  # _NormBase: batch and instance norms


@runtime_checkable
class NamesUndecayed(Protocol):
    """A module that exempts some of its parameters from weight decay."""

    def no_weight_decay(self) -> Iterable[str]:
        """Names as in `named_parameters`; unknown ones are ignored."""
        ...


@runtime_checkable
class NamesRates(Protocol):
    """A module some of whose parameters learn at another rate."""

    def learning_rates(self) -> Mapping[str, float]:
        """Factors on the learning rate by names as in `named_parameters`; 1 for all others."""
        ...


def decayed_groups(modules: nn.Module | Iterable[nn.Module], weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups for an optimizer: first those with weight decay, then those without; fast before slow.

    A tied parameter appears once, and is not decayed if one of its names is exempt. Both groups keep
    the order of `parameters()`; frozen parameters and empty groups are left out. Without weight decay there
    is one group with all parameters, frozen ones too, so that their indices in the optimizer's state do not
    depend on what is frozen. Modules with their own rates have such groups for each rate; the factor is the
    group's "rate".

    Args:
        modules: one module, or several that are trained together.
        weight_decay: of the first group.

    Example:
        >>> [len(group["params"]) for group in decayed_groups(nn.Linear(2, 3), 0.1)]
        [1, 1]
        >>> [len(group["params"]) for group in decayed_groups(nn.Linear(2, 3), 0.0)]
        [2]
    """
    if not weight_decay >= 0:
        raise ValueError(f"weight_decay must not be negative, got {weight_decay}")
    trained = [modules] if isinstance(modules, nn.Module) else list(modules)
    parameters = list(dict.fromkeys(p for module in trained for p in module.parameters()))
    if weight_decay == 0:
        return _by_rate([{"params": parameters, "weight_decay": 0.0}], trained)
    spared = {parameter for module in trained for parameter in _spared(module)}
    learned = [parameter for parameter in parameters if parameter.requires_grad]
    groups = [
        {"params": [p for p in learned if p not in spared], "weight_decay": float(weight_decay)},
        {"params": [p for p in learned if p in spared], "weight_decay": 0.0},
    ]
    return _by_rate([group for group in groups if group["params"]], trained)


def _by_rate(groups: list[dict[str, Any]], trained: list[nn.Module]) -> list[dict[str, Any]]:
    """Split each group by learning rate."""
    rates: dict[nn.Parameter, float] = {}
    for module in trained:
        for part in module.modules():
            if isinstance(part, NamesRates):
                named = dict(part.named_parameters(remove_duplicate=False))
                rates |= {named[name]: float(rate) for name, rate in part.learning_rates().items()}
    return [
        {**group, "params": [p for p in group["params"] if rates.get(p, 1.0) == rate], "rate": rate}
        for group in groups
        for rate in sorted({rates.get(p, 1.0) for p in group["params"]} or {1.0}, reverse=True)
    ]


def _spared(module: nn.Module) -> Iterator[nn.Parameter]:
    """Parameters of a module tree that are exempt from weight decay, possibly with repeats."""
    for part in module.modules():
        if isinstance(part, NamesUndecayed):
            named = dict(part.named_parameters(remove_duplicate=False))
            yield from (named[name] for name in part.no_weight_decay() if name in named)
        for name, parameter in part.named_parameters(recurse=False, remove_duplicate=False):
            if parameter.ndim <= 1 or _is_bias(name) or isinstance(part, _NORMS):
                yield parameter


def _is_bias(name: str) -> bool:
    """Whether a parameter is named as a bias: bias, in_proj_bias, bias_k."""
    return "bias" in (name.split("_")[0], name.split("_")[-1])


class WeightAverage:
    """Exponential moving average of a module's weights, started from its current weights.

    Args:
        module: the module to average, on its training device.
        decay: EMA decay, in [0, 1].
        warmup: increase the decay from 0.1.

    Attributes:
        updates: number of updates.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> average = WeightAverage(layer, decay=0.5)
        >>> with torch.no_grad():
        ...     _ = layer.bias.add_(1.0)
        >>> average.update()
        >>> with average.apply():
        ...     averaged = layer.bias.item()
        >>> round(layer.bias.item() - averaged, 3)
        0.5
    """

    @validate_types
    def __init__(self, module: nn.Module, decay: float, warmup: bool = False) -> None:
        self.module, self.decay, self.warmup = module, check_decay(decay), warmup
        self.updates = 0
        self._parameters = clones(parameters_of(module))
        self._buffers = clones(buffers_of(module))

    @torch.no_grad()
    def update(self) -> None:
        """Update with the module's current weights; call once after each optimizer step."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates)) if self.warmup else self.decay
        move(self._parameters, parameters_of(self.module), decay)
        copy(self._buffers, buffers_of(self.module))
        self.updates += 1

    @contextlib.contextmanager
    def apply(self) -> Iterator[None]:
        """Context manager: the module has the averaged weights inside, and its own afterwards.

        Changes to its weights and buffers inside are lost.
        """
        live = tensors_of(self.module)
        before = clones(live)
        with torch.no_grad():
            copy(live, self._average())
        try:
            yield
        finally:
            with torch.no_grad():
                copy(live, before)

    @torch.no_grad()
    def keep(self) -> None:
        """Copy the averaged weights into the module."""
        copy(tensors_of(self.module), self._average())

    def state_dict(self) -> dict[str, Tensor]:
        """State for a checkpoint: the number of updates, and each averaged tensor under "average/"."""
        average = {f"average/{name}": tensor for name, tensor in self._average().items()}
        return {"updates": torch.tensor(self.updates), **average}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state of a checkpoint.

        Raises:
            ValueError: the tensors are not those of this module.
        """
        if "updates" not in state:
            raise ValueError(f"the state of an average must have 'updates', got {sorted(state)[:5]}")
        copy(self._average(), {k.removeprefix("average/"): v for k, v in state.items() if k != "updates"})
        self.updates = int(state["updates"])

    def _average(self) -> dict[str, Tensor]:
        return self._parameters | self._buffers


PRECISIONS = ("float32", "bfloat16", "float16")
EXECUTION = ("accelerator", "devices", "workers", "compile", "checkpoint_seconds")
"""Settings that may differ when a run resumes on another machine; they are not part of its id."""


@dataclass(frozen=True)
class Recipe:
    """How an encoder is trained."""

    steps: int = 2000
    """Number of optimizer steps."""
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
        """Return the recipe after validation.

        Not in the constructor, so that the command line reports it like every other error.

        Raises:
            ValueError: a value is out of range.
        """
        validate_fields(self)
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
    """Check that keywords are settings of a recipe.

    Raises:
        TypeError: one is not; the message names the nearest.
    """
    names = [item.name for item in dataclasses.fields(Recipe)]
    for name in settings:
        if name in SYNONYMS:
            raise TypeError(f"fit takes no setting {name!r}; did you mean {SYNONYMS[name]!r}?")
        if name not in names:
            raise TypeError(unknown("a setting of fit", name, names))


class Settings(TypedDict, total=False):
    """The recipe's settings as keywords of `fit`; see `Recipe` for their meaning."""

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
