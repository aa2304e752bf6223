"""The command `transfer`: a linear probe of one encoder for another, by the map between them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from isojepa.align import AlignmentMap, LinearHead, Sharing, share_probe, transfer_head
from isojepa.certificates import read_array, read_embeddings
from isojepa.cli.printing import notes_told, out, print_json
from isojepa.cli.tables import Column, print_table
from isojepa.files import make_folder


@dataclass
class Transfer:
    """Carry a linear probe from one encoder to another.

    PROBE is a safetensors file of a linear head of encoder 1: tensors weight (outputs, dim) and bias, as
    torch names them; mean and scale too, if it was trained on standardised features; classes, whole
    numbers. `isojepa probe ... --save-probe FILE` writes one.

    MAP is what AlignmentMap.save wrote: the map from encoder 1 to encoder 2, fitted on both encoders'
    embeddings of the same things.

    isojepa transfer head.safetensors map.safetensors

    isojepa transfer head.safetensors map.safetensors --embeddings b.npy --labels labels.npy

    isojepa transfer head.safetensors map.safetensors --embeddings b.npy --labels y.npy --source a.npy \\
    --report transfer.html

    The new head takes encoder 2's embeddings as they are. With embeddings and labels it is scored on held-out
    states beside encoder 2's own probe and the head as it is; with --source, encoder 1's embeddings of the
    same rows, also beside a head that was distilled without labels and one by a map fitted backwards. The
    map must not have been fitted on what is scored.
    """

    probe: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="PROBE")]]
    """Linear head of encoder 1, safetensors."""
    map: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="MAP")]]
    """Map from encoder 1 to encoder 2, safetensors."""
    out: Path | None = None
    """File of the new head; PROBE with -transferred in its name by default."""
    backwards: bool = False
    """MAP goes from encoder 2 to encoder 1: it is applied as it is, and nothing is inverted."""
    embeddings: Path | None = None
    """Embeddings of encoder 2 to score on: npy, npz, pt, safetensors, HDF5, Parquet or CSV, or FILE::NAME."""
    labels: Path | None = None
    """Their labels, whole numbers from 0 on in the order of the head's classes."""
    source: Path | None = None
    """Embeddings of encoder 1 of the same rows."""
    ids: Path | None = None
    """Which state each row is of; rows of one state are never on both sides of a split."""
    share: float = 0.5
    """Share of the states that encoder 2's own probe is fitted on; the rest is scored."""
    seed: int = 0
    """Draws which."""
    report: Path | None = None
    """Write the scores as one self-contained HTML page."""
    json: bool = False
    """Print the numbers as JSON."""

    def run(self) -> int:
        if (self.embeddings is None) != (self.labels is None):
            raise ValueError("embeddings and labels go together: give both, or neither")
        if self.embeddings is None and (self.source is not None or self.ids is not None):
            raise ValueError("source and ids say more of embeddings that are scored: give --embeddings too")
        if self.report is not None and self.embeddings is None:
            raise ValueError("report shows scores: give --embeddings and --labels")
        head, fitted = LinearHead.load(self.probe), AlignmentMap.load(self.map)
        found = transfer_head(head, fitted, backwards=self.backwards)
        path = self.out or self.probe.with_name(f"{self.probe.stem}-transferred.safetensors")
        if path.resolve() in (self.probe.resolve(), self.map.resolve()):
            raise ValueError(f"out must be another file than the probe and the map, got {path}")
        pseudo = not self.backwards and fitted.pseudo_
        with notes_told():
            scores = self._scores(head, fitted)
        found.save(path, {"probe": self.probe.name, "map": self.map.name, "backwards": self.backwards})
        result = {
            "head": str(path),
            "dim": found.dim,
            "source_dim": head.dim,
            "outputs": found.outputs,
            "condition": fitted.condition_,
            "pseudo_inverse": pseudo,
            "scores": None if scores is None else scores.to_dict(),
        }
        if self.report is not None and scores is not None:
            self._write(self.report, fitted, scores)
        if self.json:
            print_json(result)
            return 0
        how = "a backward map" if self.backwards else "the pseudo-inverse" if pseudo else "the inverse"
        out.print(
            f"Wrote {path}: {found.outputs} outputs of {found.dim} features, by {how} of a map of condition "
            f"{fitted.condition_:.3g}.",
            markup=False,
        )
        if pseudo:
            told = f"W has condition {fitted.condition_:.3g} and shape {fitted.matrix_.shape}"
            out.print(
                f"{told}: directions below 1/{fitted.threshold:g} of the largest are left out.",
                style="yellow",
            )
        if scores is not None:
            _print(scores)
        if self.report is not None:
            out.print(f"\nOpen {self.report} in a browser.", markup=False)
        return 0

    def _write(self, path: Path, fitted: AlignmentMap, scores: Sharing) -> None:
        from isojepa.report.aligning import write_transfer  # only for those who draw

        make_folder(path.parent)
        config = {"probe": self.probe.name, "map": self.map.name, "share": self.share, "seed": self.seed}
        write_transfer(path, fitted, scores, title=self.probe.name, backwards=self.backwards, config=config)

    def _scores(self, head: LinearHead, fitted: AlignmentMap) -> Sharing | None:
        if self.embeddings is None or self.labels is None:
            return None
        return share_probe(
            np.asarray(read_embeddings(self.embeddings)),
            np.asarray(read_array(self.labels)),
            first=None if self.source is None else np.asarray(read_embeddings(self.source)),
            head=head,
            fitted=fitted,
            backwards=self.backwards,
            ids=None if self.ids is None else np.asarray(read_array(self.ids)),
            share=self.share,
            seed=self.seed,
        )


def _print(scores: Sharing) -> None:
    r2 = "" if np.isnan(scores.r2) else f", R2 of the map there {scores.r2:.3f}"
    out.print(
        f"\nScored on {scores.scored_rows} rows of {scores.scored_states} states{r2}; "
        f"what is fitted here, on the other {scores.fitted_rows} rows."
    )
    columns = (
        Column("head"),
        Column("accuracy", right=True),
        Column("95 % interval"),
        Column("less own", right=True),
        Column("95 % interval"),
        Column(prose=True),
    )
    rows: list[tuple[Any, ...]] = [
        (score.head, "", "", "", "", score.reason)
        if score.reason
        else (
            score.head,
            f"{score.accuracy:.4f}",
            _told(score.interval, ".4f"),
            "" if score.head == "own" else f"{score.difference:+.4f}",
            "" if score.head == "own" else _told(score.difference_interval, "+.4f"),
            "",
        )
        for score in scores.scores
    ]
    print_table(columns, rows, indent=1)


def _told(interval: tuple[float, float], how: str) -> str:
    return f"{interval[0]:{how}} to {interval[1]:{how}}"
