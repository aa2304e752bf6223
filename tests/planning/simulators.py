"""Dynamics of environments by their known equations, and dynamics that know nothing."""

import gymnasium
import numpy as np
import torch

from isojepa.encoders.world_model import Stepwise
from tests.own_environment import PointMass


class PointDynamics(Stepwise):
    """The equations of `PointMass`, in its observations."""

    def step(self, h, a):
        position, velocity = h[:, :2], h[:, 2:]
        x, y = position.unbind(1)
        vortex = torch.stack((-y, x), 1) * torch.exp(-4 * (x**2 + y**2))[:, None]
        drag = (0.5 + velocity.norm(dim=1, keepdim=True)) * velocity
        velocity = velocity + 0.1 * (2 * a + vortex - drag)
        moved = position + 0.1 * velocity
        position = moved.clamp(-1, 1)
        return torch.cat((position, torch.where(moved == position, velocity, 0.0)), 1)


class PendulumDynamics(Stepwise):
    """The equations of Pendulum-v1 in (cos, sin, speed)."""

    def step(self, h, a):
        cos, sin, speed = h.unbind(1)
        speed = (speed + 0.05 * (15 * sin + 3 * a[:, 0].clamp(-2, 2))).clamp(-8, 8)
        angle = torch.atan2(sin, cos) + 0.05 * speed
        return torch.stack((angle.cos(), angle.sin(), speed), 1)


class CartPoleDynamics(Stepwise):
    """The equations of CartPole-v1 (Barto, Sutton and Anderson 1983), for one-hot actions."""

    def step(self, h, a):
        x, v, angle, speed = h.unbind(1)
        force = 10 * (a[:, 1] - a[:, 0])
        push = (force + 0.05 * speed**2 * angle.sin()) / 1.1
        turn = (9.8 * angle.sin() - angle.cos() * push) / (0.5 * (4 / 3 - 0.1 * angle.cos() ** 2 / 1.1))
        slide = push - 0.05 * turn * angle.cos() / 1.1
        return torch.stack((x + 0.02 * v, v + 0.02 * slide, angle + 0.02 * speed, speed + 0.02 * turn), 1)


class Still(Stepwise):
    """Predicts that nothing moves."""

    def step(self, h, a):
        return h


class NoisyPoint(PointMass):
    """A point mass with noise that no seed determines."""

    def step(self, action):
        self.velocity = self.velocity + 0.01 * np.random.default_rng().normal(size=2)
        return super().step(action)


class SealedPoint(gymnasium.Env):
    """A point mass without access to its state."""

    observation_space, action_space = PointMass.observation_space, PointMass.action_space

    def __init__(self):
        self.inner = PointMass()

    def reset(self, *, seed=None, options=None):
        return self.inner.reset(seed=seed)

    def step(self, action):
        return self.inner.step(action)
