"""Does an isotropic Gaussian embedding make better probes than another one of the same total variance?

Claims of the LeJEPA paper: (1) with Tikhonov regularization, anisotropy raises the bias of a linear probe
for some task (Lemma 1, Figure 18); (2) without, it raises the total variance (Lemma 2, Figures 3 and 17);
(3) among all laws the isotropic Gaussian has the least integrated squared bias of radius k-NN and kernel
probes (Theorem 1). Measured here against closed forms, with the regimes where a claim fails.

    python -m isojepa_lab.studies.probes [--out docs/results]

One thread; about a minute.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
import tyro

from isojepa.terminal import Console
from isojepa_lab.studies import probes_linear as linear
from isojepa_lab.studies import probes_neighbors as neighbors
from isojepa_lab.studies.probes_figure import draw
from isojepa_lab.studies.probes_page import page
from isojepa_lab.studies.results import write_figure, write_results

Row = dict[str, Any]


@dataclass
class Study:
    """Measure probes on embeddings of several laws, and write page and figure."""

    out: Path = Path("docs/results")
    """Folder of the page, its numbers and its figure."""
    seeds: int = 5
    """Repetitions; standard errors are over these."""
    dim: int = 8
    """Dimension of the embeddings of Lemmas 1 and 2."""
    condition: float = 30.0
    """Largest over smallest eigenvalue of the anisotropic one."""
    condition_2d: float = 9.0
    """The same for the two-dimensional embeddings."""
    weights: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    """Tikhonov weights per sample; the mean eigenvalue is one."""
    samples: tuple[int, int] = (100, 2000)
    """Training-set sizes of the cosine and the accuracy; the first also of Lemma 2."""
    resamples: int = 200
    """Training sets per seed and task; ten times as many for Lemma 2, a hundred times for Lemma 1."""
    tasks: int = 16
    """Two-dimensional tasks per seed."""
    widths: tuple[float, ...] = (0.1, 0.2, 0.35, 0.5, 0.8, 1.2)
    """Widths h of the kernel; the ball has radius h sqrt(d + 2)."""
    sizes: neighbors.Sizes = field(default_factory=neighbors.Sizes)
    """How much Theorem 1 draws per seed."""

    def run(self) -> None:
        """Write probes.json, probes.md and probes.png."""
        torch.set_num_threads(1)
        start, console = time.perf_counter(), Console()
        rows: list[Row] = []
        for part in (self.ridge, self.direction, self.variance, self.spread, self.nonlinear):
            begun = time.perf_counter()
            rows += part()
            console.print(f"{part.__name__:<10} {len(rows):>4} rows  {time.perf_counter() - begun:.1f} s")
        settings = {key: value for key, value in asdict(self).items() if key != "out"}
        write_figure(self.out / "probes.png", draw(rows, self.condition_2d, self.samples[0]))
        seconds = time.perf_counter() - start
        write_results(
            self.out, "probes", rows=rows, text=page(rows, settings), settings=settings, seconds=seconds
        )
        console.print(f"{self.out / 'probes.md'}  {seconds:.0f} s")

    def ridge(self) -> list[Row]:
        """Lemma 1: bias of ridge regression."""
        weights = list(self.weights)
        truth = linear.ridge_bias_truth(weights, self.dim, self.condition)
        noises = 100 * self.resamples
        return self._rows(
            "ridge", lambda seed: linear.ridge_bias(seed, weights, self.dim, self.condition, noises), truth
        )

    def direction(self) -> list[Row]:
        """Figure 18: cosine and accuracy."""
        rows = []
        for samples in self.samples:
            direction_rows = self._rows(
                "direction",
                lambda seed, n=samples: linear.direction(  # type: ignore[misc]
                    seed, list(self.weights), self.dim, self.condition, n, self.resamples
                ),
                {},
            )
            limits = {(r["quantity"], r["law"], r["setting"]): r["value"] for r in direction_rows}
            for row in direction_rows:
                key = (f"{row['quantity']}, n infinite", row["law"], row["setting"])
                if key in limits:  # the others are the limits themselves
                    rows.append({**row, "theory": limits[key]})
        return rows

    def variance(self) -> list[Row]:
        """Lemma 2: total variance of least squares."""
        samples = self.samples[0]
        truth = linear.least_squares_truth(self.dim, self.condition, samples)
        return self._rows(
            "variance",
            lambda seed: linear.least_squares(seed, self.dim, self.condition, samples, 10 * self.resamples),
            truth,
        )

    def spread(self) -> list[Row]:
        """Figures 3 and 17: two-dimensional estimates and boundaries."""
        eigenvalues = linear.spectrum(2, self.condition_2d)
        samples = self.samples[0]
        truth = {
            ("variance", law, "linear regression"): 0.25 * (1 / values).sum().item() / (samples - 3)
            for law, values in eigenvalues.items()
        }
        return self._rows(
            "spread",
            lambda seed: linear.spread(seed, self.condition_2d, samples, self.resamples, self.tasks),
            truth,
        )

    def nonlinear(self) -> list[Row]:
        """Theorem 1: integrated squared bias of the kernel and of the ball."""
        rows: list[Row] = []
        widths, length = list(self.widths), self.sizes.length
        for name, law in neighbors.LAWS.items():
            each = [neighbors.measure(seed, law, widths, self.sizes) for seed in range(self.seeds)]
            for quantity, probe, width in sorted(each[0]):
                if (quantity, probe) == ("noise", "ball"):  # as the kernel's; keeps the file small
                    continue
                values = [numbers[quantity, probe, width] for numbers in each]
                theory = quantity == "bias" and probe == "kernel"
                row = _row(f"neighbors, {probe}", quantity, name, f"{width:g}", values)
                row["theory"] = _short(neighbors.population(law, width, length)) if theory else None
                if quantity == "bias":
                    row["leading_order"] = _short(neighbors.leading_order(law, width, length))
                rows.append(row)
        return rows

    def _rows(
        self, part: str, measure: Callable[[int], linear.Numbers], truth: Mapping[linear.Key, float]
    ) -> list[Row]:
        each = [measure(seed) for seed in range(self.seeds)]
        rows = []
        for key in each[0]:
            row = _row(part, *key, [numbers[key] for numbers in each])
            row["theory"] = _short(truth[key]) if key in truth else None
            rows.append(row)
        return rows


def _row(part: str, quantity: str, law: str, setting: str, values: Sequence[float]) -> Row:
    error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return {
        "part": part,
        "quantity": quantity,
        "law": law,
        "setting": setting,
        "value": _short(fmean(values)),
        "error": _short(error, 2),
    }


def _short(value: float, digits: int = 5) -> float:
    return float(f"{value:.{digits}g}")


if __name__ == "__main__":
    tyro.cli(Study, description=__doc__).run()
