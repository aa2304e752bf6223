"""Objectives of one's own train through `fit`: with a queue, two models that teach each other.

They are toys, of the shapes that a contract for objectives must hold: modules that the objective owns,
a moving-average teacher, buffers that are written after a step, several learners.
"""

import copy
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import isojepa as ij
from isojepa import testing
from isojepa.encoders.layers import follow
from isojepa.encoders.model import module_of
from isojepa.objectives import Loss, Objective, Whitening
from isojepa.seeds import borrowed
from isojepa.training import RunWarning
from isojepa.training.checkpoints import load_tensors
from isojepa.training.loop import fit
from tests.training.crash import assert_same_bits, weights, whole_and_resumed

LONG = {"steps": 150, "batch": 64, "batch_start": None, "eval_every": 30, "eval_samples": 128}
SHORT = {**LONG, "steps": 16, "batch": 16, "eval_every": 5, "learning_rate": 5e-3}


class Queue(Objective):
    """InfoNCE against a queue of past embeddings of a slowly moving copy (He et al. 2020, "MoCo")."""

    def __init__(self, model: nn.Module, size: int = 48) -> None:
        super().__init__()
        self.key = copy.deepcopy(model).requires_grad_(False)
        self.register_buffer("queue", functional.normalize(torch.randn(size, 2), dim=1))
        self.register_buffer("written", torch.zeros((), dtype=torch.int64))
        self.fresh: list[Tensor] = []

    def forward(self, models, batch, generator) -> Loss:
        query = functional.normalize(models["encoder"].embed(batch.views[0]), dim=1)
        with torch.no_grad():
            key = functional.normalize(self.key(batch.views[1]), dim=1)
        self.fresh = [key]
        positive, negative = (query * key).sum(1, keepdim=True), query @ self.queue.T
        logits = torch.cat((positive, negative), 1) / 0.2
        loss = functional.cross_entropy(logits, torch.zeros(len(query), dtype=torch.int64))
        return Loss(loss, {"positive": positive.mean().detach()})

    def after_step(self, models, step) -> None:
        rows = torch.cat(self.fresh)
        self.queue.copy_(torch.cat((rows, self.queue))[: len(self.queue)])
        self.written += len(rows)
        follow(self.key, module_of(models["encoder"]), decay=0.9)


class Mutual(Objective):
    """Each of two models predicts what the other makes of the other view."""

    def __init__(self) -> None:
        super().__init__()
        self.spread = Whitening()

    def forward(self, models, batch, generator) -> Loss:
        h, other = models["left"].embed(batch.views[0]), models["right"].embed(batch.views[1])
        agreement = functional.mse_loss(h, other)
        spread = self.spread(torch.stack((h, other)), generator)
        return Loss(agreement + spread, {"agreement": agreement, "spread": spread})


def make(kind):
    """New models and a new objective of a kind, the same at every call."""
    with borrowed(0, "toys", kind):
        if kind == "queue":
            model = ij.encoders.MLP(2, 2, width=16, layers=3)
            return {"encoder": model}, Queue(model)
        models = {"left": ij.encoders.MLP(2, 2, 16, 3, seed=1), "right": ij.encoders.MLP(2, 2, 16, 3, seed=2)}
        return models, Mutual()


def source_of(kind):
    process = ij.data.OrnsteinUhlenbeck(2, 0.95)
    return ij.data.World(process, ij.data.Parabola())


KINDS = ["queue", "mutual"]


@pytest.mark.parametrize(
    ("kind", "term", "start", "share"),
    [("queue", "loss", math.log(49), 0.8), ("mutual", "loss", 1.0, 0.5)],
)
def test_the_loss_of_every_kind_of_objective_falls_clearly(kind, term, start, share):
    """Below what says nothing: one of 49 keys at random, constant embeddings."""
    models, objective = make(kind)
    run = fit(models, source_of(kind), objective, learning_rate=5e-3, **LONG)
    assert run.status == "done"
    assert run.metrics[-1][term] < share * start
    assert run.metrics[-1]["loss"] < 0.9 * run.metrics[0]["loss"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_objective_passes_the_public_check(kind):
    models, objective = make(kind)
    testing.check_objective(objective, models, source_of(kind).sample(16, ij.generator(0, "test")))


@pytest.mark.parametrize("stop", [1, 2, 6, 16])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_any_objective_that_crashes_ends_with_the_same_bits(tmp_path, kind, stop):
    assert_same_bits(*whole_and_resumed(lambda: make(kind), source_of(kind), tmp_path, stop, **SHORT))


@pytest.mark.parametrize("kind", KINDS)
def test_the_record_keeps_every_model_and_what_the_objective_owns(tmp_path, kind):
    models, objective = make(kind)
    begun = {name: weights(model) for name, model in models.items()}
    run = fit(models, source_of(kind), objective, record=tmp_path / "run", **SHORT)
    assert dict(run.models) == models
    for name, model in models.items():
        kept = load_tensors(tmp_path / f"run/{name}.safetensors")[0]
        assert all(torch.equal(kept[key], value) for key, value in model.state_dict().items())
        assert not torch.equal(weights(model), begun[name])
    own = tmp_path / "run/objective.safetensors"
    assert own.exists() == bool(objective.state_dict())
    fresh_models, fresh = make(kind)
    fit(fresh_models, source_of(kind), fresh, record=tmp_path / "run", **SHORT)
    assert all(torch.equal(fresh.state_dict()[key], value) for key, value in objective.state_dict().items())
    assert all(torch.equal(weights(fresh_models[name]), weights(model)) for name, model in models.items())


def test_each_of_two_models_is_evaluated_under_its_name(tmp_path):
    models, objective = make("mutual")
    run = fit(models, source_of("mutual"), objective, **SHORT)
    evaluation = ij.probes.Recovery(source_of("mutual"), SHORT["eval_samples"])
    for name, prefix in (("left", ""), ("right", "right.")):
        alone = evaluation({name: ij.encoders.as_model(models[name])}, ij.generator(0, "eval"))
        assert run.metrics[-1][f"{prefix}r2"] == alone["r2"]
    assert run.encoder is models["left"]
    assert run.r2 == run.metrics[-1]["r2"] != run.metrics[-1]["right.r2"]


def test_a_collapse_of_any_of_the_models_is_told(tmp_path):
    class Careless(Mutual):
        """Only the left one is kept from collapsing, and the right one is pulled to a point."""

        def forward(self, models, batch, generator):
            h, other = models["left"].embed(batch.views[0]), models["right"].embed(batch.views[1])
            return Loss(self.spread(h[None], generator) + other.square().mean(), {})

    models, _ = make("mutual")
    options = {**LONG, "steps": 300, "schedule": "constant"}
    with pytest.warns(RunWarning, match="the embedding of 'right' collapsed"):
        run = fit(models, source_of("mutual"), Careless(), record=tmp_path / "run", **options)
    assert run.status == "collapsed"


@pytest.mark.parametrize("name", ["values", "objective", "two words", "checkpoint"])
def test_a_name_that_cannot_name_a_model_is_refused(name):
    models, objective = make("mutual")
    with pytest.raises(ValueError, match=f"a model's name must .*got '{name}'"):
        fit({**models, name: models["left"]}, source_of("mutual"), objective, **SHORT)
