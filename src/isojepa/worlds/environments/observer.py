"""One observer of an environment as the world of a run: what one agent is trained on, apart from others."""

from dataclasses import dataclass, replace

from isojepa.registry import Context, Spec, chosen, register
from isojepa.worlds.environments.latents import LatentsSpec
from isojepa.worlds.source import Source


@register("world", "observer")
@dataclass(frozen=True)
class ObserverSpec(Spec):
    """What one observer of an environment sees, of the states of the split train."""

    environment: Spec = chosen("environment", LatentsSpec)
    """Environment; `isojepa list environments`."""
    observer: str = "0"
    """Name of the observer, or its number from 0 on."""

    def resolve(self, context: Context) -> "ObserverSpec":
        return replace(self, environment=self.environment.resolve(context))

    def build(self, context: Context) -> Source:
        observers = self.environment.build(context)
        named = self.observer in observers.names or not self.observer.isdecimal()
        source: Source = observers.source(self.observer if named else int(self.observer))
        return source
