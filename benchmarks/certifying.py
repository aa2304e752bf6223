"""Certificates of many dimensions, and of more embeddings than memory should hold, in fresh processes."""

import tempfile
from pathlib import Path

import numpy as np
from measure import apart, row

WIDE = """
import json, time
import numpy as np
import isojepa as ij
from measure import forget_peak, peak_mib
process = ij.data.OrnsteinUhlenbeck(1024, 0.95)
z, z_next = (part.double().numpy() for part in process.sample(20_000, ij.generator(0, "bench")))
h, h_next = z[:, ::-1].copy(), z_next[:, ::-1].copy()
ij.certify(z[:200, :4], next=z_next[:200, :4], rho=0.95)  # compile and load before the baseline is taken
before = forget_peak()
start = time.perf_counter()
certificate = ij.certify(h, next=h_next, latents=z, rho=0.95)
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "mib": peak_mib() - before, "grade": certificate.grade}))
"""

LONG = """
import json, time
import isojepa as ij
from isojepa.data.array_files import read_array
from measure import forget_peak, peak_mib
import numpy as np
ij.certify(np.random.default_rng(0).standard_normal((200, 4)), rho=0.95)
before = forget_peak()
start = time.perf_counter()
h, h_next = read_array({h!r}), read_array({h_next!r})
certificate = ij.certify(h, next=h_next, rho=0.95)
seconds = time.perf_counter() - start
print(json.dumps({{"seconds": seconds, "mib": peak_mib() - before, "grade": certificate.grade}}))
"""

_ROWS, _DIM, _PIECE = 10_000_000, 64, 250_000


def certificates() -> list[dict]:
    """Time and memory of both."""
    wide = apart(WIDE)
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "h.npy", Path(folder) / "h_next.npy"
        _write_pairs(*paths)
        long = apart(LONG.format(h=str(paths[0]), h_next=str(paths[1])))
    if (wide["grade"], long["grade"]) != ("rotation", "bounded"):
        raise RuntimeError(f"the certificates are wrong: {wide}, {long}")
    return [
        row("certificate of 20,000 pairs x 1,024 dims with latents: seconds", wide["seconds"], -60, wide),
        row("certificate of 20,000 pairs x 1,024 dims: MiB beyond the data", wide["mib"], -2048, wide),
        row("certificate of 10,000,000 pairs x 64 dims on disk: MiB", long["mib"], -1024, long),
        row("certificate of 10,000,000 pairs x 64 dims on disk: seconds", long["seconds"], None, long),
    ]


def _write_pairs(first: Path, second: Path) -> None:
    """Gaussian pairs of correlation 0.95, float32, 5 GB in all."""
    rng = np.random.default_rng(0)
    shape = (_ROWS, _DIM)
    h = np.lib.format.open_memmap(first, "w+", np.float32, shape)
    h_next = np.lib.format.open_memmap(second, "w+", np.float32, shape)
    for start in range(0, _ROWS, _PIECE):
        z, noise = rng.standard_normal((2, _PIECE, _DIM), dtype=np.float32)
        h[start : start + _PIECE] = z
        h_next[start : start + _PIECE] = 0.95 * z + np.sqrt(1 - 0.95**2) * noise
    h.flush()
    h_next.flush()
