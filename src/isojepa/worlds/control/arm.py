r"""The two-joint arm of dm_control's reacher: its physics, starts, targets and reward, for many arms at once.

A state is (time, shoulder, wrist, and their two speeds); angles are in radians and never wrapped, an action
is a torque in [-1, 1] on each joint, and a step lasts 0.02 seconds. The target takes no part in the physics,
so one model serves all arms: `mujoco.rollout` takes every one of them a step further in one call, with the
bits of dm_control's own stepping (but for the last ones where a solver starts warm).

Turning the whole arm with its target about the shoulder changes nothing, so a policy sees the five numbers
that are left of dm_control's six: the wrist, the way to the target in the upper arm's frame, and the speeds.
"""

import functools
import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isojepa.importing import install_hint
from isojepa.worlds.rendering import NoRendering, import_mujoco

LINK = 0.12  # metres from joint to joint, and from the wrist to the finger
TARGET_RADIUS = 0.015  # metres, in the task "hard"
REACH = TARGET_RADIUS + 0.01  # with that of the finger: within it lies the reward
LIMIT = math.radians(160)  # of the wrist, either way
STEP = 0.02  # seconds
NEAREST, FARTHEST = 0.05, 0.20  # metres from the shoulder to the target
_METRE, _SPEED = 0.1, 5.0  # what counts as 1 in an observation
OBSERVED = 5  # numbers of an observation


@functools.cache
def simulator() -> Any:
    """MuJoCo, imported such that it can draw too, for whoever wants frames later; here nothing is drawn.

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
    """MuJoCo's model of dm_control's reacher, which nobody changes; see `load_model`."""
    return load_model()


def load_model() -> Any:
    """A model of dm_control's reacher of one's own; dm_control, which would look for a screen, stays out.

    Raises:
        ImportError: MuJoCo or dm_control is not installed.
    """
    found = importlib.util.find_spec("dm_control")
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"the reacher needs dm_control's model: {install_hint('mujoco')}")
    path = Path(found.submodule_search_locations[0]) / "suite" / "reacher.xml"
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
    return np.stack((np.cos(upper) + np.cos(lower), np.sin(upper) + np.sin(lower)), -1) * LINK


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
    seen = (angles[..., 1], along / _METRE, across / _METRE, speeds[..., 0] / _SPEED, speeds[..., 1] / _SPEED)
    return np.stack(seen, -1).astype(np.float32)


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
