"""Latent dynamics: the loss is what its formula says, and training finds a linear world's transition."""

import numpy as np
import pytest
import torch

from isojepa import testing
from isojepa.certificates.dynamics import certify_dynamics
from isojepa.encoders import MLP
from isojepa.encoders.model import as_model
from isojepa.encoders.modes import embed
from isojepa.objectives import LatentDynamics
from isojepa.papers.own.linear_worlds import LinearWorld
from isojepa.registry import Context, make
from isojepa.seeds import generator
from isojepa.training import Recipe, fit
from isojepa.worlds import Spiral, Windows
from isojepa.worlds.batch import Batch


def batch_of(views, n=32, actions=2):
    source = generator(0, "batch")
    x = torch.randn(views, n, 3, generator=source)
    return Batch(tuple(x), actions=torch.randn(n, views - 1, actions, generator=source))


@pytest.mark.parametrize("rollout", [1, 2])
def test_the_loss_is_the_mean_error_of_predictions_fed_with_themselves(rollout):
    batch = batch_of(5)
    objective = LatentDynamics(3, 2, history=2, rollout=rollout, weight=0.25, width=8, inverse=0.5)
    torch.nn.init.normal_(objective.predictor.network.body[-1].weight, generator=generator(0, "weights"))
    loss = objective({"encoder": as_model(torch.nn.Identity())}, batch, generator(1, "slices"))
    missed = []
    for start in range(5 - 2 - rollout + 1):
        known = [batch.views[start], batch.views[start + 1]]
        for step in range(rollout):
            now = start + 1 + step
            state = torch.cat((known[-1], known[-2]), dim=1)
            known.append(objective.predictor(state, batch.actions[:, now]))
            missed.append((known[-1] - batch.views[now + 1]).square().mean())
    prediction = torch.stack(missed).mean()
    guessed = [objective.inverter(torch.cat(batch.views[t : t + 2], dim=1)) for t in range(4)]
    inverse = (torch.stack(guessed, dim=1) - batch.actions).square().mean()
    regularizer = objective.regularizer(torch.stack(batch.views), generator(1, "slices"))
    torch.testing.assert_close(loss.terms["alignment"], prediction)
    torch.testing.assert_close(loss.terms["inverse"], inverse)
    torch.testing.assert_close(loss.total, 0.25 * regularizer + 0.75 * prediction + 0.5 * inverse)


def test_it_passes_the_public_check_and_starts_linear():
    objective = LatentDynamics(4, 2)
    testing.check_objective(objective, torch.nn.Linear(3, 4), batch_of(5))
    state, action = torch.randn(6, 12), torch.randn(6, 2)
    linear = objective.predictor.linear(torch.cat((state, action), dim=1))
    torch.testing.assert_close(objective.predictor(state, action), linear)
    assert LatentDynamics(4, 2, width=0).predictor.network is None
    assert LatentDynamics(4, 2).inverter is None


def test_the_spec_builds_it_where_there_are_actions():
    spec = make("objective", "latent-dynamics", history=2, inverse=0.1)
    objective = spec.build(Context(embedding=3, actions=2))
    assert (objective.history, objective.actions) == (2, 2)
    with pytest.raises(ValueError, match="needs a source with actions"):
        spec.build(Context(embedding=3))


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (Batch(batch_of(5).views), "pairs that no action made"),
        (Batch(batch_of(5).views, actions=torch.zeros(32, 3, 2)), r"\(32, 4, 2\), got \(32, 3, 2\)"),
        (batch_of(3), "at least history \\+ rollout, 3 \\+ 1, got 3"),
    ],
)
def test_batches_without_actions_or_with_too_few_views_are_refused(batch, words):
    with pytest.raises(ValueError, match=words):
        LatentDynamics(3, 2)({"encoder": as_model(torch.nn.Identity())}, batch, generator(0, "slices"))


def test_training_in_the_one_loop_finds_the_transition_of_a_world_seen_through_a_spiral():
    turn = np.array([[np.cos(0.4), -np.sin(0.4)], [np.sin(0.4), np.cos(0.4)]])
    share = np.sqrt(0.095) * np.eye(2)  # half of what moves z is the action: z stays N(0, I)
    world = LinearWorld(0.9 * turn, share, np.zeros((2, 2)), share, 1.0, np.eye(2))
    z, a = world.paths(150, 30, generator(0, "paths"))
    x = Spiral(1.0)(torch.from_numpy(z.reshape(-1, 2))).float()
    encoder = MLP(2, 2, layers=4)
    source = Windows(x.numpy().reshape(z.shape), a, length=1)
    recipe = Recipe(steps=400, batch=256, learning_rate=1e-2)
    fit(encoder, source, LatentDynamics(2, 2, history=1, width=0), recipe=recipe, evaluations=())
    before, after = (certify_dynamics(h.numpy().reshape(z.shape), a, z=z) for h in (x, embed(encoder, x)))
    assert before.verdict == "nonlinear"
    assert after.agreement.recovery_error.high < 0.2 * before.agreement.recovery_error.low
    assert after.agreement.a.estimate < 0.05
    assert after.agreement.b.estimate < 0.15
