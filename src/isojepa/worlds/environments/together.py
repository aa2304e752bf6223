"""Two observers of an environment as one world: for objectives that need both at once, by name."""

from dataclasses import dataclass

from isojepa.registry import Context, Spec, chosen, register
from isojepa.worlds.environments.latents import LatentsSpec
from isojepa.worlds.observers import Observers, Paired


@register("world", "together")
@dataclass(frozen=True)
class TogetherSpec(Spec):
    """Two observers of the same states in one batch, the first one's views before the second's."""

    environment: Spec = chosen("environment", LatentsSpec)
    """What they observe; `isojepa list environments`."""
    first: int = 0
    """Number of the first observer: the student's, in teaching."""
    second: int = 1
    """Number of the second: the teacher's."""

    def build(self, context: Context) -> Paired:
        observers: Observers = self.environment.build(context)
        return observers.paired(self.first, self.second)
