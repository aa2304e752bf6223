"""Axes of an embedding, and what is known of each: which cue found it, how surely, and what is left open."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from isojepa.unmixing.warps import Warp

CUES = {
    "shape": "by the shape of its law",
    "rate": "by its rate",
    "shape or rate": "by the shape of its law and by its rate, each alone",
    "shape and rate": "from some axes by the shape of its law, from others by its rate",
    "alone": "as the only one there is",
    "none": "by nothing",
}


class Cause(StrEnum):
    """Why an axis has no name, or no warp."""

    ALIKE = "alike"
    """Neither shape nor rate tells it from others, which no rows may change."""
    FEW_ROWS = "few rows"
    """What tells it apart does not show in both halves of the rows."""
    DEPENDENT = "dependent"
    """It depends on another axis."""
    BENT = "bent"
    """It has a name, and could not be straightened."""


@dataclass(frozen=True)
class Axis:
    """One axis of an unmixed embedding.

    Attributes:
        number: its place, from 0.
        cue: what tells it from all others, a key of `CUES`; "none" in a block.
        block: the axes that it is not told apart from, itself included.
        error: standard error of its direction in radians, by the information of the rows about its angles and
            about the covariance that made them white; inf in a block.
        stability: cosine between the directions that two halves of the rows gave, each from its own start.
        departure: 1 - corr(y, normal scores of y)^2, 0 for a normal law.
        world_departure: the same of the function of y that predicts itself best, to which no encoder adds;
            None without pairs, and where they tell nothing of it.
        correlation: across a pair; None without second views.
        dependence: the largest correlation of a function of it with a function of another axis: what unmixing
            left; 0 for independent ones, but for chance.
        partner: the axis that this is with.
        dependent: whether that is more than chance, and more than a little.
        warp: what straightens it; None in a block, and where `reason` tells why.
        reason: why it has no name or no warp, in a sentence; empty if it has both.
        cause: the same in a word; None if it has both, and in files that do not say.
    """

    number: int
    cue: str
    block: tuple[int, ...]
    error: float
    stability: float
    departure: float
    correlation: float | None
    dependence: float
    partner: int
    dependent: bool = False
    warp: Warp | None = None
    reason: str = ""
    world_departure: float | None = None
    cause: Cause | None = None

    @property
    def named(self) -> bool:
        """Whether it is an axis of its own, up to its sign."""
        return self.cue != "none"

    @property
    def note(self) -> str:
        """What is to be minded: what it depends on, or why it has no name or no warp; empty if nothing."""
        parts = [self.reason] if self.reason else []
        if self.named and self.dependent:
            parts.insert(
                0,
                f"depends on axis {self.partner} (a function of it by {self.dependence:.2f}): the world is "
                "not one of independent latents, or one of the two is a harmonic of the other",
            )
        return "; ".join(parts)

    @property
    def sentence(self) -> str:
        """What is known of it, in a sentence or two."""
        if not self.named:
            return self.reason
        told = f"told apart {CUES[self.cue]}, to within {self.error:.2g} rad"
        return told + (f"; {self.note}" if self.note else "")

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain = {name: value for name, value in asdict(self).items() if name != "warp"}
        warp = None if self.warp is None else self.warp.to_dict()
        cause = None if self.cause is None else self.cause.value
        return {**plain, "block": list(self.block), "named": self.named, "warp": warp, "cause": cause}
