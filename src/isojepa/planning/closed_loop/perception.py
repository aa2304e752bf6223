r"""What a controller knows of a plant: latents of what it sees, with their change over the last steps.

    s_t = (h_t, h_t - h_{t-l}),    h = encoder(observation)

One frame has no velocity, so two are encoded, l steps apart: the true angles need one step, a trained encoder
several, since what it errs from frame to frame would drown a smaller change. A goal is one frame, or one
pose, and asks for rest: (h_goal, 0). Encoders are any function from observations to rows: a trained one of
frames, the true angles, a rotation or a warp of them, or another agent's through the map between the two.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from isojepa.align.maps import AlignmentMap
from isojepa.arguments import check_count, check_number
from isojepa.encoders.model import embed
from isojepa.planning.closed_loop.plants import History, Plant
from isojepa.planning.planners.problems import wrapped
from isojepa.seeds import generator
from isojepa.worlds.reacher.look import Colours, Look


class Encoder(Protocol):
    """Latents of poses, as far as they are seen."""

    def __call__(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        """Latents (n, dim) of what is seen of poses (n, joints)."""
        ...


@dataclass(frozen=True)
class Angles:
    """The true angles.

    Attributes:
        wrapped: modulo 2 pi, between -pi and pi: the most that a frame can tell.
    """

    wrapped: bool = False

    def __call__(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        angles = torch.as_tensor(qpos, dtype=torch.float32)
        return wrapped(angles) if self.wrapped else angles


@dataclass(frozen=True)
class Frames:
    """An encoder of frames.

    Attributes:
        model: from observations (n, 3, size, size) to latents; a module or function.
        look: how frames are drawn.
        colours: mean and deviation of the channels that pixels in [0, 1] are normalised by; by default those
            of the look.
        batch: frames that are encoded at once.
    """

    model: nn.Module | Callable[[Tensor], Any]
    look: Look = field(default_factory=Look)
    colours: Colours | None = None
    batch: int = 256

    def __post_init__(self) -> None:
        check_count("batch", self.batch)

    def __call__(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        parts = [self._encoded(plant, qpos[i : i + self.batch]) for i in range(0, len(qpos), self.batch)]
        return torch.cat(parts).float()

    def _encoded(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        return embed(self.model, self.look.normalised(plant.observe(qpos, self.look), self.colours))


@dataclass(frozen=True)
class Mapped:
    """Another encoder's latents through a function."""

    inner: Encoder
    function: Callable[[Tensor], Tensor]

    def __call__(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        return self.function(self.inner(plant, qpos))


def rotated(inner: Encoder, dim: int, seed: int = 0) -> Mapped:
    """Latents of `dim` coordinates through a random rotation."""
    drawn = torch.randn(dim, dim, generator=generator(seed, "rotation"), dtype=torch.float64)
    rotation = torch.linalg.qr(drawn)[0].float()
    return Mapped(inner, lambda h: h @ rotation.T)


def warped(inner: Encoder, strength: float = 0.95) -> Mapped:
    """Latents through a smooth map that is one to one and not linear, for strengths in (0, 1).

    Each coordinate h becomes u = h + strength sin(2 h) / 2; then strength u_2^2 / 3 is added to the first.
    """
    check_number("strength", strength, "lie in (0, 1)", lambda value: 0 < value < 1)

    def warp(h: Tensor) -> Tensor:
        u = h + strength * torch.sin(2 * h) / 2
        first = u[:, :1] + strength * u[:, 1:2].square() / 3
        return torch.cat((first, u[:, 1:]), 1)

    return Mapped(inner, warp)


def translated(inner: Encoder, map: AlignmentMap) -> Mapped:
    """One agent's latents in another's coordinates, by the map between them: z_other ~ W z_own.

    With it, the dynamics and the cost of the one plan for what the other sees.
    """
    return Mapped(inner, lambda h: torch.from_numpy(map.transform(h.double().numpy())).to(h))


class Perception(Protocol):
    """What a controller makes of what has been, and of goals."""

    def latents(self, plant: Plant, history: History) -> Tensor:
        """(copies, dim) of the present."""
        ...

    def goals(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        """(copies, dim) of the poses that are wanted."""
        ...


@dataclass(frozen=True)
class TwoFrames:
    """An encoder's latents and their change.

    Attributes:
        encoder: of each frame.
        lag: steps from the earlier frame to the present.
    """

    encoder: Encoder
    lag: int = 1

    def __post_init__(self) -> None:
        check_count("lag", self.lag)

    def latents(self, plant: Plant, history: History) -> Tensor:
        seen = [history.ago(steps).qpos for steps in (0, self.lag)]
        now, then = self.encoder(plant, np.concatenate(seen)).chunk(2)
        return torch.cat((now, now - then), 1)

    def goals(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        h = self.encoder(plant, qpos)
        return torch.cat((h, torch.zeros_like(h)), 1)


@dataclass(frozen=True)
class TrueState:
    """Angles and velocities themselves."""

    def latents(self, plant: Plant, history: History) -> Tensor:
        state = history.ago(0)
        return torch.from_numpy(np.concatenate((state.qpos, state.qvel), 1)).float()

    def goals(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        return torch.from_numpy(np.concatenate((qpos, np.zeros_like(qpos)), 1)).float()
