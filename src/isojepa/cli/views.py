"""The command `views`: a sheet of pictures and the crops that training would cut from them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro

from isojepa.arguments import check_count
from isojepa.cli.printing import out
from isojepa.files import make_folder
from isojepa.seeds import generator
from isojepa.worlds.images.source import Images
from isojepa.worlds.images.views import Choice
from isojepa.worlds.source import Streams


@dataclass(frozen=True, kw_only=True)
class Views(Choice):
    """Show the augmented views that training would see.

    DATA is a folder of pictures, with a folder for each class or without, or a file of them: npy, npz, IDX,
    Parquet, tar shards. The sheet has a row for each picture: the picture with its boxes, dashed for global
    views, then each view as the encoder gets it. They are the ones of that seed and epoch, to the pixel.

    isojepa views photos/

    isojepa views photos/ --views paper --rows 12 --out views.png

    isojepa views train-images-idx3-ubyte.gz --views 28 --flip 0    # digits are not mirrored

    isojepa views photos/ --local-scale 0.1 0.4 --blur 0 --epoch 3
    """

    data: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="DATA")]]
    """Folder or file of pictures."""
    split: str | None = None
    """Part of the data, where it has parts, e.g. train."""
    out: Path = Path("views.png")
    """The picture to write: png, pdf or svg."""
    rows: int = 6
    """Pictures to show, drawn at random."""
    seed: int = 0
    """Of the run whose views are shown; it also draws the pictures."""
    epoch: int = 0
    """Of the run whose views are shown."""

    def run(self) -> int:
        from isojepa.report.sheet import draw_sheet
        from isojepa.worlds.images.opening import open_pictures

        check_count("rows", self.rows, most=100)
        check_count("epoch", self.epoch, least=0)
        pictures = open_pictures(self.data, split=self.split)
        source = Images(pictures, self.settings(pictures))
        ids = torch.randperm(len(pictures), generator=generator(self.seed, "sheet"))[: self.rows]
        drawn = source.defer(ids, Streams(self.seed, torch.full_like(ids, self.epoch), ids))
        title = f"{Path(self.data).name}   views {self.views}   seed {self.seed}, epoch {self.epoch}"
        figure = draw_sheet(drawn, title, tuple(pictures.classes))
        make_folder(self.out.parent)
        figure.savefig(self.out)
        settings = source.views
        told = f"{settings.global_views} global of {settings.global_size} pixels"
        if settings.local_views:
            told += f" and {settings.local_views} local of {settings.local_size}"
        out.print(f"Wrote {self.out}: {len(ids)} of {len(pictures)} pictures, {told}.", markup=False)
        if pictures.skipped:
            out.print(f"{pictures.skipped} files could not be read and were left out.")
        return 0
