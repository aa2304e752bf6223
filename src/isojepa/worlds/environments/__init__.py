"""Environments: the same states seen by several observers, by name."""

from isojepa.worlds.environments.emoji import EmojiSpec
from isojepa.worlds.environments.latents import LatentObservers, LatentsSpec
from isojepa.worlds.environments.naming import PictureEnvironment, environment
from isojepa.worlds.environments.recipes import RecipesSpec

__all__ = [
    "EmojiSpec",
    "LatentObservers",
    "LatentsSpec",
    "PictureEnvironment",
    "RecipesSpec",
    "environment",
]
