"""Commands `align`, `same` and `transfer`: maps between encoders, agreement, probes carried over."""

import math
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from isojepa.alignment import (
    Comparisons,
    LinearHead,
    ProbeTransfer,
    ScoreComparison,
    compare,
    layer_cka,
    share_probe,
    transfer_head,
)
from isojepa.alignment.closed_forms import KINDS
from isojepa.alignment.maps import AlignmentMap, RobustFit, fit_robust
from isojepa.alignment.pairs import as_rows, constant, split_states
from isojepa.alignment.pairwise import Cycle, Pairwise, cycles, fit_pairwise
from isojepa.alignment.sameness import EncoderComparison, HeldOutR2, PairingNull, same
from isojepa.alignment.shared_space import SharedSpace
from isojepa.cli.printing import Column, out, print_json, print_notes, print_table, progress_bar
from isojepa.cli.sources import Embedded, EmbeddingSource
from isojepa.data.array_files import read_array, read_embeddings, warn
from isojepa.io import make_folder
from isojepa.statistics.intervals import Interval
from isojepa.statistics.splits import Split
from isojepa.validation import choose

_MAIN_SCORES = ("R2", "MSE", "CKA", "DSC", "NOS@10")  # printed without --all


@dataclass(frozen=True)
class LayerSimilarity:
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
    """Results of three encoders or more.

    Attributes:
        direct: maps of each to each.
        hub: of all.
        cycles: ways round three.
    """

    direct: Pairwise
    hub: SharedSpace
    cycles: list[Cycle]


@dataclass(frozen=True)
class Aligned:
    """All results of `align`.

    Attributes:
        names: of the encoders.
        rows: of each, without constant columns.
        split: states that maps were fitted and scored on.
        pairs: (i, j) -> all numbers.
        robust: the pairs dropped by a robust fit.
        layers: CKA of layers.
        many: of three encoders or more.
    """

    names: tuple[str, ...]
    rows: list[np.ndarray]
    split: Split
    pairs: dict[tuple[int, int], Comparisons]
    robust: RobustFit | None = None
    layers: LayerSimilarity | None = None
    many: Many | None = None

    def to_dict(self) -> dict[str, Any]:
        """Every number, for JSON."""
        numbers: dict[str, Any] = {"names": self.names}
        if self.many is None:
            pair = self.pairs[0, 1]
            numbers |= {"map": map_numbers(pair.map), **pair.to_dict()}
            if self.robust is not None:
                numbers["map"] |= {"mismatched": self.robust.mismatched, "dropped": len(self.robust.dropped)}
            if self.layers is not None:
                numbers["layers"] = {**asdict(self.layers), "cka": self.layers.cka.tolist()}
            return numbers
        numbers["pairs"] = [
            {
                "first": self.names[i],
                "second": self.names[j],
                "map": map_numbers(pair.map),
                **pair.to_dict(),
            }
            for (i, j), pair in self.pairs.items()
        ]
        direct = self.many.direct.scores()
        through = self.many.direct.hub_scores(self.many.hub, expected=True)
        numbers["translations"] = [
            {"from": a, "to": b, "direct": asdict(r2), "through_hub": asdict(through[a, b])}
            for (a, b), r2 in direct.items()
        ]
        numbers["cycles"] = [asdict(one) for one in self.many.cycles]
        return numbers


def map_numbers(fitted: Any) -> dict[str, Any]:
    """What a map is, for JSON."""
    return {
        "kind": fitted.kind,
        "shape": list(fitted.matrix_.shape),
        "pairs": fitted.pairs_,
        "ridge": fitted.ridge_,
        "rank": fitted.rank_,
        "condition": fitted.condition_,
        "orthogonality": fitted.orthogonality_,
        "pseudo_inverse": fitted.pseudo_,
        "singular_values": fitted.singular_values_.tolist(),
    }


def print_alignment(found: Comparisons, robust: RobustFit | None, everything: bool) -> None:
    """Print the map and the numbers as text."""
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
        if everything or name in _MAIN_SCORES:
            aligned, raw = found.aligned.get(name), found.raw.get(name)
            score = found.raw[name] if aligned is None else aligned
            lines.append(
                (
                    name + ("" if score.higher_is_better else " (less is better)"),
                    "" if aligned is None else _value(aligned),
                    "" if raw is None else f"{raw.value:.4f}",
                    "" if score.chance is None else f"{score.chance:.4f}",
                    "" if score.p is None else _p(score.p),
                    "" if score.calibrated is None else f"{score.calibrated:.3f}",
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


def _value(found: ScoreComparison) -> str:
    interval = found.interval
    if not math.isfinite(interval.low):
        return f"{found.value:.4f}"
    return f"{found.value:.4f} [{interval.low:.4f}, {interval.high:.4f}]"


def _p(value: float) -> str:
    return "< 1e-300" if value == 0 else f"{value:.2g}"


_LAYER_STATES = 1000  # on which layers are compared
_MAX_CYCLES = 24  # at most: all of four encoders


@dataclass
class Align(EmbeddingSource):
    """Fit the map between two encoders and score their similarity.

    ENCODERS are two or more, each a file of embeddings, a record, a backbone of timm or file.py:function, and
    are shown the same states as by `isojepa same`. The map z2 = W z1 is fitted on half of the states and
    scored on the others (Algorithm 1 of Social-JEPA); each number comes with an interval and with what chance
    gives. Three or more: all pairs, how far going round comes back, and a hub for all of them.

    isojepa align a.npy b.npy --map a-to-b.safetensors

    isojepa align runs/google runs/twitter --environment emoji --data data/emoji --all --report align.html

    isojepa align a.npy b.npy --kind procrustes --robust

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
    standardize: bool = True
    """Scale columns to variance 1 before the map is fitted."""
    robust: bool = False
    """Find and drop mismatched pairs."""
    share: float = 0.5
    """Of the states that are fitted on."""
    neighbors: tuple[int, ...] = (1, 5, 10, 20, 50)
    """Numbers of neighbors."""
    all: bool = False
    """Print all numbers, not the first few."""
    layers: bool = False
    """Also CKA of each layer of one with each of the other, for models that see images."""
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
        if len(self.encoders) > 2 and (self.map or self.layers or self.robust):
            raise ValueError("map, layers and robust are of two encoders")
        if len(self.encoders) == 2 and self.hub is not None:
            raise ValueError("a hub is of three encoders at least: write --map")
        with print_notes(), progress_bar("aligning") as self._progress:
            sources = self.embedded(self.encoders, self._progress)
            result = self._aligned(sources)
        if self.map is not None:
            self._save(self.map, sources, result)
        if result.many is not None and self.hub is not None:
            make_folder(self.hub.parent)
            result.many.hub.save(self.hub)
        if self.json:
            print_json(result.to_dict())
        elif result.many is None:
            print_alignment(result.pairs[0, 1], result.robust, self.all)
        else:
            print_many(result, result.many)
        if self.report is not None:
            self._write(self.report, sources, result)
        return 0

    def _map(self) -> AlignmentMap:
        return AlignmentMap(
            self.kind,
            ridge=self.ridge,
            standardize=self.standardize,
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
            layers = self._layer_table(given) if self.layers else None
            return Aligned(given.names, rows, split, pairs, robust, layers)
        named = dict(zip(given.names, rows, strict=True))
        direct = fit_pairwise(
            named,
            given.ids,
            kind=self.kind,
            ridge=self.ridge,
            standardize=self.standardize,
            share=self.share,
            seed=self.seed,
        )
        hub = SharedSpace("linear" if self.standardize else "rotation").fit(
            direct.fitted.rows, direct.fitted.ids
        )
        many = Many(direct, hub, cycles(direct, most=_MAX_CYCLES))
        return Aligned(given.names, rows, split, pairs, many=many)

    def _write(self, path: Path, given: Embedded, found: Aligned) -> None:
        from isojepa.report import aligning  # imported to draw only

        layers, ways = found.layers, [] if found.many is None else found.many.cycles
        number = {name: place for place, name in enumerate(given.names)}
        page = aligning.Alignment(
            given.names,
            found.pairs,
            layers=()
            if layers is None
            else (aligning.Layers((0, 1), layers.first, layers.second, layers.cka),),
            cycles={tuple(number[name] for name in one.names): one.defect for one in ways},
        )
        make_folder(path.parent)
        aligning.write_alignment(
            path,
            page,
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

    def _layer_table(self, given: Embedded) -> LayerSimilarity:
        if given.pictures is None or self.environment is not None:
            raise ValueError("layers are compared of models that see the same pictures: give --data")
        rows = self.layer_rows(self.encoders, given.pictures, _LAYER_STATES, self._progress)
        names = tuple(tuple(one) for one in rows)
        return LayerSimilarity(names[0], names[1], layer_cka(list(rows[0].values()), list(rows[1].values())))

    def _asked(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "ridge": self.ridge,
            "standardize": self.standardize,
            "threshold": self.threshold,
            "robust": self.robust,
            "share": self.share,
            "seed": self.seed,
        }


def varied(name: str, rows: np.ndarray, split: Split) -> np.ndarray:
    """Rows without the columns that are constant on the states that are fitted on."""
    columns = as_rows(name, rows)
    fit = columns[split.fit]
    flat = constant(fit.std(0), fit.mean(0))
    if flat.all():
        raise ValueError(f"{name} must vary, got equal rows: the encoder has collapsed")
    if flat.any():
        warn(f"{int(flat.sum())} constant columns of {name} were left out")
    return np.asarray(columns[:, ~flat])


_RELATION_STYLES = {"rotation": "bold green", "linear": "bold green", "partly": "bold yellow"}


@dataclass
class Same(EmbeddingSource):
    """Test whether two encoders agree up to a rotation or linear map.

    FIRST and SECOND are each one of

    embeddings:  npy, npz, safetensors, pt, HDF5 or CSV, a row for each state, in one order or with --ids

    records:  in worlds of known latents, whose states are drawn anew; or of images, with --data

    backbones of timm:  by name, with --weights and --data, a folder of images

    encoders:  file.py:function, with --data

    All numbers are held out: R^2 by a rotation and by a linear map, with what random pairings give. With
    fewer states than 4 for each dimension and 60 more the answer is too-few.

    isojepa same a.npy b.npy --report same.html

    isojepa same runs/a runs/b --data photos/ --json

    isojepa same resnet50 vit_small_patch16_224 --weights r.safetensors v.safetensors --data photos/ --size
    224

    isojepa same runs/google runs/twitter --environment emoji --data data/emoji
    """

    first: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="FIRST")]]
    """File of embeddings, record, backbone of timm or file.py:function."""
    second: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="SECOND")]]
    """The same of the other encoder."""
    confidence: float = 0.95
    """Of the intervals."""
    map: Path | None = None
    """Write the map of the verdict's kind, from first to second, to a safetensors file."""
    report: Path | None = None
    """Write the answer as one self-contained HTML page."""

    def run(self) -> int:
        with print_notes(), progress_bar("embedding") as progress:
            embedded = self.embedded((self.first, self.second), progress)
        result = same(*embedded.rows, ids=embedded.ids, confidence=self.confidence, seed=self.seed)
        if self.map is not None:
            if result.map is None:
                raise ValueError(f"there is no map to write: {result.sentence}")
            result.map.save(self.map)
        if self.json:
            print_json({"names": embedded.names, **result.to_dict()})
        else:
            print_sameness(result)
        if self.report is not None:
            from isojepa.report.aligning import write_same  # imported to draw only

            make_folder(self.report.parent)
            write_same(
                self.report,
                result,
                *embedded.rows,
                names=(embedded.names[0], embedded.names[1]),
                ids=embedded.ids,
                labels=embedded.labels,
                pictures=embedded.pictures,
            )
            if not self.json:
                out.print(f"\nOpen {self.report} in a browser.", markup=False)
        return 0


def print_sameness(found: EncoderComparison) -> None:
    """Print the answer and the numbers behind it as text."""
    out.print()
    verdict, _, reason = found.sentence.partition(":")
    out.print(verdict[0].upper() + verdict[1:], style=_RELATION_STYLES.get(found.verdict, "bold red"))
    reason = reason.strip()
    out.print(f"{reason[0].upper()}{reason[1:]}.", markup=False)
    rows = [
        ("R2 by a rotation", *_score_cells(found.rotation, None)),
        ("R2 by a linear map", *_score_cells(found.linear, found.linear_chance)),
        ("R2 by a linear map back", *_score_cells(found.back, None)),
    ]
    if found.verdict == "too-few":
        rows = []
    elif found.linear is not None and found.nonlinear is not None and found.worst is not None:
        width = min(found.first.dimensions, found.second.dimensions)
        rows.append(("R2 by a nonlinear map", _r2_text(found.nonlinear), "hinges and random cosines"))
        rows.append(("R2 of the worst direction", f"{found.worst:.4f}", "linear, both ways"))
        rows.append(("shared directions", f"{found.shared} of {width}", "held-out canonical correlations"))
    if found.condition is not None and found.map is not None:
        meaning = "of the linear map: largest over smallest singular value"
        rows.append(("condition of W", f"{found.condition:.3g}", meaning))
    if found.pairs_needed is not None:
        rows.append(("pairs needed", str(found.pairs_needed), "after which R2 rose by less than 0.01"))
    rows.append(("states", f"{found.states}", f"{found.required} are required at this width"))
    if found.effective < found.states:
        rows.append(("effective rows", f"{found.effective}", "states that are nearly independent"))
    print_table((Column(), Column("value"), Column(prose=True)), rows, indent=1)
    for note in found.notes:
        out.print(note, style="dim", markup=False)


def _score_cells(found: HeldOutR2 | None, chance: PairingNull | None) -> tuple[str, str]:
    if found is None:
        return "", ""
    value = _r2_text(found.r2)
    if chance is None:
        return value, ""
    return value, (
        f"random pairings of {chance.rows} rows: at most {chance.largest:.3f}, true ones {chance.r2:.3f}"
    )


def _r2_text(r2: Interval) -> str:
    ends = f" [{r2.low:.4f}, {r2.high:.4f}]" if math.isfinite(r2.low) else ""
    return f"{r2.estimate:.4f}{ends}"


@dataclass
class Transfer:
    """Carry a linear probe from one encoder to another.

    PROBE is a safetensors file of a linear head of encoder 1: tensors weight (outputs, dim) and bias, as
    torch names them; mean and scale too, if it was trained on standardized features; classes, whole
    numbers. `isojepa probe ... --save-probe FILE` writes one.

    MAP is what AlignmentMap.save wrote: the map from encoder 1 to encoder 2, fitted on both encoders'
    embeddings of the same things.

    isojepa transfer head.safetensors map.safetensors

    isojepa transfer head.safetensors map.safetensors --embeddings b.npy --labels labels.npy

    isojepa transfer head.safetensors map.safetensors --embeddings b.npy --labels y.npy --source a.npy \\
    --report transfer.html

    The new head takes encoder 2's embeddings as they are. With embeddings and labels it is scored on held-out
    states beside encoder 2's own probe and the head as it is; with --source, encoder 1's embeddings of the
    same rows, also beside a head that was distilled without labels and one by a map fitted backwards. The
    map must not have been fitted on what is scored.
    """

    probe: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="PROBE")]]
    """Linear head of encoder 1, safetensors."""
    map: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="MAP")]]
    """Map from encoder 1 to encoder 2, safetensors."""
    out: Path | None = None
    """File of the new head; PROBE with -transferred in its name by default."""
    backwards: bool = False
    """MAP goes from encoder 2 to encoder 1: it is applied as it is, and nothing is inverted."""
    embeddings: Path | None = None
    """Embeddings of encoder 2 to score on: npy, npz, pt, safetensors, HDF5, Parquet or CSV, or FILE::NAME."""
    labels: Path | None = None
    """Their labels, whole numbers from 0 on in the order of the head's classes."""
    source: Path | None = None
    """Embeddings of encoder 1 of the same rows."""
    ids: Path | None = None
    """Which state each row is of; rows of one state are never on both sides of a split."""
    share: float = 0.5
    """Share of the states that encoder 2's own probe is fitted on; the rest is scored."""
    seed: int = 0
    """Draws which."""
    report: Path | None = None
    """Write the scores as one self-contained HTML page."""
    json: bool = False
    """Print the numbers as JSON."""

    def run(self) -> int:
        if (self.embeddings is None) != (self.labels is None):
            raise ValueError("embeddings and labels go together: give both, or neither")
        if self.embeddings is None and (self.source is not None or self.ids is not None):
            raise ValueError("source and ids say more of embeddings that are scored: give --embeddings too")
        if self.report is not None and self.embeddings is None:
            raise ValueError("report shows scores: give --embeddings and --labels")
        head, fitted = LinearHead.load(self.probe), AlignmentMap.load(self.map)
        transferred = transfer_head(head, fitted, backwards=self.backwards)
        path = self.out or self.probe.with_name(f"{self.probe.stem}-transferred.safetensors")
        if path.resolve() in (self.probe.resolve(), self.map.resolve()):
            raise ValueError(f"out must be another file than the probe and the map, got {path}")
        pseudo = not self.backwards and fitted.pseudo_
        with print_notes():
            scores = self._scores(head, fitted)
        transferred.save(path, {"probe": self.probe.name, "map": self.map.name, "backwards": self.backwards})
        result = {
            "head": str(path),
            "dim": transferred.dim,
            "source_dim": head.dim,
            "outputs": transferred.outputs,
            "condition": fitted.condition_,
            "pseudo_inverse": pseudo,
            "scores": None if scores is None else scores.to_dict(),
        }
        if self.report is not None and scores is not None:
            self._write(self.report, fitted, scores)
        if self.json:
            print_json(result)
            return 0
        how = "a backward map" if self.backwards else "the pseudo-inverse" if pseudo else "the inverse"
        out.print(
            f"Wrote {path}: {transferred.outputs} outputs of {transferred.dim} features, by {how} of a map "
            f"of condition {fitted.condition_:.3g}.",
            markup=False,
        )
        if pseudo:
            problem = f"W has condition {fitted.condition_:.3g} and shape {fitted.matrix_.shape}"
            out.print(
                f"{problem}: directions below 1/{fitted.threshold:g} of the largest are left out.",
                style="yellow",
            )
        if scores is not None:
            _print_transfer(scores)
        if self.report is not None:
            out.print(f"\nOpen {self.report} in a browser.", markup=False)
        return 0

    def _write(self, path: Path, fitted: AlignmentMap, scores: ProbeTransfer) -> None:
        from isojepa.report.aligning import write_transfer  # imported to draw only

        make_folder(path.parent)
        config = {"probe": self.probe.name, "map": self.map.name, "share": self.share, "seed": self.seed}
        write_transfer(path, fitted, scores, title=self.probe.name, backwards=self.backwards, config=config)

    def _scores(self, head: LinearHead, fitted: AlignmentMap) -> ProbeTransfer | None:
        if self.embeddings is None or self.labels is None:
            return None
        return share_probe(
            np.asarray(read_embeddings(self.embeddings)),
            np.asarray(read_array(self.labels)),
            first=None if self.source is None else np.asarray(read_embeddings(self.source)),
            head=head,
            fitted=fitted,
            backwards=self.backwards,
            ids=None if self.ids is None else np.asarray(read_array(self.ids)),
            share=self.share,
            seed=self.seed,
        )


def _print_transfer(scores: ProbeTransfer) -> None:
    r2 = "" if np.isnan(scores.r2) else f", R2 of the map there {scores.r2:.3f}"
    out.print(
        f"\nScored on {scores.scored_rows} rows of {scores.scored_states} states{r2}; "
        f"what is fitted here, on the other {scores.fitted_rows} rows."
    )
    columns = (
        Column("head"),
        Column("accuracy", right=True),
        Column("95 % interval"),
        Column("less own", right=True),
        Column("95 % interval"),
        Column(prose=True),
    )
    rows: list[tuple[Any, ...]] = [
        (score.head, "", "", "", "", score.reason)
        if score.reason
        else (
            score.head,
            f"{score.accuracy:.4f}",
            _interval_text(score.interval, ".4f"),
            "" if score.head == "own" else f"{score.difference:+.4f}",
            "" if score.head == "own" else _interval_text(score.difference_interval, "+.4f"),
            "",
        )
        for score in scores.scores
    ]
    print_table(columns, rows, indent=1)


def _interval_text(interval: tuple[float, float], how: str) -> str:
    return f"{interval[0]:{how}} to {interval[1]:{how}}"
