"""The command `same`: whether two encoders are the same, and up to what."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from isojepa.align.explained import Chance, Explained
from isojepa.align.sameness import Sameness, same
from isojepa.cli.embeddings import Shown
from isojepa.cli.printing import notes_told, out, print_json, progress_bar
from isojepa.cli.tables import Column, print_table
from isojepa.files import make_folder

_TONES = {"rotation": "bold green", "linear": "bold green", "partly": "bold yellow"}


@dataclass
class Same(Shown):
    """Test whether two encoders agree up to a rotation or linear map.

    FIRST and SECOND are each one of

    embeddings:  npy, npz, safetensors, pt, HDF5 or CSV, a row for each state, in one order or with --ids

    records:  in worlds of known latents, whose states are drawn anew; or of pictures, with --data

    backbones of timm:  by name, with --weights and --data, a folder of pictures

    encoders:  file.py:function, with --data

    All numbers are held out: R^2 by a rotation and by a linear map, with what random pairings give. With
    fewer states than 4 for each dimension and 60 more the answer is too-few.

    isojepa same a.npy b.npy --report same.html

    isojepa same runs/a runs/b --data photos/ --json

    isojepa same resnet50 vit_small_patch16_224 --weights r.safetensors v.safetensors --data photos/ --size
    224

    isojepa same runs/google runs/twitter --environment emoji --data data/emoji
    """

    first: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="FIRST")]]
    """File of embeddings, record, backbone of timm or file.py:function."""
    second: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="SECOND")]]
    """The same of the other encoder."""
    confidence: float = 0.95
    """Of the intervals."""
    map: Path | None = None
    """Write the map of the verdict's kind, from first to second, to a safetensors file."""
    report: Path | None = None
    """Write the answer as one self-contained HTML page."""

    def run(self) -> int:
        with notes_told(), progress_bar("embedding") as progress:
            given = self.embedded((self.first, self.second), progress)
        found = same(*given.rows, ids=given.ids, confidence=self.confidence, seed=self.seed)
        if self.map is not None:
            if found.map is None:
                raise ValueError(f"there is no map to write: {found.sentence}")
            found.map.save(self.map)
        if self.json:
            print_json({"names": given.names, **found.to_dict()})
        else:
            print_sameness(found)
        if self.report is not None:
            from isojepa.report.aligning import write_same  # only for those who draw

            make_folder(self.report.parent)
            write_same(
                self.report,
                found,
                *given.rows,
                names=(given.names[0], given.names[1]),
                ids=given.ids,
                labels=given.labels,
                pictures=given.pictures,
            )
            if not self.json:
                out.print(f"\nOpen {self.report} in a browser.", markup=False)
        return 0


def print_sameness(found: Sameness) -> None:
    """Print the answer and the numbers behind it for a person."""
    out.print()
    verdict, _, reason = found.sentence.partition(":")
    out.print(verdict[0].upper() + verdict[1:], style=_TONES.get(found.verdict, "bold red"))
    reason = reason.strip()
    out.print(f"{reason[0].upper()}{reason[1:]}.", markup=False)
    rows = [
        ("R2 by a rotation", *_told(found.rotation, found.rotation_chance)),
        ("R2 by a linear map", *_told(found.linear, found.linear_chance)),
        ("R2 by a linear map back", *_told(found.back, None)),
    ]
    if found.verdict == "too-few":
        rows = []
    elif found.linear is not None:
        wide = min(found.first.dimensions, found.second.dimensions)
        rows.append(("shared directions", f"{found.shared} of {wide}", "held-out canonical correlations"))
    if found.condition is not None and found.map is not None:
        told = "of the linear map: largest over smallest singular value"
        rows.append(("condition of W", f"{found.condition:.3g}", told))
    if found.pairs_needed is not None:
        rows.append(("pairs needed", str(found.pairs_needed), "after which R2 rose by less than 0.01"))
    rows.append(("states", f"{found.states}", f"{found.required} are required at this width"))
    if found.effective < found.states:
        rows.append(("effective rows", f"{found.effective}", "states that are nearly independent"))
    print_table((Column(), Column("value"), Column(prose=True)), rows, indent=1)
    for note in found.notes:
        out.print(note, style="dim", markup=False)


def _told(found: Explained | None, chance: Chance | None) -> tuple[str, str]:
    if found is None:
        return "", ""
    r2 = found.r2
    value = f"{r2.estimate:.4f} [{r2.low:.4f}, {r2.high:.4f}]"
    if chance is None:
        return value, ""
    return value, (
        f"random pairings of {chance.rows} rows: at most {chance.largest:.3f}, true ones {chance.r2:.3f}"
    )
