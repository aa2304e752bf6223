"""The command `export`: a record's model for timm, as safetensors or as ONNX, with a model card."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from isojepa.cli.printing import notes_told, out, print_json


@dataclass
class Export:
    """Export a trained model as timm, safetensors or ONNX.

    timm:  weights that timm.create_model(NAME, checkpoint_path=FILE, ...) loads; README.md has the line

    safetensors:  weights with all that makes the model again; ij.load(FILE) does

    onnx:  a graph for any batch size, which takes pixels in [0, 1] and normalises them itself

    isojepa export runs/mine --to onnx

    isojepa export runs/mine --to timm --out backbone --data photos/

    isojepa export runs/mine --to safetensors --what embedding

    The file is read back and compared with the trained model, and not left there if it gives something else.
    The card says what the record says, of data, settings and probes, and how Gaussian the embeddings are. A
    run that collapsed or is not finished is exported too; the card says so.
    """

    record: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="RECORD")]]
    """Record folder."""
    to: str
    """timm, safetensors or onnx."""
    out: Path | None = None
    """Folder to write; export-FORMAT in the record by default."""
    what: str = "features"
    """features, or embedding, which the loss saw behind the projector."""
    data: Path | None = None
    """Where the record's pictures are, if not where they were."""
    normalize: bool = True
    """Let an ONNX graph take pixels in [0, 1]; without, it takes what is normalised already."""
    measure: bool = True
    """Test embeddings of the data for Gaussianity, where they can be opened."""
    model: str | None = None
    """Which model, where the run trained several; the first by default."""
    shape: tuple[int, ...] = ()
    """Shape of one observation, where the record does not tell it, e.g. 3 224 224."""
    trust: tuple[str, ...] = ()
    """Python modules that may be imported to make a record's model: those that define classes of your own."""
    again: bool = False
    """Replace an earlier export."""
    json: bool = False
    """Print what the card is made from as JSON."""

    def run(self) -> int:
        from isojepa.exports import export

        with notes_told():
            found = export(
                self.record,
                self.to,
                self.out,
                what=self.what,
                data=self.data,
                normalize=self.normalize,
                measure=self.measure,
                name=self.model,
                shape=self.shape or None,
                trust=self.trust,
                again=self.again,
            )
        if self.json:
            print_json({"folder": str(found.folder), **found.facts})
            return 0
        if found.status != "done":
            out.print(f"warning: the run is {found.status}, which the card says too.", style="bold yellow")
        told = f"read back with {found.reader}, largest difference {found.difference:.2g}"
        out.print(f"Wrote {found.file}: {told if found.reader else 'not read back'}.")
        out.print(f"Its card is {found.folder / 'README.md'}; the licence is yours to fill in.\n")
        out.print(found.facts["loading"])
        return 0
