"""Joint angles along episodes: of a file, or of a policy that is recorded once; some pairs of each."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from isojepa.files import write_whole
from isojepa.opening import plain_file
from isojepa.worlds.control import STEPS, reacher_episodes
from isojepa.worlds.episodes import read_episodes
from isojepa.worlds.frames import stores
from isojepa.worlds.images.cache import bar, digest
from isojepa.worlds.reacher.look import JOINTS
from isojepa.worlds.trajectories import Recorded, Trajectories


def trajectories_of(angles: Any) -> Trajectories:
    """Angles by episode, (episodes, steps, 2) or a list of (steps_i, 2), as trajectories.

    Raises:
        ValueError: they have another shape, or are not finite; the message says where.
    """
    if isinstance(angles, Trajectories):
        found = angles
    else:
        several = not isinstance(angles, list | tuple)
        given = list(np.asarray(angles)) if several else [np.asarray(episode) for episode in angles]
        if not given or any(episode.ndim != 2 or episode.shape[1] != len(JOINTS) for episode in given):
            shapes = sorted({episode.shape for episode in given})[:3]
            raise ValueError(
                "angles must be (episodes, steps, 2) or a list of (steps, 2), shoulder and wrist, got "
                f"{len(given)} episodes of shapes {', '.join(map(str, shapes)) or 'none'}"
            )
        for number, episode in enumerate(given):
            if not np.isfinite(episode).all():
                step = int(np.flatnonzero(~np.isfinite(episode).all(1))[0])
                raise ValueError(
                    f"angles must be finite, got {episode[step]} in episode {number}, step {step}"
                )
        found = Trajectories("angles", given)
    if found.shape != (len(JOINTS),):
        raise ValueError(f"angles must be two at each step, shoulder and wrist, got shape {found.shape}")
    return found


def read_angles(path: Path) -> Any:
    """Joint angles of a file: NumPy's, (episodes, steps, 2), or of episodes, their column qpos.

    Raises:
        ValueError: it is neither.
        OSError: it cannot be read.
    """
    if path.suffix != ".npy":
        return read_episodes(path).vectors("qpos")
    return np.load(plain_file(path), mmap_mode="r", allow_pickle=False)


def policy_angles(policy: str, episodes: int, seed: int, data: str = "") -> np.ndarray:
    """Joint angles (episodes, steps, 2) of a policy's episodes, simulated once and kept beside the frames.

    They are kept because a simulation may round otherwise on another machine, and frames belong to angles.

    Args:
        policy: sac, random or ou; see `isojepa.worlds.control`.
        episodes, seed: as of `reacher_episodes`.
        data: the folder of stores; empty for one in the user's cache.
    """
    path = stores(data) / f"reacher-{policy}-{episodes}-{seed}.npy"
    if not path.exists():
        with bar(f"episodes of {policy}", episodes * (STEPS - 1)) as progress:
            found = reacher_episodes(policy, episodes, STEPS, seed, progress)
        angles = np.stack(found.vectors("qpos")).astype(np.float32)

        def write(temporary: Path) -> None:
            with open(temporary, "wb") as file:
                np.save(file, angles, allow_pickle=False)

        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, write)
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def some_pairs(
    recorded: Recorded, count: int, source: torch.Generator
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Some pairs of each episode, without replacement, in the order of time; or as many by their weights.

    Args:
        recorded: the episodes, with a stride. Where its pairs have weights they are drawn by these, with
            replacement and from all episodes alike, and turned round as it says.
        count: pairs of each episode, all of one that has fewer; with weights, of the mean episode.
        source: draws them.

    Returns:
        The episode of each pair, (pairs,), and the angles of both its ends, each (pairs, 2).
    """
    if recorded.weights is not None:
        path, *ends = recorded.in_order().draw(count * recorded.paths, source)
        first, second = (recorded.states.gather(path, at) for at in ends)
        return path, (first, second)
    chosen, start = [], 0
    for length in recorded.states.lengths:
        pairs = max(0, int(length) - recorded.stride)
        chosen.append(start + torch.randperm(pairs, generator=source)[:count].sort().values)
        start += pairs
    path, step = recorded.locate(torch.cat(chosen).numpy())
    first, second = (recorded.states.gather(path, at) for at in (step, step + recorded.stride))
    return path, (first, second)


def content_of(states: np.ndarray) -> dict[str, Any]:
    """What tells recorded states from others: their own bytes."""
    return {"law": "recorded", "digest": digest(np.ascontiguousarray(states, dtype=np.float32).tobytes())}
