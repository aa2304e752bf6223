r"""Plants, the systems under control, and tasks: starts, goals and the definition of success.

A plant moves several copies at once. `ReacherPlant` is dm_control's `reacher hard`, MuJoCo's physics
stepped directly. The shoulder turns without end, the wrist within +-2.79 rad. Torques are 0.05 a, |a| <= 1,
damping is 0.01, a step takes 0.02 s. A shoulder with the wrist stretched follows within 0.15 s, the wrist
within 0.02 s; neither is faster than 5 rad/s. The target takes no part.

    M(w) v' = 0.05 a - 0.01 v - c(w, v),   M = [[p + 2 q cos w, r + q cos w], [r + q cos w, r]]

are the equations of the arm, for a wrist angle w within its limits; `ReacherModel` has them in torch, with
p, q, r read from MuJoCo's mass matrix and its steps of time: the model of an oracle.

Protocols:

    published   goals 25 rows ahead in recorded episodes, the start's velocity kept, 50 steps,
                success if |qpos - goal| < 0.05 for every joint at any step, the first included
    fair        held-out episodes or drawn poses, starts that are solved already removed, angles modulo 2 pi,
                100 steps, success if all of the last 10 are within 0.05

Random actions can succeed under the published protocol: a start may be within the tolerance, and passing
the goal counts as success, while an angle that differs by a full turn does not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from isojepa.data.episodes import Episodes
from isojepa.encoders.world_model import Stepwise
from isojepa.planning.problems import ActionSpace
from isojepa.validation import check_count, check_number, choose, short_repr, validate_fields, validate_types
from isojepa_lab.environments.control import LIMIT, load_model
from isojepa_lab.environments.reacher_frames import ArmLook
from isojepa_lab.environments.rendering import import_mujoco


@dataclass(frozen=True)
class State:
    """Where copies of a plant are.

    Attributes:
        qpos, qvel: (copies, joints) positions and velocities.
    """

    qpos: np.ndarray
    qvel: np.ndarray


@dataclass
class History:
    """The states of a run so far.

    Attributes:
        states: from the start on.
        seconds: that a step takes.
    """

    states: list[State]
    seconds: float

    def ago(self, steps: int) -> State:
        """Where the copies were so many steps ago; before the start, where their velocity came from."""
        if steps < len(self.states):
            return self.states[-1 - steps]
        first = self.states[0]
        earlier = (steps - len(self.states) + 1) * self.seconds
        return State(first.qpos - earlier * first.qvel, first.qvel)


class Plant(Protocol):
    """What is controlled."""

    @property
    def space(self) -> ActionSpace:
        """Of the actions of one step."""
        ...

    @property
    def seconds(self) -> float:
        """That one step takes."""
        ...

    def reset(self, qpos: np.ndarray, qvel: np.ndarray) -> State:
        """Put copies, as many as there are rows, into states (copies, joints)."""
        ...

    def step(self, actions: np.ndarray) -> State:
        """Move the copies by one step each, under actions (copies, m)."""
        ...

    def observe(self, qpos: np.ndarray, look: ArmLook) -> np.ndarray:
        """Frames of positions (n, joints): uint8 (n, size, size, 3)."""
        ...


class ReacherPlant:
    """Copies of the arm.

    Args:
        repeat: steps of the physics, 0.02 s each, for which an action is held.

    Raises:
        ImportError: MuJoCo or dm_control is not installed.
    """

    @validate_types
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

    def observe(self, qpos: np.ndarray, look: ArmLook) -> np.ndarray:
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
        stretched, bent = _plant_mass(plant, 0.0), _plant_mass(plant, np.pi / 2)
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


def _plant_mass(plant: ReacherPlant, wrist: float) -> np.ndarray:
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
        raise ValueError(
            f"{name} must be finite numbers (n, 2) of shoulder and wrist, got {short_repr(values)}"
        )
    return pairs


@validate_types
def record(
    plant: Plant,
    episodes: int,
    steps: int,
    generator: torch.Generator,
    *,
    start: str = "uniform",
    hold: int = 1,
) -> Episodes:
    """Episodes of random actions, uniform within the bounds, from random poses at rest.

    Args:
        plant: moved by them.
        episodes: how many.
        steps: rows of each.
        generator: draws poses and actions.
        start: the law of the first poses, "uniform" or "gaussian"; an encoder knows the poses it was shown.
        hold: steps for which an action is held; 1 draws each anew. Held ones reach higher speeds.
    """
    check_count("episodes", episodes)
    check_count("steps", steps, 2)
    check_count("hold", hold)
    low, high = plant.space.low.double(), plant.space.high.double()
    chances = torch.rand(episodes, -(-steps // hold), plant.space.width, generator=generator).double()
    actions = (low + (high - low) * chances).repeat_interleave(hold, 1)[:, :steps].numpy()
    rows = [plant.reset(_draw_poses(start, episodes, generator), np.zeros((episodes, 2)))]
    rows += [plant.step(actions[:, step]) for step in range(steps - 1)]
    actions[:, -1] = np.nan
    qpos, qvel = (np.stack([getattr(row, name) for row in rows], 1) for name in ("qpos", "qvel"))
    return Episodes.of({"qpos": qpos, "qvel": qvel, "action": actions}, source="recorded episodes")


def _draw_poses(law: str, count: int, generator: torch.Generator) -> np.ndarray:
    """(count, 2) angles by a law: "gaussian", N(0, I) where the wrist can be, or "uniform" over all poses.

    Raises:
        ValueError: the law is unknown.
    """
    return choose("law", law, {"gaussian": _gaussian, "uniform": _uniform})(count, generator)


def _uniform(count: int, generator: torch.Generator) -> np.ndarray:
    """(count, 2) angles as dm_control starts: the shoulder anywhere, the wrist anywhere within its limits."""
    signs = 2 * torch.rand(count, 2, generator=generator, dtype=torch.float64) - 1
    return np.asarray(signs.numpy() * (np.pi, LIMIT))


def _gaussian(count: int, generator: torch.Generator) -> np.ndarray:
    """(count, 2) angles from N(0, I), drawn anew where the wrist cannot be."""
    poses = torch.randn(count, 2, generator=generator, dtype=torch.float64)
    while bool((beyond := poses[:, 1].abs() > LIMIT).any()):
        poses[beyond] = torch.randn(int(beyond.sum()), 2, generator=generator, dtype=torch.float64)
    return poses.numpy()


def check_space(episodes: Episodes, space: ActionSpace) -> None:
    """Say where recorded actions have another width than the plant's, or are not finite."""
    width = int(np.prod(episodes.shape("action")))
    if width != space.width:
        raise ValueError(f"recorded actions must have {space.width} numbers as the plant's, got {width}")
    episodes.actions()


_TURN = 2 * np.pi
Draw = Callable[[int], tuple[np.ndarray, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Rules:
    """What counts as success.

    Attributes:
        budget: steps of the plant.
        tolerance: rad, of each joint.
        hold: how many of the last steps must be within it; 0 if any step will do.
        wrapped: whether angles are compared modulo 2 pi.
        solved: whether starts within the tolerance are kept.
    """

    budget: int = 100
    tolerance: float = 0.05
    hold: int = 10
    wrapped: bool = True
    solved: bool = False

    def __post_init__(self) -> None:
        validate_fields(self)
        check_count("budget", self.budget)
        check_count("hold", self.hold, 0, self.budget)
        check_number("tolerance", self.tolerance, "be positive and finite", lambda value: value > 0)

    def errors(self, qpos: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """(...) largest difference of a joint between poses and goals (..., joints)."""
        difference = qpos - goals
        if self.wrapped:
            difference = difference - _TURN * np.round(difference / _TURN)
        return np.asarray(np.abs(difference).max(-1))

    def succeeded(self, errors: np.ndarray) -> np.ndarray:
        """(copies,) whether runs of errors (copies, budget + 1) count, the start first."""
        within = errors < self.tolerance
        return np.asarray(within.any(1) if not self.hold else within[:, -self.hold :].all(1))


PUBLISHED = Rules(budget=50, hold=0, wrapped=False, solved=True)
FAIR = Rules()
PROTOCOLS = {"published": PUBLISHED, "fair": FAIR}


@dataclass(frozen=True)
class Tasks:
    """Starts and goals.

    Attributes:
        qpos, qvel: (tasks, joints) at the start.
        goals: (tasks, joints).
        removed: that were solved already, or whose goal nothing can hold, and were left out.
    """

    qpos: np.ndarray
    qvel: np.ndarray
    goals: np.ndarray
    removed: int = 0

    def __len__(self) -> int:
        return len(self.qpos)


@validate_types
def tasks_from_episodes(
    episodes: Episodes, count: int, rules: Rules, generator: torch.Generator, *, offset: int = 25
) -> Tasks:
    """Starts at rows of episodes, goals `offset` rows later in the same ones.

    Args:
        episodes: held out from whatever was trained.
        count: of tasks.
        rules: which starts are solved already, and whether they stay.
        generator: chooses episodes and rows.
        offset: rows between start and goal.

    Raises:
        ValueError: no episode is longer than the offset.
    """
    check_count("count", count)
    check_count("offset", offset)
    poses, speeds = episodes.vectors("qpos"), episodes.vectors("qvel")
    long = np.flatnonzero(episodes.lengths > offset + 1).tolist()
    if not long:
        longest = int(episodes.lengths.max())
        raise ValueError(f"an episode must have more than {offset + 1} rows, got {longest} at most")

    def draw(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        samples = []
        for _ in range(n):
            place = long[int(torch.randint(len(long), (), generator=generator))]
            qpos, qvel = poses[place], speeds[place]
            row = int(torch.randint(1, len(qpos) - offset, (), generator=generator))
            samples.append((qpos[row], qvel[row], qpos[row + offset]))
        qpos, qvel, goals = (np.stack(part) for part in zip(*samples, strict=True))
        return qpos, qvel, goals

    return _kept(draw, count, rules)


@validate_types
def drawn_tasks(law: str, count: int, rules: Rules, generator: torch.Generator) -> Tasks:
    """Starts at rest and goals, both drawn: "gaussian" from N(0, I), "uniform" over all poses.

    Raises:
        ValueError: the law is unknown.
    """
    check_count("count", count)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        qpos = _draw_poses(law, n, generator)
        return qpos, np.zeros_like(qpos), _draw_poses(law, n, generator)

    return _kept(draw, count, rules)


def _kept(draw: Draw, count: int, rules: Rules) -> Tasks:
    """As many tasks as asked for, of which none is solved already, unless the rules keep those."""
    parts, have, removed = [], 0, 0
    while have < count:
        qpos, qvel, goals = draw(count - have)
        if rules.wrapped:  # the turn that is nearest to the start is the same goal
            goals = goals - _TURN * np.round((goals - qpos) / _TURN) * (1.0, 0.0)
        keep = np.full(len(qpos), True)
        if not rules.solved:
            keep = rules.errors(qpos, goals) >= rules.tolerance
            keep &= np.abs(goals[:, 1]) <= LIMIT  # beyond, where nothing can hold it, a wrist only bounces
        parts.append((qpos[keep], qvel[keep], goals[keep]))
        have += int(keep.sum())
        removed += int((~keep).sum())
        if removed > 100 * count:
            raise ValueError(f"tasks must not all be solved already, got {removed} of {removed + have}")
    qpos, qvel, goals = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Tasks(qpos, qvel, goals, removed)
