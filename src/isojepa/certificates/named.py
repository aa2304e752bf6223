"""Identified latents: the components of an embedding that are latents of their own, in a certificate.

A rotation of the latents is the most that a certificate shows. Where latents differ by the shape of their
distributions or by their rates, the components themselves can be found, up to order and sign, and linearized
(`isojepa.unmix`). That a linearized component is the latent and not an increasing function of it rests on an
assumption that no data can refute, and is reported as one.

`isojepa.unmixing` does the work and is imported on request only.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from isojepa.certificates.pairs import PairRows
from isojepa.certificates.sentences import Line
from isojepa.statistics.intervals import Interval

if TYPE_CHECKING:
    from isojepa.unmixing import Component, Matching, Partner, Unmixing

_MATCHED_ROWS = 40_000  # on which components are compared with latents
_PHRASES = {"alone": "as the only one", "none": "by nothing"}


@dataclass(frozen=True)
class IdentifiedLatents:
    """An unmixing, and its comparison with true latents.

    Attributes:
        rows: number of embeddings.
        unmixing: the fitted components; None if the embedding cannot be unmixed.
        match: components against latents, linearized; None without latents.
        match_before: the same before linearization.
        missing: why there is no unmixing, or no comparison; empty where nothing is missing.
    """

    rows: int
    unmixing: "Unmixing | None"
    match: "Matching | None" = None
    match_before: "Matching | None" = None
    missing: str = ""

    @property
    def verdict(self) -> str:
        """The result in a sentence or two."""
        if self.unmixing is None:
            return f"No component is identified: {self.missing}."
        return self.unmixing.verdict_

    @property
    def components(self) -> "tuple[Component, ...]":
        """The components, identified ones first; none if the embedding cannot be unmixed."""
        return () if self.unmixing is None else self.unmixing.components_

    @property
    def count(self) -> int:
        """Number of identified components."""
        return sum(component.identified for component in self.components)

    @property
    def linearized(self) -> int:
        """Number of linearized components."""
        return sum(component.to_latent is not None for component in self.components)

    @property
    def identified_by(self) -> dict[str, int]:
        """Number of components that shape, rate or both identify."""
        return dict(Counter(one.identified_by for one in self.components if one.identified))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions under which linearized components are the latents."""
        maps = [one.to_latent for one in self.components if one.to_latent is not None]
        return tuple(dict.fromkeys(to_latent.assumption for to_latent in maps))

    @property
    def agreement(self) -> float | None:
        """Squared correlation of two ways to linearize, the least of all components; None without two."""
        maps = [one.to_latent for one in self.components if one.to_latent is not None]
        return min((one.agreement for one in maps if one.agreement is not None), default=None)

    def partner(self, component: "Component") -> "Partner | None":
        """The latent that belongs to a component."""
        partners = () if self.match is None else self.match.partners
        return next((partner for partner in partners if partner.component == component.number), None)

    def sentence(self, component: "Component") -> str:
        """The result for a component, with the others of its block."""
        others = [str(other) for other in component.block if other != component.number]
        if not others:
            return component.sentence
        plural = "component" if len(others) == 1 else "components"
        return f"in a block with {plural} {', '.join(others)}: {component.sentence}"

    def lines(self) -> list[Line]:
        """Every number with a plain sentence."""
        rows: list[tuple[str, float | None, Interval | None, str]] = []
        if self.components:
            phrases = [
                f"{count} {_PHRASES.get(name, f'by {name}')}" for name, count in self.identified_by.items()
            ]
            end = f": {', '.join(phrases)}" if phrases else ", which nothing in these rows tells apart"
            rows.append(("identified components", float(self.count), None, f"of {len(self.components)}{end}"))
        agreement = (
            "squared correlation of two ways to linearize, by increments and by the component's own "
            "distribution, on the component where they agree least; no labels are used"
        )
        rows.append(("agreement", self.agreement, None, agreement))
        if self.match is not None and self.match_before is not None:
            after, before = self.match, self.match_before
            mean = "mean correlation of each latent with its own component, "
            rows += [
                ("MCC by rank", after.rank.estimate, after.rank, mean + "of ranks, which no warp changes"),
                ("MCC, as found", before.linear.estimate, before.linear, mean + "before linearization"),
                ("MCC, linearized", after.linear.estimate, after.linear, mean + "after linearization"),
                (
                    "R2 as found",
                    before.linear_r2,
                    None,
                    "of the latents from all components, before linearization",
                ),
                ("R2 linearized", after.linear_r2, None, "the same after linearization"),
                (
                    "disentanglement",
                    after.disentanglement,
                    None,
                    "1 if each component is used for one latent alone",
                ),
                ("completeness", after.completeness, None, "1 if each latent uses one component alone"),
            ]
        return [
            Line(name, value, interval, sentence, "named")
            for name, value, interval, sentence in rows
            if value is not None
        ]

    def notes(self) -> list[str]:
        """Caveats, assumptions, and what is missing, in sentences."""
        numbers: dict[str, list[int]] = {}
        for component in self.components:
            if component.note:
                numbers.setdefault(component.note, []).append(component.number)
        notes = [f"{_numbered(members)}: {note}." for note, members in numbers.items()]
        notes += [f"Assumed, not shown: {assumption}." for assumption in self.assumptions]
        if self.assumptions:
            notes[-1] += " No data can refute that diffusion is constant."
        if self.missing and self.components:
            notes.append(f"Not compared with the latents: {self.missing}.")
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "rows": self.rows,
            "verdict": self.verdict,
            "axes": [self._component_dict(component) for component in self.components],
            "blocks": [] if self.unmixing is None else [list(block) for block in self.unmixing.blocks_],
            "assumptions": list(self.assumptions),
            "agreement": self.agreement,
            "match": self.match_dict(),
            "missing": self.missing,
            "count": self.count,
            "straightened": self.linearized,
            "cues": self.identified_by,
        }

    def match_dict(self) -> dict[str, Any] | None:
        """The comparison with the latents as plain values; None without one."""
        if self.match is None or self.match_before is None:
            return None
        intervals = {
            "rank": self.match.rank,
            "linear": self.match.linear,
            "linear_before": self.match_before.linear,
        }
        return {
            **{name: vars(interval) for name, interval in intervals.items()},
            "disentanglement": self.match.disentanglement,
            "completeness": self.match.completeness,
            "r2_before": self.match_before.linear_r2,
            "r2": self.match.linear_r2,
        }

    def _component_dict(self, component: "Component") -> dict[str, Any]:
        names = (
            "number",
            "named",
            "cue",
            "block",
            "correlation",
            "departure",
            "dependence",
            "world_departure",
        )
        values, to_latent, partner = component.to_dict(), component.to_latent, self.partner(component)
        return {
            **{name: values[name] for name in names},
            "error": component.error if component.identified else None,
            "method": None if to_latent is None else to_latent.method,
            "agreement": None if to_latent is None else to_latent.agreement,
            "sentence": self.sentence(component),
            "note": component.note,
            **{name: getattr(partner, name, None) for name in ("latent", "rank", "linear")},
        }


def measure_named(
    embeddings: PairRows, *, seed: int, confidence: float, progress: Callable[[int, int, str], None]
) -> IdentifiedLatents:
    """Unmix embeddings, and compare the components with the latents where there are any.

    An embedding that cannot be unmixed, as a collapsed one, is a result with the reason.
    """
    from isojepa.unmixing import unmix

    pair = embeddings.array("h"), embeddings.array("h_next")
    try:
        unmixing = unmix(*pair, drop=embeddings.drop, seed=seed, progress=progress)
    except ValueError as error:
        return IdentifiedLatents(len(embeddings), None, missing=str(error))
    return describe_components(unmixing, embeddings, confidence)


def describe_components(
    unmixing: "Unmixing", embeddings: PairRows | None = None, confidence: float = 0.95
) -> IdentifiedLatents:
    """An unmixing, compared with the latents of some embeddings.

    Args:
        unmixing: the fitted components.
        embeddings: rows with latents; None for no comparison.
        confidence: of the intervals.
    """
    from isojepa.unmixing import match_latents

    if embeddings is None or embeddings.latent_dim is None:
        return IdentifiedLatents(unmixing.rows_, unmixing)
    some = embeddings.sample(_MATCHED_ROWS)
    y = unmixing.transform(some.h)
    try:
        after, before = (match_latents(one, some.z, confidence) for one in (unmixing.linearized(y), y))
    except ValueError as error:  # constant latents, or too few
        return IdentifiedLatents(unmixing.rows_, unmixing, missing=str(error))
    return IdentifiedLatents(unmixing.rows_, unmixing, after, before)


def _numbered(numbers: list[int]) -> str:
    """Components by number, neighbors from the first to the last."""
    if len(numbers) == 1:
        return f"Component {numbers[0]}"
    if numbers == list(range(numbers[0], numbers[-1] + 1)) and len(numbers) > 2:
        return f"Components {numbers[0]} to {numbers[-1]}"
    return f"Components {', '.join(map(str, numbers))}"
