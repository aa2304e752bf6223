"""Soft actor-critic on dm_control's reacher, by stable-baselines3: how the actor of the package was learned.

    python -m isojepa.worlds.control.learning --out FOLDER

writes `reacher_sac.safetensors`, the best actor so far, and `reacher_sac.json`, the record of its training.
The task is dm_control's "hard" through gymnasium, in episodes of 150 steps from new starts instead of one
long one. What is learned from is half the task's own reward, 1 on the target and else 0, and half one that
falls off with the distance; what is recorded is the task's own.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from isojepa.files import write_json
from isojepa.seeds import generator
from isojepa.worlds.control import arm
from isojepa.worlds.control.actor import Actor
from isojepa.worlds.control.policies import Learned, Policy, Uniform
from isojepa.worlds.control.simulation import simulate
from isojepa.worlds.rendering import import_suite

LENGTH = 150  # steps of an episode while it learns
ARMS = 8  # that move between two updates
EVERY = 8_000  # steps between evaluations
JUDGED = 200  # episodes of each
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
_MARGIN = 0.24  # metres at which the part of the reward that falls off is a tenth


class Reacher(gymnasium.Env[np.ndarray, np.ndarray]):  # type: ignore[misc]
    """dm_control's reacher "hard" as a gymnasium environment.

    Args:
        seed: of its starts and targets.
        length: steps of an episode.
    """

    def __init__(self, seed: int, length: int = LENGTH) -> None:
        own = int(torch.randint(1 << 31, (1,), generator=generator(seed, "reacher", "environment")))
        settings = {"time_limit": length * arm.STEP, "random": own}
        self.control = import_suite().load("reacher", "hard", task_kwargs=settings)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (arm.OBSERVED,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """A new start and target, from the stream of the seed that the environment was made with."""
        return self._seen(self.control.reset().observation), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step of 0.02 seconds; an episode ends by time only."""
        found = self.control.step(action)
        # dm_control's `rewards.tolerance` with the sigmoid "long_tail"
        beyond = max(0.0, float(self.control.physics.finger_to_target_dist()) - arm.REACH)
        near = 1 / (1 + 9 * (beyond / _MARGIN) ** 2)
        learned = (found.reward + near) / 2
        return self._seen(found.observation), float(learned), False, found.last(), {"reward": found.reward}

    def _seen(self, found: Any) -> np.ndarray:
        return arm.observe(found["position"], found["to_target"], found["velocity"])


def evaluate(policy: Policy, episodes: int = JUDGED, steps: int = 1000, seed: int = 1) -> dict[str, float]:
    """The task's own return and success.

    Args:
        policy: what is judged.
        episodes: on how many starts and targets.
        steps: of each; dm_control's episodes have 1000.
        seed: of the starts and targets.

    Returns:
        `return`, its mean over episodes, and `error` of that mean; `touched`, the share of episodes in which
        the finger was on the target at the end.
    """
    found = simulate(policy, episodes, steps + 1, seed)["reward"][:, 1:]
    returns = found.sum(1)
    return {
        "return": float(returns.mean()),
        "error": float(returns.std(ddof=1) / np.sqrt(episodes)),
        "touched": float(found[:, -1].mean()),
    }


def actor_of(model: Any) -> Actor:
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
    worlds = DummyVecEnv([lambda number=number: Reacher(1000 * seed + number) for number in range(ARMS)])
    model = stable_baselines3.SAC(
        "MlpPolicy", worlds, policy_kwargs={"net_arch": [256, 256]}, seed=seed, device="cpu", **SETTINGS
    )
    record: dict[str, Any] = {
        "task": "dm_control reacher hard",
        "algorithm": "SAC, MlpPolicy [256, 256]",
        "seed": seed,
        "settings": {**SETTINGS, "arms": ARMS, "length": LENGTH, "margin": _MARGIN},
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

    class Judge(BaseCallback):  # type: ignore[misc]
        best = -1.0

        def _on_step(self) -> bool:
            if self.num_timesteps % EVERY < ARMS:
                actor = actor_of(model)
                found = {"steps": self.num_timesteps, **evaluate(Learned(actor, mode=True), steps=200)}
                found["seconds"] = round(time.monotonic() - begun, 1)
                record["curve"].append(found)
                if found["return"] > self.best:
                    self.best = found["return"]
                    actor.save(out / "reacher_sac.safetensors", {"steps": str(self.num_timesteps)})
                    record["steps"] = self.num_timesteps
                write_json(out / "reacher_sac.json", record)
                print(found, flush=True)
            return time.monotonic() - begun < 60 * minutes

    model.learn(steps, callback=Judge())
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
    given = parser.parse_args()
    torch.set_num_threads(1)
    learn(given.out, given.steps, given.minutes, given.seed)
