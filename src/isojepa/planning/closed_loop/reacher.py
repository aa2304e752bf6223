r"""dm_control's `reacher hard` as a plant: MuJoCo's physics stepped directly, and frames of it.

The shoulder turns without end, the wrist within +-2.79 rad. Torques are 0.05 a, |a| <= 1, damping is 0.01, a
step takes 0.02 s. A shoulder with the wrist stretched follows within 0.15 s, the wrist within 0.02 s; neither
is faster than 5 rad/s. The target takes no part.

    M(w) v' = 0.05 a - 0.01 v - c(w, v),   M = [[p + 2 q cos w, r + q cos w], [r + q cos w, r]]

are the equations of the arm, for a wrist angle w within its limits; `ReacherModel` has them in torch, with
p, q, r read from MuJoCo's mass matrix and its steps of time: the model of whoever knows everything.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from isojepa.arguments import check_count, checked
from isojepa.encoders.world_model import Stepwise
from isojepa.names import shown
from isojepa.planning.closed_loop.plants import State
from isojepa.planning.planners.problems import ActionSpace
from isojepa.worlds.control.arm import LIMIT, load_model
from isojepa.worlds.reacher import Look
from isojepa.worlds.rendering import import_mujoco


class ReacherPlant:
    """Copies of the arm.

    Args:
        repeat: steps of the physics, 0.02 s each, for which an action is held.

    Raises:
        ImportError: MuJoCo or dm_control is not installed.
    """

    @checked
    def __init__(self, repeat: int = 1) -> None:
        self.repeat = check_count("repeat", repeat)
        self._mujoco = import_mujoco()
        self.model = load_model()
        self._data: list[Any] = []
        self.space = ActionSpace.box(2)

    @property
    def seconds(self) -> float:
        """That one step takes."""
        return float(self.model.opt.timestep) * self.repeat

    def reset(self, qpos: np.ndarray, qvel: np.ndarray) -> State:
        """Put copies of the arm, as many as there are rows, into states (copies, 2).

        Raises:
            ValueError: something is not finite, or not two numbers a row.
        """
        # the wrist's limit is a stiff spring: recorded rows may lie a little beyond it
        qpos, qvel = _pairs("qpos", qpos), _pairs("qvel", qvel)
        if qvel.shape != qpos.shape:
            raise ValueError(f"qvel must be {qpos.shape} as qpos, got {qvel.shape}")
        while len(self._data) < len(qpos):
            self._data.append(self._mujoco.MjData(self.model))
        del self._data[len(qpos) :]
        for data, position, velocity in zip(self._data, qpos, qvel, strict=True):
            self._mujoco.mj_resetData(self.model, data)
            data.qpos[:], data.qvel[:] = position, velocity
        return self.state

    @property
    def state(self) -> State:
        """Where the copies are."""
        return State(
            np.array([data.qpos for data in self._data]), np.array([data.qvel for data in self._data])
        )

    def step(self, actions: np.ndarray) -> State:
        """Move the copies under actions (copies, 2), which MuJoCo clips to [-1, 1].

        Raises:
            ValueError: actions have another shape, or are not finite.
        """
        actions = np.asarray(actions, dtype=np.float64)
        if actions.shape != (len(self._data), 2) or not np.isfinite(actions).all():
            raise ValueError(
                f"actions must be finite and {(len(self._data), 2)}, a row for each arm, got {actions.shape}"
            )
        for data, action in zip(self._data, actions, strict=True):
            data.ctrl[:] = action
            self._mujoco.mj_step(self.model, data, self.repeat)
        return self.state

    def observe(self, qpos: np.ndarray, look: Look) -> np.ndarray:
        """Frames of angles (n, 2): uint8 (n, size, size, 3), as encoders of the Reacher are shown them.

        Raises:
            NoRendering: nothing here draws.
        """
        return look.drawn(qpos)


class ReacherModel(Stepwise):
    """The equations of the arm as a model of its angles and velocities: latents (batch, 4).

    Args:
        plant: whose masses and step it has.
        block: steps of the plant in one of the model, with an action (2 numbers) for each.

    At the wrist's limit it stops dead, where MuJoCo's is a stiff spring.
    """

    def __init__(self, plant: ReacherPlant, block: int = 1) -> None:
        self.block, self.repeat = check_count("block", block), plant.repeat
        self._step = float(plant.model.opt.timestep)
        self._damping = float(plant.model.dof_damping[0])
        self._gear = float(plant.model.actuator_gear[0, 0])
        stretched, bent = plant_mass(plant, 0.0), plant_mass(plant, np.pi / 2)
        self._p, self._r = float(bent[0, 0]), float(bent[1, 1])
        self._q = float(stretched[0, 1] - stretched[1, 1])

    def step(self, h: Tensor, a: Tensor) -> Tensor:
        """The next (angles, velocities) (batch, 4) after actions (batch, 2 block)."""
        for action in a.unflatten(1, (self.block, 2)).unbind(1):
            for _ in range(self.repeat):
                h = self._moved(h, action)
        return h

    def _moved(self, h: Tensor, a: Tensor) -> Tensor:
        shoulder, wrist, v, w = h.unbind(-1)
        cos, sin = torch.cos(wrist), torch.sin(wrist)
        coupling = self._q * sin
        force_v = self._gear * a[:, 0] - self._damping * v + coupling * w * (2 * v + w)
        force_w = self._gear * a[:, 1] - self._damping * w - coupling * v * v
        # MuJoCo's Euler steps take damping as it will be: (M + dt D) v' = force
        implicit = self._step * self._damping
        m11 = self._p + 2 * self._q * cos + implicit
        m12 = self._r + self._q * cos
        m22 = self._r + implicit
        determinant = m11 * m22 - m12 * m12
        v = v + self._step * (m22 * force_v - m12 * force_w) / determinant
        w = w + self._step * (m11 * force_w - m12 * force_v) / determinant
        turned = wrist + self._step * w
        limited = torch.clamp(turned, -LIMIT, LIMIT)
        w = torch.where(turned == limited, w, 0.0)
        return torch.stack((shoulder + self._step * v, limited, v, w), -1)


def plant_mass(plant: ReacherPlant, wrist: float) -> np.ndarray:
    """MuJoCo's mass matrix (2, 2) at an angle of the wrist."""
    mujoco = import_mujoco()
    data = mujoco.MjData(plant.model)
    data.qpos[1] = wrist
    mujoco.mj_forward(plant.model, data)
    mass = np.zeros((2, 2))
    mujoco.mj_fullM(plant.model, data, mass)
    return mass


def _pairs(name: str, values: Any) -> np.ndarray:
    pairs = np.asarray(values, dtype=np.float64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.isfinite(pairs).all():
        raise ValueError(f"{name} must be finite numbers (n, 2) of shoulder and wrist, got {shown(values)}")
    return pairs
