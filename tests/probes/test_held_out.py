"""What training measures while it trains: the numbers, and when they are taken."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from torch import nn

import isojepa as ij
from isojepa import testing
from isojepa.data import Arrays, Batch, Facts
from isojepa.encoders import as_model
from isojepa.probes import Recovery, Spread, default_evaluations
from isojepa.seeds import generator
from isojepa.training.loop import fit
from tests.training.crash import assert_same_bits, whole_and_resumed

SHORT = {
    "steps": 10,
    "batch": 16,
    "batch_start": None,
    "eval_every": 5,
    "eval_samples": 64,
    "progress": False,
}


def make():
    objective = ij.objectives.LeJEPA(0.02, regularizer=ij.objectives.SIGReg(slices=8))
    return ij.encoders.MLP(2, 2, width=8, layers=2), objective


def numbers(evaluation, encoder):
    return evaluation({"encoder": as_model(encoder)}, ij.generator(0, "eval"))


@pytest.mark.parametrize("kind", [Recovery, Spread])
def test_the_evaluations_of_the_package_pass_the_public_check(spiral, kind):
    testing.check_evaluation(kind(spiral, 200), ij.encoders.MLP(2, 2, width=8, layers=2))
    two = {
        "left": ij.encoders.MLP(2, 2, width=8, layers=2),
        "right": ij.encoders.MLP(2, 3, width=4, layers=2),
    }
    testing.check_evaluation(kind(spiral, 200), two)


def test_the_latents_themselves_are_recovered_whole_and_a_constant_not_at_all():
    world = ij.data.World(ij.data.OrnsteinUhlenbeck(2, 0.9))
    turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]])
    perfect = numbers(Recovery(world, 4000), lambda x: 3 * x @ turn)
    assert perfect["r2"] == pytest.approx(1.0, abs=1e-9)
    assert perfect["mean_variance"] == pytest.approx(9.0, rel=0.1)
    nothing = numbers(Recovery(world, 4000), lambda x: torch.ones(len(x), 2))
    assert nothing["r2"] == pytest.approx(0.0, abs=0.01)
    assert nothing["smallest_variance"] == pytest.approx(0.0, abs=1e-12)


def test_the_spread_is_that_of_the_principal_directions(spiral):
    encoder = ij.encoders.MLP(2, 3, width=8, layers=2)
    row = numbers(Spread(spiral, 500), encoder)
    h = encoder(spiral.sample(500, ij.generator(0, "eval")).views[0]).detach().double().numpy()
    variances = np.linalg.eigvalsh(np.cov(h.T, bias=True))
    assert row["smallest_variance"] == pytest.approx(variances[0], rel=5e-3)
    assert row["mean_variance"] == pytest.approx(variances.mean(), rel=5e-3)


def test_embeddings_that_are_not_finite_have_no_numbers(spiral):
    row = numbers(Recovery(spiral, 100), lambda x: x / 0)
    assert all(np.isnan(value) for value in row.values())
    assert row.keys() == {"r2", "smallest_variance", "mean_variance", "dead_fraction"}


def test_a_source_without_latents_has_a_spread_and_no_recovery(spiral):
    x = np.random.default_rng(0).normal(size=(50, 2)).astype("float32")
    source = Arrays((x, x))
    with pytest.raises(ValueError, match="recovery needs a source that knows its latents"):
        Recovery(source)
    assert [one.name for one in default_evaluations(source, 10)] == ["spread"]
    assert [one.name for one in default_evaluations(spiral, 10)] == ["recovery"]


@dataclass
class Counting:
    """An evaluation that tells how often it was called and what it was given."""

    every: int | None = None
    name: str = "counting"
    primary: str = "calls"
    seen: list = field(default_factory=list)

    def __call__(self, models, generator):
        module = ij.encoders.model.module_of(models["encoder"])
        self.seen.append(
            (module.training, torch.is_grad_enabled(), torch.rand(1, generator=generator).item())
        )
        return {"calls": float(len(self.seen))}


class Size(Counting):
    """An evaluation that depends on the weights alone."""

    def __call__(self, models, generator):
        module = ij.encoders.model.module_of(models["encoder"])
        return {"size": sum(parameter.norm().item() for parameter in module.parameters())}


def test_each_evaluation_has_a_pace_of_its_own_and_all_are_taken_at_the_end(spiral):
    model, objective = make()
    losses = []

    class Spy(nn.Module):
        def forward(self, views, generator=None):
            loss = objective(views, generator)
            losses.append(loss.total.item())
            return loss

    counting = Counting(every=3)
    run = fit(model, spiral, Spy(), evaluations=[Recovery(spiral, 64), counting], **SHORT)
    assert [row["step"] for row in run.metrics] == [3, 5, 6, 9, 10]
    assert [row.get("calls") for row in run.metrics] == [1, None, 2, 3, 4]
    assert ["r2" in row for row in run.metrics] == [False, True, False, False, True]
    starts = [0, 3, 5, 6, 9]
    for start, row in zip(starts, run.metrics, strict=True):
        assert row["loss"] == pytest.approx(np.mean(losses[start : row["step"]]), rel=1e-6)


def test_an_evaluation_sees_modes_without_gradients_and_the_same_generator(spiral):
    counting = Counting()
    model, objective = make()
    fit(model, spiral, objective, evaluations=[counting], **SHORT)
    assert {(training, grads) for training, grads, _ in counting.seen} == {(False, False)}
    assert len({drawn for _, _, drawn in counting.seen}) == 1


@pytest.mark.parametrize("stop", [4, 5, 8])
def test_a_run_with_two_paces_that_crashes_ends_with_the_same_rows(spiral, tmp_path, stop):
    options = {**SHORT, "evaluations": [Recovery(spiral, 64), Size(every=3)]}
    assert_same_bits(*whole_and_resumed(make, spiral, tmp_path, stop, **options))


def test_two_evaluations_of_one_number_are_refused(spiral):
    model, objective = make()
    with pytest.raises(ValueError, match="two evaluations measure 'dead_fraction'"):
        fit(model, spiral, objective, evaluations=[Recovery(spiral, 64), Spread(spiral, 64)], **SHORT)


def test_a_run_may_measure_nothing_but_its_loss(spiral):
    model, objective = make()
    run = fit(model, spiral, objective, evaluations=[], **SHORT)
    assert run.status == "done"
    assert run.metrics
    assert {"loss", "alignment", "regularizer"} <= run.metrics[-1].keys()
    assert run.metrics[-1]["step"] == SHORT["steps"]
    assert np.isnan(run.r2)


def test_other_evaluations_make_another_run(spiral, tmp_path):
    model, objective = make()
    fit(model, spiral, objective, evaluations=[Spread(spiral, 64)], record=tmp_path / "run", **SHORT)
    model, objective = make()
    with pytest.raises(ValueError, match="config"):
        fit(model, spiral, objective, evaluations=[Recovery(spiral, 64)], record=tmp_path / "run", **SHORT)


def test_pictures_are_never_kept():
    class Pictures:
        facts = Facts(shapes=((1, 28, 28), (1, 28, 28)))
        largest = 0

        def sample(self, n, generator):
            self.largest = max(self.largest, n)
            x = torch.randn(n, 1, 28, 28, generator=generator)
            return Batch((x, x))

    source = Pictures()
    evaluation = Spread(source, 10_000)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 2))
    assert evaluation({"encoder": as_model(model)}, generator(0, "eval"))["mean_variance"] > 0
    assert source.largest < 2_000
    assert evaluation._kept is None


class Holding(Arrays):
    """A finite set that holds others out."""

    def __init__(self, views, latents, other):
        super().__init__(views, latents=latents, correlation=0.9)
        self.facts, self.other = replace(self.facts, holding=True), other

    def held_out(self):
        return self.other


def test_where_a_source_holds_states_out_evaluations_and_certificates_look_at_those():
    z = torch.randn(90, 2, generator=ij.generator(0, "test"))
    other = Arrays((z[:40], z[:40]), latents=(z[:40], z[:40]))
    source = Holding((z, z), (z, z), other)
    assert default_evaluations(source, 50)[0].source is other
    assert default_evaluations(other, 50)[0].source is other
    assert ij.certify(lambda x: x, source, checks=False).samples == 40
