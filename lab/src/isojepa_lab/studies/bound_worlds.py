"""Which runs Theorem 3 speaks of: Gaussian latents of one correlation, and as many embedding dimensions."""

from functools import lru_cache

from isojepa.config import Config, config_from
from isojepa.data.world import WorldSpec
from isojepa.registry import Context, Spec
from isojepa_lab.studies.study import Row


@lru_cache(maxsize=1024)
def correlation(world: Spec) -> float | None:
    """Correlation of the latents across a pair in a Gaussian world; None where latents differ in it."""
    facts = world.facts() if isinstance(world, WorldSpec) else world.build(Context()).facts
    if not facts.gaussian or facts.correlation is None:
        return None
    rhos = {facts.correlation} if isinstance(facts.correlation, float) else set(facts.correlation)
    return rhos.pop() if len(rhos) == 1 else None


def speaks_of(config: Config) -> bool:
    """Whether Theorem 3 speaks of a run."""
    context = config.context
    return correlation(config.world) is not None and context.embedding == context.dim


def world_of(row: Row) -> Spec:
    """The world of a row."""
    return config_from(row.config).world
