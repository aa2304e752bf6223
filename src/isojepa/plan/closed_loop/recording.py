"""Episodes of a plant: recorded from random actions, or read from the files of stable-worldmodel.

As in those files, `actions[t]` leaves row t, and the last row of an episode has none: NaN.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isojepa.arguments import check_count, checked
from isojepa.names import choose
from isojepa.opening import plain_file
from isojepa.plan.closed_loop.plants import Plant
from isojepa.plan.closed_loop.reacher import WRIST
from isojepa.plan.planners.problems import ActionSpace

_COLUMNS = ("qpos", "qvel", "action", "ep_len", "ep_offset")


@dataclass(frozen=True)
class Episodes:
    """Rows of episodes, which may differ in length.

    Attributes:
        qpos, qvel: (steps_i, joints) of each episode.
        actions: (steps_i, m), the last row NaN.

    Raises:
        ValueError: there is none, lengths differ, or an action before the last row is not finite.
    """

    qpos: Sequence[np.ndarray]
    qvel: Sequence[np.ndarray]
    actions: Sequence[np.ndarray]

    def __post_init__(self) -> None:
        if not len(self.qpos) or len({len(self.qpos), len(self.qvel), len(self.actions)}) > 1:
            raise ValueError(
                "episodes must be one at least, with qpos, qvel and actions of each, got "
                f"{len(self.qpos)}, {len(self.qvel)} and {len(self.actions)}"
            )
        for place, parts in enumerate(zip(self.qpos, self.qvel, self.actions, strict=True)):
            if len(set(map(len, parts))) > 1:
                raise ValueError(f"episode {place} must have as many qpos as qvel and actions")
            if not all(np.isfinite(part).all() for part in (*parts[:2], parts[2][:-1])):
                raise ValueError(f"episode {place} must be finite but for its last action, got NaN or Inf")

    def __len__(self) -> int:
        return len(self.qpos)

    def part(self, places: Sequence[int] | np.ndarray) -> "Episodes":
        """Some of the episodes."""
        columns = (self.qpos, self.qvel, self.actions)
        return Episodes(*([column[int(place)] for place in places] for column in columns))

    def split(self, share: float, generator: torch.Generator) -> tuple["Episodes", "Episodes"]:
        """Two parts, the second with a share of the episodes: to fit models on, and to hold out.

        Raises:
            ValueError: one of them would be empty.
        """
        order = torch.randperm(len(self), generator=generator).numpy()
        held = round(share * len(self))
        if not 0 < held < len(self):
            raise ValueError(f"share must leave episodes on both sides, got {share} of {len(self)}")
        return self.part(order[held:]), self.part(order[:held])


@checked
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
    rows = [plant.reset(draw_poses(start, episodes, generator), np.zeros((episodes, 2)))]
    rows += [plant.step(actions[:, step]) for step in range(steps - 1)]
    actions[:, -1] = np.nan
    qpos, qvel = (np.stack([getattr(row, name) for row in rows], 1) for name in ("qpos", "qvel"))
    return Episodes(list(qpos), list(qvel), list(actions))


def draw_poses(law: str, count: int, generator: torch.Generator) -> np.ndarray:
    """(count, 2) angles by a law: "gaussian", N(0, I) where the wrist can be, or "uniform" over all poses.

    Raises:
        ValueError: the law is unknown.
    """
    return choose("law", law, {"gaussian": _gaussian, "uniform": _uniform})(count, generator)


def _uniform(count: int, generator: torch.Generator) -> np.ndarray:
    """(count, 2) angles as dm_control starts: the shoulder anywhere, the wrist anywhere within its limits."""
    signs = 2 * torch.rand(count, 2, generator=generator, dtype=torch.float64) - 1
    return np.asarray(signs.numpy() * (np.pi, WRIST))


def _gaussian(count: int, generator: torch.Generator) -> np.ndarray:
    """(count, 2) angles from N(0, I), drawn anew where the wrist cannot be."""
    poses = torch.randn(count, 2, generator=generator, dtype=torch.float64)
    while bool((beyond := poses[:, 1].abs() > WRIST).any()):
        poses[beyond] = torch.randn(int(beyond.sum()), 2, generator=generator, dtype=torch.float64)
    return poses.numpy()


@checked
def read_episodes(path: Path, most: int | None = None) -> Episodes:
    """Episodes of an HDF5 file of stable-worldmodel: flat columns qpos, qvel, action, ep_len, ep_offset.

    Args:
        path: of the file.
        most: how many of the first episodes are read; all by default.

    Raises:
        ValueError: a column is missing or does not fit the others.
        ImportError: h5py is not installed.
    """
    try:
        import h5py
    except ImportError:
        raise ImportError("episode files need h5py: pip install 'isojepa[mujoco]'") from None
    with h5py.File(plain_file(Path(path)), "r") as file:
        missing = [name for name in _COLUMNS if not isinstance(file.get(name), h5py.Dataset)]
        if missing:
            raise ValueError(f"{path} must have the columns {', '.join(_COLUMNS)}, got no {missing[0]}")
        lengths, offsets = (np.asarray(file[name][:most], dtype=np.int64) for name in _COLUMNS[3:])
        rows = min(len(file[name]) for name in _COLUMNS[:3])
        if len(lengths) != len(offsets) or ((lengths < 2) | (offsets < 0) | (offsets + lengths > rows)).any():
            raise ValueError(f"{path} must have episodes of two rows at least within its {rows} rows")
        columns: list[Any] = [
            [np.asarray(file[name][start : start + length], dtype=np.float64) for start, length in spans]
            for name in _COLUMNS[:3]
            for spans in [list(zip(offsets, lengths, strict=True))]
        ]
    return Episodes(*columns)


def check_space(episodes: Episodes, space: ActionSpace) -> None:
    """Say where recorded actions have another width than the plant's."""
    width = episodes.actions[0].shape[-1]
    if width != space.width:
        raise ValueError(f"recorded actions must have {space.width} numbers as the plant's, got {width}")
