r"""The two-joint arm of dm_control's reacher: its physics, starts, targets and reward, for many arms at once.

A state is (time, shoulder, wrist, and their two speeds); angles are in radians and never wrapped, an action
is a torque in [-1, 1] on each joint, and a step lasts 0.02 seconds. The target takes no part in the
physics, so one model serves all arms: `mujoco.rollout` takes every one of them a step further in one call,
with the bits of dm_control's own stepping (but for the last ones where a solver starts warm).

The task is invariant under rotations of arm and target about the shoulder, so a policy observes five
numbers in place of dm_control's six: the wrist, the way to the target in the upper arm's frame, and the
speeds.

`Actor` is a policy trained by soft actor-critic, a small network stored as safetensors,

    h = relu(W2 relu(W1 x + b1) + b2),      action = tanh(mean(h) + exp(log_std(h)) * noise)

as the actor of stable-baselines3 (Haarnoja et al. 2018), for a batch of arms.

`Exploration` chooses the torques under which the angles q and speeds v of both joints are two independent
copies of one stationary Gaussian process, the Ornstein-Uhlenbeck process of a particle with inertia,

    v' = v + dt (-k q - c v) + sqrt(dt) s e,      q' = q + dt v',      e ~ N(0, I),

with c = 1 / `inertia`, k = c / `memory`, and s such that q ~ N(0, spread^2 I). MuJoCo's step for this arm
is v' = v + dt (M + dt D)^-1 (torque - bias - D v) with the inertia matrix M(wrist), Coriolis forces `bias`
and damping D, so that the torque (M + dt D) (v' - v) / dt + bias + D v has exactly that effect, where it
lies in [-1, 1] and the wrist within its limits. Starts are drawn from the stationary distribution.
`simulate` steps many arms together, about 2 million steps per minute of one core.
"""

import functools
import importlib.util
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy
import torch
from torch import Tensor

from isojepa.data.episodes import Episodes
from isojepa.importing import install_hint
from isojepa.io import plain_file
from isojepa.seeds import generator
from isojepa.validation import check_count, check_number, choose, validate_fields, validate_types
from isojepa_lab.environments.rendering import NoRendering, import_mujoco

_LINK = 0.12  # metres from joint to joint, and from the wrist to the finger
TARGET_RADIUS = 0.015  # metres, in the task "hard"
REACH = TARGET_RADIUS + 0.01  # with that of the finger: within it lies the reward
LIMIT = math.radians(160)  # of the wrist, either way
STEP = 0.02  # seconds
NEAREST, FARTHEST = 0.05, 0.20  # metres from the shoulder to the target
_METRE, _SPEED = 0.1, 5.0  # what counts as 1 in an observation
OBSERVED = 5  # numbers of an observation


@functools.cache
def simulator() -> Any:
    """MuJoCo, imported with a backend that can also render frames later.

    Raises:
        ImportError: it is not installed.
    """
    try:
        return import_mujoco()
    except NoRendering:
        import mujoco

        return mujoco


@functools.cache
def model() -> Any:
    """MuJoCo's model of dm_control's reacher, shared and read-only; see `load_model`."""
    return load_model()


def load_model() -> Any:
    """A new model of dm_control's reacher, without importing dm_control, which would look for a screen.

    Raises:
        ImportError: MuJoCo or dm_control is not installed.
    """
    spec = importlib.util.find_spec("dm_control")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"the reacher needs dm_control's model: {install_hint('mujoco', './lab')}")
    path = Path(spec.submodule_search_locations[0]) / "suite" / "reacher.xml"
    return simulator().MjModel.from_xml_path(str(path))


def draw_starts(n: int, generator: torch.Generator) -> np.ndarray:
    """States (n, 5) at rest, drawn as dm_control does: the shoulder anywhere, the wrist within its limits."""
    angles = 2 * torch.rand(n, 2, generator=generator, dtype=torch.float64).numpy() - 1
    states = np.zeros((n, 5))
    states[:, 1:3] = angles * (math.pi, LIMIT)
    return states


def draw_targets(n: int, generator: torch.Generator) -> np.ndarray:
    """Positions (n, 2) of targets, drawn as dm_control does: radius and angle uniform."""
    angle, radius = torch.rand(2, n, generator=generator, dtype=torch.float64).numpy()
    radius = NEAREST + (FARTHEST - NEAREST) * radius
    turn = 2 * math.pi * angle
    return np.stack((radius * np.sin(turn), radius * np.cos(turn)), 1)


def finger(angles: np.ndarray) -> np.ndarray:
    """Where the finger is, (..., 2), at angles (..., 2)."""
    upper, lower = angles[..., 0], angles.sum(-1)
    return np.stack((np.cos(upper) + np.cos(lower), np.sin(upper) + np.sin(lower)), -1) * _LINK


def reward(angles: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The reward of the task "hard": 1 where the finger touches the target, else 0; (...,)."""
    touched = np.linalg.norm(targets - finger(angles), axis=-1) <= REACH
    return np.asarray(touched, dtype=np.float64)


def observe(angles: np.ndarray, to_target: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    """What a policy sees: (..., 5) float32.

    Args:
        angles: (..., 2) of the joints.
        to_target: (..., 2) from the finger to the target, in the plane.
        speeds: (..., 2) of the joints, in radians a second.
    """
    cosine, sine = np.cos(angles[..., 0]), np.sin(angles[..., 0])
    along = cosine * to_target[..., 0] + sine * to_target[..., 1]
    across = cosine * to_target[..., 1] - sine * to_target[..., 0]
    observation = (
        angles[..., 1],
        along / _METRE,
        across / _METRE,
        speeds[..., 0] / _SPEED,
        speeds[..., 1] / _SPEED,
    )
    return np.stack(observation, -1).astype(np.float32)


def advance(states: np.ndarray, actions: np.ndarray, data: Any = None) -> np.ndarray:
    """The states (n, steps, 5) that follow states (n, 5) under actions (n, steps, 2).

    Args:
        states: where the arms are.
        actions: of each arm at each step; beyond [-1, 1] they act as if at the end.
        data: MuJoCo's scratch memory of the model, for those who call this often.
    """
    data = simulator().MjData(model()) if data is None else data
    from mujoco import rollout

    found, _ = rollout.rollout(model(), data, states, actions)
    return np.asarray(found)


ACTOR = Path(__file__).with_name("reacher_sac.safetensors")
_LOG_STD = (-20.0, 2.0)  # what stable-baselines3 clamps it to
_LAYERS = ("first", "second", "mean", "log_std")
_MAX_WIDTH = 4096


class Actor:
    """A policy with two hidden layers.

    Args:
        weights: `first.weight` (hidden, 5), `second.weight` (hidden, hidden), `mean.weight` and
            `log_std.weight` (2, hidden), and a `.bias` to each.

    Raises:
        ValueError: a tensor is missing, has another shape or is not finite.
    """

    def __init__(self, weights: dict[str, Tensor]) -> None:
        first = weights.get("first.weight")
        hidden = 0 if first is None else len(first)
        shapes = {
            "first": (hidden, OBSERVED),
            "second": (hidden, hidden),
            "mean": (2, hidden),
            "log_std": (2, hidden),
        }
        if not 0 < hidden <= _MAX_WIDTH:
            raise ValueError(f"first.weight must have 1 to {_MAX_WIDTH} rows, got {hidden}")
        self._layers: dict[str, tuple[Tensor, Tensor]] = {}
        for name, shape in shapes.items():
            for part, expected in (("weight", shape), ("bias", shape[:1])):
                tensor = weights.get(f"{name}.{part}")
                if tensor is None or tuple(tensor.shape) != expected or not torch.isfinite(tensor).all():
                    got = "nothing" if tensor is None else tuple(tensor.shape)
                    raise ValueError(f"{name}.{part} must be finite and of shape {expected}, got {got}")
            self._layers[name] = (weights[f"{name}.weight"].float(), weights[f"{name}.bias"].float())

    @classmethod
    def load(cls, path: Path = ACTOR) -> "Actor":
        """Read one from a safetensors file; by default the one that comes with the package.

        Raises:
            ValueError: the file is missing, damaged or holds something else.
        """
        from safetensors.torch import load_file

        plain_file(path)
        try:
            return cls(load_file(path))
        except Exception as error:  # safetensors has errors of its own
            raise ValueError(f"{path} cannot be read as an actor: {error}") from error

    def save(self, path: Path, notes: dict[str, str] | None = None) -> None:
        """Write it as safetensors, with notes in the header."""
        from safetensors.torch import save_file

        from isojepa.io import write_whole

        tensors = {
            f"{name}.{part}": tensor.contiguous()
            for name, layer in self._layers.items()
            for part, tensor in zip(("weight", "bias"), layer, strict=True)
        }
        write_whole(path, lambda temporary: save_file(tensors, temporary, {"notes": json.dumps(notes or {})}))

    @torch.no_grad()
    def act(self, observations: np.ndarray, noise: Tensor | None = None) -> np.ndarray:
        """Actions (n, 2) in [-1, 1], float64.

        Args:
            observations: (n, 5), see `arm.observe`.
            noise: (n, 2) standard normal numbers; without them each action is the mode.
        """
        hidden = torch.from_numpy(observations)
        for name in ("first", "second"):
            hidden = torch.relu(torch.addmm(self._layers[name][1], hidden, self._layers[name][0].T))
        action = torch.addmm(self._layers["mean"][1], hidden, self._layers["mean"][0].T)
        if noise is not None:
            spread = torch.addmm(self._layers["log_std"][1], hidden, self._layers["log_std"][0].T)
            action = action + spread.clamp(*_LOG_STD).exp() * noise.float()
        return torch.tanh(action).double().numpy()


class Policy(Protocol):
    """What drives arms: where they start, and what each does next."""

    def starts(self, n: int, generator: torch.Generator) -> np.ndarray:
        """States (n, 5) of arms before the first action."""
        ...

    def act(self, states: np.ndarray, targets: np.ndarray, generator: torch.Generator) -> np.ndarray:
        """Actions (n, 2) in [-1, 1] for states (n, 5) and targets (n, 2)."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Independent torques, uniform in [-1, 1], from dm_control's starts."""

    def starts(self, n: int, generator: torch.Generator) -> np.ndarray:
        """As dm_control draws them."""
        return draw_starts(n, generator)

    def act(self, states: np.ndarray, targets: np.ndarray, generator: torch.Generator) -> np.ndarray:
        """Whatever the state."""
        return 2 * torch.rand(len(states), 2, generator=generator, dtype=torch.float64).numpy() - 1


@dataclass(frozen=True)
class Learned:
    """A learned policy, from dm_control's starts.

    Args:
        actor: its network; by default the one that comes with the package.
        mode: take the likeliest action instead of drawing one.
    """

    actor: Actor = field(default_factory=Actor.load)
    mode: bool = False

    def starts(self, n: int, generator: torch.Generator) -> np.ndarray:
        """As dm_control draws them."""
        return draw_starts(n, generator)

    def act(self, states: np.ndarray, targets: np.ndarray, generator: torch.Generator) -> np.ndarray:
        """As the network says, with its own noise."""
        angles = states[:, 1:3]
        observations = observe(angles, targets - finger(angles), states[:, 3:])
        noise = None if self.mode else torch.randn(len(states), 2, generator=generator)
        return self.actor.act(observations, noise)


@dataclass(frozen=True)
class Exploration:
    """Both joints as independent Ornstein-Uhlenbeck processes with inertia.

    Args:
        spread: of each angle, in radians (standard deviation).
        memory: time in seconds after which angles decorrelate.
        inertia: the same for speeds.
    """

    spread: float = 0.9
    memory: float = 3.0
    inertia: float = 0.5

    def __post_init__(self) -> None:
        validate_fields(self)
        for name in ("spread", "memory", "inertia"):
            check_number(name, getattr(self, name), "be positive and finite", lambda value: value > 0)
        if self.inertia < 2 * STEP:
            raise ValueError(f"inertia must be at least {2 * STEP} s, two steps, got {self.inertia}")

    @functools.cached_property
    def _law(self) -> tuple[np.ndarray, float, np.ndarray]:
        """Acceleration (2,) from angle and speed, noise of the speed, stationary covariance (2, 2)."""
        pull = -np.array([1 / self.memory, 1.0]) / self.inertia
        speed = np.array([0.0, 1.0]) + STEP * pull
        step = np.stack((np.array([1.0, 0.0]) + STEP * speed, speed))
        noise = np.array([STEP, 1.0])
        covariance = scipy.linalg.solve_discrete_lyapunov(step, np.outer(noise, noise))
        scale = self.spread / np.sqrt(covariance[0, 0])
        return pull, float(scale), covariance * scale**2

    def starts(self, n: int, generator: torch.Generator) -> np.ndarray:
        """From the stationary law, both joints alike and independent."""
        *_, covariance = self._law
        noise = torch.randn(n, 2, 2, generator=generator, dtype=torch.float64).numpy()
        states = np.zeros((n, 5))
        states[:, 1:] = (noise @ np.linalg.cholesky(covariance).T).transpose(0, 2, 1).reshape(n, 4)
        return states

    def act(self, states: np.ndarray, targets: np.ndarray, generator: torch.Generator) -> np.ndarray:
        """The torques that make the next step one of the process, cut off at -1 and 1."""
        angles, speeds = states[:, 1:3], states[:, 3:]
        (stiffness, friction), noise, _ = self._law
        shock = torch.randn(len(states), 2, generator=generator, dtype=torch.float64).numpy()
        accelerations = stiffness * angles + friction * speeds + noise / STEP * shock
        return np.asarray(np.clip(torques(angles, speeds, accelerations), -1, 1))


def torques(angles: np.ndarray, speeds: np.ndarray, accelerations: np.ndarray) -> np.ndarray:
    """The actions (n, 2), not cut off, under which one step changes the speeds by STEP * accelerations.

    Args:
        angles, speeds, accelerations: (n, 2) of both joints.
    """
    upper, coupling, lower, damping, gear = _constants()
    cosine, sine = coupling * np.cos(angles[:, 1]), coupling * np.sin(angles[:, 1])
    first, second = speeds.T
    off = lower + cosine
    inertia = np.stack((upper + 2 * cosine, off, off, np.full_like(off, lower)), 1).reshape(-1, 2, 2)
    inertia[:, [0, 1], [0, 1]] += STEP * damping
    bias = np.stack((-sine * second * (2 * first + second), sine * first**2), 1)
    forces = np.einsum("nij,nj->ni", inertia, accelerations) + bias + damping * speeds
    return np.asarray(forces / gear)


@functools.cache
def _constants() -> tuple[float, float, float, float, float]:
    """Of M = [[upper + 2 coupling cos, lower + coupling cos], [., lower]]; damping and gear of the joints."""
    mujoco, arm = simulator(), model()
    data, products = mujoco.MjData(arm), []
    for wrist in (np.pi / 2, 0.0):
        data.qpos[:] = (0.0, wrist)
        mujoco.mj_forward(arm, data)
        product = np.zeros(2)
        mujoco.mj_mulM(arm, data, product, np.array([1.0, 0.0]))
        products.append(product)
    (upper, lower), (_, straight) = products
    return (
        float(upper),
        float(straight - lower),
        float(lower),
        float(arm.dof_damping[0]),
        float(arm.actuator_gear[0, 0]),
    )


POLICIES: dict[str, Callable[[], Policy]] = {"sac": Learned, "random": Uniform, "ou": Exploration}

STEPS = 201  # states of an episode, one more than it has actions
BLOCK = 1000  # arms that go together


def simulate(
    policy: Policy,
    episodes: int,
    steps: int = STEPS,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, np.ndarray]:
    """Columns of episodes, each (episodes, steps, ...), float64.

    Args:
        policy: drives the arms.
        episodes: how many.
        steps: states of each; there is one action less, and the last is NaN.
        seed: of starts, targets and of the policy's own noise.
        progress: called with the number of steps that were made since.

    Returns:
        `qpos` angles in radians, not wrapped; `qvel` speeds; `action`, which leaves the state of its row;
        `target`; and `reward`, which belongs to the state of its row.

    Raises:
        ImportError: MuJoCo or dm_control is not installed.
    """
    check_count("episodes", episodes)
    check_count("steps", steps, 2)
    data = simulator().MjData(model())
    states = np.empty((episodes, steps, 5))
    actions = np.full((episodes, steps, 2), np.nan)
    targets = np.empty((episodes, 2))
    for start in range(0, episodes, BLOCK):
        rows = slice(start, min(start + BLOCK, episodes))
        source = generator(seed, "reacher", type(policy).__name__, start)
        count = rows.stop - start
        targets[rows] = draw_targets(count, source)
        states[rows, 0] = policy.starts(count, source)
        for step in range(steps - 1):
            actions[rows, step] = policy.act(states[rows, step], targets[rows], source)
            states[rows, step + 1] = advance(states[rows, step], actions[rows, step, None], data)[:, 0]
            progress(count)
    aims = np.repeat(targets[:, None], steps, 1)
    return {
        "qpos": states[..., 1:3],
        "qvel": states[..., 3:],
        "action": actions,
        "target": aims,
        "reward": reward(states[..., 1:3], aims),
    }


@validate_types
def reacher_episodes(
    policy: str = "sac",
    episodes: int = 10_000,
    steps: int = STEPS,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Episodes:
    """Episodes of dm_control's reacher under a policy by name: "sac", "random" or "ou".

    Args:
        policy: one of `POLICIES`.
        episodes, steps, seed, progress: as of `simulate`.

    Raises:
        ValueError: there is no such policy.
        ImportError: MuJoCo or dm_control is not installed.
    """
    columns = simulate(choose("policy", policy, POLICIES)(), episodes, steps, seed, progress)
    flat = {name: values.reshape(episodes * steps, *values.shape[2:]) for name, values in columns.items()}
    return Episodes(flat, np.full(episodes, steps), source=f"reacher under {policy}")
