"""The Reacher by name, for flags, configs and records."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from isojepa.registry import Context, Spec, register
from isojepa.worlds.reacher.episodes import policy_angles, read_angles
from isojepa.worlds.reacher.look import JOINTS, Look
from isojepa.worlds.reacher.world import Reacher
from isojepa.worlds.trajectories import Recorded


@dataclass(frozen=True)
class ReacherLook(Spec):
    """What both have: how states become frames, and where these are kept."""

    costless: ClassVar = (  # frames are kept: a step costs the same whatever states they are of
        *("squash", "states", "rho", "pairs", "held_out"),
        *("episodes", "stride", "per_episode", "strength"),
    )

    quality: str = "fast"
    """Of the frames: fast, or dmc for dm_control's own pixels."""
    squash: bool = False
    """Squash angles into the wrist's range, so that no two states look alike."""
    size: int = 64
    """Side of the frames in pixels."""
    pool: int = 1
    """Side of the squares of pixels whose mean is one of an observation."""
    states: int = 0
    """Seed that the states to train on are drawn from."""
    data: str = ""
    """Folder of the frames; empty for one in the user's cache."""

    @property
    def look(self) -> Look:
        """How states become frames."""
        return Look(self.quality, self.squash, self.size, pool=self.pool)

    def around(self, seed: int) -> Context:
        """Known without rendering anything, but for the correlation."""
        shape = self.look.observed
        return Context(len(JOINTS), (shape, shape), seed=seed)


@register("world", "reacher")
@dataclass(frozen=True)
class ReacherSpec(ReacherLook):
    """Frames of dm_control's Reacher at Gaussian joint angles, rendered once and kept."""

    rho: float = 0.95
    """Correlation of a pair, in (0, 1)."""
    pairs: int = 20_000
    """Pairs to train on."""
    held_out: int = 10_000
    """Pairs that are held out; their first states are the same in all conditions."""

    def build(self, context: Context) -> Reacher:
        return Reacher.gaussian(
            self.rho,
            self.pairs,
            look=self.look,
            held_out=self.held_out,
            seed=self.states,
            data=self.data,
        )


@register("world", "reacher-episodes")
@dataclass(frozen=True)
class ReacherEpisodesSpec(ReacherLook):
    """Frames of dm_control's Reacher at recorded joint angles, rendered once and kept."""

    angles: str = ""
    """File of joint angles: NumPy's, (episodes, steps, 2), or episodes with a column qpos; or a policy's."""
    policy: str = "sac"
    """Whose episodes are recorded where no file is named, once, and kept: sac, random or ou."""
    episodes: int = 10_000
    """How many of them."""
    stride: int = 8
    """Steps between the two ends of a pair."""
    per_episode: int = 10
    """Pairs of each episode."""
    evaluation: str = "episodes"
    """What is held out: episodes, or the gaussian states that all conditions share."""
    held_out: float = 0.2
    """Share of the episodes that are held out, where episodes are."""

    def build(self, context: Context) -> Reacher:
        return self.drawn(None)

    def drawn(self, weigh: Callable[[Recorded], Recorded] | None) -> Reacher:
        """The world, its pairs to train on drawn by weights; see `Reacher.recorded`."""
        return Reacher.recorded(
            self.recording(),
            self.stride,
            per_episode=self.per_episode,
            weigh=weigh,
            look=self.look,
            evaluation=self.evaluation,
            held_out=self.held_out,
            seed=self.states,
            data=self.data,
        )

    def recording(self) -> Any:
        """Joint angles by episode: the file's, or those of a policy, recorded now if they never were."""
        if self.angles:
            return read_angles(Path(self.angles).expanduser())
        return policy_angles(self.policy, self.episodes, self.states, self.data)
