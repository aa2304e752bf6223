"""dm_control's reacher as a Gymnasium environment, with the packaged soft actor-critic as its expert.

The observation is (cos q1, sin q1, cos q2, sin q2, v1, v2) of the joint angles q and their speeds v. Each
reset draws a target, which only reward and expert use.
"""

from typing import Any

import gymnasium
import numpy as np
import torch

from isojepa.worlds.control import arm
from isojepa.worlds.control.policies import Learned


class Reacher(gymnasium.Env[np.ndarray, np.ndarray]):  # type: ignore[misc]
    """The two-joint arm of dm_control's reacher, task "hard".

    Raises:
        ImportError: MuJoCo or dm_control is not installed.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (6,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self) -> None:
        self.model = arm.model()
        self.data = arm.simulator().MjData(self.model)
        self._policy = Learned()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """A start at rest and a target, drawn as dm_control does."""
        super().reset(seed=seed)
        self._generator = torch.Generator().manual_seed(int(self.np_random.integers(1 << 62)))
        self._arm = arm.draw_starts(1, self._generator)
        self._target = arm.draw_targets(1, self._generator)
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step of 0.02 seconds; the reward is 1 where the finger touches the target, else 0."""
        row = np.asarray(action, np.float64).reshape(1, 1, 2)
        self._arm = arm.advance(self._arm, row, self.data)[:, 0]
        touched = float(arm.reward(self._arm[:, 1:3], self._target)[0])
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
