"""The command `unmix`: components of an embedding, the latents on them, and a page."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from isojepa.arrays import forget_pages, to_float64
from isojepa.certificates import IdentifiedLatents
from isojepa.certificates.named import describe_components
from isojepa.certificates.pairs import PairRows, read_pairs
from isojepa.cli.certify import print_named
from isojepa.cli.printing import out, print_json, print_notes, progress_bar
from isojepa.data.array_files import read_array, read_named
from isojepa.io import write_whole
from isojepa.unmixing import Unmixing, unmix

_MORE = " (and --next, --latents likewise)"
_PIECE = 1 << 20  # numbers that are linearized at once
_NOT_IN_REPORT = ("file", "report", "json")


@dataclass
class Unmix:
    """Identify latent components, where the data allow it.

    A rotation of the latents is undone, up to order and sign, where their distributions are not normal or
    their rates differ (as in ICA). Components that cannot be separated stay a block: that is a result, not an
    error. The monotone distortion of each identified component is undone by its diffusion.

    FILE is npy (samples, dim), or npz, pt, safetensors, HDF5, Parquet or CSV with arrays h, and where they
    are known h_next and z. Second views, or paths, show rates; latents show how right it is, and are not
    used. An array of another name is FILE::NAME. See docs/unmixing.md.

    isojepa unmix pairs.npz

    isojepa unmix h.npy --next h_next.npy --latents z.npy --report axes.html

    isojepa unmix pairs.npz --out latents.npy --save axes.safetensors

    isojepa unmix path.npy --paths    # (steps, dim), or (steps, paths, dim)

    isojepa unmix wide.npy --dim 8 --json
    """

    file: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="FILE")]]
    """File of embeddings."""
    next: Path | None = None
    """File with embeddings of the second view of each pair: without them nothing is known of rates."""
    latents: Path | None = None
    """File with the true latents, to compare the axes with."""
    out: Path | None = None
    """Write the linearized latents to this npy file: row by row, NaN where a row is bad; float64, or
    float32 where the embeddings have no more digits."""
    save: Path | None = None
    """Write the components to this safetensors file, for `Unmixing.load`."""
    report: Path | None = None
    """Write everything as one interactive, self-contained HTML page."""
    dim: int | None = None
    """Directions that are unmixed: the slowest, or without second views the leading principal ones."""
    tolerance: float = 0.01
    """Nonlinear energy that the encoder may have left: what is as near to a Gaussian world of one rate as
    that has no identified components; 0 trusts all shapes."""
    paths: bool = False
    """The rows are successive steps of one path; (steps, paths, dim) needs no flag."""
    drop_bad_rows: bool = False
    """Leave out rows with NaN or Inf instead of refusing them."""
    confidence: float = 0.95
    """Of the intervals."""
    seed: int = 0
    """Of the starts of the search."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        arrays = self._read()
        with print_notes(), progress_bar("unmixing") as progress:
            pairs = read_pairs(
                *(arrays.get(name) for name in ("h", "h_next", "z")),
                trajectory=self.paths,
                drop=self.drop_bad_rows,
            )
            result = self._unmix(pairs, progress)
            progress(3, 3, "latents")
            named = describe_components(result, pairs, self.confidence)
        if self.json:
            numbers = result.to_dict()
            print_json(numbers | {"match": named.match_dict()})
        else:
            out.print()
            print_named(named)
        self._write(arrays["h"], pairs, result, named)  # last: a failure to write leaves the numbers printed
        return 0

    def _read(self) -> dict[str, Any]:
        """The arrays of the file, with those of the other files that were named.

        Raises:
            ValueError: a file is missing or damaged, or holds no embeddings.
        """
        arrays = read_named(self.file, _MORE)
        for key, path in (("h_next", self.next), ("z", self.latents)):
            if path is not None:
                arrays[key] = read_array(path)
        if "h" not in arrays:
            raise ValueError(f"{self.file} must hold embeddings 'h', got {', '.join(arrays)}")
        return arrays

    def _unmix(self, pairs: PairRows, progress: Callable[[int, int, str], None]) -> Unmixing:
        options: dict[str, Any] = {
            "dim": self.dim,
            "tolerance": self.tolerance,
            "drop": self.drop_bad_rows,
            "seed": self.seed,
            "progress": progress,
        }
        if pairs.paths is not None:
            return unmix(paths=pairs.paths, **options)
        return unmix(pairs.array("h"), pairs.array("h_next"), **options)

    def _write(self, h: Any, pairs: PairRows, unmixing: Unmixing, named: IdentifiedLatents) -> None:
        if self.out is not None:
            with progress_bar("writing") as progress:
                write_latents(self.out, unmixing, h, progress)
        if self.save is not None:
            unmixing.save(self.save)
        if self.report is not None:
            from isojepa.report.unmixing import write_unmixing  # only for those who write a page

            flags = {
                item.name: getattr(self, item.name)
                for item in fields(self)
                if item.name not in _NOT_IN_REPORT
            }
            config = {name: str(value) for name, value in flags.items() if value not in (None, False)}
            write_unmixing(self.report, named, pairs, title=str(self.file), config=config)
        written = [str(path) for path in (self.out, self.save, self.report) if path is not None]
        if written and not self.json:
            out.print(f"\nWrote {', '.join(written)}")


def write_latents(
    path: Path, unmixing: Unmixing, h: Any, progress: Callable[[int, int, str], None] | None = None
) -> None:
    """Write the linearized latents of embeddings to an npy file, piece by piece.

    Args:
        path: the file to create or replace.
        unmixing: the fitted components.
        h: (n, dim), or (steps, paths, dim); memory maps and HDF5 datasets are not read as a whole.
        progress: called with rows written, their number, and what is done.
    """
    shape = (*map(int, h.shape[:-1]), len(unmixing.components_))
    number = np.dtype(np.float64 if str(h.dtype).endswith("float64") else np.float32)
    step = max(1, _PIECE // int(np.prod(h.shape[1:])))

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            header = {"descr": np.lib.format.dtype_to_descr(number), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            for start in range(0, shape[0], step):
                if progress is not None:
                    progress(start, shape[0], "latents")
                piece = to_float64(h[start : start + step])
                forget_pages(h)
                file.write(_latents(unmixing, piece).astype(number).tobytes())

    write_whole(path, write)


def _latents(unmixing: Unmixing, piece: np.ndarray) -> np.ndarray:
    """Latents (..., axes) of embeddings (..., dim), NaN for rows that are not finite."""
    rows = piece.reshape(-1, piece.shape[-1])
    good = np.isfinite(rows).all(1)
    latents = np.full((len(rows), len(unmixing.components_)), np.nan)
    if good.any():
        latents[good] = unmixing.latents(rows[good])
    return latents.reshape(*piece.shape[:-1], -1)
