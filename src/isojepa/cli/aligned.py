"""What `isojepa align` found, as JSON and as a person reads it."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from isojepa.align.cycles import Cycle
from isojepa.align.hub import Hub
from isojepa.align.metrics import Comparison, Comparisons
from isojepa.align.pairs import Split
from isojepa.align.pairwise import Pairwise
from isojepa.align.robust import RobustFit
from isojepa.align.stress import Curve
from isojepa.cli.printing import out
from isojepa.cli.tables import Column, print_table

_FEW = ("R2", "MSE", "CKA", "DSC", "NOS@10")  # that are printed unless all are asked for


@dataclass(frozen=True)
class Layers:
    """CKA of layers.

    Attributes:
        first, second: names of the layers.
        cka: (layers of the first, layers of the second).
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    cka: np.ndarray


@dataclass(frozen=True)
class Many:
    """What three encoders or more have besides.

    Attributes:
        direct: maps of each to each.
        hub: of all.
        cycles: ways round three.
    """

    direct: Pairwise
    hub: Hub
    cycles: list[Cycle]


@dataclass(frozen=True)
class Aligned:
    """Everything that was found.

    Attributes:
        names: of the encoders.
        rows: of each, without constant columns.
        split: states that maps were fitted and scored on.
        pairs: (i, j) -> all numbers.
        robust: which pairs were dropped, where that was asked for.
        curves: of stress tests.
        layers: CKA of layers.
        many: of three encoders or more.
    """

    names: tuple[str, ...]
    rows: list[np.ndarray]
    split: Split
    pairs: dict[tuple[int, int], Comparisons]
    robust: RobustFit | None = None
    curves: list[Curve] = field(default_factory=list)
    layers: Layers | None = None
    many: Many | None = None

    def to_dict(self) -> dict[str, Any]:
        """Every number, for JSON."""
        told: dict[str, Any] = {"names": self.names}
        if self.many is None:
            found = self.pairs[0, 1]
            told |= {"map": map_numbers(found.map), **found.to_dict()}
            told["stress"] = [row for curve in self.curves for row in curve.rows()]
            if self.robust is not None:
                told["map"] |= {"mismatched": self.robust.mismatched, "dropped": len(self.robust.dropped)}
            if self.layers is not None:
                told["layers"] = {**asdict(self.layers), "cka": self.layers.cka.tolist()}
            return told
        told["pairs"] = [
            {
                "first": self.names[i],
                "second": self.names[j],
                "map": map_numbers(found.map),
                **found.to_dict(),
            }
            for (i, j), found in self.pairs.items()
        ]
        direct = self.many.direct.scores()
        through = self.many.direct.hub_scores(self.many.hub, expected=True)
        told["translations"] = [
            {"from": a, "to": b, "direct": asdict(r2), "through_hub": asdict(through[a, b])}
            for (a, b), r2 in direct.items()
        ]
        told["cycles"] = [asdict(one) for one in self.many.cycles]
        return told


def map_numbers(fitted: Any) -> dict[str, Any]:
    """What a map is, for JSON."""
    return {
        "kind": fitted.kind,
        "shape": list(fitted.matrix_.shape),
        "pairs": fitted.pairs_,
        "ridge": fitted.ridge_,
        "chosen_by": fitted.chosen_by_,
        "rank": fitted.rank_,
        "condition": fitted.condition_,
        "orthogonality": fitted.orthogonality_,
        "pseudo_inverse": fitted.pseudo_,
        "singular_values": fitted.singular_values_.tolist(),
    }


def print_alignment(found: Comparisons, robust: RobustFit | None, everything: bool) -> None:
    """Print the map and the numbers for a person."""
    fitted: Any = found.map
    size = " x ".join(map(str, fitted.matrix_.shape))
    out.print(
        f"\nW of {size} by {fitted.kind}, fitted on {fitted.pairs_} pairs: condition "
        f"{fitted.condition_:.3g}, |W'W - I| / |I| {fitted.orthogonality_:.3g}"
        + (", inverted with a cut" if fitted.pseudo_ else "")
        + ".",
        markup=False,
    )
    if robust is not None:
        out.print(f"{len(robust.dropped)} pairs look mismatched and were dropped.")
    lines = []
    for name in dict.fromkeys((*found.aligned, *found.raw)):
        if everything or name in _FEW:
            aligned, raw = found.aligned.get(name), found.raw.get(name)
            shown = found.raw[name] if aligned is None else aligned
            lines.append(
                (
                    name + ("" if shown.higher_is_better else " (less is better)"),
                    "" if aligned is None else _value(aligned),
                    "" if raw is None else f"{raw.value:.4f}",
                    "" if shown.chance is None else f"{shown.chance:.4f}",
                    "" if shown.p is None else _p(shown.p),
                    "" if shown.calibrated is None else f"{shown.calibrated:.3f}",
                )
            )
    columns = (
        Column(f"on {found.scored} other states"),
        Column("after W_inv [interval]"),
        Column("as they are", right=True),
        Column("chance", right=True),
        Column("p", right=True),
        Column("calibrated", right=True),
    )
    print_table(columns, lines, indent=1)
    for name, reason in found.left_out.items():
        out.print(f"{name} was left out: {reason}", style="dim", markup=False)
    if found.dependence:
        out.print(found.dependence, markup=False)


def print_many(found: Aligned, many: Many) -> None:
    """Print all pairs of three encoders or more, through the hub too, and how far cycles come back."""
    direct, through = many.direct.scores(), many.direct.hub_scores(many.hub, expected=True)
    lines = []
    for (i, j), pair in found.pairs.items():
        a, b = found.names[i], found.names[j]
        fitted: Any = pair.map
        cka = pair.raw["unbiased CKA"]
        lines.append(
            (
                f"{a} and {b}",
                f"{direct[a, b].estimate:.3f} / {direct[b, a].estimate:.3f}",
                f"{through[a, b].estimate:.3f} / {through[b, a].estimate:.3f}",
                f"{fitted.condition_:.3g}",
                f"{cka.value:.3f}",
            )
        )
    dependence = next((pair.dependence for pair in found.pairs.values() if pair.dependence), "")
    if dependence:
        out.print(dependence, markup=False)
    columns = (
        Column(f"on {len(many.direct.held_out)} other rows"),
        Column("R2 there / back", right=True),
        Column("through the hub", right=True),
        Column("condition", right=True),
        Column("CKA", right=True),
    )
    out.print()
    print_table(columns, lines, indent=1)
    rows = [
        (" -> ".join((*one.names, one.names[0])), f"{one.defect:.3f}", f"{one.r2.estimate:.3f}")
        for one in many.cycles
    ]
    headings = (Column("round and back"), Column("|W - I| / |I|", right=True), Column("R2", right=True))
    print_table(headings, rows, indent=1)


def print_curves(curves: list[Curve]) -> None:
    """Print stress tests: measured, and below what theory predicts."""
    for curve in curves:
        names = [
            name
            for name in ("r2", "dsc", "nos@10", "condition")
            if any(p.metric == name for p in curve.points)
        ]
        rows = []
        for setting in dict.fromkeys(point.label for point in curve.points):
            own = {point.metric: point for point in curve.points if point.label == setting}
            rows.append((setting, *(_predicted(own[name].value, own[name].predicted) for name in names)))
        columns = (Column(), *(Column(name, right=True) for name in names))
        print_table(columns, rows, title=f"{curve.axis}: measured (predicted)", indent=1)


def _predicted(value: float, predicted: float | None) -> str:
    return f"{value:.3g}" if predicted is None else f"{value:.3g} ({predicted:.3g})"


def _value(found: Comparison) -> str:
    interval = found.interval
    if not math.isfinite(interval.low):
        return f"{found.value:.4f}"
    return f"{found.value:.4f} [{interval.low:.4f}, {interval.high:.4f}]"


def _p(value: float) -> str:
    return "< 1e-300" if value == 0 else f"{value:.2g}"
