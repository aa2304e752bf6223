"""Goal-directed trajectories of a two-joint arm: latents that break every assumption of the theorems.

An arm of two equal links reaches for targets in the plane. A new target appears at random moments; between
them a saturated PD controller drives the joint angles q = (shoulder, wrist) there, with inertia and the
jitter of a stochastic policy:

    q'' = clip(gain (goal - q) - damping q', +-torque) + jitter * noise,      |wrist| <= limit, with a rebound

A target at distance d asks for a wrist angle of +-arccos(d^2 / (2 link^2) - 1), elbow up or down: the
wrist's law is bimodal with its modes near the joint limits. The shoulder prefers the goal nearby: it is
broad, mildly platykurtic, and slower than the wrist. Increments are bursts between rests, and their size
depends on where the arm is. The angles alone are not Markov.

The constants are chosen to come near what Klindt, LeCun & Balestriero (2026), Appendix H, publish of a
trained policy on DMC Reacher: at a stride of 8 steps, correlations 0.992 and 0.982, a nearly bimodal wrist
limited to +-2.79 and 13.6 % of the shoulder beyond +-pi. It is a stand-in for that data, not a simulation
of it.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from isojepa.arguments import check_fields

_LINK, _NEAR, _FAR = 0.12, 0.05, 0.20  # lengths of the links and range of the targets, in metres
_LIMIT = 2.79  # of the wrist, in radians
_REBOUND = -0.2  # share of its speed that the wrist keeps at the limit
_GAIN, _DAMPING, _TORQUE = (0.012, 0.020), (0.22, 0.28), 0.03
_FLATNESS = 0.5  # how much tanh bends the shoulder's goals: 0 would be Gaussian


@dataclass(frozen=True)
class GoalReaching:
    """A two-joint arm that a stochastic policy drives to random goals.

    Args:
        rest: mean number of steps between two goals.
        persistence: correlation of the shoulder's goal with the one before, in [0, 1).
        span: largest shoulder angle that is ever a goal, in radians.
        jitter: standard deviation of the policy's noise on each joint, per step.

    Example:
        >>> from isojepa.seeds import generator
        >>> GoalReaching().trajectory(5, 20, generator(0, "data")).shape
        torch.Size([20, 5, 2])
    """

    rest: float = 170.0
    persistence: float = 0.5
    span: float = 4.9
    jitter: tuple[float, float] = (0.014, 0.024)

    def __post_init__(self) -> None:
        check_fields(self)
        if not 1 <= self.rest < math.inf:
            raise ValueError(f"rest must be at least 1 step and finite, got {self.rest}")
        if not 0 <= self.persistence < 1:
            raise ValueError(f"persistence must lie in [0, 1), got {self.persistence}")
        if not 0 < self.span < math.inf:
            raise ValueError(f"span must be positive and finite, got {self.span}")
        if len(self.jitter) != 2 or not all(0 <= sigma < math.inf for sigma in self.jitter):
            raise ValueError(f"jitter must be two numbers that are not negative, got {self.jitter}")

    @property
    def dim(self) -> int:
        """Number of joint angles."""
        return 2

    def trajectory(self, n: int, steps: int, generator: torch.Generator) -> Tensor:
        """Draw n paths of joint angles in radians: (steps, n, 2), after a burn-in of two rests."""
        for name, value in {"n": n, "steps": steps}.items():
            if int(value) != value or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value}")
        gain, damping, jitter = (
            torch.tensor(value, dtype=torch.float64) for value in (_GAIN, _DAMPING, self.jitter)
        )
        hidden = torch.randn(n, generator=generator, dtype=torch.float64)
        goal = torch.stack((self._shoulder(hidden), _wrist(n, generator)), 1)
        angle, speed = goal.clone(), torch.zeros_like(goal)
        path = torch.empty(steps, n, 2, dtype=torch.float64)
        for step in range(-math.ceil(2 * self.rest), steps):
            fresh = torch.rand(n, generator=generator) * self.rest < 1
            draw = torch.randn(n, generator=generator, dtype=torch.float64)
            renewed = self.persistence * hidden + math.sqrt(1 - self.persistence**2) * draw
            hidden = torch.where(fresh, renewed, hidden)
            aim = torch.stack((self._shoulder(hidden), _wrist(n, generator)), 1)
            goal = torch.where(fresh[:, None], aim, goal)
            noise = torch.randn(n, 2, generator=generator, dtype=torch.float64)
            pull = (gain * (goal - angle) - damping * speed).clamp(-_TORQUE, _TORQUE)
            speed = speed + pull + jitter * noise
            angle = angle + speed
            hit = angle[:, 1].abs() > _LIMIT
            speed[:, 1] = torch.where(hit, _REBOUND * speed[:, 1], speed[:, 1])
            angle[:, 1] = angle[:, 1].clamp(-_LIMIT, _LIMIT)
            if step >= 0:
                path[step] = angle
        return path

    def _shoulder(self, hidden: Tensor) -> Tensor:
        return self.span * torch.tanh(_FLATNESS * hidden)


def _wrist(n: int, generator: torch.Generator) -> Tensor:
    """Wrist angles of targets uniform on a ring, elbow up or down alike (law of cosines)."""
    share = torch.rand(n, generator=generator, dtype=torch.float64)
    squared = _NEAR**2 + share * (_FAR**2 - _NEAR**2)
    angle = torch.arccos((squared / (2 * _LINK**2) - 1).clamp(-1, 1))
    up = torch.rand(n, generator=generator) < 0.5
    return torch.where(up, angle, -angle)
