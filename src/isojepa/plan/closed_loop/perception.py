r"""What a controller knows of a plant: latents of what it sees, with their change since the last step.

    s_t = (h_t, h_t - h_{t-1}),    h = encoder(observation)

One frame has no velocity, so two are encoded, the second being the one before. A goal is one frame, or one
pose, and asks for rest: (h_goal, 0). Encoders are any function from observations to rows: a trained one of
frames, the true angles, a rotation or a warp of them, or another agent's through the map between the two.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from isojepa.align.maps import AlignmentMap
from isojepa.arguments import check_count
from isojepa.encoders.modes import embed
from isojepa.plan.closed_loop.plants import Plant, State
from isojepa.plan.planners.costs import wrapped
from isojepa.seeds import generator


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
        model: from pictures (n, 3, size, size) to latents; a module or function.
        mean, std: of the channels, that pixels in [0, 1] are normalised by.
        size: side of the frames in pixels.
        batch: frames that are encoded at once.
    """

    model: nn.Module | Callable[[Tensor], Any]
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    size: int = 64
    batch: int = 256

    def __post_init__(self) -> None:
        check_count("size", self.size)
        check_count("batch", self.batch)

    def __call__(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        parts = [self._encoded(plant, qpos[i : i + self.batch]) for i in range(0, len(qpos), self.batch)]
        return torch.cat(parts).float()

    def _encoded(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        frames = torch.from_numpy(plant.observe(qpos, self.size)).movedim(-1, 1).float() / 255
        mean, std = (frames.new_tensor(part)[:, None, None] for part in (self.mean, self.std))
        return embed(self.model, (frames - mean) / std)


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


def warped(inner: Encoder, strength: float = 1.0) -> Mapped:
    """Latents through a smooth map that is one to one and not linear: h + strength sin(2 h) / 2, then mixed.

    For strength below 1 each coordinate rises everywhere; at 1 it stands still where cos(2 h) = -1.
    """

    def warp(h: Tensor) -> Tensor:
        bent = h + strength * torch.sin(2 * h) / 2
        return bent + strength * torch.roll(bent, 1, -1).square() * h.new_tensor(
            [0.3] + [0.0] * (h.shape[-1] - 1)
        )

    return Mapped(inner, warp)


def translated(inner: Encoder, map: AlignmentMap) -> Mapped:
    """One agent's latents in another's coordinates, by the map between them: z_other ~ W z_own.

    With it, the dynamics and the cost of the one plan for what the other sees.
    """
    return Mapped(inner, lambda h: torch.from_numpy(map.transform(h.double().numpy())).to(h))


class Perception(Protocol):
    """What a controller makes of states and goals."""

    @property
    def sees(self) -> str:
        """In a word or two."""
        ...

    def latents(self, plant: Plant, state: State, before: State) -> Tensor:
        """(copies, dim) of the present state and the one a step before."""
        ...

    def goals(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        """(copies, dim) of the poses that are wanted."""
        ...


@dataclass(frozen=True)
class TwoFrames:
    """An encoder's latents and their change since the last step."""

    encoder: Encoder
    sees: str = "two observations"

    def latents(self, plant: Plant, state: State, before: State) -> Tensor:
        h = self.encoder(plant, np.concatenate((state.qpos, before.qpos)))
        now, then = h.split(len(state.qpos))
        return torch.cat((now, now - then), 1)

    def goals(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        h = self.encoder(plant, qpos)
        return torch.cat((h, torch.zeros_like(h)), 1)


@dataclass(frozen=True)
class TrueState:
    """Angles and velocities themselves."""

    sees: str = "the state"

    def latents(self, plant: Plant, state: State, before: State) -> Tensor:
        return torch.from_numpy(np.concatenate((state.qpos, state.qvel), 1)).float()

    def goals(self, plant: Plant, qpos: np.ndarray) -> Tensor:
        return torch.from_numpy(np.concatenate((qpos, np.zeros_like(qpos)), 1)).float()
