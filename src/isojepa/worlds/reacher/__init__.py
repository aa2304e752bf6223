"""The Reacher of dm_control: joint angles as latents, frames as observations."""

from isojepa.worlds.control.arm import LIMIT
from isojepa.worlds.reacher.ceiling import (
    aligned_r2,
    conditional_mean,
    normal_r2,
    r2_ceiling,
    sample_ceiling,
    wrapped_share,
)
from isojepa.worlds.reacher.look import JOINTS, Look
from isojepa.worlds.reacher.spec import ReacherEpisodesSpec, ReacherSpec
from isojepa.worlds.reacher.world import Reacher

__all__ = [
    "JOINTS",
    "LIMIT",
    "Look",
    "Reacher",
    "ReacherEpisodesSpec",
    "ReacherSpec",
    "aligned_r2",
    "conditional_mean",
    "normal_r2",
    "r2_ceiling",
    "sample_ceiling",
    "wrapped_share",
]
