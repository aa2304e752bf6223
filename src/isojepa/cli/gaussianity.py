"""The command `gaussianity`: embeddings tested for N(0, I), and where asked for a picture."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from rich.text import Text

from isojepa import runs
from isojepa.certificates import read_embeddings
from isojepa.certificates.gaussianity import Examination, examine
from isojepa.cli.printing import notes_told, out, print_json, progress_bar
from isojepa.cli.tables import Column, print_table
from isojepa.encoders.model import embed
from isojepa.seeds import generator


@dataclass
class Gaussianity:
    """Test whether embeddings are N(0, I): every test's p-value.

    PATH is a file of embeddings, as `isojepa certify` takes them: npy, npz, pt, safetensors, HDF5, Parquet or
    CSV; or a record, whose encoder is then tried on fresh observations. An array of another name than h is
    FILE::NAME. A p-value is the share of simulated Gaussian samples, of the same size and dimension, whose
    statistic is at least as large.

    isojepa gaussianity embeddings.npy

    isojepa gaussianity embeddings.npz --standardize    # any mean and covariance: is the shape Gaussian?

    isojepa gaussianity embeddings.pt --picture worst.png    # and a picture of the worst directions

    isojepa gaussianity runs/demo --json
    """

    source: tyro.conf.Positional[Path]
    """Record folder, or file of embeddings."""
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
    drop_bad_rows: bool = False
    """Leave out rows with NaN or Inf instead of refusing them."""
    picture: Path | None = None
    """Write a picture of the worst directions to this file."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        for name in ("samples", "slices", "draws"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        with notes_told():
            h = self._of_record() if self.source.is_dir() else read_embeddings(self.source)
        result = self._examine(h)
        failure = self._draw(result)
        if self.json:
            drawn = self.picture is not None and failure is None
            print_json({**result.to_dict(), "picture": str(self.picture) if drawn else None})
        else:
            _print(result)
        if failure:
            raise failure
        if self.picture is not None and not self.json:
            out.print(
                f"\nWrote {self.picture}: the worst directions, found on one half, shown on the other.",
                markup=False,
            )
        return 0

    def _draw(self, result: Examination) -> OSError | None:
        """Write the picture, if one was asked for; the numbers are not lost where that fails."""
        if self.picture is None:
            return None
        from isojepa.report.slices import write_slices  # matplotlib: only for those who draw

        try:
            write_slices(self.picture, result.worst, f"{self.source.name}: least Gaussian directions")
        except OSError as error:
            return error
        return None

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
                drop=self.drop_bad_rows,
                seed=self.seed,
                progress=progress,
            )


def _print(result: Examination) -> None:
    left_out = f", {result.dropped} with NaN or Inf left out" if result.dropped else ""
    out.print(f"\n{result.samples} samples of dimension {result.dim}{left_out}.", end=" ")
    low, high = result.variances
    out.print(f"Length of the mean {result.mean_norm:.3g}, variances {low:.3g} to {high:.3g}.")
    good = not result.rejected
    out.print(result.verdict, style="bold green" if good else "bold yellow")
    rejected = result.rejected
    numbers = [Column(name, right=True) for name in ("samples", "statistic", "p")]
    print_table(
        (Column("test"), Column("of"), *numbers, Column("")),
        [
            (
                line.name,
                line.kind,
                str(line.samples),
                f"{line.statistic:.4g}",
                Text(f"{line.p:.3g}", style="bold" if line in rejected else ""),
                "rejects" if line in rejected else "",
            )
            for line in result.defined
        ],
        indent=1,
    )
    for line in result.lines:
        if line.reason:
            out.print(f"No {line.name} of {line.kind}: {line.reason}.", style="dim")
    out.print(
        f"p from {result.draws} simulations of N(0, I); of the searched slice from its limit law. "
        f"For Gaussian embeddings one test or more rejects in at most "
        f"{100 * result.false_alarm:.0f} % of cases.",
        style="dim",
    )
    out.print(result.assumption)
