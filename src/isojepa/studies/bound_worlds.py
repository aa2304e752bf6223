"""Which runs Theorem 3 speaks of: Gaussian latents of one correlation, and as many embedding dimensions."""

from isojepa.config import Config, WorldConfig, config_from
from isojepa.studies.study import Row


def gaussian(world: WorldConfig) -> bool:
    """Whether the latents of a world are exactly N(0, I)."""
    if world.process == "ornstein-uhlenbeck" or world.law in (None, "normal"):
        return True
    return world.law == "generalized-normal" and world.shape == 2


def correlation(world: WorldConfig) -> float | None:
    """Correlation of the latents across a pair in a Gaussian world; None where latents differ in it."""
    rhos = {world.rho} if isinstance(world.rho, int | float) else set(world.rho)
    if len(rhos) > 1 or not gaussian(world):
        return None
    rho = float(rhos.pop())
    if world.process == "noisy-copies":
        return rho**2
    correlation: float = rho ** (1.0 if world.lag is None else world.lag)
    return correlation


def speaks_of(config: Config) -> bool:
    """Whether Theorem 3 speaks of a run."""
    return correlation(config.world) is not None and config.encoder.dim in (None, config.world.dim)


def world_of(row: Row) -> WorldConfig:
    """The world of a row."""
    return config_from(row.config).world
