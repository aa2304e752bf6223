"""Environments: the same states seen by several observers, by name."""

from isojepa.worlds.environments.cameras import CamerasSpec
from isojepa.worlds.environments.emoji import EmojiSpec
from isojepa.worlds.environments.latents import LatentObservers, LatentsSpec
from isojepa.worlds.environments.naming import PictureEnvironment, environment
from isojepa.worlds.environments.norb import SmallNorbSpec
from isojepa.worlds.environments.recipes import RecipesSpec
from isojepa.worlds.environments.robomimic import RobomimicSpec

__all__ = [
    "CamerasSpec",
    "EmojiSpec",
    "LatentObservers",
    "LatentsSpec",
    "PictureEnvironment",
    "RecipesSpec",
    "RobomimicSpec",
    "SmallNorbSpec",
    "environment",
]
