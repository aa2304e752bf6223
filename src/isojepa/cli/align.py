"""The command `align`: maps between encoders, every number that compares them, how they bear stress."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from isojepa.align.cycles import cycles
from isojepa.align.fits import KINDS
from isojepa.align.hub import Hub
from isojepa.align.maps import AlignmentMap
from isojepa.align.metrics import compare, layer_cka
from isojepa.align.pairs import Split, split_states
from isojepa.align.pairwise import fit_pairwise
from isojepa.align.robust import RobustFit, fit_robust
from isojepa.align.rows import as_rows, constant
from isojepa.align.stress import Curve, Plan, pair_budget, pair_noise
from isojepa.certificates.left_out import leave_out
from isojepa.cli.aligned import Aligned, Layers, Many, print_alignment, print_curves, print_many
from isojepa.cli.embeddings import Embedded, Shown
from isojepa.cli.printing import notes_told, out, print_json, progress_bar
from isojepa.files import make_folder
from isojepa.names import choose

_LAYER_STATES = 1000  # that layers are compared on
_CYCLES = 24  # at most: all of four encoders


@dataclass
class Align(Shown):
    """Fit the map between two encoders and score their similarity.

    ENCODERS are two or more, each a file of embeddings, a record, a backbone of timm or file.py:function, and
    are shown the same states as by `isojepa same`. The map z2 = W z1 is fitted on half of the states and
    scored on the others (Algorithm 1 of Social-JEPA); each number comes with an interval and with what chance
    gives. Three or more: all pairs, how far going round comes back, and a hub for all of them.

    isojepa align a.npy b.npy --map a-to-b.safetensors

    isojepa align runs/google runs/twitter --environment emoji --data data/emoji --all --report align.html

    isojepa align a.npy b.npy --kind procrustes --robust --stress

    isojepa align a.npy b.npy c.npy --hub hub.safetensors --json
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
    """Write the hub of three or more encoders to a safetensors file."""
    report: Path | None = None
    """Write everything as one self-contained HTML page."""

    def run(self) -> int:
        choose("kind", self.kind, KINDS)
        if len(self.encoders) < 2:
            raise ValueError(f"encoders must be two at least, got {len(self.encoders)}")
        if len(self.encoders) > 2 and (self.map or self.stress or self.layers or self.robust):
            raise ValueError("map, stress, layers and robust are of two encoders")
        if len(self.encoders) == 2 and self.hub is not None:
            raise ValueError("a hub is of three encoders at least: write --map")
        with notes_told(), progress_bar("aligning") as self._progress:
            given = self.embedded(self.encoders, self._progress)
            found = self._aligned(given)
        if self.map is not None:
            self._save(self.map, given, found)
        if found.many is not None and self.hub is not None:
            make_folder(self.hub.parent)
            found.many.hub.save(self.hub)
        if self.json:
            print_json(found.to_dict())
        elif found.many is None:
            print_alignment(found.pairs[0, 1], found.robust, self.all)
            print_curves(found.curves)
        else:
            print_many(found, found.many)
        if self.report is not None:
            self._write(self.report, given, found)
        return 0

    def _map(self) -> AlignmentMap:
        return AlignmentMap(
            self.kind,
            ridge=self.ridge,
            standardise=self.standardise,
            threshold=self.threshold,
            rank=self.rank,
        )

    def _aligned(self, given: Embedded) -> Aligned:
        split = split_states(len(given.rows[0]), given.ids, self.share, self.seed)
        rows = [varied(name, one, split) for name, one in zip(given.names, given.rows, strict=True)]
        ids = None if given.ids is None else given.ids[split.score]
        ks = tuple(k for k in self.neighbors if k < len(split.score) - 1)
        robust: RobustFit | None = None
        pairs = {}
        ways = list(combinations(range(len(rows)), 2))
        for done, (i, j) in enumerate(ways):
            self._progress(done, len(ways), f"{given.names[i]} and {given.names[j]}")
            fitted, robust = self._fitted(rows[i], rows[j], split)
            score = rows[i][split.score], rows[j][split.score]
            pairs[i, j] = compare(*score, map=fitted, ids=ids, ks=ks, seed=self.seed)
        if len(rows) == 2:
            curves = self._curves(rows[0], rows[1], given.ids) if self.stress else []
            layers = self._layer_table(given) if self.layers else None
            return Aligned(given.names, rows, split, pairs, robust, curves, layers)
        named = dict(zip(given.names, rows, strict=True))
        direct = fit_pairwise(
            named,
            given.ids,
            kind=self.kind,
            ridge=self.ridge,
            standardise=self.standardise,
            share=self.share,
            seed=self.seed,
        )
        hub = Hub("linear" if self.standardise else "rotation").fit(direct.fitted.rows, direct.fitted.ids)
        many = Many(direct, hub, cycles(direct, most=_CYCLES))
        return Aligned(given.names, rows, split, pairs, many=many)

    def _write(self, path: Path, given: Embedded, found: Aligned) -> None:
        from isojepa.report import aligning  # only for those who draw

        layers, ways = found.layers, [] if found.many is None else found.many.cycles
        number = {name: place for place, name in enumerate(given.names)}
        drawn = aligning.Alignment(
            given.names,
            found.pairs,
            layers=()
            if layers is None
            else (aligning.Layers((0, 1), layers.first, layers.second, layers.cka),),
            stress=found.curves,
            cycles={tuple(number[name] for name in one.names): one.defect for one in ways},
        )
        make_folder(path.parent)
        aligning.write_alignment(
            path,
            drawn,
            embeddings=found.rows,
            ids=given.ids,
            labels=given.labels,
            pictures=given.pictures,
            config=self._asked(),
            seed=self.seed,
        )
        if not self.json:
            out.print(f"\nOpen {path} in a browser.", markup=False)

    def _fitted(
        self, first: np.ndarray, second: np.ndarray, split: Split
    ) -> tuple[AlignmentMap, RobustFit | None]:
        x, y = first[split.fit], second[split.fit]
        if not self.robust:
            return self._map().fit(x, y), None
        robust = fit_robust(x, y, self._map(), seed=self.seed)
        return robust.map, robust

    def _save(self, path: Path, given: Embedded, found: Aligned) -> None:
        """The map of rows as they are given, constant columns and all, of the same pairs."""
        whole = self._map().set_params(constant="ignore")
        x, y = (rows[found.split.fit] for rows in given.rows)
        whole.fit(x, y, None if found.robust is None else found.robust.weights)
        make_folder(path.parent)
        whole.save(path)

    def _curves(self, first: np.ndarray, second: np.ndarray, ids: Any) -> list[Curve]:
        fit: Callable[[np.ndarray, np.ndarray], AlignmentMap] | None = None
        if self.robust:
            fit = lambda x, y: fit_robust(x, y, self._map(), seed=self.seed).map  # noqa: E731
        plan = Plan(self.kind, self.ridge, self.share, 3, self.seed, (10,), fit=fit)
        budget = pair_budget(first, second, ids, plan=plan)
        return [budget, pair_noise(first, second, ids, plan=plan)]

    def _layer_table(self, given: Embedded) -> Layers:
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


def varied(name: str, rows: np.ndarray, split: Split) -> np.ndarray:
    """Rows without the columns that are constant on the states that are fitted on."""
    known = as_rows(name, rows)
    fit = known[split.fit]
    flat = constant(fit.std(0), fit.mean(0))
    if flat.all():
        raise ValueError(f"{name} must vary, got equal rows: the encoder has collapsed")
    if flat.any():
        leave_out(f"{int(flat.sum())} constant columns of {name} were left out")
    return np.asarray(known[:, ~flat])
