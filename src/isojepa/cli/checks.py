"""Commands `gaussianity` (are embeddings N(0, I)?) and `audit` (do episodes meet the assumptions?)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from rich.text import Text

from isojepa import runs
from isojepa.certificates.audit import Audit, audit, read_for_audit
from isojepa.certificates.gaussianity import Examination, examine
from isojepa.cli.printing import Column, out, print_json, print_notes, print_table, progress_bar
from isojepa.data.array_files import read_embeddings
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

    isojepa gaussianity embeddings.pt --picture worst.png    # and an image of the worst directions

    isojepa gaussianity runs/demo --json
    """

    source: tyro.conf.Positional[Path]
    """Run directory, or file of embeddings."""
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
    """Write an image of the worst directions to this file."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        for name in ("samples", "slices", "draws"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        with print_notes():
            h = self._of_record() if self.source.is_dir() else read_embeddings(self.source)
        result = self._examine(h)
        failure = self._draw(result)
        if self.json:
            written = self.picture is not None and failure is None
            print_json({**result.to_dict(), "picture": str(self.picture) if written else None})
        else:
            _print_tests(result)
        if failure:
            raise failure
        if self.picture is not None and not self.json:
            out.print(
                f"\nWrote {self.picture}: the worst directions, found on one half, shown on the other.",
                markup=False,
            )
        return 0

    def _draw(self, result: Examination) -> OSError | None:
        """Write the image, if requested; on failure the numbers are still printed."""
        if self.picture is None:
            return None
        from isojepa.report.slices import write_slices  # matplotlib: imported to draw only

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


def _print_tests(result: Examination) -> None:
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


_STYLES = {"holds": "green", "fails": "bold red", "unclear": "yellow"}


@dataclass
class AuditEpisodes:
    """Audit recorded episodes: excitation, memory, assumptions.

    FILE is one of stable-worldmodel's (HDF5 with ep_len and ep_offset), robomimic's (data/demo_i), or npz
    with arrays (episodes, steps, dim) or flat ones with ep_len or a column of episode numbers (--episode). Of
    very large files some episodes are looked at. It ends with what to record next.

    isojepa audit reacher.h5

    isojepa audit demos.hdf5 --state object --action action

    isojepa audit reacher.h5 --context target    # what of the actions is free, given the goal too?

    isojepa audit reacher.h5 --stride 8 --report audit.html
    """

    file: tyro.conf.Positional[Path]
    """The file of episodes."""
    state: str | None = None
    """Column of the states, positions best; by default qpos, state, states, proprio or observation."""
    action: str = "action"
    """Column of the actions; that of the last state of an episode may be NaN."""
    speed: str | None = None
    """Column of the states' speeds; by default qvel or velocity."""
    episode: str | None = None
    """Column of episode numbers, for flat columns without ep_len."""
    context: tuple[str, ...] = ()
    """Further columns that actions may depend on, such as a goal."""
    stride: int = 0
    """Steps between the states of a pair; 0 for the stride at which they correlate most nearly by 0.95."""
    confidence: float = 0.95
    """Of the intervals; all tests together are wrong about fair data at most as often as the rest."""
    seed: int = 0
    """Draws rows, halves and permutations."""
    report: Path | None = None
    """Also write a page with every number to this file."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        columns = (self.state, self.speed, self.action, *self.context)
        result = audit(
            read_for_audit(self.file, columns, self.episode),
            state=self.state,
            action=self.action,
            speed=self.speed,
            context=self.context,
            stride=self.stride,
            confidence=self.confidence,
            seed=self.seed,
        )
        if self.json:
            print_json(result.to_dict())
        else:
            print_audit(result)
        if self.report is not None:
            from isojepa.report.auditing import write_audit  # templates: imported to write a page only

            write_audit(self.report, result)
            if not self.json:
                out.print(f"\nWrote {self.report}")
        return 0


def print_audit(found: Audit) -> None:
    """Print an audit as text."""
    state, speed, action = found.names
    columns = ", ".join(
        f"{what} {name}" for what, name in (("state", state), ("speed", speed), ("action", action)) if name
    )
    out.print(f"\n{found.episodes:,} episodes, {found.steps:,} steps; {columns}.")
    for note in found.notes:
        out.print(note, style="dim")
    out.print(found.description, style="bold")
    titles = {"actions": "Actions", "states": "Motion", "latents": f"Assumptions, at stride {found.stride}"}
    for kind, title in titles.items():
        rows = [
            (line.name, Text(line.verdict, style=_STYLES[line.verdict]), line.sentence)
            for line in found.lines
            if line.of == kind
        ]
        if rows:
            print_table((Column(), Column(), Column(prose=True)), rows, title=title, indent=1)
    if found.strides:
        _print_strides(found)
    if found.advice:
        out.print(Text("Next", style="bold"))
        for text in found.advice:
            out.print(f" - {text}")


def _print_strides(found: Audit) -> None:
    dims = range(min(len(found.strides[0].rho), 3))
    columns = [Column("stride", right=True)]
    columns += [Column(f"rho {dim}", right=True) for dim in dims]
    columns += [Column(f"SIGReg {dim}", right=True) for dim in dims]
    columns += [Column("together", right=True), Column("normal", right=True)]
    rows = [
        [
            str(row.stride),
            *(f"{row.rho[dim]:.3f}" for dim in dims),
            *(f"{row.sigreg[dim]:.3g}" for dim in dims),
            f"{row.joint:.3g}",
            f"{row.joint_floor:.2g}",
        ]
        for row in found.strides
    ]
    print_table(columns, rows, title="Differences of states per stride", indent=1)
