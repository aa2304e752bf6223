"""Many arms in lockstep: episodes of a policy, 2 million steps in a minute or so of one core."""

from collections.abc import Callable

import numpy as np

from isojepa.arguments import check_count, checked
from isojepa.names import choose
from isojepa.seeds import generator
from isojepa.worlds.control import arm
from isojepa.worlds.control.policies import POLICIES, Policy
from isojepa.worlds.episodes import Episodes

STEPS = 201  # states of an episode, one more than it has actions
BLOCK = 1000  # arms that go together


def simulate(
    policy: Policy,
    episodes: int,
    steps: int = STEPS,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, np.ndarray]:
    """Columns of episodes, each (episodes, steps, ...), float64.

    Args:
        policy: drives the arms.
        episodes: how many.
        steps: states of each; there is one action less, and the last is NaN.
        seed: of starts, targets and of the policy's own noise.
        progress: called with the number of steps that were made since.

    Returns:
        `qpos` angles in radians, not wrapped; `qvel` speeds; `action`, which leaves the state of its row;
        `target`; and `reward`, which belongs to the state of its row.

    Raises:
        ImportError: MuJoCo or dm_control is not installed.
    """
    check_count("episodes", episodes)
    check_count("steps", steps, 2)
    data = arm.simulator().MjData(arm.model())
    states = np.empty((episodes, steps, 5))
    actions = np.full((episodes, steps, 2), np.nan)
    targets = np.empty((episodes, 2))
    for start in range(0, episodes, BLOCK):
        rows = slice(start, min(start + BLOCK, episodes))
        source = generator(seed, "reacher", type(policy).__name__, start)
        count = rows.stop - start
        targets[rows] = arm.draw_targets(count, source)
        states[rows, 0] = policy.starts(count, source)
        for step in range(steps - 1):
            actions[rows, step] = policy.act(states[rows, step], targets[rows], source)
            states[rows, step + 1] = arm.advance(states[rows, step], actions[rows, step, None], data)[:, 0]
            progress(count)
    aims = np.repeat(targets[:, None], steps, 1)
    return {
        "qpos": states[..., 1:3],
        "qvel": states[..., 3:],
        "action": actions,
        "target": aims,
        "reward": arm.reward(states[..., 1:3], aims),
    }


@checked
def reacher_episodes(
    policy: str = "sac",
    episodes: int = 10_000,
    steps: int = STEPS,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Episodes:
    """Episodes of dm_control's reacher under a policy by name: "sac", "random" or "ou".

    Args:
        policy: one of `POLICIES`.
        episodes, steps, seed, progress: as of `simulate`.

    Raises:
        ValueError: there is no such policy.
        ImportError: MuJoCo or dm_control is not installed.
    """
    found = simulate(choose("policy", policy, POLICIES)(), episodes, steps, seed, progress)
    flat = {name: values.reshape(episodes * steps, *values.shape[2:]) for name, values in found.items()}
    return Episodes(flat, np.full(episodes, steps), source=f"reacher under {policy}")
