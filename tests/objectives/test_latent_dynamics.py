"""Latent dynamics: the loss is what its formula says, and training finds a linear world's transition."""

import numpy as np
import pytest
import torch

import isojepa as ij
from isojepa.certificates.transition import certify_dynamics
from isojepa.data import Spiral, Windows
from isojepa.data.batch import Batch
from isojepa.encoders import MLP, WorldModel
from isojepa.encoders.model import as_model
from isojepa.objectives import LatentDynamics
from isojepa.seeds import generator
from isojepa.training import Recipe, fit
from isojepa_lab.papers.own.linear_worlds import LinearWorld


def batch_of(views, n=32, actions=2):
    source = generator(0, "batch")
    x = torch.randn(views, n, 3, generator=source)
    return Batch(tuple(x), actions=torch.randn(n, views - 1, actions, generator=source))


def identity_model(**options):
    """A model whose latents are the observations, with a predictor that is not linear."""
    model = WorldModel(3, encoder=torch.nn.Identity(), actions=2, width=8, **options)
    torch.nn.init.normal_(model.predictor.network.body[-1].weight, generator=generator(0, "weights"))
    return model


@pytest.mark.parametrize("rollout", [1, 2])
def test_the_loss_is_the_mean_error_of_predictions_fed_with_themselves(rollout):
    batch, model = batch_of(5), identity_model(context=2)
    objective = LatentDynamics(rollout=rollout, weight=0.25, inverse=0.5)
    models = {"encoder": as_model(model)}
    objective.start(models)
    loss = objective(models, batch, generator(1, "slices"))
    errors = []
    for start in range(5 - 2 - rollout + 1):
        past = [batch.views[start], batch.views[start + 1]]
        for step in range(rollout):
            now = start + 1 + step
            past.append(model.predictor(torch.cat(past[-2:], dim=1), batch.actions[:, now]))
            errors.append((past[-1] - batch.views[now + 1]).square().mean())
    prediction = torch.stack(errors).mean()
    guesses = [objective.inverter(torch.cat(batch.views[t : t + 2], dim=1)) for t in range(4)]
    inverse = (torch.stack(guesses, dim=1) - batch.actions).square().mean()
    regularizer = objective.regularizer(torch.stack(batch.views), generator(1, "slices"))
    torch.testing.assert_close(loss.terms["alignment"], prediction)
    torch.testing.assert_close(loss.terms["inverse"], inverse)
    torch.testing.assert_close(loss.total, 0.25 * regularizer + 0.75 * prediction + 0.5 * inverse)


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (Batch(batch_of(5).views), "needs actions between the views"),
        (Batch(batch_of(5).views, actions=torch.zeros(32, 3, 2)), r"\(32, 4, 2\), got \(32, 3, 2\)"),
        (batch_of(3), "at least context \\+ rollout, 2 \\+ 2, got 3"),
    ],
)
def test_batches_without_actions_or_with_too_few_views_are_refused(batch, words):
    models = {"encoder": as_model(identity_model(context=2))}
    with pytest.raises(ValueError, match=words):
        LatentDynamics(rollout=2)(models, batch, generator(0, "slices"))


def test_training_in_the_one_loop_finds_the_transition_of_a_world_seen_through_a_spiral():
    turn = np.array([[np.cos(0.4), -np.sin(0.4)], [np.sin(0.4), np.cos(0.4)]])
    share = np.sqrt(0.095) * np.eye(2)  # half of what moves z is the action: z stays N(0, I)
    world = LinearWorld(0.9 * turn, share, np.zeros((2, 2)), share, 1.0, np.eye(2))
    z, a = world.paths(150, 30, generator(0, "paths"))
    x = Spiral(1.0)(torch.from_numpy(z.reshape(-1, 2))).float().numpy().reshape(z.shape)
    model = WorldModel(2, encoder=MLP(2, 2, layers=4), width=0)
    recipe = Recipe(steps=400, batch=256, learning_rate=1e-2)
    fit(model, Windows(x, a), LatentDynamics(rollout=1, weight=0.02), recipe=recipe, evaluations=())
    h = model.encode(x).numpy()
    before, after = (certify_dynamics(part, a, z=z) for part in (x, h))
    assert before.verdict == "nonlinear"
    assert after.agreement.recovery_error.high < 0.2 * before.agreement.recovery_error.low
    assert after.agreement.a.estimate < 0.05
    assert after.agreement.b.estimate < 0.15


def damped_cart(episodes=40, steps=30, seed=0):
    """Episodes of a linear cart under random forces, from its equations."""
    source = np.random.default_rng(seed)
    x = np.zeros((episodes, steps, 2))
    x[:, 0] = source.normal(size=(episodes, 2))
    a = source.uniform(-1, 1, size=(episodes, steps, 1))
    for t in range(steps - 1):
        x[:, t + 1, 0] = x[:, t, 0] + 0.2 * x[:, t, 1]
        x[:, t + 1, 1] = 0.9 * x[:, t, 1] + 0.3 * a[:, t, 0]
    a[:, -1] = np.nan
    return ij.data.Episodes.of({"observation": x.astype(np.float32), "action": a})


def test_fit_takes_episodes_and_the_run_knows_them_again(tmp_path):
    train, test = damped_cart().split(0.75)
    options = {"steps": 150, "batch": 128, "record": tmp_path / "run", "seed": 3}
    run = fit(WorldModel(2, context=2), train, LatentDynamics(rollout=3), **options)
    assert run.status == "done"
    assert set(run.source["episodes"]) == set(train.hashes())
    assert not set(run.source["episodes"]) & set(test.hashes())
    loaded = ij.load(tmp_path / "run")
    observations = torch.tensor(test.episode(0)["observation"])
    assert torch.equal(loaded.encode(observations), run.encoder.encode(observations))
    h, actions = loaded.encode(observations[:2]), torch.rand(5, 1)
    assert torch.equal(loaded.rollout(h, actions), run.encoder.rollout(h, actions))
    again = fit(WorldModel(2, context=2), train, LatentDynamics(rollout=3), **options)
    assert again.source["episodes"] == run.source["episodes"]
    assert run.metrics[-1]["alignment"] < 0.2 * run.metrics[0]["alignment"] or len(run.metrics) == 1
