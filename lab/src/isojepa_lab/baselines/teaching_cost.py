"""Cost of teaching: steps and operations until a probe reaches a threshold (Social-JEPA, Table 9).

Methods are trained on the same data, with the same recipe and seed, and evaluated at every epoch. The first
epoch whose metric is at least the threshold counts. Its cost is

    flops = epochs * steps per epoch * (operations of one step)

relative to that of the first method, training from scratch. Operations are those that torch counts
(`torch.utils.flop_counter`: matrix products, convolutions, attention, two per multiply-add) in one real step,
forward and backward: passes of the teacher, both models of mutual learning and the solution of W included.
The solution, with the products of the rows for it, is also reported separately. The cost of training the
teacher is excluded, as in the paper.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from isojepa.data.source import Source
from isojepa.seeds import generator
from isojepa.training.loop import Call, Learner, named_models
from isojepa.validation import check_count
from isojepa_lab.baselines.teaching import RidgeCoupling, RidgeSolver


@dataclass(frozen=True)
class StepCost:
    """Operations of one step.

    Attributes:
        step: forward and backward, without the solution of W.
        solution: of one solution of W.
        every: steps between two solutions; 0 if there are none.
    """

    step: float
    solution: float = 0.0
    every: int = 0

    def solutions(self, steps: int) -> float:
        """Operations of the solutions in a number of steps."""
        return self.solution * math.ceil(steps / self.every) if self.every else 0.0

    def through(self, steps: int) -> float:
        """Operations of a number of steps, solutions included."""
        return self.step * steps + self.solutions(steps)


@dataclass(frozen=True)
class ThresholdCost:
    """The cost of reaching the threshold.

    Attributes:
        name: of the method.
        epochs: first epoch at the threshold; None if never.
        value: of the metric there; at the end if never.
        best: largest value of any epoch.
        flops: until then; of the whole run if never.
        solution_flops: of the solutions of W among them.
        relative: flops relative to the first method; NaN unless both reached it.
        curve: value of the metric at each epoch.
    """

    name: str
    epochs: int | None
    value: float
    best: float
    flops: float
    solution_flops: float
    relative: float
    curve: tuple[float, ...]


def step_cost(
    model: nn.Module | Mapping[str, nn.Module],
    source: Source,
    objective: Callable[..., Any],
    *,
    batch: int,
    seed: int = 0,
) -> StepCost:
    """Count the operations of one real step, forward and backward, on copies of the arguments.

    Args:
        model: a module, or several by name.
        source: of the batch.
        objective: the objective.
        batch: number of states.
        seed: of the batch.

    Example:
        >>> from isojepa.objectives import LeJEPA
        >>> from isojepa.data import OrnsteinUhlenbeck, World
        >>> world = World(OrnsteinUhlenbeck(dim=2, rho=0.9), lambda z: z)
        >>> cost = step_cost(nn.Linear(2, 2), world, LeJEPA(weight=0.0), batch=64)
        >>> cost.solution, cost.step >= 2 * 2 * (2 * 64 * 2 * 2)  # two views, forwards and backwards
        (0.0, True)
    """
    learner = Learner(copy.deepcopy(named_models(model)), copy.deepcopy(objective)).train()
    data = source.sample(check_count("batch", batch, 2), generator(seed, "data", 0))
    costs = {torch.ops.aten.linalg_cholesky_ex: _cholesky, torch.ops.aten.cholesky_solve: _substitutions}
    with FlopCounterMode(display=False, custom_mapping=costs) as counter:
        learner(Call(data, generator(seed, "slices", 0)))["loss"].backward()
    by_module = counter.get_flop_counts()
    solvers = [name for name, part in learner.named_modules() if isinstance(part, RidgeSolver)]
    solution = sum(sum(by_module.get(f"{type(learner).__name__}.{name}", {}).values()) for name in solvers)
    every = [part.every for part in learner.modules() if isinstance(part, RidgeCoupling)]
    total = float(counter.get_total_flops())
    return StepCost(total - solution, float(solution), every[0] if every and solution else 0)


def cost_to_threshold(
    name: str,
    metrics: Sequence[Mapping[str, Any]],
    cost: StepCost,
    threshold: float,
    metric: str = "probe",
    epoch: int = 1,
    base: ThresholdCost | None = None,
) -> ThresholdCost:
    """Cost of reaching a threshold, from the metrics of a run.

    Args:
        name: of the method.
        metrics: rows of a run.
        cost: of one step.
        threshold: of the metric.
        metric: name of the metric.
        epoch: steps of an epoch.
        base: the reference method; None if this is it.

    Raises:
        ValueError: no row has the metric.

    Example:
        >>> rows = [{"step": 10, "probe": 0.4}, {"step": 20, "probe": 0.9}, {"step": 30, "probe": 0.8}]
        >>> cost = cost_to_threshold("scratch", rows, StepCost(100.0), threshold=0.85, epoch=10)
        >>> cost.epochs, cost.flops, cost.relative
        (2, 2000.0, 1.0)
    """
    rows = [row for row in metrics if metric in row]
    if not rows:
        names = sorted({key for row in metrics for key in row})
        raise ValueError(f"the metrics of {name!r} must have {metric!r}, got {', '.join(names) or 'no rows'}")
    reached = next((row for row in rows if row[metric] >= threshold), None)
    last = rows[-1] if reached is None else reached
    steps = int(last["step"])
    flops = cost.through(steps)
    both = reached is not None and (base is None or base.epochs is not None)
    return ThresholdCost(
        name=name,
        epochs=None if reached is None else math.ceil(steps / epoch),
        value=float(last[metric]),
        best=max(float(row[metric]) for row in rows),
        flops=flops,
        solution_flops=cost.solutions(steps),
        relative=(1.0 if base is None else flops / base.flops) if both else math.nan,
        curve=tuple(float(row[metric]) for row in rows),
    )


def _cholesky(shape: Any, *rest: Any, **more: Any) -> int:
    """Cholesky factorization of a matrix (d, d): d^3 / 3."""
    return int(shape[-1]) ** 3 // 3


def _substitutions(right: Any, factor: Any, *rest: Any, **more: Any) -> int:
    """Two triangular systems (d, d) with k right-hand sides: 2 d^2 k."""
    return 2 * int(factor[-1]) ** 2 * int(right[-1])
