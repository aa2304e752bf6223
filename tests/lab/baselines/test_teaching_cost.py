"""What teaching saves: operations as counted by hand, thresholds as rows say, a student that gets there."""

import copy
import math
import warnings

import pytest
import torch
from torch import nn

from isojepa.data import OrnsteinUhlenbeck, Paired, World
from isojepa.encoders.mlp import MLP
from isojepa.objectives import LeJEPA
from isojepa.probes import Recovery
from isojepa.registry import Context, build_spec
from isojepa.training import Recipe, fit
from isojepa_lab.baselines import (
    MutualLearning,
    RidgeCoupling,
    StepCost,
    TeacherStudent,
    cost_to_threshold,
    step_cost,
)

PROCESS = OrnsteinUhlenbeck(dim=2, rho=0.9)


def paired(first=3, second=4):
    one, two = (torch.randn(2, dim, generator=torch.Generator().manual_seed(dim)) for dim in (first, second))
    return Paired(World(PROCESS, lambda z: z @ one), World(PROCESS, lambda z: z @ two))


def test_a_step_costs_what_counting_by_hand_gives():
    """Two views of 32 states; a layer costs 2 * rows * in * out forwards, and once more for its weights."""
    source, n = paired(), 2 * 32
    student, teacher = nn.Linear(3, 5, bias=False), nn.Linear(4, 6, bias=False)
    scratch = step_cost(student, source.first, LeJEPA(), batch=32)
    loss = scratch.step - 2 * (2 * n * 3 * 5)
    assert loss >= 0
    taught = step_cost(
        student,
        source,
        TeacherStudent(LeJEPA(), teacher, RidgeCoupling(5, 6), pairing=source.pairing),
        batch=32,
    )
    teaching = 2 * n * 4 * 6  # the teacher forwards, nothing backwards
    mapped = 2 * (2 * n * 5 * 6)  # W z forwards, and backwards to z
    assert taught.step == scratch.step + teaching + mapped
    assert (
        taught.solution == 2 * n * 11 * 11 + 5**3 // 3 + 2 * 5**2 * 6
    )  # products, Cholesky, two substitutions
    assert scratch.solution == 0


def test_mutual_teaching_costs_both_models():
    source = paired()
    models = {"left": nn.Linear(3, 5), "right": nn.Linear(4, 6)}
    apart = step_cost(
        models, source, MutualLearning(LeJEPA(), RidgeCoupling(5, 6), 0.0, source.pairing), batch=32
    )
    alone = [
        step_cost(one, part, LeJEPA(), batch=32).step
        for one, part in zip(models.values(), (source.first, source.second), strict=True)
    ]
    assert apart.step == sum(alone)
    both = step_cost(
        models, source, MutualLearning(LeJEPA(), RidgeCoupling(5, 6, every=7), 1.0, source.pairing), batch=32
    )
    assert both.step > apart.step
    assert both.every == 7


def test_counting_changes_nothing():
    source = paired()
    student, teacher = nn.Linear(3, 5), nn.Linear(4, 6)
    objective = TeacherStudent(LeJEPA(), teacher, RidgeCoupling(5, 6), pairing=source.pairing)
    before = {
        name: value.clone() for name, value in {**student.state_dict(), **objective.state_dict()}.items()
    }
    step_cost(student, source, objective, batch=16)
    after = {**student.state_dict(), **objective.state_dict()}
    assert all(torch.equal(value, before[name]) for name, value in after.items())
    assert student.weight.grad is None


def test_the_first_epoch_at_the_threshold_counts():
    rows = [{"step": step, "probe": value} for step, value in ((5, 0.2), (10, 0.86), (15, 0.7), (20, 0.9))]
    scratch = cost_to_threshold("scratch", rows, StepCost(10.0), 0.88, epoch=5)
    taught = cost_to_threshold("taught", rows, StepCost(20.0, 5.0, 5), 0.85, epoch=5, base=scratch)
    assert (scratch.epochs, taught.epochs) == (4, 2)
    assert scratch.flops == 200
    assert taught.flops == 200 + 10
    assert taught.relative == 210 / 200
    assert taught.best == 0.9


def test_what_never_passed_has_no_ratio():
    rows = [{"step": 5, "probe": 0.2}]
    never = cost_to_threshold("scratch", rows, StepCost(10.0), 0.5)
    assert never.epochs is None
    assert math.isnan(never.relative)
    assert math.isnan(
        cost_to_threshold("other", [{"step": 5, "probe": 0.9}], StepCost(1.0), 0.5, base=never).relative
    )
    with pytest.raises(ValueError, match="must have 'knn', got probe, step"):
        cost_to_threshold("scratch", rows, StepCost(1.0), 0.5, "knn")


@pytest.mark.slow
def test_a_taught_student_gets_there_in_fewer_steps_and_operations():
    """Two observers of one process, each through a mixing of its own; R^2 of the latents is the probe."""
    observers = build_spec("environment", "latents", dim=2, mixings=("sinusoid", "parabola")).build(Context())
    recipe = Recipe(steps=600, batch=256, batch_start=None, eval_every=25, learning_rate=1e-2)
    teacher, student = (MLP(2, 2, 64, 6, seed=seed) for seed in (7, 1))
    fit(teacher, observers.source(1), LeJEPA(0.01), recipe=recipe, seed=3, evaluations=())
    source, measured = observers.paired(0, 1), (Recovery(observers.source(0), 2000),)
    taught = TeacherStudent(LeJEPA(0.01), teacher, RidgeCoupling(2, 2), pairing=source.pairing)
    rows = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a threshold is passed before a run ends, well or not
        for name, data, objective in (
            ("scratch", observers.source(0), LeJEPA(0.01)),
            ("taught", source, taught),
        ):
            cost = step_cost(student, data, objective, batch=recipe.batch)
            model = copy.deepcopy(student)
            run = fit(model, data, objective, recipe=recipe, evaluations=measured, seed=0, progress=False)
            rows[name] = cost_to_threshold(name, run.metrics, cost, 0.95, "r2", recipe.eval_every)
    scratch, faster = rows.values()
    assert faster.epochs is not None
    assert scratch.epochs is None or faster.epochs < scratch.epochs
    assert faster.flops < scratch.flops
