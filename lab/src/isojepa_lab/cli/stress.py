"""The command `stress`: the map between two encoders from few pairs and from mismatched ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from isojepa.alignment.closed_forms import KINDS
from isojepa.alignment.maps import AlignmentMap, fit_robust
from isojepa.alignment.pairs import split_states
from isojepa.cli.align import varied
from isojepa.cli.printing import Column, out, print_json, print_notes, print_table, progress_bar
from isojepa.cli.sources import EmbeddingSource
from isojepa.io import make_folder
from isojepa.validation import choose
from isojepa_lab.stress import StressCurve, StressPlan, pair_budget, pair_noise
from isojepa_lab.stress.page import write_stress

_REPEATS = 3  # draws of the pairs for each setting
_METRICS = ("r2", "dsc", "nos@10", "condition")


@dataclass
class Stress(EmbeddingSource):
    """Fit the map between two encoders from few and mismatched pairs.

    ENCODERS are two, named as for `isojepa align`. Each setting is measured on held-out states and printed
    with the prediction of random-matrix theory from the fitted pairs alone. Minutes for wide embeddings.

    isojepa stress a.npy b.npy

    isojepa stress a.npy b.npy --kind ols --report stress.html
    """

    encoders: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="ENCODERS")]]
    """Two files of embeddings, records, backbones of timm or file.py:function."""
    kind: str = "ridge"
    """ols, ridge, procrustes, scaled_procrustes, cca or low_rank."""
    ridge: float | None = None
    """Penalty of ridge; by default chosen by leave-one-out."""
    robust: bool = False
    """Detect and drop mismatched pairs before each fit."""
    share: float = 0.5
    """Fraction of the states to fit on."""
    report: Path | None = None
    """Write the curves as one self-contained HTML page."""

    def run(self) -> int:
        choose("kind", self.kind, KINDS)
        if len(self.encoders) != 2:
            raise ValueError(f"encoders must be two, got {len(self.encoders)}")
        with print_notes(), progress_bar("fitting") as progress:
            given = self.embedded(self.encoders, progress)
            split = split_states(len(given.rows[0]), given.ids, self.share, self.seed)
            first, second = (
                varied(name, rows, split) for name, rows in zip(given.names, given.rows, strict=True)
            )
            fit = self._fit_robust if self.robust else None
            plan = StressPlan(self.kind, self.ridge, self.share, _REPEATS, self.seed, (10,), fit=fit)
            curves = [
                pair_budget(first, second, given.ids, plan=plan),
                pair_noise(first, second, given.ids, plan=plan),
            ]
        if self.json:
            print_json({"names": given.names, "stress": [row for curve in curves for row in curve.rows()]})
        else:
            print_curves(curves)
        if self.report is not None:
            make_folder(self.report.parent)
            config = {name: getattr(self, name) for name in ("kind", "ridge", "robust", "share", "seed")}
            write_stress(self.report, given.names, curves, config)
            if not self.json:
                out.print(f"\nOpen {self.report} in a browser.", markup=False)
        return 0

    def _fit_robust(self, first: np.ndarray, second: np.ndarray) -> AlignmentMap:
        return fit_robust(first, second, AlignmentMap(self.kind, ridge=self.ridge), seed=self.seed).map


def print_curves(curves: list[StressCurve]) -> None:
    """Print stress tests: the measured value of each setting, and the predicted one in parentheses."""
    for curve in curves:
        names = [name for name in _METRICS if any(point.metric == name for point in curve.points)]
        rows = []
        for setting in dict.fromkeys(point.label for point in curve.points):
            points = {point.metric: point for point in curve.points if point.label == setting}
            values = (_with_prediction(points[name].value, points[name].predicted) for name in names)
            rows.append((setting, *values))
        columns = (Column(), *(Column(name, right=True) for name in names))
        print_table(columns, rows, title=f"{curve.axis}: measured (predicted)", indent=1)


def _with_prediction(value: float, predicted: float | None) -> str:
    return f"{value:.3g}" if predicted is None else f"{value:.3g} ({predicted:.3g})"
