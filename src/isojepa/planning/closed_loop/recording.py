"""Episodes of a plant under random actions, and laws of its poses."""

import numpy as np
import torch

from isojepa.arguments import check_count, checked
from isojepa.names import choose
from isojepa.planning.closed_loop.plants import Plant
from isojepa.planning.planners.problems import ActionSpace
from isojepa.worlds.control.arm import LIMIT
from isojepa.worlds.episodes import Episodes


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
    return Episodes.of({"qpos": qpos, "qvel": qvel, "action": actions}, source="recorded episodes")


def draw_poses(law: str, count: int, generator: torch.Generator) -> np.ndarray:
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
