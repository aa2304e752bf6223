r"""Who drives the arm: a learned policy, random torques, or an exploration that is isotropic in joint space.

`Exploration` chooses the torques under which the angles q and speeds v of both joints are two independent
copies of one stationary Gaussian process, the Ornstein-Uhlenbeck process of a particle with inertia,

    v' = v + dt (-k q - c v) + sqrt(dt) s e,      q' = q + dt v',      e ~ N(0, I),

with c = 1 / `inertia`, k = c / `memory`, and s such that q ~ N(0, spread^2 I). MuJoCo's step for this arm is
v' = v + dt (M + dt D)^-1 (torque - bias - D v) with the inertia matrix M(wrist), Coriolis forces `bias` and
damping D, so that the torque (M + dt D) (v' - v) / dt + bias + D v has exactly that effect, where it lies in
[-1, 1] and the wrist within its limits. Starts are drawn from the stationary law.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import scipy
import torch

from isojepa.arguments import check_fields, check_number
from isojepa.worlds.control import arm
from isojepa.worlds.control.actor import Actor


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
        return arm.draw_starts(n, generator)

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
        return arm.draw_starts(n, generator)

    def act(self, states: np.ndarray, targets: np.ndarray, generator: torch.Generator) -> np.ndarray:
        """As the network says, with its own noise."""
        angles = states[:, 1:3]
        seen = arm.observe(angles, targets - arm.finger(angles), states[:, 3:])
        noise = None if self.mode else torch.randn(len(states), 2, generator=generator)
        return self.actor.act(seen, noise)


@dataclass(frozen=True)
class Exploration:
    """Both joints as independent Ornstein-Uhlenbeck processes with inertia.

    Args:
        spread: standard deviation of each angle, in radians.
        memory: seconds over which an angle is forgotten.
        inertia: seconds over which a speed is.
    """

    spread: float = 0.9
    memory: float = 3.0
    inertia: float = 0.5

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("spread", "memory", "inertia"):
            check_number(name, getattr(self, name), "be positive and finite", lambda value: value > 0)
        if self.inertia < 2 * arm.STEP:
            raise ValueError(f"inertia must be at least {2 * arm.STEP} s, two steps, got {self.inertia}")

    @functools.cached_property
    def _law(self) -> tuple[np.ndarray, float, np.ndarray]:
        """Acceleration (2,) from angle and speed, noise of the speed, stationary covariance (2, 2)."""
        pull = -np.array([1 / self.memory, 1.0]) / self.inertia
        speed = np.array([0.0, 1.0]) + arm.STEP * pull
        step = np.stack((np.array([1.0, 0.0]) + arm.STEP * speed, speed))
        noise = np.array([arm.STEP, 1.0])
        covariance = scipy.linalg.solve_discrete_lyapunov(step, np.outer(noise, noise))
        scale = self.spread / np.sqrt(covariance[0, 0])
        return pull, float(scale), covariance * scale**2

    def starts(self, n: int, generator: torch.Generator) -> np.ndarray:
        """From the stationary law, both joints alike and independent."""
        *_, covariance = self._law
        drawn = torch.randn(n, 2, 2, generator=generator, dtype=torch.float64).numpy()
        states = np.zeros((n, 5))
        states[:, 1:] = (drawn @ np.linalg.cholesky(covariance).T).transpose(0, 2, 1).reshape(n, 4)
        return states

    def act(self, states: np.ndarray, targets: np.ndarray, generator: torch.Generator) -> np.ndarray:
        """The torques that make the next step one of the process, cut off at -1 and 1."""
        angles, speeds = states[:, 1:3], states[:, 3:]
        (stiffness, friction), noise, _ = self._law
        shock = torch.randn(len(states), 2, generator=generator, dtype=torch.float64).numpy()
        wanted = stiffness * angles + friction * speeds + noise / arm.STEP * shock
        return np.asarray(np.clip(torques(angles, speeds, wanted), -1, 1))


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
    inertia[:, [0, 1], [0, 1]] += arm.STEP * damping
    bias = np.stack((-sine * second * (2 * first + second), sine * first**2), 1)
    forces = np.einsum("nij,nj->ni", inertia, accelerations) + bias + damping * speeds
    return np.asarray(forces / gear)


@functools.cache
def _constants() -> tuple[float, float, float, float, float]:
    """Of M = [[upper + 2 coupling cos, lower + coupling cos], [., lower]]; damping and gear of the joints."""
    mujoco, model = arm.simulator(), arm.model()
    data, found = mujoco.MjData(model), []
    for wrist in (np.pi / 2, 0.0):
        data.qpos[:] = (0.0, wrist)
        mujoco.mj_forward(model, data)
        product = np.zeros(2)
        mujoco.mj_mulM(model, data, product, np.array([1.0, 0.0]))
        found.append(product)
    (upper, lower), (_, straight) = found
    return (
        float(upper),
        float(straight - lower),
        float(lower),
        float(model.dof_damping[0]),
        float(model.actuator_gear[0, 0]),
    )


POLICIES: dict[str, Callable[[], Policy]] = {"sac": Learned, "random": Uniform, "ou": Exploration}
