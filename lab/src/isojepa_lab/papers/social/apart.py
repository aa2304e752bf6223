"""Encoders trained apart: what relates them, and whether SIGReg makes that a rotation.

Two worlds. In one, two observers see the same Gaussian latents through mixings of their own, so that
Theorem 1 says what the map must be. In the other they see the same emoji, drawn by two vendors. Each agent is
trained on its own observations alone; the map is fitted on states of the training split and scored on states
that no agent has seen.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from isojepa import runs
from isojepa.alignment import compare
from isojepa.alignment.maps import AlignmentMap
from isojepa.alignment.probe_transfer import share_probe
from isojepa.config import Config
from isojepa.data.images.image_sets import Stack
from isojepa.data.images.source import ImageObservers, Images, Observer
from isojepa.data.images.views import Views
from isojepa.data.observers import Pairs, environment
from isojepa.encoders.model import embed
from isojepa.probes.features import features_of
from isojepa.probes.rank import rankme
from isojepa.registry import build_spec, flatten
from isojepa.seeds import generator
from isojepa.training.loop import fit
from isojepa.training.recipe import Recipe
from isojepa_lab.studies.cells import Cell, Computation
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.settings import OBJECTIVES
from isojepa_lab.studies.specs import TableSpec
from isojepa_lab.studies.statements import Judgement, Statement, judge_lines, judge_values
from isojepa_lab.studies.study import Study

DATA = "data/emoji"  # where `tools/data emoji` puts it
LATENTS, EMOJI = "latents", "emoji"
PLANE = {"LeJEPA": "SIGReg", "VICReg": "VICReg", "whitening": "whitening", "InfoNCE": "InfoNCE"}
SINGLE = {  # that look at one view, without a projector
    "masked (I-JEPA)": "masked",
    "MAE": "mae",
    "autoencoder": "autoencoder",
    "supervised": "supervised",
    "random weights": "random",
}
SEVERAL = {
    "LeJEPA": "lejepa-images",
    "SimCLR": "simclr",
    "MoCo v3": "moco",
    "DINO": "dino",
    "iBOT": "ibot",
    "SwAV": "swav",
    "Barlow Twins": "barlow-twins",
    "DINO + iBOT + KoLeo": "dinov2",
    "VICReg": "vicreg",
}
STANDARD = (*SINGLE, "LeJEPA", "SimCLR", "VICReg")  # the others take hours more
PATCH = 8  # side in pixels
VIT = f"patch_size={PATCH},depth=3,embed_dim=96,num_heads=3"
SETTINGS: dict[str, Any] = {"options": VIT, "projector": "256-64", "steps": 300, "batch": 64, "rate": 1e-3}
QUICK: dict[str, Any] = {
    "options": f"patch_size={PATCH},depth=1,embed_dim=24,num_heads=3",
    "projector": "16-8",
    "steps": 2,
    "batch": 16,
    "rate": 1e-3,
}
STEP, AROUND = 0.35, 40.0  # seconds of one core: a step of one agent, and the rest of a cell
SEEDS = (0, 1000)  # of the two agents, whose weights are drawn apart
ALIKE, LEVEL = 0.99, 1.1  # R^2 and condition of a map that is a rotation
POINTS = 2  # that a transferred probe may lose


def cells(scale: str) -> list[Cell]:
    """The objectives of the paper's first table and some besides; at paper scale all, with three seeds."""
    quick, methods = scale == "quick", SINGLE | SEVERAL
    if scale != "paper":
        methods = {name: one for name, one in methods.items() if name in STANDARD}
    cells = []
    for seed in range(3 if scale == "paper" else 1):
        for method, name in PLANE.items():
            spec = OBJECTIVES[name]
            settings: dict[str, Any] = {"world": LATENTS, "steps": 5 if quick else 2000, "seed": seed}
            settings |= {"objective": spec.name, "settings": flatten(spec)}
            settings["batch"] = (
                512 if method == "InfoNCE" else Recipe().batch
            )  # its cost grows with the square
            cells.append(Cell(Computation(settings, seconds=60), _labels(LATENTS, method, seed)))
        for method, objective in methods.items():
            base = {**QUICK, "data": ""} if quick else {**SETTINGS, "data": DATA}
            settings = {**base, "world": EMOJI, "objective": objective, "seed": seed}
            seconds = None if quick else AROUND + 2 * STEP * float(settings["steps"])
            cells.append(Cell(Computation(settings, seconds=seconds), _labels(EMOJI, method, seed)))
    return cells


def _labels(world: str, method: str, seed: int) -> dict[str, Any]:
    return {"world": world, "method": method, "seed": seed}


def measure(cell: Cell) -> dict[str, float]:
    """Train two agents apart, and relate them."""
    settings = cell.settings
    return _of_latents(**settings) if settings.pop("world") == LATENTS else _of_pictures(**settings)


def _of_latents(
    objective: str, settings: dict[str, Any], steps: int, batch: int, seed: int
) -> dict[str, float]:
    view_source = environment(LATENTS, mixings=("spiral", "parabola"), dim=2, seed=seed, states=5000)
    agents = []
    for agent, offset in zip(view_source.names, SEEDS, strict=True):
        source = view_source.source(agent)
        config = Config(objective=build_spec("objective", objective, **settings), seed=seed + offset)
        context = runs.context_of(config, source)
        model = config.encoder.build(context)
        loss = config.objective.resolve(context).build(context)
        recipe = replace(config.training, steps=steps, batch=batch, eval_every=steps)
        fit(model, source, loss, recipe=recipe, evaluations=(), seed=seed + offset, progress=False)
        agents.append(model)
    rows = []
    for split in ("train", "test"):
        pairs = view_source.pairs(0, 1, split)
        both = zip(agents, (pairs.first, pairs.second), strict=True)
        rows.append([embed(model, x).numpy() for model, x in both])
    return _related(rows[0], rows[1])


def _of_pictures(data: str, objective: str, seed: int, **settings: Any) -> dict[str, float]:
    source = _emoji(data)
    agents = [
        _trained(source, agent, objective, seed + offset, **settings)
        for agent, offset in zip(source.names, SEEDS, strict=True)
    ]
    pairs = [source.pairs(0, 1, split) for split in ("train", "test")]
    rows = _rows(agents, pairs, "features")
    ids = np.concatenate([one.ids.numpy() for one in pairs])
    labels = np.concatenate([one.labels.numpy() for one in pairs if one.labels is not None])
    first, second = (np.concatenate(one) for one in zip(*rows, strict=True))
    heads = share_probe(second, labels, first=first, ids=ids, share=0.8, seed=seed)
    scores = {
        **_related(rows[0], rows[1], pairs[1].ids.numpy()),
        "rankme": rankme(rows[0][0]),
        **{f"probe {head}": heads[head].accuracy for head in ("own", "naive", "transferred", "regressed")},
    }
    if objective in SEVERAL.values():
        train, test = _rows(agents, pairs, "embedding")
        behind = _related(train, test, pairs[1].ids.numpy())
        scores |= {f"embedding {name}": value for name, value in behind.items()}
    return scores


def _rows(agents: Sequence[nn.Module], pairs: Sequence[Pairs[Any]], what: str) -> list[list[np.ndarray]]:
    """Of each split, the rows of both agents."""
    return [
        [
            features_of(model, view, what=what)
            for model, view in zip(agents, (one.first, one.second), strict=True)
        ]
        for one in pairs
    ]


def _trained(
    seen: ImageObservers,
    agent: str,
    objective: str,
    seed: int,
    options: str,
    projector: str,
    steps: int,
    batch: int,
    rate: float,
) -> nn.Module:
    """One agent, who sees its own pictures alone."""
    single = objective in SINGLE.values()
    views = replace(Views.for_size(64), global_views=1 if single else 2, local_views=0)
    source = Images(seen.pictures(agent, "train"), views)
    spec = build_spec(
        "encoder",
        "backbone",
        backbone="vit_tiny_patch16_224",
        projector="none" if single else projector,
        options=options,
    )
    context = runs.context_of(Config(build_spec("world", "images"), spec, seed=seed), source)
    model: nn.Module = spec.build(context)
    recipe = Recipe(
        steps=steps,
        batch=batch,
        batch_start=None,
        learning_rate=rate,
        weight_decay=0.05,
        warmup=0.05,
        beta2=0.95,
        eval_every=steps,
    )
    objective_settings = {"patch": PATCH} if objective == "mae" else {}
    loss = build_spec("objective", objective, **objective_settings).resolve(context).build(context)
    fit(model, source, loss, recipe=recipe, evaluations=(), seed=seed, progress=False)
    return model


def _related(
    fitted: Sequence[np.ndarray], held: Sequence[np.ndarray], ids: np.ndarray | None = None
) -> dict[str, float]:
    """Maps fitted on some states and scored on others, and what Table 2 of the paper has."""
    varying = [rows.std(0) > 1e-6 * rows.std() for rows in fitted]
    x, y = (rows[:, columns] for rows, columns in zip(fitted, varying, strict=True))
    a, b = (rows[:, columns] for rows, columns in zip(held, varying, strict=True))
    linear = AlignmentMap("ridge", standardize=False).fit(x, y)
    turned = AlignmentMap("scaled_procrustes", standardize=False).fit(x, y)
    scores = compare(a, b, map=AlignmentMap("ridge").fit(x, y), ids=ids, ks=(10,))
    return {
        "linear": linear.score(a, b),
        "rotation": turned.score(a, b),
        "condition": linear.condition_,
        "orthogonality": turned_orthogonality(linear),
        "r2": scores.aligned["R2"].value,
        "mse": scores.aligned["MSE"].value / b.shape[1],
        "dsc": scores.aligned["DSC"].value,
        "nos": scores.aligned["NOS@10"].value,
        "cka": scores.raw["unbiased CKA"].value,
    }


def turned_orthogonality(linear: AlignmentMap) -> float:
    """|W^T W - I| / |I| when W is divided by the one scale that brings it nearest to a rotation."""
    values = linear.singular_values_
    scaled = values / values.mean()
    return float(np.linalg.norm(scaled**2 - 1) / np.sqrt(len(values)))


@cache
def _emoji(data: str) -> ImageObservers:
    if not data:
        return _drawn()
    if not Path(data).exists():
        raise ValueError(f"{data} does not exist: fetch it with `python tools/data emoji`")
    source = environment(EMOJI, data)
    if not isinstance(source, ImageObservers):
        raise ValueError(f"{data} must hold pictures of several observers, got {source!r}")
    return source


def _drawn() -> ImageObservers:
    """Squares that two observers see in other colors, to see that everything works."""
    source = generator(0, "study apart", "drawn")
    places = torch.randint(8, 40, (120, 2), generator=source).tolist()
    images = torch.zeros(2, 120, 64, 64, 3, dtype=torch.uint8)
    for number, (row, column) in enumerate(places):
        images[0, number, row : row + 16, column : column + 16, 0] = 255
        images[1, number, row : row + 16, column : column + 16] = 160
    states, labels = torch.arange(120), torch.tensor([int(row > column) for row, column in places])
    keys = tuple(map(str, range(120)))
    return ImageObservers(
        [
            Observer(name, Stack(pictures.numpy(), labels=labels), keys, states)
            for name, pictures in zip(("red", "grey"), images, strict=True)
        ],
        held_out=0.4,
    )


def _lines(world: str, *names: str) -> Callable[[Rows], Lines]:
    """Means by method; keys of the lines have no blanks."""
    keys = {name.replace(" ", "_"): name for name in names}
    return lambda rows: rows.where(world=world).lines(["method"], seeds=len, **keys)


def _embedded(rows: Rows) -> Lines:
    return rows.where(world=EMOJI, method=tuple(SEVERAL)).lines(
        ["method"],
        linear="embedding linear",
        rotation="embedding rotation",
        condition="embedding condition",
        orthogonality="embedding orthogonality",
    )


def _probes(rows: Rows) -> Lines:
    return rows.where(world=EMOJI).lines(
        ["method"],
        own="probe own",
        naive="probe naive",
        transferred="probe transferred",
        regressed="probe regressed",
        r2="r2",
    )


def _rotation(rows: Rows) -> Judgement:
    """Whether the agents of LeJEPA are a rotation of each other, in each run."""
    selection = rows.where(world=LATENTS, method="LeJEPA")
    lines = selection.lines(["seed"], "rotation", "condition").known("rotation", "condition")
    return judge_lines(
        lines,
        lambda line: line["rotation"] >= ALIKE and line["condition"] <= LEVEL,
        "R² {rotation:.4f} and κ {condition:.3f}",
        "rotation",
    )


def _level(rows: Rows) -> Judgement:
    """Whether no other method's embeddings are related by a map nearer to a rotation than LeJEPA's."""
    lines = _embedded(rows).known("orthogonality")
    ours = [line["orthogonality"] for line in lines if line["method"] == "LeJEPA"]
    others = [line for line in lines if line["method"] != "LeJEPA"] if ours else []
    return judge_lines(
        others,
        lambda line: line["orthogonality"] >= min(ours),
        "{method} {orthogonality:.2f}",
        "orthogonality",
        ours=min(ours, default=None),
    )


def _order(rows: Rows) -> Judgement:
    """Whether masked prediction aligns better than the methods of the paper's Table 1."""
    lines = rows.where(world=EMOJI).lines(["method"], "r2").known("r2")
    ours = [line["r2"] for line in lines if line["method"] == "masked (I-JEPA)"]
    others = [line for line in lines if line["method"] in ("MAE", "SimCLR", "autoencoder")] if ours else []
    return judge_lines(
        others, lambda line: line["r2"] < min(ours), "{method} {r2:.3f}", "r2", ours=min(ours, default=None)
    )


def _untrained(rows: Rows) -> Judgement:
    """Whether training brings more alignment than there was by chance."""
    base = rows.where(world=EMOJI, method="random weights").mean("r2")
    lines = rows.where(world=EMOJI).lines(["method"], "r2").known("r2") if base is not None else Lines()
    learned = [line for line in lines if line["method"] != "random weights"]
    return judge_lines(learned, lambda line: line["r2"] > base, "{method} {r2:.3f}", "r2", base=base)


def _worth(rows: Rows) -> Judgement:
    """What a probe that is carried over by a map fitted backwards loses against the own, in points."""
    lines = rows.where(world=EMOJI).lines(
        ["method"],
        "r2",
        lost=lambda own: (
            None
            if (mean := own.mean("probe own")) is None or (other := own.mean("probe regressed")) is None
            else 100 * (mean - other)
        ),
    )
    return judge_values([line["lost"] for line in lines.known("lost")], lambda lost: lost <= POINTS)


STUDY = Study.of_file(
    __file__,
    title="Encoders trained apart",
    source="Zhang et al. (2026), Social-JEPA, Tables 1, 2, 9 and 10; the data are emoji of two vendors",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(
        latents=_lines(LATENTS, "linear", "rotation", "condition", "orthogonality", "nos"),
        emoji=_lines(EMOJI, "r2", "mse", "dsc", "nos", "cka", "rankme"),
        embeddings=_embedded,
        probes=_probes,
    ),
    statements=Statement.named(
        rotation=_rotation, level=_level, order=_order, untrained=_untrained, worth=_worth
    ),
)
