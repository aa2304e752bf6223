"""A point with inertia in a square: a complete environment of one's own."""

import gymnasium
import numpy as np


class PointMass(gymnasium.Env):
    """A force moves a point, against a drag that grows with speed and through a vortex."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.set_state([*self.np_random.uniform(-1, 1, 2), 0.0, 0.0])
        self.steps = 0
        return self.observe(), {}

    def step(self, action):
        vortex = np.array([-1, 1]) * self.position[::-1] * np.exp(-4 * self.position @ self.position)
        drag = (0.5 + np.linalg.norm(self.velocity)) * self.velocity
        self.velocity = self.velocity + 0.1 * (2 * np.asarray(action, float) + vortex - drag)
        self.position = np.clip(self.position + 0.1 * self.velocity, -1, 1)
        self.velocity = np.where(abs(self.position) < 1, self.velocity, 0)  # walls stop the point
        self.steps += 1
        distance = np.linalg.norm(self.position)
        return self.observe(), -distance, False, self.steps >= 60, {"success": bool(distance < 0.1)}

    def observe(self):
        return np.concatenate((self.position, self.velocity)).astype(np.float32)

    def get_state(self):
        return np.concatenate((self.position, self.velocity))

    def set_state(self, state):
        self.position, self.velocity = np.array(state[:2]), np.array(state[2:])

    def expert(self, observation):
        return np.clip(-2 * observation[:2] - 2 * observation[2:], -1, 1)


def make():
    return PointMass()
