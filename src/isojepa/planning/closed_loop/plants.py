"""A plant: what is controlled. Several copies of it move at once, each from a state of its own."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from isojepa.planning.planners.problems import ActionSpace
from isojepa.worlds.reacher import Look


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

    def observe(self, qpos: np.ndarray, look: Look) -> np.ndarray:
        """Frames of positions (n, joints): uint8 (n, size, size, 3)."""
        ...
