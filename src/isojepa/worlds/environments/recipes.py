"""One set of pictures under two recipes of views: agents that saw the same pictures differently.

Appendix A.3 of Social-JEPA (Zhang et al., 2026): recipe A is a random resized crop of (0.2, 1), flip, colour
jitter (0.4, 0.4, 0.4, 0.1) and grey with 0.2; recipe B has a Gaussian blur with 0.5 and solarization with 0.2
besides. Each picture is a state. Agents are compared on one augmentation of each picture by each recipe,
always the same one, or on the pictures themselves (`compare="whole"`).
"""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from isojepa.arguments import check_count
from isojepa.names import choose
from isojepa.registry import register
from isojepa.worlds.environments.pictures import PictureEnvironment
from isojepa.worlds.images.observers import Observer
from isojepa.worlds.images.pictures import Pictures
from isojepa.worlds.images.views import Augmented, Views, shorter_side


@register("environment", "recipes")
@dataclass(frozen=True)
class RecipesSpec(PictureEnvironment):
    """One set of pictures under recipes A and B of Social-JEPA, or others."""

    recipes: tuple[str, ...] = ("social-a", "social-b")
    """Settings of views by name, one for each observer."""
    size: int = 0
    """Side of the views in pixels; 0 goes by the pictures, at most what the recipe says."""
    split: str | None = None
    """Part of the data, where it has parts; train by default."""
    compare: str = "augmented"
    """What agents are compared on: augmented (one view of each recipe) or whole pictures."""

    def observed(self) -> tuple[Observer, ...]:
        """The same pictures with the views of each recipe."""
        from isojepa.worlds.images.opening import open_pictures  # libraries of others, only where needed

        choose("compare", self.compare, dict.fromkeys(("augmented", "whole")))
        check_count("size", self.size, 0)
        if not self.data:
            raise ValueError("data must say where the pictures are, got nothing")
        pictures = open_pictures(Path(self.data), split=self.split)
        return tuple(
            self._observer(name, number, pictures) for number, name in enumerate(dict.fromkeys(self.recipes))
        )

    def _observer(self, name: str, number: int, pictures: Pictures) -> Observer:
        views = Views.named(name)
        side = self.size or min(views.global_size, shorter_side(pictures))
        views = replace(views, global_size=side, local_size=min(views.local_size, side))
        numbers = torch.arange(len(pictures))
        compared = None
        if self.compare == "augmented":  # crops of the two recipes differ, as the recipes themselves do
            compared = Augmented(pictures, views, seed=self.seed * 1009 + number)
        return Observer(name, pictures, tuple(numbers.tolist()), numbers, views, compared)
