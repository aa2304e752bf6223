"""The command `gaussianity`: embeddings tested for N(0, I), and a picture of the worst directions."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from rich.table import Table
from rich.text import Text

from isojepa import runs
from isojepa.certificates import read_named
from isojepa.certificates.gaussianity import Examination, examine
from isojepa.cli.printing import out, print_json, progress_bar
from isojepa.encoders.modes import embed
from isojepa.seeds import generator


@dataclass
class Gaussianity:
    """Are embeddings N(0, I)? A table of every test with its p-value, and a picture of the worst directions.

    PATH is a file of embeddings, npy (samples, dim), npz or safetensors with an array h; or a record, whose
    encoder is then tried on fresh observations. A p-value is the share of simulated Gaussian samples, of the
    same size and dimension, whose statistic is at least as large.

    isojepa gaussianity embeddings.npy

    isojepa gaussianity embeddings.npz --standardize    # any mean and covariance: is the shape Gaussian?

    isojepa gaussianity runs/demo --json
    """

    source: tyro.conf.Positional[Path]
    """Record folder, or npy, npz or safetensors file."""
    standardize: bool = False
    """Centre and whiten first: test for a normal law of any mean and covariance."""
    samples: int = 1000
    """Rows to test; the tests that compare all pairs take at most 500 of them."""
    slices: int = 32
    """Directions of the univariate tests."""
    draws: int = 499
    """Simulations behind each p-value; the smallest is 1 / (draws + 1), twice that if two-sided."""
    seed: int = 0
    """Draws rows, directions and simulations."""
    picture: Path = Path("gaussianity.png")
    """Picture of the worst directions."""
    json: bool = False
    """Print the result as JSON; the picture is written all the same."""

    def run(self) -> int:
        for name in ("samples", "slices", "draws"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        h = self._of_record() if self.source.is_dir() else read_named(self.source)["h"]
        result = self._examine(h)
        from isojepa.report.slices import write_slices  # matplotlib: only for those who draw

        failure = None
        try:
            write_slices(self.picture, result.worst, f"{self.source.name}: least Gaussian directions")
        except OSError as error:  # the numbers are not lost for that
            failure = error
        if self.json:
            print_json({**result.to_dict(), "picture": None if failure else str(self.picture)})
        else:
            _print(result)
        if failure:
            raise failure
        if not self.json:
            out.print(f"\nWrote {self.picture}: the worst directions, found on one half, shown on the other.")
        return 0

    def _of_record(self) -> np.ndarray:
        encoder, world, _ = runs.load_run(self.source)
        return embed(encoder, world.sample(4000, generator(self.seed, "gaussianity")).views[0]).numpy()

    def _examine(self, h: np.ndarray) -> Examination:
        with progress_bar("testing") as progress:
            return examine(
                h,
                samples=self.samples,
                slices=self.slices,
                draws=self.draws,
                standardize=self.standardize,
                seed=self.seed,
                progress=progress,
            )


def _print(result: Examination) -> None:
    out.print(f"\n{result.samples} samples of dimension {result.dim}.", end=" ")
    low, high = result.variances
    out.print(f"Length of the mean {result.mean_norm:.3g}, variances {low:.3g} to {high:.3g}.")
    good = not result.rejected
    out.print(result.verdict, style="bold green" if good else "bold yellow")
    table = Table(box=None, header_style="dim")
    for name, justify in (("test", "left"), ("of", "left"), ("samples", "right"), ("statistic", "right")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("p", justify="right", no_wrap=True)
    rejected = result.rejected
    for line in result.defined:
        p = Text(f"{line.p:.3g}", "bold" if line in rejected else "")
        table.add_row(line.name, line.kind, str(line.samples), f"{line.statistic:.4g}", p)
    out.print(table)
    for line in result.lines:
        if line.reason:
            out.print(f"No {line.name} of {line.kind}: {line.reason}.", style="dim")
    out.print(
        f"p from {result.draws} simulations of N(0, I); of the searched slice from its limit law. "
        f"Bold: rejects; for Gaussian embeddings one test or more does in at most "
        f"{100 * result.false_alarm:.0f} % of cases.",
        style="dim",
    )
