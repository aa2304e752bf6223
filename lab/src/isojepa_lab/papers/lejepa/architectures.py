"""One recipe for ten networks of timm: whether LeJEPA needs settings of its own for each architecture.

Every network is trained by the same recipe on Fashion-MNIST, and read by the same linear probe, beside itself
with random weights. Settings are those of the study `selection`, with a learning rate for AdamW that
is common for such networks; none was chosen for any network.
"""

from typing import Any

from isojepa.data.images.source import Images
from isojepa.encoders.model import embed
from isojepa.probes import rankme
from isojepa.report.charts import Chart, Curve, curves_chart
from isojepa.seeds import generator
from isojepa_lab.papers.lejepa.small_images import FASHION, network, pictures, probes, train, views_of
from isojepa_lab.studies.cells import Cell, Computation
from isojepa_lab.studies.measured import spread, trend
from isojepa_lab.studies.rows import Lines, Rows
from isojepa_lab.studies.specs import ChartSpec, TableSpec
from isojepa_lab.studies.statements import Judgement, Statement, asks, judge_values
from isojepa_lab.studies.study import Study

NETWORKS = {  # fewer than five million parameters: (family, options)
    "resnet10t": ("ResNet", ""),
    "regnetx_002": ("RegNet", ""),
    "mobilenetv2_050": ("MobileNet", ""),
    "mobilenetv3_small_100": ("MobileNet", ""),
    "ghostnet_050": ("GhostNet", ""),
    "tinynet_e": ("EfficientNet", ""),
    "convnext_atto": ("ConvNeXt", ""),
    "edgenext_xx_small": ("EdgeNeXt", ""),
    "mobilevit_xxs": ("MobileViT", ""),
    "deit_tiny_patch16_224": ("ViT", "patch_size=4,depth=6"),
}
RANDOM, TRAINED = "random weights", "LeJEPA"
STEPS, SEEDS = 500, 2
RECIPE: dict[str, Any] = {
    "data": FASHION,
    "weight": 0.05,
    "rate": 2e-3,
    "views": 2,
    "slices": 1024,
    "knots": 17,
    "projector": "512-64",
    "batch": 128,
    "precision": "float32",
}
RANKED = 2048  # validation images whose rank is taken
RISING = 0.005  # of accuracy in the last fifth of the steps
SPREAD = 0.05  # published: ImageNet-10 from 0.915 to 0.955 over some fifty networks


def cells(scale: str) -> list[Cell]:
    """Every network, trained and with random weights."""
    if scale == "quick":
        return [_cell("resnet10t", 0, steps=2, batch=8, slices=16)]
    return [_cell(name, seed, steps) for seed in range(SEEDS) for name in NETWORKS for steps in (0, STEPS)]


def _cell(name: str, seed: int, steps: int, **changes: Any) -> Cell:
    settings = {
        **RECIPE,
        "backbone": name,
        "options": NETWORKS[name][1],
        "steps": steps,
        "seed": seed,
        **changes,
    }
    method = TRAINED if steps else RANDOM
    labels: dict[str, Any] = {"backbone": name, "family": NETWORKS[name][0], "method": method, "seed": seed}
    return Cell(Computation(settings, seconds=60 + 1.2 * steps), labels)


def measure(cell: Cell) -> dict[str, Any]:
    """Train one network, unless it keeps its random weights, and probe it."""
    settings = cell.settings
    model = network(
        settings["data"], settings["projector"], settings["seed"], settings["backbone"], settings["options"]
    )
    scores = train(model, settings) if settings["steps"] else {}
    images = Images(pictures(settings["data"]).validation, views_of(2))
    batch = images.sample(RANKED, generator(0, "study architectures", "views"))
    return {
        **scores,
        "parameters": sum(weight.numel() for weight in model.backbone.parameters()),
        "rankme": rankme(embed(model, batch.views[0])),
        **probes(model, settings["data"]),
    }


def _networks(rows: Rows) -> Lines:
    lines = rows.where(method=TRAINED).lines(
        ["family", "backbone"],
        "parameters",
        "test",
        "validation",
        "loss",
        "rankme",
        seeds=len,
        spread=lambda own: spread(own, "test"),
        trend=lambda own: trend(own, RISING),
        collapsed=lambda own: sum(row.scores.get("ended") == "collapsed" for row in own),
    )
    random = {
        line["backbone"]: line["test"] for line in rows.where(method=RANDOM).lines(["backbone"], "test")
    }
    for line in lines:
        line["random"] = random.get(line["backbone"])
    return lines


def _alive(rows: Rows) -> Judgement:
    ends = [row.scores.get("ended") for row in rows.where(method=TRAINED)]
    return judge_values([float(end == "done") for end in ends], lambda done: done == 1)


def _range(rows: Rows) -> Judgement:
    """Whether the networks' accuracies, means over seeds, lie within the published range."""
    values = [line["test"] for line in _networks(rows).known("test")]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    return judge_values(
        [high - low] if len(values) > 1 else [], lambda width: width <= SPREAD, least=low, most=high
    )


def _charts(rows: Rows) -> list[Chart]:
    curves: list[Curve] = []
    for index, ((name,), group) in enumerate(rows.where(method=TRAINED).by("backbone").items()):
        lines = [row.scores.get("curve") or [] for row in group]
        if lines[0]:
            points = {
                step: sum(line[i][1] for line in lines) / len(lines) for i, (step, _) in enumerate(lines[0])
            }
            curves.append(Curve(str(name), points, index + 1))
    linear: dict[str, Any] = {"scale": "linear", "across_scale": "linear"}
    return [curves_chart("Linear probe while training", "steps", "validation accuracy", curves, **linear)]


def _gains(rows: Rows) -> Lines:
    lines = _networks(rows).known("test", "random")
    return Lines({**line, "gain": line["test"] - line["random"]} for line in lines)


STUDY = Study.of_file(
    __file__,
    title="One recipe for many architectures",
    source="Balestriero & LeCun (2025), LeJEPA, Figure 9",
    cells=cells,
    measure=measure,
    tables=TableSpec.named(networks=_networks),
    charts=[ChartSpec("training", _charts)],
    statements=Statement.named(
        alive=_alive,
        gains=asks(_gains, "gain", lambda gain: gain > 0, "{backbone} ({test:.3f}, random {random:.3f})"),
        range=_range,
    ),
)
