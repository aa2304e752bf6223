"""The Reacher's recorded episodes, their pairs weighed towards a Gaussian process of one rate, by name."""

from dataclasses import dataclass

from isojepa.arguments import check_number
from isojepa.isotropise.isotropise import isotropise
from isojepa.isotropise.weighing import WEIGHERS
from isojepa.names import choose
from isojepa.registry import Context, register
from isojepa.worlds.reacher.spec import ReacherEpisodesSpec
from isojepa.worlds.reacher.world import Reacher


@register("world", "reacher-isotropised")
@dataclass(frozen=True)
class ReacherIsotropisedSpec(ReacherEpisodesSpec):
    """Frames of dm_control's Reacher at recorded joint angles, pairs weighed towards the theorems' law."""

    strength: float = 1.0
    """How far, from 0, the recording's own law, to 1; see `isojepa.isotropise`."""
    method: str = "moments"
    """How pairs are weighed: rates, moments, marginals or reweight."""

    def build(self, context: Context) -> Reacher:
        choose("method", self.method, WEIGHERS)  # before episodes are recorded
        check_number("strength", self.strength, "lie in [0, 1]", lambda value: 0 <= value <= 1)
        return self.drawn(lambda pairs: isotropise(pairs, self.strength, self.method).recorded)
