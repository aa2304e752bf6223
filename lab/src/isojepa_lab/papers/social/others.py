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

from isojepa.alignment import AlignmentMap, SharedSpace, cycles, fit_pairwise, same
from isojepa.alignment import measure as score
from isojepa.data.images.image_sets import ImageSet, Stack
from isojepa.data.images.source import open_images
from isojepa.encoders.backbones import Backbone
from isojepa.encoders.weights import load_weights
from isojepa.probes.features import features_of
from isojepa.probes.linear import linear_probe, neighbors_probe
from isojepa.report.charts import HeatMap
from isojepa.seeds import generator
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
    cells = []
    for data, place in ({"bars": ""} if quick else DATA).items():
        for weights in (TRAINED, RANDOM):
            settings = {**base, "data": place, "weights": weights}
            for name, network in networks.items():
                labels = {"part": "encoder", "data": data, "weights": weights, "first": name}
                cells.append(_cell({**settings, "networks": [network]}, labels))
            for (a, first), (b, second) in combinations(networks.items(), 2):
                labels = {"part": "pair", "data": data, "weights": weights, "first": a, "second": b}
                cells.append(_cell({**settings, "networks": [first, second]}, labels))
            labels = {"part": "hub", "data": data, "weights": weights}
            cells.append(_cell({**settings, "networks": list(networks.values()), "hub": True}, labels))
        for name, network in networks.items():
            labels = {"part": "pair", "data": data, "weights": OWN, "first": name, "second": name}
            settings = {**base, "data": place, "weights": OWN}
            cells.append(_cell({**settings, "networks": [network, network]}, labels))
    return cells


def _cell(asked: dict[str, Any], labels: dict[str, Any]) -> Cell:
    return Cell(Computation(asked, seconds=SECONDS if asked["data"] else None), labels)


def measure(cell: Cell) -> dict[str, float]:
    """Probes of one network, all numbers of two, or maps of all of them."""
    settings = cell.settings
    weights = (
        (TRAINED, RANDOM)
        if settings["weights"] == OWN
        else (settings["weights"],) * len(settings["networks"])
    )
    place, count, size = settings["data"], settings["pictures"], settings["size"]
    rows = [
        _features(network, network_weights, place, count, size)
        for network, network_weights in zip(settings["networks"], weights, strict=True)
    ]
    if len(rows) == 1:
        return _probes(rows[0], _pictures(place, count)[1])
    reduced = [_principal(part, settings["directions"]) for part in rows]
    return _together(reduced) if settings.get("hub") else {**_pair(*reduced), **_whole(*rows)}


def _probes(rows: np.ndarray, labels: torch.Tensor) -> dict[str, float]:
    """A linear probe fitted on two thirds of the pictures, 10 neighbors, and the share of the directions."""
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
    comparison = same(first, second)
    if (
        comparison.linear is None
        or comparison.back is None
        or comparison.rotation is None
        or comparison.linear_chance is None
    ):
        raise ValueError(f"{comparison.states} pictures are too few for {first.shape[1]} directions")
    fitted = AlignmentMap("ridge").fit(first, second)
    numbers = {
        f"verdict {name}": float(comparison.verdict == name) for name in ("rotation", "linear", "partly")
    }
    for name, part in (
        ("there", comparison.linear),
        ("back", comparison.back),
        ("turned", comparison.rotation),
    ):
        numbers |= {name: part.r2.estimate, f"{name}_low": part.r2.low, f"{name}_high": part.r2.high}
    return {
        **numbers,
        "chance": comparison.linear_chance.mean,
        "shared": float(comparison.shared),
        "condition": fitted.condition_,
        "orthogonality": fitted.orthogonality_,
    }


def _whole(first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """Scores that need no map, of all features."""
    alike = score("CKA", first, second, drop_constant=True)
    near = score("mutual k-NN@10", first, second, drop_constant=True)
    embeddings: dict[str, float] = {}
    for name, one in (("cka", alike), ("knn", near)):
        embeddings |= {name: one.value, f"{name}_low": one.interval.low, f"{name}_high": one.interval.high}
        embeddings |= {
            f"{name}_chance": float(one.chance or 0),
            f"{name}_calibrated": float(one.calibrated or 0),
        }
    return embeddings


def _together(rows: list[np.ndarray]) -> dict[str, float]:
    """Direct maps, cycles of them, and translations through hubs, all held out."""
    shared = fit_pairwise(rows, standardize=False)
    direct = shared.scores()
    numbers = {"direct": fmean(one.estimate for one in direct.values())}
    for name, hub in (("turned", SharedSpace()), ("white", SharedSpace("linear", shrinkage=SHRINKAGE))):
        hub.fit(shared.fitted.rows)
        for form, expected in (("", False), ("_expected", True)):
            through = shared.hub_scores(hub, expected=expected)
            numbers[f"{name}{form}"] = fmean(one.estimate for one in through.values())
    round_trips = cycles(shared)
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


def _pictures(place: str, count: int) -> tuple[ImageSet, torch.Tensor]:
    pictures, labels, _ = _chosen(place, count)
    return pictures, labels


@functools.lru_cache(maxsize=4)
def _chosen(place: str, count: int) -> tuple[ImageSet, torch.Tensor, torch.Tensor]:
    """Pictures, and of some of them labels and numbers: of emoji one for each state."""
    if place and not Path(place).exists():
        name = Path(place).parts[1] if len(Path(place).parts) > 1 else place
        raise ValueError(f"{place} does not exist: fetch it with `python tools/data {name}`")
    pictures = open_images(place, split="train") if place else _drawn(count)
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
    """The first principal directions of centered rows."""
    centered = rows - rows.mean(0)
    _, _, axes = np.linalg.svd(centered, full_matrices=False)
    return np.asarray(centered @ axes[:directions].T)


def _encoders(rows: Rows) -> Lines:
    selection = rows.where(part="encoder")
    columns = ("linear", "low", "high", "neighbors", "width", "carried")
    return selection.lines(["data", "first", "weights"], *columns)


def _pairs(rows: Rows) -> Lines:
    selection = rows.where(part="pair")
    columns = ("there", "back", "turned", "chance", "cka", "cka_chance", "cka_calibrated")
    more = ("knn", "knn_calibrated", "condition")
    return selection.lines(["data", "weights", "first", "second"], *columns, *more)


def _means(rows: Rows) -> Lines:
    selection = rows.where(part="pair")
    columns = ("there", "back", "turned", "cka", "cka_calibrated", "knn", "knn_calibrated")
    return selection.lines(["data", "weights"], *columns, pairs=len)


def _hubs(rows: Rows) -> Lines:
    columns = ("direct", "turned", "turned_expected", "white", "white_expected", "defect", "round")
    return rows.where(part="hub").lines(["data", "weights"], *columns)


def _maps(rows: Rows) -> list[HeatMap]:
    """R^2 of the network above by the one on the left, of each set of pictures."""
    panels = []
    for (data,), group in rows.where(part="pair", weights=TRAINED).by("data").items():
        maps = {}
        for row in group:
            a, b = row.labels["first"], row.labels["second"]
            maps[a, b], maps[b, a] = row.scores.get("there"), row.scores.get("back")
        names = list(dict.fromkeys(str(name) for pair in maps for name in pair))
        table = [[maps.get((a, b)) for b in names] for a in names]
        panels.append(HeatMap("", str(data), "", names, names, "explained", "by", values=table, digits=2))
    return panels


def _better(rows: Rows) -> Judgement:
    """Whether photographs beat random weights of the same network by more than the probe's interval."""
    lines = _encoders(rows).known("linear")
    base = {(line["data"], line["first"]): line["linear"] for line in lines.where(weights=RANDOM)}
    compared = [
        {**line, "random": base[line["data"], line["first"]]}
        for line in lines.where(weights=TRAINED)
        if (line["data"], line["first"]) in base
    ]
    text = "{first} on {data} {linear:.3f} against {random:.3f}"
    return judge_lines(compared, lambda line: line["low"] > line["random"], text)


def _closer(rows: Rows) -> Judgement:
    """Whether two networks explain each other better when both are trained."""
    lines = _pairs(rows).known("there", "back")
    both = {
        (line["data"], line["first"], line["second"]): (line["there"] + line["back"]) / 2
        for line in lines.where(weights=RANDOM)
    }
    compared = [
        {**line, "r2": (line["there"] + line["back"]) / 2, "random": both[key]}
        for line in lines.where(weights=TRAINED)
        if (key := (line["data"], line["first"], line["second"])) in both
    ]
    text = "{first} and {second} on {data} {r2:.2f} against {random:.2f}"
    return judge_lines(compared, lambda line: line["r2"] > line["random"], text)


def _rotates(rows: Rows) -> Judgement:
    lines = _pairs(rows.where(weights=TRAINED)).known("there", "turned")
    text = "{first} and {second} on {data} {turned:.2f} against {there:.2f}"
    compared = [{**line, "gap": line["there"] - line["turned"]} for line in lines]
    return judge_lines(compared, lambda line: line["gap"] <= ROTATES, text, "gap")


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
