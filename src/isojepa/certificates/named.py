"""Named latents: which axes of an embedding are told apart, and how straight the values on them are.

A rotation of the latents is the most that a certificate shows. Where latents differ by the shape of their
laws or by their rates the axes themselves can be found, up to order and sign, and the values on each
straightened (`isojepa.unmix`). What is known of them is kept here as plain values. That a straightened axis
is the latent and not an increasing function of it rests on an assumption that no data can refute, and it is
told as one.

`isojepa.unmixing` finds them and is imported on request only.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from isojepa.certificates.embeddings import Embeddings
from isojepa.certificates.sentences import Line
from isojepa.statistics.intervals import Interval

if TYPE_CHECKING:
    from isojepa.unmixing import Axis, Matching, Unmixing

_MATCHED = 40_000  # rows that axes are held against latents on
_CUES = {"alone": "as the only one", "none": "by nothing"}


@dataclass(frozen=True)
class NamedAxis:
    """One axis, see `isojepa.unmixing.Axis`.

    Attributes:
        number: its place, from 0.
        named: whether it is told apart from all others.
        cue: what tells it apart; "none" in a block.
        block: the axes that it is not told apart from, itself included.
        error: standard error of its direction in radians; None in a block.
        correlation: across a pair; None without second views.
        departure: from the normal law, 0 for one that is normal.
        dependence: the largest correlation of a function of it with one of another.
        method: what straightened it; None where nothing did.
        agreement: squared correlation of the results of two methods; None where there is one alone.
        sentence: all of it in words.
        note: what is to be minded of it, in words; empty if nothing.
        latent: its partner among the latents; None without one.
        rank, linear: correlation with the partner, of ranks and of values, after straightening.
        world_departure: what of the departure is the world's; None where pairs do not tell.
    """

    number: int
    named: bool
    cue: str
    block: tuple[int, ...]
    error: float | None
    correlation: float | None
    departure: float
    dependence: float
    method: str | None
    agreement: float | None
    sentence: str
    note: str = ""
    latent: int | None = None
    rank: float | None = None
    linear: float | None = None
    world_departure: float | None = None


@dataclass(frozen=True)
class LatentMatch:
    """The axes against true latents, see `isojepa.unmixing.match_latents`.

    Attributes:
        rank, linear: mean correlation of latents with their axes, of ranks and of values, straightened.
        linear_before: the same of values before straightening.
        disentanglement, completeness: in [0, 1], straightened.
        r2_before, r2: mean held-out R^2 of the latents from all axes, before straightening and after.
    """

    rank: Interval
    linear: Interval
    linear_before: Interval
    disentanglement: float
    completeness: float
    r2_before: float
    r2: float


@dataclass(frozen=True)
class NamedLatents:
    """What is known of the axes of an embedding.

    Attributes:
        rows: that they were found on.
        verdict: in a sentence or two; the refusal where no axis is named.
        axes: each of them, named ones first.
        blocks: axes that are not told apart, in groups any rotation of which is as good.
        assumptions: what must be true for the values on straightened axes to be those of the latents.
        agreement: of two ways to straighten, squared correlation on the axis where it is least; None where
            no axis has two.
        match: comparison with the latents; None without them.
        missing: why there are no axes, or no comparison; empty where nothing is missing.
    """

    rows: int
    verdict: str
    axes: tuple[NamedAxis, ...]
    blocks: tuple[tuple[int, ...], ...] = ()
    assumptions: tuple[str, ...] = ()
    agreement: float | None = None
    match: LatentMatch | None = None
    missing: str = ""

    @property
    def count(self) -> int:
        """How many axes are named."""
        return sum(axis.named for axis in self.axes)

    @property
    def straightened(self) -> int:
        """How many are straightened."""
        return sum(axis.method is not None for axis in self.axes)

    @property
    def cues(self) -> dict[str, int]:
        """How many axes each cue names."""
        return dict(Counter(axis.cue for axis in self.axes if axis.named))

    def lines(self) -> list[Line]:
        """Every number with a plain sentence."""
        rows: list[Line] = []

        def add(name: str, value: float | None, interval: Interval | None, sentence: str) -> None:
            if value is not None:
                rows.append(Line(name, value, interval, sentence, "named"))

        if self.axes:
            add("named axes", float(self.count), None, f"of {len(self.axes)}{self._told_cues()}")
        add(
            "agreement",
            self.agreement,
            None,
            "squared correlation of two ways to straighten, by increments and by the axis's own law, on the "
            "axis where they agree least; no labels are used",
        )
        if self.match is not None:
            m = self.match
            means = "mean correlation of each latent with its own axis, "
            add("MCC by rank", m.rank.estimate, m.rank, means + "of ranks, which no bending changes")
            add("MCC, as found", m.linear_before.estimate, m.linear_before, means + "before straightening")
            add("MCC, straightened", m.linear.estimate, m.linear, means + "after straightening")
            add(
                "R2 as found",
                m.r2_before,
                None,
                "of the latents from all axes, by a linear map, before straightening",
            )
            add("R2 straightened", m.r2, None, "the same after straightening")
            add("disentanglement", m.disentanglement, None, "1 if each axis is used for one latent alone")
            add("completeness", m.completeness, None, "1 if each latent uses one axis alone")
        return rows

    def notes(self) -> list[str]:
        """What is to be minded, what is assumed, and what is missing, in sentences."""
        found = self._told_notes() + [f"Assumed, not shown: {one}." for one in self.assumptions]
        if self.assumptions:
            found[-1] += " No data can refute that diffusion is constant."
        if self.missing and self.axes:
            found.append(f"Not compared with the latents: {self.missing}.")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        counted = {"count": self.count, "straightened": self.straightened, "cues": self.cues}
        return {**asdict(self), **counted}

    def _told_notes(self) -> list[str]:
        """What is to be minded, each thing once with the axes that it is said of."""
        axes: dict[str, list[int]] = {}
        for axis in self.axes:
            if axis.note:
                axes.setdefault(axis.note, []).append(axis.number)
        return [f"{_numbered(numbers)}: {note}." for note, numbers in axes.items()]

    def _told_cues(self) -> str:
        told = ", ".join(f"{count} {_CUES.get(cue, f'by {cue}')}" for cue, count in self.cues.items())
        return f": {told}" if told else ", which nothing in these rows tells apart"


def measure_named(
    embeddings: Embeddings, *, seed: int, confidence: float, progress: Callable[[int, int, str], None]
) -> NamedLatents:
    """Find the axes of embeddings, and hold them against the latents where there are any.

    What cannot be unmixed, as a collapsed embedding, is a result that says why.
    """
    from isojepa.unmixing import unmix

    try:
        found = unmix(
            embeddings.array("h"),
            embeddings.array("h_next"),
            drop=embeddings.drop,
            seed=seed,
            progress=progress,
        )
    except ValueError as error:
        reason = str(error)
        return NamedLatents(len(embeddings), f"No axis can be named: {reason}.", (), missing=reason)
    try:
        return describe_axes(found, embeddings, confidence)
    except ValueError as error:
        return describe_axes(found, None, confidence, str(error))


def describe_axes(
    found: "Unmixing", embeddings: Embeddings | None, confidence: float = 0.95, missing: str = ""
) -> NamedLatents:
    """What is known of axes that were found.

    Args:
        found: the axes.
        embeddings: rows with the latents that the axes are held against; None for no comparison.
        confidence: of the intervals.
        missing: why there is no comparison.

    Raises:
        ValueError: the latents are constant, or too few.
    """
    from isojepa.unmixing import match_latents

    before: Matching | None = None
    after: Matching | None = None
    if embeddings is not None and embeddings.latent_dim is not None:
        some = embeddings.some(_MATCHED)
        y = found.transform(some.h)
        before = match_latents(y, some.z, confidence)
        after = match_latents(found.straightened(y), some.z, confidence)
    warps = [axis.warp for axis in found.axes_ if axis.warp is not None]
    known = [warp.agreement for warp in warps if warp.agreement is not None]
    return NamedLatents(
        found.rows_,
        found.verdict_,
        tuple(_axis(axis, after) for axis in found.axes_),
        found.blocks_,
        tuple(dict.fromkeys(warp.assumption for warp in warps)),
        min(known, default=None),
        None if before is None or after is None else _match(before, after),
        missing,
    )


def _axis(axis: "Axis", matching: "Matching | None") -> NamedAxis:
    partners = () if matching is None else matching.partners
    own = next((partner for partner in partners if partner.axis == axis.number), None)
    others = [str(other) for other in axis.block if other != axis.number]
    inside = (
        f"in a block with {'axis' if len(others) == 1 else 'axes'} {', '.join(others)}: " if others else ""
    )
    return NamedAxis(
        axis.number,
        axis.named,
        axis.cue,
        axis.block,
        axis.error if axis.named else None,
        axis.correlation,
        axis.departure,
        axis.dependence,
        None if axis.warp is None else axis.warp.method,
        None if axis.warp is None else axis.warp.agreement,
        inside + axis.sentence,
        axis.note,
        None if own is None else own.latent,
        None if own is None else own.rank,
        None if own is None else own.linear,
        axis.world_departure,
    )


def _numbered(numbers: list[int]) -> str:
    """Axes by number, neighbours from the first to the last."""
    if len(numbers) == 1:
        return f"Axis {numbers[0]}"
    if numbers == list(range(numbers[0], numbers[-1] + 1)) and len(numbers) > 2:
        return f"Axes {numbers[0]} to {numbers[-1]}"
    return f"Axes {', '.join(map(str, numbers))}"


def _match(before: "Matching", after: "Matching") -> LatentMatch:
    return LatentMatch(
        after.rank,
        after.linear,
        before.linear,
        after.disentanglement,
        after.completeness,
        before.linear_r2,
        after.linear_r2,
    )
