"""make bench: speed and memory as ratios taken in one run. Writes docs/results/bench.json.

Every ratio compares two things measured in turns by the same process on the same machine, so that noise
falls on both. Absolute times are printed for orientation only.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import sigreg
import textbook
import torch
from certifying import certificates
from comparing import comparing
from lejepa import lejepa
from measure import alternate, row, stepper
from minutes import minutes
from pretraining import pretraining
from rendering import rendering
from rich.console import Console
from rich.table import Table
from starting import starting
from stepping import busy_core, reference
from sweeping import sweeping
from unmix import unmixing
from viewing import viewing

import isojepa as ij
from isojepa.config import Config
from isojepa.encoders.mlp import MLPSpec
from isojepa.objectives.directions import draw_directions
from isojepa.objectives.lejepa import LeJEPASpec
from isojepa.runs import build_all
from isojepa.training.recipe import Recipe
from isojepa.training.run_directory import versions
from isojepa.validation import choose
from planning import planning

RESULT = Path(__file__).parent.parent / "docs/results/bench.json"


def step(label: str, config: Config, least: float | None) -> list[dict]:
    """A whole training step against the same step with the textbook SIGReg, and the encoder alone."""
    encoder, world, objective = build_all(config)
    recipe = replace(config.training, steps=10**9, checkpoint_seconds=1e9, accelerator="cpu")
    dim = config.context.embedding
    slow_encoder, _, slow_objective = build_all(config)
    slow_objective.regularizer = TextbookRegularizer(slow_objective.regularizer.slices_for(dim))
    alone, _, _ = build_all(config)
    pairs = world.sample(recipe.batch, ij.generator(0, "bench"))
    x = torch.cat((pairs.views[0], pairs.views[1]))
    upstream = torch.randn(len(x), dim, generator=ij.generator(0, "bench"))

    def encode() -> None:
        alone.zero_grad()
        alone(x).backward(upstream)

    ours = stepper(encoder, world, objective, recipe)
    slow = stepper(slow_encoder, world, slow_objective, recipe)
    times = alternate({"step": ours, "textbook": slow, "encoder": encode})
    return [
        row(f"{label}: step, textbook / ours", times["textbook"] / times["step"], least, times),
        row(
            f"{label}: our step / encoder forward and backward", times["step"] / times["encoder"], -1.6, times
        ),
    ]


class TextbookRegularizer(torch.nn.Module):
    """SIGReg of the papers in a training step."""

    def __init__(self, slices: int) -> None:
        super().__init__()
        self.slices = slices

    def forward(self, views: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Mean over views."""
        directions = draw_directions(views.shape[-1], self.slices, generator)
        return torch.stack([textbook.sigreg(view, directions) for view in views]).mean()


def infonce() -> list[dict]:
    """InfoNCE at dimension 1024, batch 256, against the form that materialises batch x batch x dim."""
    views = torch.randn(2, 256, 1024, generator=ij.generator(0, "bench")).requires_grad_()
    sigma = ij.objectives.matched_sigma(0.95)
    objective = ij.objectives.InfoNCE(sigma)
    times = alternate(
        {
            "ours": lambda: torch.autograd.grad(objective(views).total, views),
            "textbook": lambda: torch.autograd.grad(textbook.infonce(views, sigma), views),
        }
    )
    return [row("InfoNCE 256 x 1024: time, textbook / ours", times["textbook"] / times["ours"], 10, times)]


def demo() -> list[dict]:
    """The whole of `isojepa demo` in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "isojepa", "demo", "--out", f"{folder}/demo"],
            check=True,
            capture_output=True,
        )
        seconds = time.perf_counter() - start
        result = ij.RunDirectory.open(f"{folder}/demo").result
    return [
        row("isojepa demo: seconds, all included", seconds, -60),
        row("isojepa demo: seconds of training", result["seconds"], -30),
        row("isojepa demo: held-out R2", result["metrics"]["r2"], 0.99),
    ]


def limit(target: float | None) -> str:
    """A target in words."""
    if target is None:
        return ""
    return f"{'>=' if target > 0 else '<='} {abs(target):g}"


def _merged(rows: list[dict]) -> list[dict]:
    """The rows of the last run with those measured now in their place, new ones before the demo's."""
    if len(sys.argv) == 1 or not RESULT.exists():
        return rows
    new = {line["name"]: line for line in rows}
    old = json.loads(RESULT.read_text())["rows"]
    kept = [new.pop(line["name"], line) for line in old]
    place = next((i for i, line in enumerate(kept) if line["name"].startswith("isojepa demo")), len(kept))
    return [*kept[:place], *new.values(), *kept[place:]]


def main() -> int:
    """Measure, print, write; the exit code is 1 when a target is missed.

    Arguments are the groups to measure, by default all: sigreg, lejepa, step, reference, busy, starting,
    infonce, certificates, sweeping, views, pretraining, minutes, comparing, rendering, planning,
    unmix, demo.
    """
    published = Config(
        encoder=MLPSpec(width=256, layers=4),
        objective=LeJEPASpec(weight=1e-3, slices=256),
        training=Recipe(batch=256, batch_start=None),
    )
    default = Config(training=Recipe(batch_start=None))
    groups: dict[str, Callable[[], list[dict]]] = {
        "sigreg": lambda: [
            *sigreg.accuracy((512, 2, 256, 17), 12),
            *sigreg.accuracy((2048, 512, 512, 17), 16),
            *sigreg.table_6(),
            *sigreg.half_precision(),
        ],
        "lejepa": lejepa,
        "step": lambda: [
            *step("2D spiral, published settings", published, 5),
            *step("2D spiral, default settings (few slices)", default, None),
        ],
        "reference": reference,
        "busy": busy_core,
        "starting": starting,
        "infonce": infonce,
        "certificates": certificates,
        "sweeping": sweeping,
        "views": viewing,
        "pretraining": pretraining,
        "minutes": minutes,
        "comparing": comparing,
        "rendering": rendering,
        "planning": planning,
        "unmix": unmixing,
        "demo": demo,
    }
    chosen = sys.argv[1:] or list(groups)
    rows = [line for name in chosen for line in choose("group", name, groups)()]
    table = Table(
        title=f"isojepa {ij.__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads"
    )
    for heading in ("what", "measured", "target", ""):
        table.add_column(heading)
    for line in rows:
        verdict = ("met" if line["met"] else "MISSED") if line["target"] is not None else ""
        table.add_row(line["name"], f"{line['value']:.4g}", limit(line["target"]), verdict)
    Console().print(table)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps({"versions": versions(), "rows": _merged(rows)}, indent=2) + "\n")
    return 0 if all(line["met"] for line in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
