"""Unmixing of many dimensions against scikit-learn's FastICA, and of more rows than memory should hold."""

import tempfile
from pathlib import Path

import numpy as np
from measure import apart, row

WIDE = """
import json, time, warnings
import numpy as np
from sklearn.decomposition import FastICA
import isojepa as ij
rows, dim = {rows}, {dim}
rng = np.random.default_rng(0)
sources = rng.laplace(size=(rows, dim)) / np.sqrt(2)
mixing = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
h = sources @ mixing.T
ij.unmix(rng.laplace(size=(20_000, 64)), linearize=False)  # load before the clock starts

def error(matrix):
    # mean 1 - |cos| of the axes with their latents
    product = matrix @ mixing
    return float(1 - np.abs(product / np.linalg.norm(product, axis=1, keepdims=True)).max(1).mean())

start = time.perf_counter()
ours = ij.unmix(h, linearize=False)
found = {{"seconds": time.perf_counter() - start, "error": error(ours.matrix_), "named": ours.n_identified_}}
# what FastICA does too: axes, without asking whether they are more than chance
from isojepa.certificates.pairs import PairRows
from isojepa.seeds import numpy_generator
from isojepa.unmixing.rotations import find_rotation, take_sample, whiten
start = time.perf_counter()
rows_of = PairRows(h)
white = whiten(rows_of, None, ())
alone = find_rotation([take_sample(rows_of, white).first], (), numpy_generator(0, "unmix"))
found |= {{"axes_seconds": time.perf_counter() - start, "axes_error": error(alone.matrix @ white.matrix)}}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that it has not settled within its steps is seen by its error
    start = time.perf_counter()
    theirs = FastICA(random_state=0, whiten="unit-variance").fit(h)
found |= {{
    "their_seconds": time.perf_counter() - start,
    "their_error": error(theirs.components_),
    "their_steps": theirs.n_iter_,
}}
print(json.dumps(found))
"""

LONG = """
import json, time
import numpy as np
import isojepa as ij
from isojepa.data.array_files import read_array
from measure import forget_peak, peak_mib
ij.unmix(np.random.default_rng(0).laplace(size=(20_000, 64)), linearize=False)
before = forget_peak()
h = read_array({h!r})
from isojepa.certificates.pairs import PairRows
read, passes = PairRows.blocks, []
def timed(self, *args):
    begin = time.perf_counter()
    yield from read(self, *args)
    passes.append(time.perf_counter() - begin)
PairRows.blocks = timed
start = time.perf_counter()
found = ij.unmix(h, linearize=False)
seconds = time.perf_counter() - start
told = {{"seconds": seconds, "passes": passes, "mib": peak_mib() - before, "named": found.n_identified_}}
print(json.dumps(told))
"""

_PIECE = 250_000


def unmixing(wide: tuple[int, int] = (100_000, 256), long: tuple[int, int] = (10_000_000, 64)) -> list[dict]:
    """Time and accuracy of rows in memory, time and memory of rows on disk: (rows, dimensions) of each."""
    found = apart(WIDE.format(rows=wide[0], dim=wide[1]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "h.npy"
        _write_rows(path, *long)
        disk = apart(LONG.format(h=str(path)))
    if (found["named"], disk["named"]) != (wide[1], long[1]):
        raise RuntimeError(f"axes must all be named, got {found}, {disk}")
    what, where = f"unmix {wide[0]:,} x {wide[1]}", f"unmix {long[0]:,} x {long[1]} on disk"
    return [
        row(f"{what}: seconds", found["seconds"], -30, found),
        row(
            f"{what}: time, FastICA of scikit-learn / ours",
            found["their_seconds"] / found["seconds"],
            3,
            found,
        ),
        row(
            f"{what}: time, FastICA of scikit-learn / ours without names",
            found["their_seconds"] / found["axes_seconds"],
            3,
            found,
        ),
        row(
            f"{what}: mean 1 - |cos| of the axes, ours / FastICA",
            found["error"] / found["their_error"],
            -1.05,
            found,
        ),
        row(f"{where}: MiB", disk["mib"], -1024, disk),
        row(f"{where}: seconds per pass", float(np.median(disk["passes"])), None, disk),
    ]


def _write_rows(path: Path, rows: int, dim: int) -> None:
    """Laplace latents, rotated, float32."""
    rng = np.random.default_rng(0)
    mixing = np.linalg.qr(rng.standard_normal((dim, dim)))[0].astype(np.float32)
    h = np.lib.format.open_memmap(path, "w+", np.float32, (rows, dim))
    for start in range(0, rows, _PIECE):
        count = min(_PIECE, rows - start)
        h[start : start + count] = rng.laplace(size=(count, dim)).astype(np.float32) @ mixing.T
    h.flush()
