r"""What teaching saves: steps and counted operations until a probe passes a threshold (Social-JEPA, Table 9).

Methods are trained on the same data, with the same recipe and seed, and evaluated at every epoch. The first
epoch whose number is at least the threshold counts. Its cost is

    flops = epochs * steps per epoch * (operations of one step)

and is divided by that of the first method, training from scratch. Operations are those that torch counts
(`torch.utils.flop_counter`: matrix products, convolutions, attention, two for each multiplication with its
addition) on one real step, forward and backward: the teacher's passes, both models of mutual teaching and the
solution of W are in it. The solution, with the products of the rows that it is made from, also stands
apart. What training the teacher cost is not in it, as in the paper: the teacher is there already.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from isojepa.arguments import check_count
from isojepa.objectives.coupling import Coupling, Solver
from isojepa.seeds import generator
from isojepa.training.learner import Call, Learner, named_models
from isojepa.worlds.source import Source


@dataclass(frozen=True)
class StepCost:
    """Counted operations of one step.

    Attributes:
        step: forward and backward, without the solution of W.
        solution: of one solution of W.
        every: steps between two solutions; 0 if there are none.
    """

    step: float
    solution: float = 0.0
    every: int = 0

    def solutions(self, steps: int) -> float:
        """Operations of the solutions of so many steps."""
        return self.solution * math.ceil(steps / self.every) if self.every else 0.0

    def through(self, steps: int) -> float:
        """Operations of so many steps, solutions included."""
        return self.step * steps + self.solutions(steps)


@dataclass(frozen=True)
class Reach:
    """When a method passed the threshold.

    Attributes:
        name: of the method.
        epochs: the first at which it had; None if it never did.
        value: of the metric there; at the end if it never did.
        best: largest value of any epoch.
        flops: until then; of the whole run if it never did.
        solution_flops: of the solutions of W among them.
        relative: flops over those of the first method; NaN unless both passed.
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
    """Count the operations of one real step, forward and backward; nothing that is given changes.

    Args:
        model: what is trained: a module, or several by name.
        source: where the batch comes from.
        objective: what is minimised.
        batch: states of a step.
        seed: draws the batch.

    Example:
        >>> from isojepa.objectives import LeJEPA
        >>> from isojepa.worlds import OrnsteinUhlenbeck, World
        >>> world = World(OrnsteinUhlenbeck(dim=2, rho=0.9), lambda z: z)
        >>> cost = step_cost(nn.Linear(2, 2), world, LeJEPA(weight=0.0), batch=64)
        >>> cost.solution, cost.step >= 2 * 2 * (2 * 64 * 2 * 2)  # two views, forwards and backwards
        (0.0, True)
    """
    learner = Learner(copy.deepcopy(named_models(model)), copy.deepcopy(objective)).train()
    drawn = source.sample(check_count("batch", batch, 2), generator(seed, "data", 0))
    costs = {torch.ops.aten.linalg_cholesky_ex: _cholesky, torch.ops.aten.cholesky_solve: _substitutions}
    with FlopCounterMode(display=False, custom_mapping=costs) as counter:
        learner(Call(drawn, generator(seed, "slices", 0)))["loss"].backward()
    by_module = counter.get_flop_counts()
    solvers = [name for name, part in learner.named_modules() if isinstance(part, Solver)]
    solution = sum(sum(by_module.get(f"{type(learner).__name__}.{name}", {}).values()) for name in solvers)
    every = [part.every for part in learner.modules() if isinstance(part, Coupling)]
    total = float(counter.get_total_flops())
    return StepCost(total - solution, float(solution), every[0] if every and solution else 0)


def reach(
    name: str,
    metrics: Sequence[Mapping[str, Any]],
    cost: StepCost,
    threshold: float,
    metric: str = "probe",
    epoch: int = 1,
    base: Reach | None = None,
) -> Reach:
    """When a run passed a threshold, from its rows of metrics.

    Args:
        name: of the method.
        metrics: rows of a run or of a record.
        cost: of one step.
        threshold: of the metric.
        metric: the number that is looked at.
        epoch: steps of an epoch.
        base: what it is compared with; None if it is the first.

    Raises:
        ValueError: no row has the metric.

    Example:
        >>> rows = [{"step": 10, "probe": 0.4}, {"step": 20, "probe": 0.9}, {"step": 30, "probe": 0.8}]
        >>> found = reach("scratch", rows, StepCost(100.0), threshold=0.85, epoch=10)
        >>> found.epochs, found.flops, found.relative
        (2, 2000.0, 1.0)
    """
    rows = [row for row in metrics if metric in row]
    if not rows:
        known = sorted({key for row in metrics for key in row})
        raise ValueError(f"the metrics of {name!r} must have {metric!r}, got {', '.join(known) or 'no rows'}")
    passed = next((row for row in rows if row[metric] >= threshold), None)
    last = rows[-1] if passed is None else passed
    steps = int(last["step"])
    flops = cost.through(steps)
    both = passed is not None and (base is None or base.epochs is not None)
    return Reach(
        name=name,
        epochs=None if passed is None else math.ceil(steps / epoch),
        value=float(last[metric]),
        best=max(float(row[metric]) for row in rows),
        flops=flops,
        solution_flops=cost.solutions(steps),
        relative=(1.0 if base is None else flops / base.flops) if both else math.nan,
        curve=tuple(float(row[metric]) for row in rows),
    )


def _cholesky(shape: Any, *rest: Any, **more: Any) -> int:
    """Of a matrix (d, d): d^3 / 3."""
    return int(shape[-1]) ** 3 // 3


def _substitutions(right: Any, factor: Any, *rest: Any, **more: Any) -> int:
    """Two triangular systems (d, d) for k right sides: 2 d^2 k."""
    return 2 * int(factor[-1]) ** 2 * int(right[-1])
