"""World models: shapes, standardization, contexts, and how they come back from their files."""

import numpy as np
import pytest
import torch
from torch import nn

import isojepa as ij
from isojepa import testing
from isojepa.data import Episodes, Windows
from isojepa.encoders import Dynamics, WorldModel
from isojepa.encoders.world_model import Predictor


def recorded(observed=3, actions=2, episodes=12, steps=15, scale=1.0, discrete=False):
    source = np.random.default_rng(0)
    x = scale * source.normal(size=(episodes, steps, observed)).cumsum(1)
    a = source.uniform(-2, 2, size=(episodes, steps, actions))
    if discrete:
        a = np.eye(actions)[a.argmax(-1)]
    return Episodes.of({"observation": x.astype(np.float32), "action": a})


def calibrated(model, episodes):
    model.calibrate(episodes.windows(2))
    return model


@pytest.mark.parametrize("context", [1, 3])
def test_a_rollout_is_the_predictor_fed_with_its_own_predictions(context):
    model = calibrated(WorldModel(4, context=context), recorded())
    assert isinstance(model, Dynamics)
    nn.init.normal_(model.predictor.network.body[-1].weight, generator=ij.generator(0, "weights"))
    h, a = torch.randn(2, 5, context, 4), torch.randn(2, 5, 6, 2)
    rolled = model.rollout(h, a)
    assert rolled.shape == (2, 5, 6, 4)
    for i, j in ((0, 0), (1, 4)):
        past = list(h[i, j])
        for step in range(6):
            action = (a[i, j, step] - model.standardize.mean) / model.standardize.scale
            past.append(model.predictor(torch.cat(past[-context:])[None], action[None])[0])
            torch.testing.assert_close(rolled[i, j, step], past[-1], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model.rollout(h[0, 0], a[0, 0]), rolled[0, 0], rtol=1e-4, atol=1e-4)


def test_encoding_is_frame_by_frame_and_needs_no_scale():
    small, large = recorded(), recorded(scale=1e4)
    models = [calibrated(WorldModel(4), episodes) for episodes in (small, large)]
    h = [
        model.encode(torch.tensor(episodes[0].observations))
        for model, episodes in zip(models, (small, large), strict=True)
    ]
    torch.testing.assert_close(h[0], h[1], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(models[0].encode(small[0].observations[2:3]), h[0][2:3])
    testing.check_encoder(models[0], torch.tensor(small[0].observations))


def test_bounds_are_those_of_the_environment_where_they_are_recorded():
    episodes = recorded()
    model = calibrated(WorldModel(4), episodes)
    actions = np.concatenate([episodes[i].actions for i in range(len(episodes))])
    assert float(model.action_bounds[0].min()) >= actions.min() - 1e-6
    episodes.meta |= {"low": [-2.0, -2.0], "high": [2.0, 2.0]}
    model = calibrated(WorldModel(4), episodes)
    assert model.action_bounds.tolist() == [[-2.0, -2.0], [2.0, 2.0]]


def test_a_second_data_set_does_not_move_the_standardization_and_must_fit():
    model = calibrated(WorldModel(4), recorded())
    before = model.encoder.standardize.scale.clone()
    calibrated(model, recorded(scale=9.0))
    assert torch.equal(model.encoder.standardize.scale, before)
    with pytest.raises(ValueError, match=r"observations must have 3 numbers, .* got 5"):
        calibrated(model, recorded(observed=5))
    with pytest.raises(ValueError, match="actions must have 2 numbers"):
        calibrated(model, recorded(actions=1))


def test_encoders_and_predictors_of_the_users_own_are_taken():
    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(8, 4)

        def forward(self, x):
            return self.map(x.flatten(1).float())

    frames = np.random.default_rng(0).integers(0, 255, (30, 6, 2, 2, 2), dtype=np.uint8)
    windows = Windows(frames, np.random.default_rng(1).normal(size=(30, 6, 1)), length=1)
    with pytest.raises(ValueError, match="observations must be vectors for the default encoder"):
        WorldModel(4).calibrate(windows)
    model = WorldModel(4, encoder=Flat(), predictor=Predictor(4, 1, width=0))
    ij.fit(model, windows, ij.objectives.LatentDynamics(), steps=3, batch=16, evaluations=())
    assert model.encode(frames[:, 0]).shape == (30, 4)
    assert model.observation_ndim == 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda model: model.encode(torch.zeros(2, 5)), r"\(\.\.\., time, 3\), got \(2, 5\)"),
        (lambda model: model.encode(torch.full((2, 3), torch.nan)), "must be finite, got NaN or Inf"),
        (lambda model: WorldModel(4)(torch.zeros(1, 3)), "without data has no encoder: train it with fit"),
        (lambda model: model.calibrate(ij.data.World(*WORLD)), "needs a source with actions"),
    ],
)
def test_bad_input_is_told_in_one_line(call, words):
    with pytest.raises(ValueError, match=words):
        call(calibrated(WorldModel(4), recorded()))


WORLD = (ij.data.OrnsteinUhlenbeck(2, 0.9), ij.data.Spiral())


def test_a_run_made_in_python_comes_back_with_its_standardization(tmp_path):
    episodes = recorded(scale=50.0)
    model = WorldModel(4, context=2, width=16, layers=2)
    run = ij.fit(model, episodes, ij.objectives.LatentDynamics(), steps=4, batch=32, record=tmp_path / "run")
    again = ij.load(tmp_path / "run")
    assert isinstance(again, WorldModel)
    x = episodes[0].observations
    assert torch.equal(again.encode(x), run.encoder.encode(x))
    h = again.encode(x)[None, :2]
    assert torch.equal(again.rollout(h, torch.ones(1, 3, 2)), run.encoder.rollout(h, torch.ones(1, 3, 2)))
