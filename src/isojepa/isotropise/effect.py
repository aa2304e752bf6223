"""What isotropising did to the law of recorded pairs: measures before and after."""

from dataclasses import asdict, dataclass
from typing import Any

from isojepa.isotropise.pair_law import PairLaw

_SENTENCES = {
    "effective_pairs": "pairs that count, out of the recorded ones",
    "effective_paths": "paths that count",
    "gaussianity": "distance of the states from a Gaussian",
    "transition": "distance of the pairs from a Gaussian process of one rate",
    "isotropy": "fastest over slowest rate; should be below 2",
    "stationarity": "distance between the two ends of the pairs",
}


@dataclass(frozen=True)
class Effect:
    """What was given and what it did.

    Attributes:
        method, strength: as asked for.
        of: "states", or "proxy" when the weights were computed from one: then so are the measures.
        stride: of the pairs, before and after.
        rho: correlation that was aimed at; NaN for "stride".
        scale: standard deviations that were aimed at, in those of the data, per coordinate.
        before, after: measures of the law of pairs.
        clipped: number of pairs whose weight was cut.
        effective_unclipped: effective pairs without the cut.
        missed: largest distance of a moment from the one aimed at, in its standard deviations.
    """

    method: str
    strength: float
    of: str
    stride: tuple[int, int]
    rho: float
    scale: tuple[float, ...]
    before: PairLaw
    after: PairLaw
    clipped: int
    effective_unclipped: float
    missed: float

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [f"{self.method}, strength {self.strength:g}, measured on the {self.of}"]
        for name, sentence in _SENTENCES.items():
            before, after = getattr(self.before, name), getattr(self.after, name)
            rows.append(f"  {name:<16} {before:>10.4g} -> {after:<10.4g} {sentence}")
        if self.stride[0] != self.stride[1]:
            rows.append(f"  {'stride':<16} {self.stride[0]:>10} -> {self.stride[1]:<10} steps of a pair")
        if self.clipped:
            rows.append(
                f"  {self.clipped} weights were cut; without that there are "
                f"{self.effective_unclipped:.4g} effective pairs"
            )
        if self.missed > 0.05:
            rows.append(f"  The aim was missed by up to {self.missed:.2g} standard deviations of a moment")
        return "\n".join(rows)
