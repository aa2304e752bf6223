"""Environments: the same states seen by several observers, by name."""

from isojepa.worlds.environments.cameras import CamerasSpec
from isojepa.worlds.environments.emoji import EmojiSpec
from isojepa.worlds.environments.latents import LatentObservers, LatentsSpec
from isojepa.worlds.environments.norb import SmallNorbSpec
from isojepa.worlds.environments.pictures import PictureEnvironment
from isojepa.worlds.environments.recipes import RecipesSpec
from isojepa.worlds.environments.rig import RigSpec
from isojepa.worlds.environments.robomimic import RobomimicSpec
from isojepa.worlds.environments.toys import ToysSpec

__all__ = [
    "CamerasSpec",
    "EmojiSpec",
    "LatentObservers",
    "LatentsSpec",
    "PictureEnvironment",
    "RecipesSpec",
    "RigSpec",
    "RobomimicSpec",
    "SmallNorbSpec",
    "ToysSpec",
]
