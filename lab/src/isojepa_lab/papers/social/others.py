"""Encoders of others: five networks trained on photographs, and the same with random weights, map by map.

Every network sees the same pictures. Of its features as they are: CKA and mutual k-NN, with what chance
gives. Of their first principal directions, since a map needs more pictures than directions: how much of one
network another explains, by a linear map and by a rotation, on pictures left out; all through one hub.
"""

import functools
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from isojepa.align import AlignmentMap, Hub, cycles, fit_pairwise, same
from isojepa.align.metrics import cka, mutual_knn
from isojepa.encoders.backbones import Backbone
from isojepa.encoders.weights import load_weights
from isojepa.evaluations.features import features_of
from isojepa.evaluations.probes import linear_probe, neighbors_probe
from isojepa.report.charts import HeatMap
from isojepa.seeds import generator
from isojepa.worlds.images.opening import open_pictures
from isojepa.worlds.images.pictures import Pictures, Stack
from isojepa_lab.studies.cells import Cell, Computation
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Judgement, Statement, judge_lines
from isojepa_lab.studies.study import Study

WEIGHTS = "data/encoders"  # where `tools/data encoders` puts them
DATA = {"Fashion-MNIST": "data/fashion-mnist", "emoji": "data/emoji/google"}
NETWORKS = {
    "AlexNet": "alexnet-features",
    "VGG-16": "vgg16-features",
    "SqueezeNet": "squeezenet-features",
    "MobileNetV2": "mobilenetv2_100",
    "ResNet-50": "resnet50",
}
TRAINED, RANDOM, OWN = "photographs", "random", "photographs and random"
SETTINGS: dict[str, Any] = {"pictures": 1200, "size": 64, "directions": 96}
QUICK: dict[str, Any] = {"pictures": 120, "size": 16, "directions": 6}
SMALL = {"first": "convnet-4-8", "second": "convnet-6-12", "third": "convnet-8-8"}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SHRINKAGE = 0.1  # of the hub of linear maps
ROTATES, THROUGH = 0.05, 0.05  # of R^2, that a rotation, and a hub, may be below a linear map
SECONDS = 20.0  # of a cell on one core, roughly


def cells(scale: str) -> list[Cell]:
    """For each set of pictures: every network, every pair, and all through a hub."""
    quick = scale == "quick"
    networks, base = (SMALL, QUICK) if quick else (NETWORKS, SETTINGS)
    found = []
    for data, place in ({"bars": ""} if quick else DATA).items():
        for weights in (TRAINED, RANDOM):
            asked = {**base, "data": place, "weights": weights}
            for name, network in networks.items():
                labels = {"part": "encoder", "data": data, "weights": weights, "first": name}
                found.append(_cell({**asked, "networks": [network]}, labels))
            for (a, first), (b, second) in combinations(networks.items(), 2):
                labels = {"part": "pair", "data": data, "weights": weights, "first": a, "second": b}
                found.append(_cell({**asked, "networks": [first, second]}, labels))
            labels = {"part": "hub", "data": data, "weights": weights}
            found.append(_cell({**asked, "networks": list(networks.values()), "hub": True}, labels))
        for name, network in networks.items():
            labels = {"part": "pair", "data": data, "weights": OWN, "first": name, "second": name}
            asked = {**base, "data": place, "weights": OWN}
            found.append(_cell({**asked, "networks": [network, network]}, labels))
    return found


def _cell(asked: dict[str, Any], labels: dict[str, Any]) -> Cell:
    return Cell(Computation(asked, seconds=SECONDS if asked["data"] else None), labels)


def measure(cell: Cell) -> dict[str, float]:
    """Probes of one network, all numbers of two, or maps of all of them."""
    asked = cell.settings
    weights = (TRAINED, RANDOM) if asked["weights"] == OWN else (asked["weights"],) * len(asked["networks"])
    place, count, size = asked["data"], asked["pictures"], asked["size"]
    rows = [
        _features(network, own, place, count, size)
        for network, own in zip(asked["networks"], weights, strict=True)
    ]
    if len(rows) == 1:
        return _probes(rows[0], _pictures(place, count)[1])
    reduced = [_principal(part, asked["directions"]) for part in rows]
    return _together(reduced) if asked.get("hub") else {**_pair(*reduced), **_whole(*rows)}


def _probes(rows: np.ndarray, labels: torch.Tensor) -> dict[str, float]:
    """A linear probe fitted on two thirds of the pictures, 10 neighbours, and the share of the directions."""
    cut = len(rows) * 2 // 3
    parts = rows[:cut], labels[:cut], rows[cut:], labels[cut:]
    linear = linear_probe(*parts)
    spread = np.linalg.svd(rows - rows.mean(0), compute_uv=False) ** 2
    return {
        "linear": linear.accuracy,
        "low": linear.interval[0],
        "high": linear.interval[1],
        "neighbors": neighbors_probe(*parts, k=(10,))[0].accuracy,
        "carried": float(spread[: SETTINGS["directions"]].sum() / spread.sum()),
        "width": rows.shape[1],
    }


def _pair(first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """How much one explains of the other, and what the map is like."""
    found = same(first, second)
    if found.linear is None or found.back is None or found.rotation is None or found.linear_chance is None:
        raise ValueError(f"{found.states} pictures are too few for {first.shape[1]} directions")
    fitted = AlignmentMap("ridge").fit(first, second)
    numbers = {f"verdict {name}": float(found.verdict == name) for name in ("rotation", "linear", "partly")}
    for name, part in (("there", found.linear), ("back", found.back), ("turned", found.rotation)):
        numbers |= {name: part.r2.estimate, f"{name}_low": part.r2.low, f"{name}_high": part.r2.high}
    return {
        **numbers,
        "chance": found.linear_chance.mean,
        "shared": float(found.shared),
        "condition": fitted.condition_,
        "orthogonality": fitted.orthogonality_,
    }


def _whole(first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """Scores that need no map, of all features."""
    alike = cka(first, second, drop_constant=True)
    near = mutual_knn(first, second, drop_constant=True)
    found: dict[str, float] = {}
    for name, one in (("cka", alike), ("knn", near)):
        found |= {name: one.value, f"{name}_low": one.interval.low, f"{name}_high": one.interval.high}
        found |= {f"{name}_chance": float(one.chance or 0), f"{name}_calibrated": float(one.calibrated or 0)}
    return found


def _together(rows: list[np.ndarray]) -> dict[str, float]:
    """Direct maps, cycles of them, and translations through hubs, all held out."""
    found = fit_pairwise(rows, standardise=False)
    direct = found.scores()
    numbers = {"direct": fmean(one.estimate for one in direct.values())}
    for name, hub in (("turned", Hub()), ("white", Hub("linear", shrinkage=SHRINKAGE))):
        hub.fit(found.fitted.rows)
        for form, expected in (("", False), ("_expected", True)):
            through = found.hub_scores(hub, expected=expected)
            numbers[f"{name}{form}"] = fmean(one.estimate for one in through.values())
    round_trips = cycles(found)
    numbers["defect"] = fmean(one.defect for one in round_trips)
    numbers["round"] = fmean(one.r2.estimate for one in round_trips)
    return numbers


@functools.lru_cache(maxsize=64)
def _features(network: str, weights: str, place: str, count: int, size: int) -> np.ndarray:
    """(count, width), of pictures that every network sees."""
    pictures, _, ids = _chosen(place, count)
    backbone = Backbone(network, seed=0 if place or weights == RANDOM else 1)
    if weights == TRAINED and place:
        path = Path(WEIGHTS, f"{network}.safetensors")
        if not path.exists():
            raise ValueError(f"{path} does not exist: fetch it with `python tools/data encoders`")
        load_weights(backbone.body, path)
    rows = features_of(backbone, pictures, size=size, ids=ids, channels=3, mean=MEAN, std=STD, batch=50)
    return np.asarray(rows, dtype=np.float64)


def _pictures(place: str, count: int) -> tuple[Pictures, torch.Tensor]:
    pictures, labels, _ = _chosen(place, count)
    return pictures, labels


@functools.lru_cache(maxsize=4)
def _chosen(place: str, count: int) -> tuple[Pictures, torch.Tensor, torch.Tensor]:
    """Pictures, and of some of them labels and numbers: of emoji one for each state."""
    if place and not Path(place).exists():
        name = Path(place).parts[1] if len(Path(place).parts) > 1 else place
        raise ValueError(f"{place} does not exist: fetch it with `python tools/data {name}`")
    pictures = open_pictures(place, split="train") if place else _drawn(count)
    ids = np.arange(len(pictures))
    if place and (file := Path(place, "train.npz")).exists():
        with np.load(file) as arrays:
            if "states" in arrays.files:
                ids = np.unique(arrays["states"], return_index=True)[1]
    order = torch.randperm(len(ids), generator=generator(0, "study others", "pictures"))[:count]
    chosen = torch.from_numpy(ids)[order]
    return pictures, torch.as_tensor(pictures.labels)[chosen], chosen


def _drawn(count: int) -> Stack:
    """Pictures of bars that stand or lie, to see that everything works."""
    source = generator(0, "study others", "drawn")
    labels = torch.arange(count) % 2
    images = torch.randint(64, (count, 16, 16), generator=source).byte()
    for row, label in enumerate(labels.tolist()):
        start = int(torch.randint(2, 10, (), generator=source))
        bar = images[row].T if label else images[row]
        bar[start : start + 4] += 160
    return Stack(images.numpy(), labels=labels)


def _principal(rows: np.ndarray, directions: int) -> np.ndarray:
    """The first principal directions of centred rows."""
    centred = rows - rows.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(centred @ axes[:directions].T)


def _encoders(rows: Rows) -> Lines:
    own = rows.where(part="encoder")
    columns = ("linear", "low", "high", "neighbors", "width", "carried")
    return own.lines(["data", "first", "weights"], *columns)


def _pairs(rows: Rows) -> Lines:
    own = rows.where(part="pair")
    columns = ("there", "back", "turned", "chance", "cka", "cka_chance", "cka_calibrated")
    more = ("knn", "knn_calibrated", "condition")
    return own.lines(["data", "weights", "first", "second"], *columns, *more)


def _means(rows: Rows) -> Lines:
    own = rows.where(part="pair")
    columns = ("there", "back", "turned", "cka", "cka_calibrated", "knn", "knn_calibrated")
    return own.lines(["data", "weights"], *columns, pairs=len)


def _hubs(rows: Rows) -> Lines:
    columns = ("direct", "turned", "turned_expected", "white", "white_expected", "defect", "round")
    return rows.where(part="hub").lines(["data", "weights"], *columns)


def _maps(rows: Rows) -> list[HeatMap]:
    """R^2 of the network above by the one on the left, of each set of pictures."""
    panels = []
    for (data,), own in rows.where(part="pair", weights=TRAINED).by("data").items():
        found = {}
        for row in own:
            a, b = row.labels["first"], row.labels["second"]
            found[a, b], found[b, a] = row.scores.get("there"), row.scores.get("back")
        names = list(dict.fromkeys(str(name) for pair in found for name in pair))
        table = [[found.get((a, b)) for b in names] for a in names]
        panels.append(HeatMap("", str(data), "", names, names, "explained", "by", values=table, digits=2))
    return panels


def _better(rows: Rows) -> Judgement:
    """Whether photographs beat random weights of the same network by more than the probe's interval."""
    lines = _encoders(rows).known("linear")
    base = {(line["data"], line["first"]): line["linear"] for line in lines.where(weights=RANDOM)}
    asked = [
        {**line, "random": base[line["data"], line["first"]]}
        for line in lines.where(weights=TRAINED)
        if (line["data"], line["first"]) in base
    ]
    text = "{first} on {data} {linear:.3f} against {random:.3f}"
    return judge_lines(asked, lambda line: line["low"] > line["random"], text)


def _closer(rows: Rows) -> Judgement:
    """Whether two networks explain each other better when both are trained."""
    lines = _pairs(rows).known("there", "back")
    both = {
        (line["data"], line["first"], line["second"]): (line["there"] + line["back"]) / 2
        for line in lines.where(weights=RANDOM)
    }
    asked = [
        {**line, "r2": (line["there"] + line["back"]) / 2, "random": both[key]}
        for line in lines.where(weights=TRAINED)
        if (key := (line["data"], line["first"], line["second"])) in both
    ]
    text = "{first} and {second} on {data} {r2:.2f} against {random:.2f}"
    return judge_lines(asked, lambda line: line["r2"] > line["random"], text)


def _rotates(rows: Rows) -> Judgement:
    lines = _pairs(rows.where(weights=TRAINED)).known("there", "turned")
    text = "{first} and {second} on {data} {turned:.2f} against {there:.2f}"
    asked = [{**line, "gap": line["there"] - line["turned"]} for line in lines]
    return judge_lines(asked, lambda line: line["gap"] <= ROTATES, text, "gap")


def _through(rows: Rows) -> Judgement:
    lines = _hubs(rows.where(weights=TRAINED)).known("direct", "white_expected")
    text = "{data} {white_expected:.2f} against {direct:.2f}"
    return judge_lines(lines, lambda line: line["white_expected"] >= line["direct"] - THROUGH, text)


STUDY = Study.of_file(
    __file__,
    title="Encoders of others",
    source="Zhang et al. (2026), Social-JEPA; weights from packages of others, see tools/data",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(encoders=_encoders, means=_means, pairs=_pairs, hubs=_hubs),
    charts=[ChartSpec("maps", _maps, columns=2)],
    statements=Statement.named(better=_better, closer=_closer, rotates=_rotates, through=_through),
)
