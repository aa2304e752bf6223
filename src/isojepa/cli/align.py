"""The command `align`: the maps between encoders, every number that compares them, and how they bear stress."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from isojepa.align.fits import KINDS
from isojepa.align.maps import AlignmentMap
from isojepa.align.metrics import Comparison, Comparisons, compare, layer_cka
from isojepa.align.pairs import Split, split_states
from isojepa.align.robust import RobustFit, fit_robust
from isojepa.align.rows import as_rows, constant
from isojepa.align.stress import Curve, Plan, pair_budget, pair_noise
from isojepa.cli.embeddings import Embedded, Shown
from isojepa.cli.printing import notes_told, out, print_json, progress_bar
from isojepa.cli.tables import Column, print_table
from isojepa.files import make_folder
from isojepa.names import choose

_FEW = ("R2", "MSE", "CKA", "DSC", "NOS@10")  # that are printed unless all are asked for
_LAYER_STATES = 1000  # that layers are compared on


@dataclass
class Align(Shown):
    """Fit the map between encoders of the same states, and compare them by every number there is.

    ENCODERS are two or more, each a file of embeddings, a record, a backbone of timm or file.py:function, and
    are shown the same states as by `isojepa same`. The map z2 = W z1 is fitted on half of the states and
    scored on the others (Algorithm 1 of Social-JEPA); each number comes with an interval and with what chance
    gives. Three or more: all pairs, how far going round comes back, and a hub for all of them.

    isojepa align a.npy b.npy --map a-to-b.safetensors

    isojepa align runs/google runs/twitter --environment emoji --data data/emoji --all --report align.html

    isojepa align a.npy b.npy --kind procrustes --robust --stress

    isojepa align a.npy b.npy c.npy --hub hub/ --json
    """

    encoders: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="ENCODERS")]]
    """Files of embeddings, records, backbones of timm or file.py:function; two at least."""
    kind: str = "ridge"
    """ols, ridge, procrustes, scaled_procrustes, cca or low_rank."""
    ridge: float | None = None
    """Penalty of ridge; by default chosen by leaving out each pair."""
    rank: int | None = None
    """Directions that cca and low_rank keep."""
    threshold: float = 100.0
    """Condition of W above which its inverse is cut."""
    standardise: bool = True
    """Scale columns to variance 1 before the map is fitted."""
    robust: bool = False
    """Find and drop mismatched pairs."""
    share: float = 0.5
    """Of the states that are fitted on."""
    neighbors: tuple[int, ...] = (1, 5, 10, 20, 50)
    """Numbers of neighbours."""
    all: bool = False
    """Print all numbers, not the first few."""
    stress: bool = False
    """Also few pairs and mismatched ones, with what theory predicts. Minutes for wide embeddings."""
    layers: bool = False
    """Also CKA of each layer of one with each of the other, for models that see pictures."""
    map: Path | None = None
    """Write the map from the first to the second to a safetensors file."""
    hub: Path | None = None
    """Write the hub of three or more encoders to a folder."""
    report: Path | None = None
    """Write everything as one self-contained HTML page."""

    def run(self) -> int:
        choose("kind", self.kind, KINDS)
        if len(self.encoders) < 2:
            raise ValueError(f"encoders must be two at least, got {len(self.encoders)}")
        if len(self.encoders) > 2 and (self.map or self.stress or self.layers):
            raise ValueError("map, stress and layers are of two encoders")
        if len(self.encoders) == 2 and self.hub is not None:
            raise ValueError("a hub is of three encoders at least: write --map")
        with notes_told(), progress_bar("aligning") as self._progress:
            given = self.embedded(self.encoders, self._progress)
            if len(self.encoders) == 2:
                return self._two(given)
        return self._many(given)

    def _map(self) -> AlignmentMap:
        return AlignmentMap(
            self.kind,
            ridge=self.ridge,
            standardise=self.standardise,
            threshold=self.threshold,
            rank=self.rank,
        )

    def _two(self, given: Embedded) -> int:
        split = split_states(len(given.rows[0]), given.ids, self.share, self.seed)
        first, second = (
            varied(name, rows, split) for name, rows in zip(given.names, given.rows, strict=True)
        )
        fitted, robust = self._fitted(first, second, split)
        ids = None if given.ids is None else given.ids[split.score]
        ks = tuple(k for k in self.neighbors if k < len(split.score) - 1)
        found = compare(first[split.score], second[split.score], map=fitted, ids=ids, ks=ks, seed=self.seed)
        curves = self._curves(first, second, given.ids) if self.stress else []
        layers = self._layer_table(given) if self.layers else None
        if self.map is not None:
            self._saved(given, split)
        if self.json:
            print_json(self._told(given, fitted, robust, found, curves, layers))
        else:
            print_alignment(found, fitted, robust, self.all)
            print_curves(curves)
        if self.report is not None:
            from isojepa.report.aligning import write_alignment  # only for those who draw

            make_folder(self.report.parent)
            write_alignment(
                self.report,
                given.names,
                {(0, 1): found},
                curves=curves,
                layers=layers,
                config=self._asked(),
            )
            if not self.json:
                out.print(f"\nOpen {self.report} in a browser.", markup=False)
        return 0

    def _fitted(
        self, first: np.ndarray, second: np.ndarray, split: Split
    ) -> tuple[AlignmentMap, RobustFit | None]:
        x, y = first[split.fit], second[split.fit]
        if not self.robust:
            return self._map().fit(x, y), None
        robust = fit_robust(x, y, self._map(), seed=self.seed)
        return robust.map, robust

    def _saved(self, given: Embedded, split: Split) -> None:
        """The map of rows as they are given, constant columns and all, of the same pairs."""
        whole = self._map().set_params(constant="ignore")
        x, y = (rows[split.fit] for rows in given.rows)
        if self.robust:
            whole = fit_robust(x, y, whole, seed=self.seed).map
        else:
            whole.fit(x, y)
        assert self.map is not None
        make_folder(self.map.parent)
        whole.save(self.map)

    def _curves(self, first: np.ndarray, second: np.ndarray, ids: Any) -> list[Curve]:
        fit: Callable[[np.ndarray, np.ndarray], AlignmentMap] | None = None
        if self.robust:
            fit = lambda x, y: fit_robust(x, y, self._map(), seed=self.seed).map  # noqa: E731
        plan = Plan(self.kind, self.ridge, self.share, 3, self.seed, (10,), fit=fit)
        budget = pair_budget(first, second, ids, plan=plan)
        return [budget, pair_noise(first, second, ids, plan=plan)]

    def _layer_table(self, given: Embedded) -> "Layers":
        if given.pictures is None or self.environment is not None:
            raise ValueError("layers are compared of models that see the same pictures: give --data")
        rows = self.layer_rows(self.encoders, given.pictures, _LAYER_STATES, self._progress)
        names = tuple(tuple(one) for one in rows)
        return Layers(names[0], names[1], layer_cka(list(rows[0].values()), list(rows[1].values())))

    def _asked(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "ridge": self.ridge,
            "standardise": self.standardise,
            "threshold": self.threshold,
            "robust": self.robust,
            "share": self.share,
            "seed": self.seed,
        }

    def _told(
        self,
        given: Embedded,
        fitted: AlignmentMap,
        robust: RobustFit | None,
        found: Comparisons,
        curves: list[Curve],
        layers: "Layers | None",
    ) -> dict[str, Any]:
        told: dict[str, Any] = {
            "names": given.names,
            "map": map_numbers(fitted),
            **found.to_dict(),
            "stress": [row for curve in curves for row in curve.rows()],
        }
        if robust is not None:
            told["map"] |= {"mismatched": robust.mismatched, "dropped": len(robust.dropped)}
        if layers is not None:
            told["layers"] = {
                "first": layers.first,
                "second": layers.second,
                "cka": np.asarray(layers.cka).tolist(),
            }
        return told


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


def varied(name: str, rows: np.ndarray, split: Split) -> np.ndarray:
    """Rows without the columns that are constant on the states that are fitted on."""
    known = as_rows(name, rows)
    fit = known[split.fit]
    flat = constant(fit.std(0), fit.mean(0))
    if flat.all():
        raise ValueError(f"{name} must vary, got equal rows: the encoder has collapsed")
    if flat.any():
        out.print(f"note: {int(flat.sum())} constant columns of {name} were left out", markup=False)
    return np.asarray(known[:, ~flat])


def map_numbers(fitted: AlignmentMap) -> dict[str, Any]:
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


def print_alignment(
    found: Comparisons, fitted: AlignmentMap, robust: RobustFit | None, everything: bool
) -> None:
    """Print the map and the numbers for a person."""
    size = " x ".join(map(str, fitted.matrix_.shape))
    out.print(
        f"\nW of {size} by {fitted.kind}, fitted on {fitted.pairs_} pairs: condition {fitted.condition_:.3g}, "
        f"|W'W - I| / |I| {fitted.orthogonality_:.3g}"
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
            shown = aligned or raw
            assert shown is not None
            lines.append(
                (
                    name + ("" if shown.higher_is_better else " (less is better)"),
                    "" if aligned is None else _value(aligned),
                    "" if raw is None else f"{raw.value:.4f}",
                    "" if shown.chance is None else f"{shown.chance:.4f}",
                    "" if shown.p is None else f"{shown.p:.2g}",
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
    return f"{found.value:.4f} [{interval.low:.4f}, {interval.high:.4f}]"
