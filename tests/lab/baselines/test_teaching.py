"""Teaching: W is ridge regression on all ranks, stands still between solutions."""

import copy
import shutil

import numpy as np
import pytest
import torch
from torch import nn

from isojepa import testing
from isojepa.config import config_from
from isojepa.data import Batch, OrnsteinUhlenbeck, Paired, World
from isojepa.data.observers import Pairing
from isojepa.encoders.model import as_model
from isojepa.objectives import LeJEPA
from isojepa.runs import load, train
from isojepa.seeds import generator
from isojepa.training import fit
from isojepa_lab.baselines import KnowledgeDistillation, MutualLearning, RidgeCoupling, TeacherStudent
from isojepa_lab.baselines.distillation import DINO
from tests.distributed import joined, run_ranks, share

CALL = generator(0, "call")


def rows(n=40, first=5, second=3, seed=0):
    source = torch.Generator().manual_seed(seed)
    z1 = torch.randn(n, first, generator=source) * 3 + 1
    return z1, z1 @ torch.randn(first, second, generator=source) + torch.randn(
        n, second, generator=source
    ) - 4


def reference(z1, z2, ridge):
    """Ridge regression of standardised columns by normal equations, and its mean squared error per column."""
    x, y = (z.double().numpy() for z in (z1, z2))
    x, y = x - x.mean(0), (y - y.mean(0)) / y.std(0)
    penalty = ridge * x.var(0).mean() * len(x)
    w = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y).T
    return w, ((y - x @ w.T) ** 2).mean()


@pytest.mark.parametrize("n", [40, 4])  # fewer rows than columns too
def test_the_coupling_is_ridge_regression(n):
    z1, z2 = rows(n)
    coupling = RidgeCoupling(5, 3, ridge=0.05)
    found = coupling(z1, z2)
    coupling.after_step(1)
    w, error = reference(z1, z2, 0.05)
    np.testing.assert_allclose(coupling.weight.numpy(), w, rtol=1e-4, atol=1e-5)
    assert found.item() == pytest.approx(error, rel=1e-4)


def test_its_gradient_is_that_of_the_error_with_the_map_held():
    z1, z2 = (z.double().requires_grad_() for z in rows())
    coupling = RidgeCoupling(5, 3, ridge=1e-9)
    coupling(z1, z2).backward()
    w, mean, deviation = coupling._next["weight"], coupling._next["mean"], coupling._next["deviation"]
    other1, other2 = (z.detach().requires_grad_() for z in (z1, z2))
    error = (((other2 - mean[5:]) / deviation - (other1 - mean[:5]) @ w.T) ** 2).mean()
    error.backward()
    torch.testing.assert_close(z1.grad, other1.grad)
    torch.testing.assert_close(z2.grad, other2.grad)

    def least(x):  # the error at its best map, differentiated through the map
        x = x - x.mean(0)
        y = ((z2 - z2.mean(0)) / z2.std(0, correction=0)).detach()
        return ((y - x @ torch.linalg.lstsq(x, y).solution) ** 2).mean()

    through = torch.autograd.grad(least(other1), other1)[0]
    torch.testing.assert_close(z1.grad, through, rtol=1e-5, atol=1e-7)


def test_the_map_stands_still_between_solutions():
    coupling = RidgeCoupling(5, 3, every=3)
    kept = []
    for step in range(7):
        coupling(*rows(seed=step))
        coupling.after_step(step + 1)
        kept.append(coupling.weight.clone())
    assert torch.equal(kept[0], kept[2])
    assert not torch.equal(kept[2], kept[3])
    assert torch.equal(kept[3], kept[5])
    assert not torch.equal(kept[5], kept[6])


def test_memory_is_regression_on_all_batches_with_falling_weights():
    coupling, parts = RidgeCoupling(5, 3, ridge=1e-9, memory=0.5), [rows(seed=seed) for seed in range(3)]
    for step, part in enumerate(parts):
        coupling(*part)
        coupling.after_step(step + 1)
    x = torch.cat([part[0] for part in parts]).double().numpy()
    y = torch.cat([part[1] for part in parts]).double().numpy()
    weight = np.repeat([0.25, 0.5, 1.0], 40)
    x = x - np.average(x, axis=0, weights=weight)
    y = y - np.average(y, axis=0, weights=weight)
    y = y / np.sqrt(np.average(y**2, axis=0, weights=weight))
    truth = np.linalg.solve((x.T * weight) @ x, (x.T * weight) @ y).T
    np.testing.assert_allclose(coupling.weight.numpy(), truth, rtol=1e-3, atol=1e-4)


def test_a_collapsed_model_has_a_map_of_zero():
    coupling = RidgeCoupling(2, 3)
    found = coupling(torch.ones(10, 2), rows(10)[1])
    assert found.item() == pytest.approx(1.0, rel=1e-5)
    assert not coupling._next["weight"].any()


def distributed(rank, world, folder):
    z1, z2 = rows(33)
    with joined(rank, world, folder):
        mine = share((20, 13), rank)
        layer, coupling = nn.Linear(5, 4, bias=False), RidgeCoupling(4, 3)
        with torch.no_grad():
            layer.weight.copy_(torch.arange(20.0).reshape(4, 5).sin())
        loss = coupling(layer(z1[mine]), z2[mine])
        loss.backward()
        torch.distributed.all_reduce(layer.weight.grad)
        return loss.detach(), layer.weight.grad / world, coupling._next["weight"]


def test_the_map_on_ranks_is_that_of_the_whole_batch(tmp_path):
    z1, z2 = rows(33)
    layer, coupling = nn.Linear(5, 4, bias=False), RidgeCoupling(4, 3)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(20.0).reshape(4, 5).sin())
    loss = coupling(layer(z1), z2)
    loss.backward()
    for found, gradient, weight in run_ranks(distributed, 2, tmp_path):
        torch.testing.assert_close(found, loss.detach(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(gradient, layer.weight.grad, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(weight, coupling._next["weight"], rtol=1e-3, atol=1e-5)


PAIRING = Pairing((2, 2), (2, 2))


def batch(n=24):
    source = torch.Generator().manual_seed(1)
    return Batch(tuple(torch.randn(n, dim, generator=source) for dim in (6, 6, 4, 4)))


def parts():
    torch.manual_seed(0)
    return nn.Linear(6, 5), nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))


def test_the_teacher_gets_no_gradient_and_stays_in_evaluation_mode():
    student, teacher = parts()
    objective = TeacherStudent(LeJEPA(), teacher, RidgeCoupling(5, 3), pairing=PAIRING).train()
    before = copy.deepcopy(teacher.state_dict())
    losses = [objective({"encoder": as_model(student)}, batch(), generator(0, "a")).total for _ in range(2)]
    losses[0].backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert all(torch.equal(value, before[name]) for name, value in teacher.state_dict().items())
    assert torch.equal(*losses)  # no dropout in the teacher
    assert student.weight.grad.abs().sum() > 0


def test_the_total_is_the_inner_loss_plus_beta_times_the_term():
    student, teacher = parts()
    objective = TeacherStudent(LeJEPA(), teacher, RidgeCoupling(5, 3), weight=2.5, pairing=PAIRING)
    found = objective({"encoder": as_model(student)}, batch(), generator(0, "a"))
    own, others = PAIRING.divide(batch())
    inner = LeJEPA()(torch.stack([student(view) for view in own.views]), generator(0, "a"))
    teacher.eval()
    z_s, z_t = (torch.cat([f(v) for v in part.views]) for f, part in ((student, own), (teacher, others)))
    _, error = reference(z_s.detach(), z_t.detach(), 1e-3)
    assert found.total.item() == pytest.approx(inner.total.item() + 2.5 * error, rel=1e-4)


def test_imitation_is_the_divergence_of_similarities():
    student, teacher = parts()
    objective = KnowledgeDistillation(LeJEPA(), teacher, temperature=0.3, pairing=PAIRING)
    found = objective({"encoder": as_model(student)}, batch(), generator(0, "a")).terms["distillation"].item()
    own, others = PAIRING.divide(batch())
    teacher.eval()
    slow = []
    for view, other in zip(own.views, others.views, strict=True):
        p, q = (_similar(f(v).detach().double().numpy(), 0.3) for f, v in ((teacher, other), (student, view)))
        slow += [sum(a * np.log(a / b) for a, b in zip(p[i], q[i], strict=True)) for i in range(len(p))]
    assert found == pytest.approx(np.mean(slow), rel=1e-4)


def _similar(z, temperature):
    table, z = [], (z - z.mean(0)) / z.std(0)
    for i in range(len(z)):
        apart = np.array([((z[i] - z[j]) ** 2).sum() for j in range(len(z)) if j != i])
        weights = np.exp(-apart / (2 * z.shape[1] * temperature))
        table.append(weights / weights.sum())
    return table


def test_imitation_of_a_head_is_hintons():
    student, teacher = parts()
    head = nn.Linear(3, 7)
    objective = KnowledgeDistillation(LeJEPA(), teacher, temperature=4.0, head=head, dim=5, pairing=PAIRING)
    found = objective({"encoder": as_model(student)}, batch(), generator(0, "a"))
    _, others = PAIRING.divide(batch())
    p = torch.softmax(head(torch.cat([teacher.eval()(view) for view in others.views])) / 4, 1)
    truth = 16 * (p * (p.log() + np.log(7))).sum(1).mean()  # the student's head begins with all classes alike
    assert found.terms["distillation"].item() == pytest.approx(truth.item(), rel=1e-4)
    assert head.weight.requires_grad is False
    with pytest.raises(ValueError, match="head and dim go together"):
        KnowledgeDistillation(LeJEPA(), teacher, head=head)


def test_both_models_learn_in_mutual_teaching_and_apart_without_weight():
    first, second = nn.Linear(6, 5), nn.Linear(4, 3)
    models = {"left": as_model(first), "right": as_model(second)}
    for weight in (0.0, 2.0):
        objective = MutualLearning(LeJEPA(), RidgeCoupling(5, 3), weight=weight, pairing=PAIRING)
        found = objective(models, batch(), generator(0, "a"))
        stream = generator(0, "a")
        apart = [
            LeJEPA()(torch.stack([f(v) for v in part.views]), stream).total
            for f, part in zip((first, second), PAIRING.divide(batch()), strict=True)
        ]
        total = sum(apart) + weight * found.terms.get("cross", 0.0)
        assert found.total.item() == pytest.approx(total.item(), rel=1e-5)
    gradients = torch.autograd.grad(found.terms["cross"], (first.weight, second.weight))
    assert all(gradient.abs().sum() > 0 for gradient in gradients)


def test_mutual_teaching_takes_a_partner_of_its_own():
    objective = MutualLearning(LeJEPA(), RidgeCoupling(5, 3), pairing=PAIRING, partner=nn.Linear(4, 3))
    found = objective({"encoder": as_model(nn.Linear(6, 5))}, batch(), CALL)
    assert "partner.alignment" in found.terms
    with pytest.raises(ValueError, match="two models"):
        MutualLearning(LeJEPA(), RidgeCoupling(5, 3), pairing=PAIRING)(
            {"encoder": as_model(nn.Linear(6, 5))}, batch(), CALL
        )


@pytest.mark.parametrize("kind", ["taught", "imitated", "mutual", "around dino"])
def test_each_keeps_the_contract_of_objectives(kind):
    student, teacher = parts()
    made = {
        "taught": lambda: TeacherStudent(LeJEPA(), teacher, RidgeCoupling(5, 3, memory=0.9), pairing=PAIRING),
        "imitated": lambda: KnowledgeDistillation(LeJEPA(), teacher, pairing=PAIRING),
        "mutual": lambda: MutualLearning(LeJEPA(), RidgeCoupling(5, 3), pairing=PAIRING),
        "around dino": lambda: TeacherStudent(
            DINO(5, prototypes=8), teacher, RidgeCoupling(5, 3), pairing=PAIRING
        ),
    }[kind]()
    models = {"left": student, "right": nn.Linear(4, 3)} if kind == "mutual" else student
    if kind == "around dino":
        made.start({"encoder": as_model(student)})
    testing.check_objective(made, models, batch())


def worlds():
    process = OrnsteinUhlenbeck(dim=2, rho=0.9)
    wide = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
    return Paired(
        World(process, lambda z: torch.cat((z, z**3), 1)[:, :3]), World(process, lambda z: z @ wide)
    )


SMALL = {"steps": 6, "batch": 32, "batch_start": None, "eval_every": 3, "eval_samples": 64}


@pytest.mark.parametrize("every", [1, 4])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tmp_path, every):
    """Observers of different shapes, through the one loop; W between two solutions is in the checkpoint."""
    source = worlds()

    def made():
        torch.manual_seed(0)
        student, teacher = nn.Linear(3, 2), nn.Linear(4, 3)
        return student, TeacherStudent(
            LeJEPA(), teacher, RidgeCoupling(2, 3, every=every, memory=0.5), pairing=source.pairing
        )

    student, objective = made()
    whole = fit(student, source, objective, **SMALL, checkpoint_seconds=0)

    class Stop:
        def log(self, row):
            raise KeyboardInterrupt

        def close(self):
            pass

    student, objective = made()
    with pytest.raises(KeyboardInterrupt):
        fit(
            student, source, objective, **SMALL, checkpoint_seconds=0, record=tmp_path / "r", loggers=[Stop()]
        )
    student, objective = made()
    again = fit(student, source, objective, **SMALL, checkpoint_seconds=0, record=tmp_path / "r")
    assert torch.equal(again.encoder.weight, whole.encoder.weight)
    assert again.metrics[-1]["teaching"] == whole.metrics[-1]["teaching"]


BAD = {
    "first_dim must be": lambda: RidgeCoupling(0, 3),
    "ridge must be positive": lambda: RidgeCoupling(2, 3, ridge=0.0),
    "memory must lie": lambda: RidgeCoupling(2, 3, memory=1.0),
    "every must be": lambda: RidgeCoupling(2, 3, every=0),
    "weight must be at least 0": lambda: TeacherStudent(
        LeJEPA(), nn.Linear(2, 2), RidgeCoupling(2, 2), weight=-1.0
    ),
    "temperature must be positive": lambda: KnowledgeDistillation(LeJEPA(), nn.Linear(2, 2), temperature=0.0),
    "second must be": lambda: RidgeCoupling(5, 4)(*rows()),
}


@pytest.mark.parametrize("message", BAD)
def test_what_cannot_be_is_told(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()


CONFIG = {
    "world": {"name": "together", "environment": "latents", "dim": 2},
    "encoder": {"name": "mlp", "width": 8, "layers": 2},
    "training": {"steps": 4, "batch": 32, "batch_start": None, "eval_every": 2, "eval_samples": 64},
}


@pytest.mark.parametrize("name", ["taught", "imitated", "mutual"])
def test_each_is_named_in_a_config_and_trained_from_it(tmp_path, name):
    teacher = train(config_from({**CONFIG, "objective": "lejepa"}), tmp_path)
    section = {"name": name, "inner": "vicreg"}
    section |= {"partner": "mlp", "width": 6} if name == "mutual" else {"teacher": str(teacher.record.path)}
    config = config_from({**CONFIG, "objective": section})
    testing.check_spec(config.objective)
    run = train(config, tmp_path)
    assert run.status == "done"
    term = {"taught": "teaching", "imitated": "distillation", "mutual": "cross"}[name]
    assert np.isfinite(run.metrics[-1][term])
    shutil.rmtree(teacher.record.path)  # what was learned needs no teacher any more
    assert load(run.record.path)(torch.zeros(3, 2)).shape == (3, 2)


def test_a_teacher_that_is_not_there_is_told(tmp_path):
    config = config_from({**CONFIG, "objective": {"name": "taught", "teacher": str(tmp_path / "none")}})
    with pytest.raises(ValueError, match="none"):
        train(config, tmp_path)
    with pytest.raises(ValueError, match="must be named"):
        train(config_from({**CONFIG, "objective": "taught"}), tmp_path)
