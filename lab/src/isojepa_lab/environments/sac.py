"""dm_control's reacher as a Gymnasium environment, with the packaged soft actor-critic as its expert.

The observation is (cos q1, sin q1, cos q2, sin q2, v1, v2) of the joint angles q and their speeds v. Each
reset draws a target, which only reward and expert use.

The actor was trained by soft actor-critic of stable-baselines3:

    python -m isojepa_lab.environments.sac --out FOLDER

writes `reacher_sac.safetensors`, the best actor so far, and `reacher_sac.json`, the record of its training.
The task is dm_control's "hard" through gymnasium, in episodes of 150 steps from new starts instead of one
long one. The training reward is the mean of the task's reward, 1 on the target and else 0, and one that
decreases with the distance; the recorded returns are the task's.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from isojepa.io import write_json
from isojepa.seeds import generator
from isojepa_lab.environments.control import (
    OBSERVED,
    REACH,
    STEP,
    Actor,
    Learned,
    Policy,
    Uniform,
    advance,
    draw_starts,
    draw_targets,
    model,
    observe,
    reward,
    simulate,
    simulator,
)
from isojepa_lab.environments.rendering import import_suite


class ReacherEnvironment(gymnasium.Env[np.ndarray, np.ndarray]):  # type: ignore[misc]
    """The two-joint arm of dm_control's reacher, task "hard".

    Raises:
        ImportError: MuJoCo or dm_control is not installed.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (6,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self) -> None:
        self.model = model()
        self.data = simulator().MjData(self.model)
        self._policy = Learned()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """A start at rest and a target, drawn as dm_control does."""
        super().reset(seed=seed)
        self._generator = torch.Generator().manual_seed(int(self.np_random.integers(1 << 62)))
        self._arm = draw_starts(1, self._generator)
        self._target = draw_targets(1, self._generator)
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step of 0.02 seconds; the reward is 1 where the finger touches the target, else 0."""
        row = np.asarray(action, np.float64).reshape(1, 1, 2)
        self._arm = advance(self._arm, row, self.data)[:, 0]
        touched = float(reward(self._arm[:, 1:3], self._target)[0])
        return self._observe(), touched, False, False, {"success": touched > 0}

    def get_state(self) -> np.ndarray:
        """Angles and speeds, (4,)."""
        return self._arm[0, 1:].copy()

    def set_state(self, state: np.ndarray) -> None:
        """Resume from angles and speeds (4,); the target stays."""
        self._arm = np.concatenate(([0.0], state))[None]

    def expert(self, observation: np.ndarray) -> np.ndarray:
        """An action (2,) of the packaged actor for the present state and target, with the actor's noise."""
        action: np.ndarray = self._policy.act(self._arm, self._target, self._generator)[0]
        return action

    def _observe(self) -> np.ndarray:
        angles = self._arm[0, 1:3]
        waves = np.stack((np.cos(angles), np.sin(angles)), 1).reshape(-1)
        return np.concatenate((waves, self._arm[0, 3:])).astype(np.float32)


_REACHER_STEPS = 200  # of an episode of the Gymnasium environment
_LENGTH = 150  # steps of an episode while it learns
_ARMS = 8  # environments per update
EVERY = 8_000  # steps between evaluations
EVALUATED = 200  # episodes of an evaluation
SETTINGS: dict[str, Any] = {
    "learning_rate": 5e-4,
    "buffer_size": 400_000,
    "learning_starts": 4_000,
    "batch_size": 256,
    "tau": 0.01,
    "gamma": 0.98,
    "train_freq": 1,
    "gradient_steps": 4,
}
_MARGIN = 0.24  # distance in meters at which the shaped reward is 0.1


def make_reacher() -> Any:
    """The environment "reacher" of `isojepa collect` and `isojepa evaluate`: episodes of 200 steps."""
    return gymnasium.wrappers.TimeLimit(ReacherEnvironment(), _REACHER_STEPS)


class ShapedReacher(gymnasium.Env[np.ndarray, np.ndarray]):  # type: ignore[misc]
    """dm_control's reacher "hard" as a gymnasium environment.

    Args:
        seed: of its starts and targets.
        length: steps of an episode.
    """

    def __init__(self, seed: int, length: int = _LENGTH) -> None:
        own_seed = int(torch.randint(1 << 31, (1,), generator=generator(seed, "reacher", "environment")))
        settings = {"time_limit": length * STEP, "random": own_seed}
        self.control = import_suite().load("reacher", "hard", task_kwargs=settings)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBSERVED,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """A new start and target, from the stream of the seed that the environment was made with."""
        return self._seen(self.control.reset().observation), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step of 0.02 seconds; an episode ends by time only."""
        outcome = self.control.step(action)
        # dm_control's `rewards.tolerance` with the sigmoid "long_tail"
        beyond = max(0.0, float(self.control.physics.finger_to_target_dist()) - REACH)
        near = 1 / (1 + 9 * (beyond / _MARGIN) ** 2)
        learned = (outcome.reward + near) / 2
        return (
            self._seen(outcome.observation),
            float(learned),
            False,
            outcome.last(),
            {"reward": outcome.reward},
        )

    def _seen(self, found: Any) -> np.ndarray:
        return observe(found["position"], found["to_target"], found["velocity"])


def evaluate(policy: Policy, episodes: int = EVALUATED, steps: int = 1000, seed: int = 1) -> dict[str, float]:
    """The task's own return and success.

    Args:
        policy: evaluated.
        episodes: number of starts and targets.
        steps: of an episode; dm_control's have 1000.
        seed: of the starts and targets.

    Returns:
        `return`, its mean over episodes, and `error` of that mean; `touched`, the share of episodes in which
        the finger was on the target at the end.
    """
    rewards = simulate(policy, episodes, steps + 1, seed)["reward"][:, 1:]
    returns = rewards.sum(1)
    return {
        "return": float(returns.mean()),
        "error": float(returns.std(ddof=1) / np.sqrt(episodes)),
        "touched": float(rewards[:, -1].mean()),
    }


def _actor_of(model: Any) -> Actor:
    """The actor of a SAC of stable-baselines3."""
    network = model.policy.actor
    layers = {
        "first": network.latent_pi[0],
        "second": network.latent_pi[2],
        "mean": network.mu,
        "log_std": network.log_std,
    }
    return Actor(
        {
            f"{name}.{part}": getattr(layer, part).detach().clone()
            for name, layer in layers.items()
            for part in ("weight", "bias")
        }
    )


def learn(out: Path, steps: int, minutes: float, seed: int) -> dict[str, Any]:
    """Learn, and keep the best actor and the record in a folder.

    Args:
        out: the folder.
        steps: of the environments together, at most.
        minutes: that it may take, at most.
        seed: of everything drawn.

    Returns:
        The record.
    """
    import dm_control
    import mujoco
    import stable_baselines3
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import DummyVecEnv

    begun = time.monotonic()
    worlds = DummyVecEnv(
        [lambda number=number: ShapedReacher(1000 * seed + number) for number in range(_ARMS)]
    )
    model = stable_baselines3.SAC(
        "MlpPolicy", worlds, policy_kwargs={"net_arch": [256, 256]}, seed=seed, device="cpu", **SETTINGS
    )
    record: dict[str, Any] = {
        "task": "dm_control reacher hard",
        "algorithm": "SAC, MlpPolicy [256, 256]",
        "seed": seed,
        "settings": {**SETTINGS, "arms": _ARMS, "length": _LENGTH, "margin": _MARGIN},
        "versions": {
            "stable-baselines3": stable_baselines3.__version__,
            "mujoco": mujoco.__version__,
            "dm_control": getattr(dm_control, "__version__", None) or _version("dm_control"),
            "gymnasium": gymnasium.__version__,
            "torch": torch.__version__,
        },
        "random": evaluate(Uniform()),
        "curve": [],
    }

    class Evaluator(BaseCallback):  # type: ignore[misc]
        best = -1.0

        def _on_step(self) -> bool:
            if self.num_timesteps % EVERY < _ARMS:
                actor = _actor_of(model)
                row = {"steps": self.num_timesteps, **evaluate(Learned(actor, mode=True), steps=200)}
                row["seconds"] = round(time.monotonic() - begun, 1)
                record["curve"].append(row)
                if row["return"] > self.best:
                    self.best = row["return"]
                    actor.save(out / "reacher_sac.safetensors", {"steps": str(self.num_timesteps)})
                    record["steps"] = self.num_timesteps
                write_json(out / "reacher_sac.json", record)
                print(row, flush=True)
            return time.monotonic() - begun < 60 * minutes

    model.learn(steps, callback=Evaluator())
    best = Actor.load(out / "reacher_sac.safetensors")
    for name, mode in (("drawn", False), ("mode", True)):
        record[name] = evaluate(Learned(best, mode=mode))
    write_json(out / "reacher_sac.json", record)
    return record


def _version(name: str) -> str:
    from importlib.metadata import version

    return version(name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=48_000)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    learn(flags.out, flags.steps, flags.minutes, flags.seed)
