import json
import math

import gymnasium
import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

from isojepa.certificates.world_model import certify_world_model
from isojepa.data.episodes import Episodes
from isojepa.encoders.world_model import Dynamics, Stepwise
from isojepa.seeds import numpy_generator

# an oscillator with position and velocity, pushed by actions and by noise
A, B = np.array([[0.98, 0.2], [-0.2, 0.9]]), np.array([[0.02], [0.2]])
NOISE = 0.1


class Linear(Stepwise):
    def __init__(self, a, b):
        self.a, self.b = torch.tensor(a), torch.tensor(b)

    def step(self, h, a):
        return h @ self.a.T + a @ self.b.T


class Still(Stepwise):
    def step(self, h, a):
        return h


class Pair(Still):
    """Two frames in, the last out."""

    context = 2


def covariance(a=A, noise=None):
    """Stationary covariance under unit actions, by its definition."""
    noise = B @ B.T + NOISE**2 * np.eye(2) if noise is None else noise
    size = len(a)
    return np.linalg.solve(np.eye(size**2) - np.kron(a, a), noise.reshape(-1)).reshape(size, size)


def oscillator(episodes=60, steps=40, seed=0, noise=NOISE, observed=slice(None), policy=None):
    """Stationary episodes of the oscillator; the last action of each is NaN."""
    source = numpy_generator(seed, "oscillator")
    state = source.normal(size=(episodes, 2)) @ np.linalg.cholesky(covariance()).T
    states, actions = [], []
    for _ in range(steps):
        action = source.normal(size=(episodes, 1))
        action = action if policy is None else policy(state, action)
        states.append(state)
        actions.append(action)
        state = state @ A.T + action[:, :1] @ B.T + noise * source.normal(size=state.shape)
    states, actions = np.stack(states, 1), np.stack(actions, 1)
    actions[:, -1] = np.nan
    return Episodes.of({"observation": states[..., observed], "action": actions, "state": states})


def certify(model, episodes, **options):
    return certify_world_model(model, episodes, **{"states": (), "horizon": 10, **options})


def test_errors_of_a_linear_system_are_those_of_its_covariances():
    a, b = 0.9 * A, 0.5 * B
    certificate = certify(Linear(a, b), oscillator(400))
    s = covariance()
    noise, power = np.zeros((2, 2)), np.eye(2)
    for k in range(1, 11):
        # truth and prediction as one linear system: their difference after k steps
        joint = np.block([[A, np.zeros((2, 2))], [np.zeros((2, 2)), a]])
        pushes = np.concatenate((B, b))
        second = np.tile(s, (2, 2))
        for _ in range(k):
            second = joint @ second @ joint.T + pushes @ pushes.T
            second[:2, :2] += NOISE**2 * np.eye(2)
        difference = np.concatenate((np.eye(2), -np.eye(2)), axis=1)
        error = np.trace(difference @ second @ difference.T) / np.trace(s)
        noise, power = noise + power @ power.T * NOISE**2, A @ power
        still = 2 - 2 * np.trace(power @ s) / np.trace(s)
        best = np.trace(noise) / np.trace(s)
        assert certificate.errors[k - 1].estimate == pytest.approx(error, rel=0.1), k
        assert certificate.still[k - 1].estimate == pytest.approx(still, rel=0.1), k
        assert certificate.linear[k - 1].estimate == pytest.approx(best, rel=0.1), k
        assert certificate.minus_linear[k - 1].estimate == pytest.approx(error - best, abs=0.05)
    assert certificate.verdict == "predictive"
    assert certificate.trusted == 10
    assert "a linear fit of the latents is better at one step" in certificate.sentence
    best = certify(Linear(A, B), oscillator(400))
    alone, paired = best.errors[-1], best.minus_linear[-1]
    assert paired.high - paired.low < 0.2 * (alone.high - alone.low)


def test_an_exact_model_has_no_error_and_no_memory():
    certificate = certify(Linear(A, B), oscillator(noise=0.0))
    assert max(one.high for one in certificate.errors) < 1e-20
    assert max(one.estimate for one in certificate.linear) < 1e-8
    assert (certificate.memory, certificate.memory_p) == (0.0, 1.0)
    assert certificate.crossing.estimate == math.inf
    assert certificate.sentence.startswith(
        "Predictions beat the mean for at least 10 steps, standing still by"
    )


def first_order(rho=0.9, episodes=800, steps=40, seed=0):
    source = numpy_generator(seed, "first order")
    h = [source.normal(size=(episodes, 1))]
    for _ in range(steps - 1):
        h.append(rho * h[-1] + math.sqrt(1 - rho**2) * source.normal(size=(episodes, 1)))
    action = source.normal(size=(episodes, steps, 1))
    return Episodes.of({"observation": np.stack(h, 1), "action": action})


def test_the_error_of_standing_still_crosses_the_mean_where_the_correlation_is_a_half():
    certificate = certify(Still(), first_order())
    errors = [2 - 2 * 0.9**k for k in (6, 7)]  # below and above 1
    crossing = 6 + (1 - errors[0]) / (errors[1] - errors[0])
    assert certificate.crossing.estimate == pytest.approx(crossing, abs=0.3)
    assert certificate.crossing.low < crossing < certificate.crossing.high
    assert certificate.trusted == math.floor(certificate.crossing.low)
    assert certificate.verdict == "static"


@pytest.mark.long
def test_intervals_cover_the_crossing_as_often_as_they_say():
    hits = 0
    crossing = 6 + (2 * 0.9**6 - 1) / (2 * 0.9**6 - 2 * 0.9**7)
    for seed in range(60):
        interval = certify(Still(), first_order(episodes=40, seed=seed), horizon=15).crossing
        hits += interval.low <= crossing <= interval.high
    assert hits >= 52  # of 60 at 95 %, with a chance of 1 % to have fewer


def test_verdicts():
    episodes = oscillator()
    assert certify(Linear(-A, B), episodes).verdict == "uninformative"
    assert certify(Linear(1.15 * A, B), episodes, horizon=30).verdict == "short"

    class Constant(Still):
        def encode(self, observations):
            return 1 + 1e-5 * observations

    certificate = certify(Constant(), episodes)
    assert certificate.verdict == "collapsed"
    assert certificate.errors == ()
    assert certificate.memory is None
    assert json.loads(json.dumps(certificate.to_dict()))["verdict"] == "collapsed"


def test_velocity_shows_in_two_frames_only():
    certificate = certify(Pair(), oscillator(100, noise=0.0, observed=slice(0, 1)), states=None)
    position, velocity = certificate.states
    assert position.linear.estimate > 0.999
    assert velocity.name == "state[1]"
    for one in (velocity.linear, velocity.network):
        assert abs(one.estimate) < 0.2
    for one in (velocity.context_linear, velocity.context_network):
        assert one.estimate > 0.95
    assert certify(Still(), oscillator(), states=None).states[0].context_linear is None


def test_angles_and_nonlinear_functions_of_the_latent():
    source = numpy_generator(0, "angles")
    h = source.normal(size=(40, 30, 2))
    angle = np.arctan2(h[..., :1], h[..., 1:])
    columns = {"qpos": angle, "qvel": (h[..., :1] - h[..., 1:]) ** 2, "observation": h, "action": h}
    columns["observation"] = h / np.linalg.norm(h, axis=-1, keepdims=True)
    episodes = Episodes.of(columns)
    circle, _ = certify_world_model(Still(), episodes, angles=(0,)).states
    line, _ = certify_world_model(Still(), episodes).states
    assert circle.linear.estimate == pytest.approx(1)
    assert line.linear.estimate < 0.9
    columns["observation"] = h
    _, square = certify_world_model(Still(), Episodes.of(columns)).states
    assert abs(square.linear.estimate) < 0.1
    assert square.network.estimate > 0.95


def test_the_free_share_of_an_action_is_its_noise():
    def policy(state, action):
        feedback = state @ np.array([[1.0], [0.5]])
        return np.hstack((feedback * 0.2 + 0.3 * action, feedback, 2 + 0 * action))

    class Push(Linear):
        def step(self, h, a):
            return super().step(h, a[:, :1])

    certificate = certify(Push(A, B), oscillator(200, policy=policy, noise=0.3))
    noisy, feedback, constant = certificate.free_shares
    assert noisy.low < noisy.estimate < noisy.high < 1
    assert abs(feedback.estimate) < 1e-9
    assert constant.estimate == 0
    assert certificate.unexcited == (1, 2)
    assert any("columns 1, 2" in warning for warning in certificate.warnings)
    # by its definition, on many more rows
    rows = oscillator(4000, seed=1, policy=policy, noise=0.3)
    states, actions = (
        np.concatenate([part[:-1] for part in rows.vectors(name)]) for name in ("state", "action")
    )
    left = (
        actions[:, 0]
        - np.c_[states, np.ones(len(states))]
        @ np.linalg.lstsq(np.c_[states, np.ones(len(states))], actions[:, 0], rcond=None)[0]
    )
    assert noisy.estimate == pytest.approx(left.var() / actions[:, 0].var(), rel=0.1)


def test_a_hidden_velocity_is_memory():
    certificate = certify(Linear(A[:1, :1], 0 * B[:1]), oscillator(observed=slice(0, 1)))
    assert certificate.has_memory
    assert certificate.memory > 0.2
    assert certificate.memory_p <= 0.05
    assert any("longer context" in warning for warning in certificate.warnings)


@pytest.mark.parametrize("seed", range(3))
def test_a_markov_system_has_no_memory_even_if_the_model_is_wrong(seed):
    episodes = oscillator(seed=seed)
    for model in (Linear(A, B), Linear(0.9 * A, 0.5 * B)):
        assert not certify(model, episodes).has_memory


@pytest.mark.long
@pytest.mark.parametrize("factor", [1.0, 0.9])
def test_the_level_of_the_test_of_memory(factor):
    chances = [certify(Linear(factor * A, B), oscillator(40, 30, seed)).memory_p for seed in range(40)]
    assert np.sum(np.array(chances) <= 0.05) <= 6  # more in 0.3 % of all times
    assert np.mean(chances) == pytest.approx(0.5, abs=0.15)


def test_distance_to_go_is_the_rank_correlation_of_distance_and_steps():
    time = np.arange(30.0)[:, None]
    action = np.zeros((10, 30, 1))
    line = [np.hstack((time * (1 + i), time)) for i in range(10)]
    certificate = certify(Still(), Episodes.of({"observation": line, "action": action}))
    assert certificate.distance.estimate == pytest.approx(1)
    turn = 2 * np.pi / 11.3
    circle = [np.hstack((np.cos(turn * time + i), np.sin(turn * time + i))) for i in range(10)]
    certificate = certify(Still(), Episodes.of({"observation": circle, "action": action}))
    gaps = np.arange(1, 11)
    expected = spearmanr(gaps, np.abs(np.sin(turn * gaps / 2))).statistic
    assert certificate.distance.estimate == pytest.approx(expected)


class Pendulum(Stepwise):
    """The step of Gymnasium's Pendulum-v1 on (cos, sin, angular velocity)."""

    def __init__(self, gravity=10.0):
        self.gravity = gravity

    def encode(self, observations):
        return torch.as_tensor(observations).double()

    def step(self, h, a):
        cos, sin, speed = h.unbind(-1)
        force = 1.5 * self.gravity * sin + 3 * a[:, 0].clamp(-2, 2)
        speed = (speed + 0.05 * force).clamp(-8, 8)
        angle = torch.atan2(sin, cos) + 0.05 * speed
        return torch.stack((angle.cos(), angle.sin(), speed), -1)


@pytest.fixture(scope="module")
def swings():
    """30 episodes of 60 random steps in Gymnasium's pendulum."""
    environment, columns = gymnasium.make("Pendulum-v1"), {"observation": [], "action": []}
    environment.action_space.seed(0)
    for number in range(30):
        frames, actions = [environment.reset(seed=number)[0]], []
        for _ in range(60):
            actions.append(environment.action_space.sample())
            frames.append(environment.step(actions[-1])[0])
        columns["observation"].append(np.stack(frames))
        columns["action"].append(np.stack([*actions, np.full(1, np.nan)]))
    environment.close()
    return Episodes.of(columns)


def test_the_pendulum_of_gymnasium(swings):
    true = certify(Pendulum(), swings, horizon=20)
    wrong = certify(Pendulum(gravity=5.0), swings, horizon=20)
    assert isinstance(Pendulum(), Dynamics)
    assert true.verdict == "predictive"
    assert max(one.estimate for one in true.errors) < 1e-6
    assert wrong.errors[0].estimate > 100 * true.errors[0].estimate
    assert wrong.minus_linear[0].high < 0 or wrong.trusted < true.trusted
    assert not true.has_memory
    assert not wrong.has_memory  # its residuals are a nonlinear function of the present
    assert true.free_shares[0].estimate == pytest.approx(1, abs=0.02)


class Network(nn.Module):
    """A float32 model with dropout."""

    context = 2

    def __init__(self):
        super().__init__()
        self.map = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 3))

    def encode(self, observations):
        return self.map(observations)

    def rollout(self, latents, actions):
        return latents[..., -1:, :] + 0 * actions[..., :1]


def test_modules_are_evaluated_in_their_precision_without_dropout():
    model, episodes = Network(), oscillator()
    state = torch.get_rng_state()
    first, second = (certify(model, episodes, states=None, seed=3).to_dict() for _ in range(2))
    assert first == second
    assert first["dim"] == 3
    assert model.training
    assert torch.equal(state, torch.get_rng_state())


def test_short_episodes_shorten_the_horizon_and_few_widen_the_intervals():
    lengths = [30] * 4 + [12] * 4 + [2] * 2
    rows = oscillator(10, 30, policy=lambda state, action: action).values("observation")
    columns = {"observation": [part[:n] for part, n in zip(rows, lengths, strict=True)]}
    columns["action"] = [
        np.ones((n, 1)) + part[:, :1] for part, n in zip(columns["observation"], lengths, strict=True)
    ]
    certificate = certify(Still(), Episodes.of(columns), horizon=50)
    assert certificate.horizon == 11
    assert len(certificate.errors) == 11
    assert certificate.episodes == 4
    for part in (
        "horizon is 11 in place of 50",
        "2 of 10 episodes are left out",
        "4 scored episodes are wide",
    ):
        assert any(part in note for note in certificate.notes), part


def test_many_episodes_take_seconds_and_long_ones_are_read_in_pieces():
    certificate = certify(Linear(A, B), oscillator(1000, 200), states=None, horizon=20)
    assert certificate.episodes == 500
    assert certificate.trusted == 20
    assert certificate.states[0].network.estimate > 0.99


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"episodes": oscillator(3)},
            r"at least 4 of 2 steps or more \(context \+ 1\), got 3: collect 1 more",
        ),
        ({"observation": "pixels"}, "column must be one of action, observation, state, got 'pixels'"),
        ({"states": ("state",), "angles": (2,)}, "angles must be .* of at most 1, got 2"),
        ({"horizon": 0}, "horizon must be a positive integer, got 0"),
        ({"confidence": 1.0}, r"confidence must lie in \(0, 1\), got 1.0"),
        ({"model": nn.Linear(2, 2)}, "model must have context, encode and rollout, got Linear"),
    ],
)
def test_bad_arguments_are_named(change, message):
    arguments = {"model": Still(), "episodes": oscillator(8), **change}
    with pytest.raises(ValueError, match=message):
        certify(arguments.pop("model"), arguments.pop("episodes"), **arguments)


def test_values_that_are_not_finite_are_named():
    for name in ("observation", "state", "action"):
        columns = {
            key: [part.copy() for part in oscillator(8).values(key)]
            for key in ("observation", "state", "action")
        }
        columns[name][3][5] = np.nan
        with pytest.raises(ValueError, match=f"{name} must be finite.* in episode 3"):
            certify(Still(), Episodes.of(columns), states=("state",))


@pytest.mark.parametrize(
    ("verb", "change", "message"),
    [
        ("encode", lambda h: h * np.nan, "model.encode must return finite latents"),
        ("encode", lambda h: h[:-1], r"model.encode must return latents \(40, 2\), got \(39, 2\)"),
        ("rollout", lambda h: h * np.inf, "model.rollout must return finite latents"),
        (
            "rollout",
            lambda h: h[..., :1],
            r"model.rollout must return latents \(\d+, 10, 2\), got \(\d+, 10, 1\)",
        ),
    ],
)
def test_bad_models_are_named(verb, change, message):
    model = Linear(A, B)
    method = getattr(model, verb)
    setattr(model, verb, lambda *inputs: change(method(*inputs)))
    with pytest.raises(ValueError, match=message):
        certify(model, oscillator(8))
